//! A swarm of groups: each seed draws the size of its group, its waits, its locks, and which kinds of
//! faults there are, and how often.

#[path = "swarm/effect.rs"]
mod effect;
#[path = "swarm/kinds.rs"]
mod kinds;
#[path = "swarm/links.rs"]
mod links;
#[path = "swarm/plan.rs"]
pub(crate) mod plan;
#[path = "swarm/resigning.rs"]
mod resigning;
#[path = "swarm/run.rs"]
mod run;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use conclave_protocols::policy::LockAlgorithm;

use self::kinds::Kind;
use self::plan::Plan;
use self::run::{Outcome, Run};
use crate::weather::{first, seconds, seeds, wanted};

/// All runs together.
#[derive(Debug, Default)]
struct Tally {
    runs: u64,
    simulated: Duration,
    operations: usize,
    grants: u64,
    algorithms: BTreeMap<LockAlgorithm, u64>,
    refused: u64,
    effects: BTreeMap<Kind, u64>,
    besides: BTreeMap<&'static str, u64>,
    void: BTreeMap<String, u64>,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.runs += 1;
        self.simulated += outcome.simulated;
        self.operations += outcome.operations;
        self.grants += outcome.grants;
        for (algorithm, count) in outcome.algorithms {
            *self.algorithms.entry(algorithm).or_default() += count;
        }
        self.refused += outcome.refused;
        for (kind, count) in outcome.effects {
            *self.effects.entry(kind).or_default() += count;
        }
        for (what, count) in outcome.besides {
            *self.besides.entry(what).or_default() += count;
        }
        if let Some(why) = outcome.void {
            *self.void.entry(why).or_default() += 1;
        }
    }

    /// Everything happened as often as it must in so many runs.
    fn check_often(&self) {
        let (runs, times) = USUAL;
        let is_often =
            |count: Option<&u64>| count.copied().unwrap_or(0) * runs >= self.runs * times;
        let usual = Kind::WITHIN.iter().chain(&Kind::MORE).chain(&Kind::LATER);
        for kind in usual.chain(&Kind::LATEST).chain(&Kind::BEYOND) {
            assert!(is_often(self.effects.get(kind)), "{kind:?} is rare: {:?}", self.effects);
        }
        for what in BESIDES {
            assert!(is_often(self.besides.get(what)), "{what} is rare: {:?}", self.besides);
        }
    }

    fn print(&self, took: Duration) {
        let hours = self.simulated.as_secs_f64() / 3600.0;
        let factor = self.simulated.as_secs_f64() / took.as_secs_f64();
        println!("{} runs, {hours:.1} simulated hours in {took:.1?}: {factor:.0} times", self.runs);
        println!("{} operations checked, {} grants", self.operations, self.grants);
        println!("{} writes with an old token refused; void: {:?}", self.refused, self.void);
        println!("{:?}", self.effects);
        println!("{:?}", self.besides);
        println!("{:?}", self.algorithms);
    }
}

/// A usual run of a campaign, and how often everything must happen in one.
const USUAL: (u64, u64) = (46_000, 1_000);

/// What must happen besides faults.
const BESIDES: [&str; 14] = [
    "the register before peers",
    "peers before the register",
    "timers before peers",
    "peers before timers",
    "timers before the register",
    "the register before timers",
    "a lock that is closed after a loss",
    "a view of members with different priorities",
    "a view of clocks at opposite corners",
    "a belief that is kept past its end",
    "another leaderLease",
    "another heartbeat",
    "another memberLease",
    "another apiOutage",
];

fn run(seed: u64, trace: bool) -> Outcome {
    run_plan(Plan::in_turns(seed), trace)
}

fn run_plan(plan: Plan, trace: bool) -> Outcome {
    let seed = plan.seed;
    if trace {
        println!("{plan:?}");
    }
    catch_unwind(AssertUnwindSafe(|| Run::all(plan, trace))).unwrap_or_else(|panic| {
        println!(
            "see it again: CONCLAVE_SEED={seed} cargo test -p conclave-protocols --test group \
             any_faults -- --nocapture"
        );
        resume_unwind(panic)
    })
}

/// A joiner forgot the latest view that it had read, and led beside its leader.
#[test]
fn a_closed_view_that_is_brought_back_from_a_backup_is_not_the_latest() {
    run_plan(Plan::draw(1_795_304_003_060), false);
}

