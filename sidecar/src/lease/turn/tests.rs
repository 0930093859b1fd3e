//! The rules one by one, and a search for two that believe at once.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt;

use self::beliefs::{Belief, overlaps};
use self::client_go::{DEFAULTS, Stamps};
use self::world::{Weather, World};
use super::*;

mod beliefs;
mod client_go;
mod clocks;
mod world;

const GROUP: PodUid = PodUid(7);
const SECOND: Duration = Duration::from_secs(1);

fn new_lease() -> Lease {
    let mut lease = Lease::default();
    lease.metadata.name = Some("reports".to_owned());
    lease.metadata.uid = Some("lease".to_owned());
    lease.metadata.resource_version = Some("1".to_owned());
    lease
}

fn turn(member: usize, run: u64) -> Turn {
    Turn::new("reports", GROUP, "reports", &format!("shop-{member}_{run}"), run)
}

const FIXED: Weather =
    Weather { stamps: Stamps::AtTheSend, config: DEFAULTS, drift_ppm: 23_000, arbiter: true };

/// Many runs. The longest time for which two believed at once, with both of them, and how often that was.
fn search(weather: Weather, seeds: std::ops::Range<u64>) -> Found {
    let mut found = Found::default();
    for seed in seeds {
        let mut world = World::new(seed, weather);
        world.run(600);
        found.members += world.beliefs.iter().filter(|belief| !belief.program).count();
        found.programs += world.beliefs.iter().filter(|belief| belief.program).count();
        let most = world.calls.into_iter().max().unwrap_or_default();
        found.calls = found.calls.max(most);
        found.overlaps.extend(overlaps(&world.beliefs).into_iter().map(|overlap| (seed, overlap)));
    }
    found.overlaps.sort_by_key(|(_, (both, ..))| std::cmp::Reverse(*both));
    found
}

#[derive(Debug, Default)]
struct Found {
    members: usize,
    programs: usize,
    /// The most that one made in a run.
    calls: u64,
    overlaps: Vec<(u64, (u64, Belief, Belief))>,
}

#[test]
fn no_two_believe_at_once_if_the_program_counts_from_what_it_sent() {
    let found = search(FIXED, 0..1_500);
    assert!(found.members > 500 && found.programs > 500, "{found:?}");
    assert!(found.overlaps.is_empty(), "{:#?}", found.overlaps.first());
}

/// Without an arbiter holds exclude nobody, and grants have no token. The Lease alone excludes.
#[test]
fn no_two_believe_at_once_without_an_arbiter_either() {
    let found = search(Weather { arbiter: false, ..FIXED }, 5_000..5_500);
    assert!(found.members > 200 && found.programs > 200, "{found:?}");
    assert!(found.overlaps.is_empty(), "{:#?}", found.overlaps.first());
}

/// The same search with the rule that client-go has. What it finds is its fault: a member never begins too early, and
/// never goes on for too long; the program had begun before, and goes on.
#[test]
fn a_program_of_client_go_believes_for_too_long_and_a_member_never_does() {
    let found = search(Weather { stamps: Stamps::AtTheReply, ..FIXED }, 13_000..16_000);
    assert!(!found.overlaps.is_empty(), "{found:?}");
    let (_, (longest, ..)) = &found.overlaps[0];
    assert!(*longest > 200_000_000, "{longest}");
    println!("{} overlaps, the longest of {longest} ns", found.overlaps.len());
    for (seed, (both, first, second)) in &found.overlaps {
        assert!(first.program && !second.program, "seed {seed}: {first:?}, {second:?}");
        // RenewDeadline, and RenewDeadline / 2 for the reply, and RetryPeriod, and drift.
        assert!(second.from - first.from > 0 && *both < 3_000_000_000, "seed {seed}: {both}");
    }
}

