//! A member that is about to begin a view, by itself: what it starts from, who sealed that, and what it would write.
//! It states what is so and what is due; the member does it.

mod next;
mod seals;

use std::collections::BTreeMap;
use std::time::Duration;

pub(super) use self::next::Knows;
use super::evidence::Dead;
use super::joining::Joiners;
use super::message::{HandOver, Seal};
use super::replacing::Mark;
use crate::ids::{Epoch, Incarnation};
use crate::record::{MemberInfo, Record};
use crate::register::{Value, Version};
use crate::time::LocalTime;

/// A member that is about to begin a view (rule 4).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Candidate {
    step: Step,
    since: LocalTime,
    /// The record that the candidacy starts from, once it is read.
    base: Option<Record>,
    version: Version,
    time_term: Epoch,
    /// The members that sealed, and when each last reported it.
    seals: BTreeMap<Incarnation, (Seal, LocalTime)>,
    /// Who is surely dead, and since when that is known.
    dead: Dead,
    /// The table that the leader of the base gave, and when it came.
    inherited: Option<(HandOver, LocalTime)>,
    /// What it read while it led, and is to replace by its next view with its own table (rule 33).
    replaces: Option<Mark>,
    /// When the leader lease of the base was over.
    over_at: Option<LocalTime>,
    /// When the register was known to state that the base is closing.
    closing_at: Option<LocalTime>,
    /// Until when those who have not sealed are waited for, once enough have.
    stragglers_until: Option<LocalTime>,
    /// There was a view that the base does not know of, or what was written in its place.
    beside: bool,
    /// When a member last refused to seal: it follows somebody.
    refused_at: Option<LocalTime>,
    joiners: Joiners,
    /// What was written in place of which version, and is not known to be there, or not to be.
    written: Option<(Version, Record)>,
}

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Step {
    /// Asks the register for the base.
    Reading,
    /// Asks the members of the base for their seals.
    Sealing,
    /// The leader lease is over; a member that seals now still saves the wait.
    Stragglers,
    /// Asks the register to put the mark `closing` on the base.
    Closing,
    /// Asks the register to replace the base.
    Writing,
}

/// What became of a write of which nobody knew (rule 18).
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Fate {
    InPlace(Record),
    /// It may still come: to be written again.
    Open(Version, Record),
}

/// How the leader lease of what a candidacy starts from stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Basis {
    /// A member that leaves has nothing to do about it.
    Idle,
    /// It is over.
    Over,
    /// It may live: seals show whether it does.
    MayLive,
}

/// What a candidate that waits is to do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Due {
    Nothing,
    /// To look again after so long.
    Wait(Duration),
    /// To ask these members for their seals, of that view, and look again after so long; at once if that is
    /// nothing.
    Ask(Epoch, Vec<Incarnation>, Option<Duration>),
    /// To leave it to others: there may be a later view by now.
    Withdraw,
    /// To have the register state that the base is closing.
    Close,
    /// To write the next view.
    Activate,
}

/// One round trip and 20 ms: rule 16. A member that heard the old leader once more than the others
/// seals a heartbeat later than they.
const STRAGGLERS: Duration = Duration::from_millis(30);

impl Candidate {
    /// It has read nothing yet.
    pub(super) fn new(now: LocalTime, dead: Dead, inherited: Option<HandOver>) -> Self {
        let mut joiners = Joiners::default();
        for info in inherited.iter().flat_map(|table| &table.joins) {
            joiners.note(now, info.clone());
        }
        Self {
            step: Step::Reading,
            since: now,
            base: None,
            version: Version::default(),
            time_term: Epoch::default(),
            seals: BTreeMap::new(),
            dead,
            joiners,
            inherited: inherited.map(|table| (table, now)),
            replaces: None,
            over_at: None,
            closing_at: None,
            stragglers_until: None,
            beside: false,
            refused_at: None,
            written: None,
        }
    }

    /// It led until now, and has read this.
    pub(super) fn with(
        now: LocalTime,
        dead: Dead,
        inherited: Option<HandOver>,
        value: &Value,
    ) -> Self {
        let replaces = inherited.as_ref().and_then(|table| Mark::to_replace(table.base, value));
        Self { replaces, ..Self::new(now, dead, inherited) }
    }

    /// The record that the candidacy starts from.
    pub(super) fn base(&self) -> Option<&Record> {
        self.base.as_ref()
    }

    /// The view of which it has the table.
    pub(super) fn inherits(&self) -> Option<Epoch> {
        self.inherited.as_ref().map(|(table, _)| table.base)
    }

    /// That table.
    pub(super) fn table(&mut self) -> Option<&mut HandOver> {
        self.inherited.as_mut().map(|(table, _)| table)
    }

    /// Whether its view may be in the register soon, or is asked for by a leader that resigned.
    pub(super) fn is_bound(&self) -> bool {
        self.written.is_some() || self.inherited.is_some()
    }

    /// Whether there was a view that the base does not know of.
    pub(super) fn is_beside(&self) -> bool {
        self.beside
    }

    /// Whether it wrote what nobody knows the fate of.
    pub(super) fn has_written(&self) -> bool {
        self.written.is_some()
    }

    // ----- the register

    /// What became of its latest write, if it was waiting to know.
    pub(super) fn fate(&mut self, value: &Value) -> Option<Fate> {
        let (version, written) = self.written.take()?;
        if value.record.as_ref().is_some_and(|record| record.nonce == written.nonce) {
            return Some(Fate::InPlace(written));
        }
        (value.version == version).then_some(Fate::Open(version, written))
    }

    /// The register is at this version. Whether that is another than before.
    pub(super) fn look_at(&mut self, value: &Value) -> bool {
        let changed = self.version != value.version;
        self.version.clone_from(&value.version);
        self.time_term = value.time_term;
        changed
    }