/// Seeds in which that happened while the history took no note of it.
#[test]
fn applications_give_back_after_their_sidecars_have_left() {
    for seed in [283_270_276_659_180, 1_795_299_925_928] {
        run_plan(Plan::draw(seed), false);
    }
}

/// A member that began anew went by the epoch in the resource's status alone, and not by the ceiling there.
#[test]
fn tokens_of_a_high_above_the_epoch_do_not_come_again_after_a_backup() {
    run_plan(Plan::any_algorithm(79_012_722), false);
}

/// A member had entered what the leader's slower clock still kept closed for an outsider. Its hold was
/// carried into the next view with the rest of that wait, and the leader admitted itself.
#[test]
fn a_hold_is_carried_over_for_its_own_time_and_not_for_that_of_an_outsider_before_it() {
    run_plan(Plan::any_algorithm(16_521), false);
}

/// A leader promised itself, went on holding by that, and gave its leader lease up, all in one moment. The
/// trace did not state that it promised.
#[test]
fn a_leader_that_leaves_in_the_moment_of_its_heartbeat_holds_by_its_promise() {
    run_plan(Plan::any(281_474_976_710_955), false);
}

/// Clocks ran wild, and the leader of a new view knew of a member's wait alone, which held already. When
/// admission opened it was admitted a second time.
#[test]
fn a_member_that_holds_what_its_view_does_not_know_does_not_enter_beside_itself() {
    run_plan(Plan::any(90_001_197), false);
}

/// The view knew of a member's wait alone, which held already and declined the grant. Its mutex kept that
/// grant, for which the hold was taken: so it ended without a word, and the member entered again unasked.
#[test]
fn a_grant_that_is_kept_is_not_taken_for_a_hold_that_the_view_does_not_know() {
    run_plan(Plan::any(15_917), false);
}

/// A follower's floor took the token of a grant above what the leader had numbered, and the leader gave that
/// token to the next.
#[test]
fn a_floor_of_other_names_is_nothing_to_what_the_leader_grants() {
    run_plan(Plan::any(60_562), false);
}

/// A leader that had not promised itself for long, as the register was away, handed over: its own promise ended then,
/// and was on record as one given until then.
#[test]
fn a_promise_that_has_run_out_is_not_given_anew_by_its_end() {
    run_plan(Plan::any(281_474_976_734_338), false);
}

/// A member that had forgotten a lock whose grant it kept for long gave it back without the floor that this
/// had left, and the leader granted tokens that the member had used.
#[test]
fn a_member_that_forgot_a_lock_gives_it_back_with_a_token_that_is_high_enough() {
    run_plan(Plan::any(281_474_976_715_087), false);
}

/// The leader expelled the holder of what the members grant among themselves. The one that kept the line for it
/// let the next in, with tokens that the holder had used and could not report.
#[test]
fn no_holder_is_expelled_from_what_the_members_grant_among_themselves() {
    run_plan(Plan::in_turns(772), false);
}

#[test]
#[expect(
    clippy::disallowed_types,
    reason = "it is notified how long to search, and says how fast it was"
)]
fn any_faults_in_any_group_break_no_promise_and_pass() {
    if let Some(seed) = wanted() {
        println!("{:?}", run(seed, true));
        return;
    }
    let begin = std::time::Instant::now();
    let limit = seconds();
    let seeds = if limit.is_some() { u64::MAX } else { seeds(1_500) };
    let mut tally = Tally::default();
    for seed in (first()..).take(usize::try_from(seeds).unwrap_or(usize::MAX)) {
        if limit.is_some_and(|limit| begin.elapsed() >= limit) {
            break;
        }
        tally.add(run(seed, false));
    }
    tally.print(begin.elapsed());
    let void: u64 = tally.void.values().sum();
    assert!(void * 10 <= tally.runs, "too many runs say nothing: {:?}", tally.void);
    if tally.runs >= 500 {
        tally.check_often();
        for algorithm in LockAlgorithm::ALL {
            let grants = tally.algorithms.get(&algorithm).copied().unwrap_or(0);
            assert!(grants * 100 > tally.grants, "{algorithm:?} granted little: {grants}");
        }
        assert!(tally.refused > 0, "no store was ever shown an old token");
    }
}
