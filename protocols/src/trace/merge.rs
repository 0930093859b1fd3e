//! Puts the lines of all processes of one group in one order, and holds that against the rules.
//!
//! The processes read one clock: their lines are in order by its readings. What that clock does not show is
//! when the register carried a write out: at some moment between the call and the answer, so others may
//! have read it before the writer heard of it, and a writer that is killed never does. A write stands where
//! somebody first learns of that version or of a later one; it is of the process that has a call for that
//! content open. What nobody called for somebody else wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::breach::Breach;
use super::clocks::Clocks;
use super::content::Content;
use super::event::{Event, TraceEntry};
use super::line::{Line, What};
use super::rules::Rules;
use crate::ids::Incarnation;
use crate::register::CallId;

/// The lines of all processes, in one order.
#[derive(Clone, Debug, Default)]
pub struct Merged {
    /// What happened.
    pub steps: Vec<Step>,
    /// Of each process, how many lines are missing between those that there are, and before them.
    pub lost: BTreeMap<Incarnation, u64>,
}

/// Something that happened, and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Step {
    /// By the clock that all read.
    pub at: Duration,
    /// What.
    pub entry: TraceEntry<Duration>,
    /// It was only called for, and is carried out later: it must be allowed, and nothing follows from it.
    pub is_call: bool,
}

/// A step that no rule allows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Its place among the steps.
    pub step: usize,
    /// Why.
    pub breach: Breach,
}

impl Merged {
    /// Holds it against the rules; how many steps of the rules it is.
    ///
    /// # Errors
    ///
    /// The first step that they do not allow.
    pub fn check(&self, clocks: Clocks) -> Result<u64, Refusal> {
        let mut rules = Rules::new(clocks);
        for (place, step) in self.steps.iter().enumerate() {
            let allowed = if step.is_call {
                rules.clone().step(step.at, &step.entry)
            } else {
                rules.step(step.at, &step.entry)
            };
            allowed.map_err(|breach| Refusal { step: place, breach })?;
        }
        Ok(rules.steps())
    }
}

/// Puts lines in one order, of whatever order they come in. A process whose lines stop has ended: with the
/// last of them, at the earliest, and a death is evidence from then on.
pub fn merge(mut lines: Vec<Line>) -> Merged {
    lines.sort_by_key(|line| (line.who, line.number));
    lines.dedup_by_key(|line| (line.who, line.number));
    let lost = missing(&lines);
    lines.sort_by_key(|line| (line.at, line.who, line.number));
    let ends: BTreeMap<Incarnation, usize> =
        lines.iter().enumerate().map(|(place, line)| (line.who, place)).collect();
    let writes = Writes::of(&lines);
    let mut merged = Merged { steps: Vec::new(), lost };
    let mut ended = BTreeSet::new();
    for (place, line) in lines.iter().enumerate() {
        let who = Some(line.who);
        let at = Duration::from_nanos(line.at.0);
        let mut put = |who, event, is_call| {
            let entry = TraceEntry { who, event };
            merged.steps.push(Step { at, entry, is_call });
        };
        for write in writes.at(place) {
            put(write.by, write.event.clone(), false);
        }
        match &line.what {
            What::Did(event) => {
                if *event == Event::Ended {
                    ended.insert(line.who);
                }
                let entry = TraceEntry { who, event: event.clone() };
                let entry = entry.on_axis(|_, at| Duration::from_nanos(at.0));
                put(who, entry.event, false);
            }
            What::Read { content: Some(content), .. } => {
                put(who, Event::Read(content.clone()), false);
            }
            What::Calls { .. } => {
                let write = writes.by_call.get(&place).and_then(|version| writes.all.get(version));
                if let Some(write) = write {
                    put(who, write.event.clone(), true);
                }
            }
            What::Read { content: None, .. } | What::Wrote { .. } | What::Refused(_) => {}
        }
        if ends.get(&line.who) == Some(&place) && !ended.contains(&line.who) {
            put(who, Event::Ended, false);
        }
    }
    merged
}