/// Commit at 0.1 s, reply at 4.9 s, a sleep of 2 s, and `RenewDeadline` from there: 16.9 s. A rival that has seen the
/// commit may have taken the Lease at 15.1 s, if it is of client-go; a member waits five per cent and 20 ms more.
#[test]
fn a_program_of_client_go_with_its_defaults_gives_up_after_its_lease_is_over() {
    let wall = Timestamp::UNIX_EPOCH;
    let at = |millis: u64| LocalTime(millis * 1_000_000);
    let mut program =
        client_go::ClientGo::new("program", DEFAULTS, Stamps::AtTheReply, Random::new(1));
    program.due = Some(at(0));
    let (id, _) = program.tick(at(0), wall).expect("it reads the Lease");
    let (id, _) = program.answer(at(0), wall, id, Some(new_lease())).expect("it takes the Lease");
    let mut taken = new_lease();
    taken.metadata.resource_version = Some("2".to_owned());
    taken.spec = Some(LeaseSpec {
        holder_identity: Some("program".to_owned()),
        lease_duration_seconds: Some(15),
        ..LeaseSpec::default()
    });
    let record = Record::new(taken.clone());
    program.answer(at(4_900), wall, id, Some(taken));
    assert!(program.leads());

    // A member sees the commit at once.
    let mut member = turn(0, 1);
    member.want(at(0), Some(1));
    let Call { id, .. } = member.tick(at(0)).expect("it reads the Lease");
    member.answer(at(100), id, Outcome::Is(record));
    let takes_over = member.may_take(Some(1));
    assert_eq!(takes_over, at(100).after(wait_for(SECOND * 15)));
    assert_eq!(takes_over, at(15_870));

    // From now on nobody answers the program.
    let mut gave_up = None;
    for millis in 4_900..20_000 {
        program.tick(at(millis), wall);
        if !program.leads() {
            gave_up.get_or_insert_with(|| at(millis));
        }
    }
    assert_eq!(gave_up, Some(at(16_900)));
}

fn record(holder: &str, version: u64) -> Record {
    let mut lease = new_lease();
    lease.metadata.resource_version = Some(version.to_string());
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(holder.to_owned()),
        lease_duration_seconds: Some(15),
        ..LeaseSpec::default()
    });
    Record::new(lease)
}

/// A Lease that a leader of Conclave's has.
fn led(group: PodUid, election: &str, token: Option<u64>) -> Record {
    let (election, holder) = (election.to_owned(), "shop-9_u_1".to_owned());
    let mark = Mark { group, election, token, holder };
    let mut lease = record("", 1).with(&Write::Take(mark), Timestamp::UNIX_EPOCH);
    lease.metadata.resource_version = Some("2".to_owned());
    Record::new(lease)
}

const fn at(seconds: u64) -> LocalTime {
    LocalTime(seconds * 1_000_000_000)
}

/// A member with the hold, by a grant of token 5, that has read the Lease at second 1.
fn has_read(record: Record) -> Turn {
    let mut turn = turn(0, 1);
    turn.want(at(1), Some(5));
    let Some(Call { id, what: Do::Read, .. }) = turn.tick(at(1)) else { panic!("no read") };
    turn.answer(at(1), id, Outcome::Is(record));
    turn
}

fn takes(turn: &mut Turn, now: LocalTime) -> bool {
    matches!(turn.tick(now), Some(Call { what: Do::Write(_, Write::Take(_)), .. }))
}

#[test]
fn a_former_leader_of_the_same_election_is_not_waited_for_and_everybody_else_is() {
    assert!(takes(&mut has_read(led(GROUP, "reports", Some(4))), at(1)));
    let others = [
        led(PodUid(8), "reports", Some(4)),
        led(GROUP, "mails", Some(4)),
        led(GROUP, "reports", Some(5)),
        led(GROUP, "reports", Some(6)),
        led(GROUP, "reports", None),
        record("program", 2),
    ];
    for other in others {
        let mut turn = has_read(other.clone());
        assert!(!takes(&mut turn, at(1)), "{other:?}");
        assert_eq!(turn.may_take(Some(5)), at(1).after(wait_for(SECOND * 15)));
    }
    // Without a token of its own it waits for all.
    let turn = has_read(led(GROUP, "reports", Some(4)));
    assert!(turn.may_take(None) > at(16));
}

