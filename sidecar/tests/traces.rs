//! A group of real sidecars writes down what it does, its leader is killed, and all of it is a run of the
//! rules. Where something is changed in it, it is none.

#[path = "traces/dev.rs"]
mod dev;

use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant};

use conclave_protocols::Epoch;
use conclave_protocols::random::Random;
use conclave_protocols::trace::{Clocks, Event, Line, Merged, Step, merge};

use self::dev::Dev;

/// What a group did.
static LINES: LazyLock<Vec<Line>> = LazyLock::new(run);

/// How often somebody enters the lock that all take in turn, in each part of the run.
const TURNS: usize = 12;

/// Locks are taken, the leader is killed and comes back, the next one leaves.
fn run() -> Vec<Line> {
    let dev = Dev::start(3);
    let first = dev.leader(None);
    let take_turns = |members: &[u16]| {
        for member in members.iter().cycle().take(TURNS) {
            let grant = dev.lock(*member, "orders");
            // On a busy machine it may have been lost, and a leader its leader lease.
            dev.unlock(*member, &grant);
        }
    };
    take_turns(&[0, 1, 2]);
    let followers: Vec<u16> = (0..3).filter(|member| *member != first).collect();
    let kept = dev.lock(followers[0], "kept");
    assert!(dev.act(&format!("/members/{first}/kill")));
    let second = dev.leader(Some(first));
    take_turns(&followers);
    assert!(dev.act(&format!("/members/{first}/revive")));
    take_turns(&[0, 1, 2]);
    dev.unlock(followers[0], &kept);
    assert!(dev.act(&format!("/members/{second}/leave")));
    let third = dev.leader(Some(second));
    take_turns(&[third]);
    dev.end()
}

/// The same run with something changed.
fn changed(change: impl FnOnce(&mut Vec<Step>)) -> Merged {
    let mut merged = merge(LINES.clone());
    change(&mut merged.steps);
    merged
}

fn is_refused(rule: u8, merged: &Merged) {
    let refusal = merged.check(Clocks::Drifting).expect_err("no rule allows that");
    assert_eq!(refusal.breach.rule, rule, "{}: {:?}", refusal.breach, merged.steps[refusal.step]);
}

/// When somebody led first in each view.
fn views(steps: &[Step]) -> Vec<(Duration, Epoch)> {
    let view = |step: &Step| {
        let Event::Leads(epoch, _) = step.entry.event else { return None };
        Some((step.at, epoch))
    };
    let mut views: Vec<(Duration, Epoch)> = steps.iter().filter_map(view).collect();
    views.dedup_by_key(|(_, epoch)| *epoch);
    views
}

/// How many steps it is, all of them of the rules.
fn steps(merged: &Merged) -> u64 {
    assert!(merged.lost.is_empty(), "{:?}", merged.lost);
    merged.check(Clocks::Drifting).unwrap_or_else(|refusal| {
        let before = &merged.steps[refusal.step.saturating_sub(20)..=refusal.step];
        for step in before {
            println!("{step:?}");
        }
        panic!("{}", refusal.breach)
    })
}

fn count(merged: &Merged, is_it: fn(&Event<Duration>) -> bool) -> usize {
    merged.steps.iter().filter(|step| is_it(&step.entry.event)).count()
}

#[test]
fn what_a_group_did_is_a_run_of_the_rules() {
    let merged = merge(LINES.clone());
    let held = count(&merged, |event| matches!(event, Event::Held { .. }));
    let promised = count(&merged, |event| matches!(event, Event::Promised(_)));
    let (steps, views) = (steps(&merged), views(&merged.steps).len());
    println!("{} lines, {steps} steps: {held} holds, {promised} promises", LINES.len());
    assert!(held > TURNS * 4, "{held} holds");
    assert!(promised > 20 && views > 2, "{promised} promises, {views} views");
}