/// How many lines of each process there are not, of lines in the order of processes and numbers.
fn missing(lines: &[Line]) -> BTreeMap<Incarnation, u64> {
    let mut lost = BTreeMap::new();
    let mut before: Option<&Line> = None;
    for line in lines {
        let next = before.filter(|before| before.who == line.who).map_or(0, |line| line.number + 1);
        if line.number > next {
            *lost.entry(line.who).or_default() += line.number - next;
        }
        before = Some(line);
    }
    lost
}

/// What the register came to hold, by version.
#[derive(Debug, Default)]
struct Writes {
    all: BTreeMap<u64, Write>,
    /// The version that each call made, by the place of its line.
    by_call: BTreeMap<usize, u64>,
    /// The versions that must be in place before a line.
    by_place: BTreeMap<usize, Vec<u64>>,
}

#[derive(Debug)]
struct Write {
    by: Option<Incarnation>,
    event: Event<Duration>,
}

/// A call for a write.
#[derive(Clone, Copy, Debug)]
struct Call<'a> {
    place: usize,
    who: Incarnation,
    version: u64,
    content: &'a Content,
}

/// A version that somebody was notified of.
#[derive(Clone, Copy, Debug)]
struct KnownVersion<'a> {
    /// The first line that shows it.
    place: usize,
    content: Option<&'a Content>,
    /// The call that surely made it.
    call: Option<Call<'a>>,
}

impl Writes {
    fn of(lines: &[Line]) -> Self {
        let (notified, mut open) = notified(lines);
        let mut writes = Self::default();
        let mut before: Option<(u64, Option<&Content>)> = None;
        for (version, notified) in &notified {
            let is_same = before.is_some_and(|(_, content)| content == notified.content);
            let by_chance = || {
                let is_it = |call: &&Call<'_>| {
                    call.place < notified.place && Some(call.content) == notified.content
                };
                open.values().find(is_it).copied().filter(|_| !is_same)
            };
            let call = notified.call.or_else(by_chance);
            let event = match call {
                Some(call) => {
                    open.remove(&call.place);
                    writes.by_call.insert(call.place, *version);
                    let compared = before.is_none_or(|(before, _)| before == call.version);
                    Event::Wrote { compared, content: call.content.clone() }
                }
                None => Event::Replaced(notified.content.cloned()),
            };
            writes.all.insert(*version, Write { by: call.map(|call| call.who), event });
            before = Some((*version, notified.content));
        }
        // A process that learns of a version knows that all before it were there.
        let mut place = usize::MAX;
        for (version, notified) in notified.iter().rev() {
            place = place.min(notified.place);
            writes.by_place.entry(place).or_default().insert(0, *version);
        }
        writes
    }

    /// What comes before a line.
    fn at(&self, place: usize) -> impl Iterator<Item = &Write> {
        let versions = self.by_place.get(&place).into_iter().flatten();
        versions.filter_map(|version| self.all.get(version))
    }
}

/// All versions that somebody was notified of, and the calls of whose outcome nobody was notified.
fn notified(lines: &[Line]) -> (BTreeMap<u64, KnownVersion<'_>>, BTreeMap<usize, Call<'_>>) {
    let mut notified: BTreeMap<u64, KnownVersion<'_>> = BTreeMap::new();
    let mut calls: BTreeMap<(Incarnation, CallId), Call<'_>> = BTreeMap::new();
    for (place, line) in lines.iter().enumerate() {
        let who = line.who;
        match &line.what {
            What::Calls { id, version, content } => {
                calls.insert((who, *id), Call { place, who, version: *version, content });
            }
            What::Read { version, content } => {
                let content = content.as_ref();
                notified.entry(*version).or_insert(KnownVersion { place, content, call: None });
            }
            What::Wrote { id, version } => {
                let call = calls.remove(&(who, *id));
                let content = call.map(|call| call.content);
                let known =
                    notified.entry(*version).or_insert(KnownVersion { place, content, call });
                known.call = call;
            }
            What::Refused(id) => {
                calls.remove(&(who, *id));
            }
            What::Did(_) => {}
        }
    }
    (notified, calls.into_values().map(|call| (call.place, call)).collect())
}

#[cfg(test)]
mod tests;