/// client-go replaces the specification, and keeps the annotations that it finds.
#[test]
fn a_mark_beside_another_holder_is_nobodys() {
    let mut lease = *led(GROUP, "reports", Some(4)).0;
    lease.spec = record("program", 3).0.spec;
    assert!(!takes(&mut has_read(Record::new(lease.clone())), at(1)));
    lease.annotations_mut().insert(super::super::MARK_ANNOTATION.to_owned(), "{".to_owned());
    assert_eq!(Record::new(lease).mark(), None);
}

#[test]
fn a_holder_that_renews_is_waited_for_anew() {
    let mut turn = has_read(record("program", 2));
    for version in 3..20_u64 {
        let now = at(version * 3);
        let Some(Call { id, what: Do::Read, .. }) = turn.tick(now) else { panic!("no read") };
        turn.answer(now, id, Outcome::Is(record("program", version)));
        assert!(!takes(&mut turn, now));
    }
    // It is gone. The last change was seen at second 57.
    let over = at(57).after(wait_for(SECOND * 15));
    while let Some(due) = turn.next_due().filter(|due| *due < over) {
        if let Some(Call { id, what, .. }) = turn.tick(due) {
            assert_eq!(what, Do::Read);
            turn.answer(due, id, Outcome::Is(record("program", 19)));
        }
    }
    assert!(takes(&mut turn, over));
}

#[test]
fn what_became_of_a_write_that_nobody_answered_is_read() {
    let mut turn = has_read(record("", 1));
    let Some(Call { what: Do::Write(base, write), .. }) = turn.tick(at(1)) else { panic!() };
    assert_eq!(turn.tick(at(3)), None, "one call at a time");
    let given_up = at(1).after(PATIENCE);
    let Some(Call { id, what: Do::Read, .. }) = turn.tick(given_up) else { panic!("no read") };
    assert_eq!(turn.until(), None);
    // It was carried out; but nobody knows when, so it is done again.
    let mut done = base.with(&write, Timestamp::UNIX_EPOCH);
    done.metadata.resource_version = Some("2".to_owned());
    turn.answer(given_up, id, Outcome::Is(Record::new(done)));
    assert_eq!(turn.until(), None);
    let Some(Call { id, what: Do::Write(base, write), .. }) = turn.tick(given_up) else { panic!() };
    let again = Record::new(base.with(&write, Timestamp::UNIX_EPOCH));
    turn.answer(at(5), id, Outcome::Is(again));
    assert_eq!(turn.until(), Some(given_up.after(hold(LEASE))), "from when it was sent");
}

/// client-go compares records by the second: what it does not see, it does not wait for.
#[test]
fn each_write_has_another_second_and_no_earlier_one() {
    let mark = Mark {
        group: GROUP,
        election: "reports".to_owned(),
        token: Some(1),
        holder: "me".to_owned(),
    };
    let take = Write::Take(mark);
    let renewed = |lease: &Lease| {
        let spec = lease.spec.clone().expect("one");
        spec.renew_time.expect("a time").0
    };
    let clock =
        |millis: i64| Timestamp::from_millisecond(1_800_000_000_000 + millis).expect("a time");
    let mut lease = record("", 1).with(&take, clock(900));
    let mut before = renewed(&lease);
    assert_eq!(before, clock(900));
    // Soon after; by a clock that was set back, and then to the true time again.
    for millis in [950, 1_100, -60_000, -59_000, 2_000, 30_000] {
        lease = Record::new(lease).with(&take, clock(millis));
        let now = renewed(&lease);
        assert!(now.as_second() > before.as_second(), "{before} and {now}");
        before = now;
    }
    assert_eq!(before, clock(30_000));
    let spec = lease.spec.expect("one");
    assert_eq!(spec.acquire_time.map(|time| time.0), Some(clock(900)));
    assert_eq!((spec.lease_transitions, spec.lease_duration_seconds), (Some(1), Some(15)));
}