    /// That version.
    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    /// Whether this is what it is to replace.
    pub(super) fn replaces(&self, version: &Version, found: &Record) -> bool {
        self.replaces.as_ref().is_some_and(|mark| mark.is(version, found))
    }

    /// Whether nothing counts any more that it found out: what was there before may have been anything.
    /// `changed`: the register is at another version than before.
    pub(super) fn is_void(&self, base: &Record, changed: bool) -> bool {
        let begun = self.base.is_some() || self.over_at.is_some();
        self.replaces.is_some() || base.base_unknown && changed && begun
    }

    /// Begins anew, at the version that the register is at.
    pub(super) fn begin_anew(&mut self, now: LocalTime, dead: Dead) {
        let (version, time_term) = (self.version.clone(), self.time_term);
        *self = Self { version, time_term, ..Self::new(now, dead, None) };
    }

    /// There never was a view.
    pub(super) fn starts_from_nothing(&mut self, now: LocalTime) {
        self.over_at = Some(now);
    }

    /// Starts from this record, which the register has had since then at the latest. `beside`: there was a view
    /// that it does not know of. `leaves`: the member would only have another take over.
    pub(super) fn start_from(
        &mut self,
        now: LocalTime,
        since: LocalTime,
        base: &Record,
        beside: bool,
        leaves: bool,
    ) -> Basis {
        self.beside |= beside;
        if base.base_unknown {
            self.inherited = None;
        }
        if leaves && (base.is_closed() || self.inherited.is_none()) {
            return Basis::Idle;
        }
        if base.closing {
            self.closing_at.get_or_insert(since);
        } else if self.closing_at.take().is_some() {
            // The mark is gone, with a backup that was brought back: members confirm the view again.
            self.over_at = None;
        }
        let begun = self.inherited.is_some() || self.over_at.is_some();
        let over = base.is_closed() || base.is_advisory() || begun;
        self.base = Some(base.clone());
        if over {
            self.over_at.get_or_insert(now);
            return Basis::Over;
        }
        self.step = Step::Sealing;
        Basis::MayLive
    }

    /// Is about to write the next view, in place of that version.
    pub(super) fn begin_to_write(&mut self) -> Version {
        self.step = Step::Writing;
        self.version.clone()
    }

    /// Is about to mark the base, so that its members confirm it no longer (rule 15 c).
    pub(super) fn begin_to_close(&mut self, nonce: u64) -> Option<(Version, Record)> {
        let base = self.base.clone()?;
        self.step = Step::Closing;
        Some((self.version.clone(), Record { closing: true, nonce, ..base }))
    }

    /// It writes this.
    pub(super) fn writes(&mut self, version: Version, record: Record) {
        self.written = Some((version, record));
    }

    /// A write was carried out, or declined: its own, if it waited for one.
    pub(super) fn wrote(&mut self) -> Option<Record> {
        self.written.take().map(|(_, written)| written)
    }

    /// Whether it waits for what the register holds.
    pub(super) fn reads(&self) -> bool {
        self.step == Step::Reading
    }

    /// Whether it waits for seals, or until the last promise has run out.
    pub(super) fn waits(&self) -> bool {
        matches!(self.step, Step::Sealing | Step::Stragglers)
    }

    /// The register states from now on that the base is closing.
    pub(super) fn note_closing(&mut self, now: LocalTime, base: Record) {
        self.closing_at = Some(now);
        self.step = Step::Sealing;
        self.base = Some(base);
    }

    /// There is or was a view of that number. Whether what was waited for so far was not the end of that one.
    pub(super) fn hears_of_view(&mut self, view: Epoch, is_news: bool) -> bool {
        let base = self.base.as_ref();
        let written = self.written.as_ref().map(|(_, written)| written);
        self.beside |= base.into_iter().chain(written).any(|record| record.forgets(view));
        let older = |base: &Record| base.epoch < view && (is_news || !base.base_unknown);
        written.is_none() && base.is_some_and(older)
    }

    // ----- who is to be in its view

    pub(super) fn note_joiner(&mut self, now: LocalTime, info: MemberInfo) {
        self.joiners.note(now, info);
    }

    /// Who wants to join what it wrote, and lives.
    pub(super) fn joins(&self, now: LocalTime, written: &Record) -> Vec<MemberInfo> {
        self.joiners.lately(now, written.timing.leader_lease)
    }

    /// A member leaves, and is not to be in the view that this candidate has yet to write.
    pub(super) fn leave_out(&mut self, leaver: Incarnation) {
        self.joiners.remove(leaver);
        if let Some((table, _)) = &mut self.inherited {
            table.stays.retain(|member| *member != leaver);
            table.joins.retain(|info| info.incarnation != leaver);
        }
    }

    // ----- the leader before

    /// Who handed over to this candidate.
    pub(super) fn former_leader(&self, me: Incarnation) -> Option<Incarnation> {
        self.inherited.as_ref()?;
        self.base.as_ref()?.leader.filter(|leader| *leader != me)
    }

    /// Rule 36: by when no application of the leader before believes any more, where this candidate
    /// knows that better than by when it learned of the view.
    pub(super) fn belief_of_the_former_ends(
        &self,
        now: LocalTime,
        me: Incarnation,
    ) -> Option<LocalTime> {
        let base = self.base.as_ref()?;
        let leader_lease = base.timing.leader_lease;
        if base.is_closed() {
            return self.over_at.map(|over| over.after(leader_lease));
        }
        let former = self.former_leader(me)?;
        let (table, received) = self.inherited.as_ref()?;
        if self.seals.contains_key(&former) || !table.believed {
            return Some(now);
        }
        Some(received.after(leader_lease))
    }
}