/// So long (`CONCLAVE_SECONDS`) anything is done to a group of five, by chance, while its applications take
/// locks of all kinds.
#[test]
fn whatever_is_done_to_a_group_it_goes_by_the_rules() {
    const MEMBERS: u16 = 5;
    let given = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let seconds = given("CONCLAVE_SECONDS").unwrap_or(15);
    let mut random = Random::new(given("CONCLAVE_SEED").unwrap_or(1));
    let mut draw = |below: u64| u16::try_from(random.up_to(below)).expect("small");
    let dev = Dev::start(MEMBERS);
    dev.leader(None);
    let end = Instant::now() + Duration::from_secs(seconds);
    thread::scope(|scope| {
        for member in 0..MEMBERS {
            let dev = &dev;
            scope.spawn(move || {
                for lock in LOCKS.iter().cycle() {
                    if Instant::now() >= end {
                        return;
                    }
                    if let Some(grant) = dev.try_lock(member, lock) {
                        thread::sleep(Duration::from_millis(10));
                        dev.unlock(member, &grant);
                    }
                    thread::sleep(Duration::from_millis(10));
                }
            });
        }
        while Instant::now() < end {
            let member = draw(u64::from(MEMBERS));
            let (act, undo) = ACTS[usize::from(draw(ACTS.len() as u64))];
            let path = |act: &str| act.replace("ONE", &member.to_string());
            let acted = dev.act(&path(act));
            println!("{act} {member}: {acted}");
            thread::sleep(Duration::from_millis(u64::from(draw(1_500))));
            if acted {
                assert!(dev.act(&path(undo)), "{undo} {member}");
            }
            thread::sleep(Duration::from_millis(u64::from(draw(1_500))));
        }
    });
    let merged = merge(dev.end());
    let held = count(&merged, |event| matches!(event, Event::Held { .. }));
    let views = views(&merged.steps).len();
    println!("{} steps: {held} holds, {views} views", steps(&merged));
    assert!(held > 50 && views > 2, "{held} holds, {views} views");
}

/// What can be done to a member or to the register, and how it is undone.
const ACTS: &[(&str, &str)] = &[
    ("/members/ONE/kill", "/members/ONE/revive"),
    ("/members/ONE/leave", "/members/ONE/revive"),
    ("/members/ONE/pause", "/members/ONE/resume"),
    ("/members/ONE/cut", "/members/ONE/join"),
    ("/register/cut", "/register/join"),
];

/// One lock of each kind in the group's resource.
const LOCKS: &[&str] = &["permitted", "passed", "voted", "cached", "central"];

#[test]
fn in_whatever_order_lines_come_they_are_one_trace_and_one_that_is_missing_is_missed() {
    let whole = merge(LINES.clone());
    let mut lines = LINES.clone();
    lines.reverse();
    assert_eq!(merge(lines.clone()).steps, whole.steps);
    let taken = lines.iter().position(|line| line.number == 1).expect("somebody has two");
    let taken = lines.remove(taken);
    assert_eq!(merge(lines).lost.into_iter().collect::<Vec<_>>(), [(taken.who, 1)]);
}

#[test]
fn a_hold_that_begins_before_the_end_of_another_is_refused() {
    without_one(23, |event| matches!(event, Event::Released(_)));
}

#[test]
fn a_leader_that_believes_beside_the_next_is_refused() {
    without_one(15, |event| matches!(event, Event::LeadsNot));
}

/// Of some event of that kind the trace cannot do without any.
fn without_one(rule: u8, is_it: fn(&Event<Duration>) -> bool) {
    let merged = merge(LINES.clone());
    let places = (0..merged.steps.len()).filter(|place| is_it(&merged.steps[*place].entry.event));
    let refused = |place| {
        let less = changed(|steps| drop(steps.remove(place)));
        less.check(Clocks::Drifting).err().map(|refusal| refusal.breach)
    };
    let breaches: Vec<_> = places.filter_map(refused).collect();
    assert!(breaches.iter().any(|breach| breach.rule == rule), "{breaches:?}");
}

#[test]
fn a_leader_lease_without_the_promises_of_the_others_is_refused() {
    let merged = changed(|steps| {
        // The first may have a member alone.
        let (_, epoch) = views(steps)[1];
        let leads = |step: &&Step| matches!(step.entry.event, Event::Leads(of, _) if of == epoch);
        let leader = steps.iter().find(leads).and_then(|step| step.entry.who);
        steps.retain(|step| step.entry.event != Event::Promised(epoch) || step.entry.who == leader);
    });
    is_refused(9, &merged);
}

#[test]
fn a_view_that_was_written_while_nobody_had_given_the_one_before_up_is_refused() {
    let merged = changed(|steps| {
        steps.retain(|step| {
            let event = &step.entry.event;
            let gives_up = matches!(event, Event::Sealed(_) | Event::GaveTable(_));
            !gives_up && !matches!(event, Event::Refused(_) | Event::LeadsNot)
        });
    });
    is_refused(15, &merged);
}

#[test]
fn a_write_that_did_not_compare_is_refused() {
    let merged = changed(|steps| {
        for step in steps {
            if let Event::Wrote { compared, .. } = &mut step.entry.event {
                *compared = false;
            }
        }
    });
    is_refused(1, &merged);
}