#[test]
fn a_lease_is_given_back_as_client_go_does_and_all_else_stays() {
    let mut lease = *led(GROUP, "reports", Some(4)).0;
    lease.labels_mut().insert("app".to_owned(), "shop".to_owned());
    lease.annotations_mut().insert("by".to_owned(), "hand".to_owned());
    let released = Record::new(lease).with(&Write::Release, Timestamp::UNIX_EPOCH);
    let spec = released.spec.clone().expect("one");
    assert_eq!(spec.holder_identity.as_deref(), Some(""));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(1), Some(1)));
    assert_eq!(released.annotations().keys().collect::<Vec<_>>(), ["by"]);
    assert_eq!(released.labels()["app"], "shop");
    assert_eq!(released.uid().as_deref(), Some("lease"), "another of its name is not written to");
}

#[test]
fn a_lease_that_is_gone_or_forbidden_is_asked_for_every_two_seconds() {
    for outcome in [Outcome::Absent, Outcome::Refused, Outcome::Unknown] {
        let mut turn = turn(0, 1);
        turn.want(at(0), Some(1));
        let mut calls = 0;
        while let Some(due) = turn.next_due().filter(|due| *due < at(14)) {
            if let Some(Call { id, .. }) = turn.tick(due) {
                calls += 1;
                turn.answer(due, id, outcome.clone());
            }
        }
        assert!((6..=8).contains(&calls), "{outcome:?}: {calls}");
        assert!(turn.is_out_of_reach(at(15)), "another nominee may take it");
    }
}

#[test]
fn a_leader_and_a_nominee_make_few_calls() {
    let found = search(FIXED, 0..20);
    // Ten minutes: one call in two seconds, and what losses and edits cost.
    assert!(found.calls < 600, "{}", found.calls);
}

#[test]
fn a_nominee_that_gives_up_leaves_the_lease_where_its_application_may_believe_yet() {
    let mut turn = has_read(record("", 1));
    let Some(Call { id, what: Do::Write(base, write), .. }) = turn.tick(at(1)) else { panic!() };
    let mut taken = base.with(&write, Timestamp::UNIX_EPOCH);
    taken.metadata.resource_version = Some("2".to_owned());
    turn.answer(at(1), id, Outcome::Is(Record::new(taken.clone())));
    // The lead is lost, and its application was notified of second 4; then the hold comes back, for a moment.
    turn.give_back(at(4));
    turn.want(at(2), Some(6));
    turn.give_back(LocalTime::default());
    assert_eq!(turn.next_due(), Some(at(4)));
    let Some(Call { id, what: Do::Read, .. }) = turn.tick(at(4)) else { panic!("no read") };
    turn.answer(at(4), id, Outcome::Is(Record::new(taken)));
    let what = turn.tick(at(4)).map(|call| call.what);
    assert!(matches!(what, Some(Do::Write(_, Write::Release))), "{what:?}");
}

/// An admission webhook takes the mark off whatever is written.
#[test]
fn a_lease_that_is_written_otherwise_than_asked_is_no_lead_and_is_tried_every_two_seconds() {
    let mut turn = turn(0, 1);
    turn.want(at(0), Some(1));
    let (mut lease, mut calls, mut now) = (new_lease(), 0_u64, at(0));
    while let Some(due) = turn.next_due().filter(|due| *due < at(14)) {
        // What is due at once is due now.
        now = now.max(due);
        let Some(Call { id, what, .. }) = turn.tick(now) else { break };
        calls += 1;
        assert!(calls <= 16, "without pause");
        if let Do::Write(record, write) = what {
            lease = record.with(&write, Timestamp::UNIX_EPOCH);
            lease.metadata.annotations = None;
            lease.metadata.resource_version = Some(format!("{}", 100 + calls));
        }
        turn.answer(now, id, Outcome::Is(Record::new(lease.clone())));
        assert_eq!(turn.until(), None);
    }
    assert!(calls >= 6, "{calls}");
    assert!(turn.is_out_of_reach(at(15)));
}
