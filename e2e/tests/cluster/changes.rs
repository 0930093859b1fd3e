//! Each lock algorithm in place of each other, in one living group: a holder goes on to hold, and one that waits
//! enters.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use conclave_e2e::counter::{self, Counter};
use conclave_e2e::load::{Grant, HandOvers, Load};
use conclave_e2e::product::{Answer, Group, SOON};
use conclave_e2e::rotation::{self, Algorithm, Change};
use conclave_testbed::cluster::{Cluster, Pod};
use conclave_testbed::wait;
use serde_json::json;

use super::locks::{PODS, put_in_force};

/// Waits of a group in which nobody is to fail: a pause of a busy machine costs no leader its holds.
const PATIENT: &str = "{leaderLease: 1500ms, heartbeat: 250ms, memberLease: 4s, apiOutage: 30s}";

/// How often each of the two clients in a pod counts between two looks at what the counter shows.
const ROUND: u64 = 10;

/// The lock that is held across each change, while others wait for it.
const WATCHED: &str = "watched";

#[test]
fn a_member_that_holds_goes_on_and_the_member_that_waits_enters_whatever_takes_the_place_of_what()
-> Result<()> {
    let cluster = Cluster::from_env()?;
    if !cluster.is_ours_or_skip("clients in the networks of pods") {
        return Ok(());
    }
    let changes = rotation::changes()?;
    rotation::announce("changes of lock algorithms", &changes)?;
    let Some(first) = changes.first() else { return Ok(()) };
    let locks = format!("[{{names: [\"*\"], algorithm: {}}}]", first.from);
    cluster.in_namespace("lock-changes", |namespace| {
        let spec = format!("{{timing: {PATIENT}, locks: {locks}}}");
        Group::traced(namespace, &spec, PODS, |group| {
            let (counter, pods) = (Counter::deploy(group)?, group.pods()?);
            let load = Load::start(&cluster, &pods, HandOvers::None)?;
            let over = AtomicBool::new(false);
            let spans = thread::scope(|scope| {
                let counting = scope.spawn(|| count_until(&over, &counter, &pods));
                let walked = walk(group, &load, &changes);
                over.store(true, Ordering::Relaxed);
                let sum = counting.join().expect("it does not panic")?;
                println!("{sum} increments, none lost");
                walked
            })?;
            let diary = load.end()?;
            for span in spans {
                let within = |grant: &&Grant| grant.asked > span.begin && grant.at < span.end;
                let grants = diary.grants().iter().filter(within).count();
                let pause = diary.longest_pause(span.edited, span.end);
                println!(
                    "{}: in force after {} ms, longest pause of all grants {} ms",
                    span.change,
                    span.begin.saturating_sub(span.edited).as_millis(),
                    pause.as_millis(),
                );
                ensure!(grants > 0, "{}: nothing was granted afterwards", span.change);
            }
            diary.check()
        })
    })
}

/// Clients in all pods count from zero again and again. The sum of what the counter showed.
fn count_until(over: &AtomicBool, counter: &Counter<'_>, pods: &[Pod]) -> Result<u64> {
    let mut all = 0;
    while !over.load(Ordering::Relaxed) {
        let sum = counter.count(pods, counter::LOCKED, ROUND)?;
        let expected = ROUND * 2 * pods.len() as u64;
        ensure!(sum == expected, "{sum} of {expected} increments");
        all += sum;
    }
    Ok(all)
}

/// When a change was made, by the clock of the load.
struct Span {
    change: Change,
    edited: Duration,
    /// All go by it.
    begin: Duration,
    /// The next one comes.
    end: Duration,
}

/// Makes the changes one after the other.
fn walk(group: &Group<'_>, load: &Load, changes: &[Change]) -> Result<Vec<Span>> {
    let mut line = Line::begin(group)?;
    let mut spans = Vec::new();
    for change in changes {
        line.fill(change.from)?;
        let edited = load.now();
        put_in_force(group, &json!([{"names": ["*"], "algorithm": change.to.name()}]))?;
        let begin = load.now();
        line.is_carried_over().with_context(|| change.to_string())?;
        line.advance().with_context(|| change.to_string())?;
        spans.push(Span { change: *change, edited, begin, end: load.now() });
    }
    line.end()?;
    Ok(spans)
}

/// Who holds the watched lock, and who waits for it. Each change has another holder, who waited across
/// the one before.
struct Line<'a> {
    group: &'a Group<'a>,
    pods: Vec<Pod>,
    held: (Pod, Answer),
    waiting: Vec<(Pod, Answer)>,
    /// How many claims there have been.
    asked: usize,
}

impl<'a> Line<'a> {
    /// Somebody holds.
    fn begin(group: &'a Group<'a>) -> Result<Self> {
        let pods = group.pods()?;
        let held = (pods[0].clone(), group.lock(&pods[0], WATCHED, "60s")?);
        Ok(Self { group, pods, held, waiting: Vec::new(), asked: 1 })
    }

    /// Has two others wait. All pods have their turn.
    fn fill(&mut self, algorithm: Algorithm) -> Result<()> {
        while self.waiting.len() < 2 {
            let in_line = |pod: &Pod| {
                let others = self.waiting.iter().map(|(pod, _)| pod);
                others.chain([&self.held.0]).any(|other| other.uid == pod.uid)
            };
            let mut turns = self.pods.iter().cycle().skip(self.asked).take(PODS);
            let pod = turns.find(|pod| !in_line(pod)).context("all are in the line")?.clone();
            let claim = self.group.line_up(&pod, WATCHED, &format!("claim-{}", self.asked))?;
            ensure!(claim.text("state")? == "waiting", "{claim:?}, while another holds");
            ensure!(claim.text("algorithm")? == algorithm.name(), "{claim:?}, and not {algorithm}");
            self.waiting.push((pod, claim));
            self.asked += 1;
        }
        Ok(())
    }

    /// The claim that was held is held with its token, and goes on to be extended. The others wait.
    fn is_carried_over(&self) -> Result<()> {
        let first = self.held_until()?;
        wait::until("a later deadline", SOON, || {
            ensure!(self.held_until()?.start > first.end, "it may be the same still");
            Ok(())
        })?;
        for (pod, claim) in &self.waiting {
            let now = self.group.look(pod, claim)?;
            ensure!(now.text("state")? == "waiting", "{now:?}, while another holds");
        }
        Ok(())
    }

    /// Until when the holder still has what it was granted: the answer counts from a moment between
    /// the question and itself.
    fn held_until(&self) -> Result<Range<Instant>> {
        let (pod, grant) = &self.held;
        let asked = Instant::now();
        let now = self.group.look(pod, grant)?;
        ensure!(now.text("state")? == "held", "{now:?}, and before {grant:?}");
        ensure!(now.number("token")? == grant.number("token")?, "{now:?}, and before {grant:?}");
        let safe = Duration::from_millis(now.number("safe_for_ms")?);
        Ok(asked + safe..Instant::now() + safe)
    }

    /// The holder leaves, and one of those that wait enters.
    fn advance(&mut self) -> Result<()> {
        let (pod, before) = &self.held;
        self.group.unlock(pod, before)?;
        let (place, grant) = wait::until("one of those that wait", SOON, || {
            for (place, (pod, claim)) in self.waiting.iter().enumerate() {
                let now = self.group.look(pod, claim)?;
                if now.text("state")? == "held" {
                    return Ok((place, now));
                }
            }
            bail!("nobody holds")
        })?;
        ensure!(grant.number("token")? > before.number("token")?, "{before:?}, then {grant:?}");
        self.held = (self.waiting.remove(place).0, grant);
        Ok(())
    }

    /// All that still wait enter.
    fn end(mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            self.advance()?;
        }
        self.group.unlock(&self.held.0, &self.held.1)
    }
}
