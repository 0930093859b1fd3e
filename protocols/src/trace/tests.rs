//! Short traces, with one event in them that no rule allows.

use std::time::Duration;

use super::{Clocks, Content, Event, Rules, TraceEntry};
use crate::ids::{Epoch, FencingToken, Incarnation, LockName, PodUid};
use crate::policy::Timing;

const P: Duration = Duration::from_millis(1_500);
const L: Duration = Duration::from_secs(10);

fn member(number: u128) -> Incarnation {
    Incarnation { pod: PodUid(number), run: 0 }
}

fn view(epoch: u64, leader: Option<u128>) -> Content {
    Content {
        epoch: Epoch(epoch),
        ceiling: Epoch(epoch + 3),
        members: [1, 2, 3].map(member).to_vec(),
        leader: leader.map(member),
        closing: false,
        base_unknown: false,
        base: None,
        timing: Timing { leader_lease: P, member_lease: L, ..Timing::default() },
        lease: L,
        lead_lease: P,
        believes_evidence: false,
        is_advisory: false,
    }
}

/// A group of three that member 1 leads since time zero.
struct Trace {
    rules: Rules,
    at: Duration,
}

impl Trace {
    fn of_three() -> Self {
        let mut trace = Self { rules: Rules::new(Clocks::Drifting), at: Duration::ZERO };
        for number in 1..=3 {
            trace.ok(number, Event::Started(0));
        }
        trace.ok(1, Event::Wrote { compared: true, content: view(1, Some(1)) });
        for number in 1..=3 {
            trace.ok(number, Event::Entered(Epoch(1)));
            trace.ok(number, Event::Read(view(1, Some(1))));
            trace.ok(number, Event::Promised(Epoch(1)));
        }
        trace.ok(1, Event::Leads(Epoch(1), hold(P)));
        trace
    }

    fn later(mut self, span: Duration) -> Self {
        self.at += span;
        self
    }

    fn ok(&mut self, number: u128, event: Event<Duration>) {
        let entry = TraceEntry { who: Some(member(number)), event };
        self.rules.step(self.at, &entry).unwrap_or_else(|breach| panic!("{breach}: {entry:?}"));
    }

    fn refused(mut self, rule: u8, number: u128, event: Event<Duration>) {
        let entry = TraceEntry { who: Some(member(number)), event };
        let breach = self.rules.step(self.at, &entry).expect_err("no rule allows that");
        assert_eq!(breach.rule, rule, "{breach}");
    }

    fn held(&self, epoch: u64) -> Event<Duration> {
        let lock = LockName::try_from("a".to_owned()).expect("a good name");
        let token = FencingToken::before(Epoch(epoch)).successor(Epoch(epoch)).expect("below");
        Event::Held { lock, token, epoch: Epoch(epoch), until: self.at + Duration::from_millis(1) }
    }
}

fn hold(wait: Duration) -> Duration {
    Clocks::Drifting.hold(wait)
}

#[test]
fn a_leader_lease_lasts_no_longer_than_a_hold_of_the_promises() {
    let until = hold(P) + Duration::from_millis(1);
    Trace::of_three().refused(9, 1, Event::Leads(Epoch(1), until));
}

#[test]
fn a_leader_lease_that_was_given_up_does_not_come_back_with_a_late_promise() {
    let mut trace = Trace::of_three().later(Duration::from_millis(300));
    trace.ok(1, Event::LeadsNot);
    trace.ok(2, Event::Promised(Epoch(1)));
    trace.refused(13, 1, Event::Leads(Epoch(1), hold(P)));
}

#[test]
fn nobody_writes_that_nobody_leads_while_it_leads() {
    let closed = Event::Wrote { compared: true, content: view(1, None) };
    Trace::of_three().refused(13, 1, closed);
}

#[test]
fn nobody_seals_while_its_promise_runs() {
    let trace = Trace::of_three().later(P.saturating_sub(Duration::from_millis(1)));
    trace.refused(12, 2, Event::Sealed(Epoch(1)));
    Trace::of_three().later(P).ok(2, Event::Sealed(Epoch(1)));
}

#[test]
fn two_seals_of_three_end_a_leader_lease_and_one_does_not() {
    let next = || Event::Wrote { compared: true, content: view(5, Some(3)) };
    let mut trace = Trace::of_three().later(P);
    trace.ok(2, Event::Sealed(Epoch(1)));
    Trace { rules: trace.rules.clone(), at: trace.at }.refused(15, 3, next());
    trace.ok(3, Event::Refused(Epoch(1)));
    trace.ok(3, next());
}

#[test]
fn nobody_leaves_a_view_that_it_follows_for_one_made_from_an_older_one() {
    let next = |epoch, leader, base| {
        let content = Content { base: Some(Epoch(base)), ..view(epoch, Some(leader)) };
        Event::Wrote { compared: true, content }
    };
    let mut trace = Trace::of_three().later(P);
    trace.ok(2, Event::Sealed(Epoch(1)));
    trace.ok(3, Event::Refused(Epoch(1)));
    trace.ok(3, next(5, 3, 1));
    trace.ok(2, Event::Entered(Epoch(5)));
    trace.ok(2, Event::Promised(Epoch(5)));
    trace.ok(3, Event::GaveTable(Epoch(5)));
    let fork = |base| {
        let mut fork = Trace { rules: trace.rules.clone(), at: trace.at };
        fork.ok(1, next(9, 1, base));
        fork
    };
    fork(5).ok(2, Event::Entered(Epoch(9)));
    fork(1).later(P).ok(2, Event::Entered(Epoch(9)));
    fork(1).refused(38, 2, Event::Entered(Epoch(9)));
}

#[test]
fn a_write_that_did_not_compare_is_refused() {
    let next = Event::Wrote { compared: false, content: view(5, Some(3)) };
    Trace::of_three().later(P).refused(1, 3, next);
}

#[test]
fn nothing_is_granted_in_the_grace_period_of_a_view_that_a_member_did_not_help_to_end() {
    let four = Content { members: [2, 3, 4].map(member).to_vec(), ..view(5, Some(3)) };
    let base = Content { members: [1, 2, 3, 4].map(member).to_vec(), ..view(1, Some(1)) };
    // Member 4, which is heard of nowhere, belonged to the view before.
    let mut rules = Trace { rules: Rules::new(Clocks::Drifting), at: Duration::ZERO };
    rules.ok(1, Event::Wrote { compared: true, content: base });
    rules.ok(2, Event::Sealed(Epoch(1)));
    rules.ok(3, Event::Refused(Epoch(1)));
    rules.ok(3, Event::Wrote { compared: true, content: four });
    rules.ok(3, Event::Entered(Epoch(5)));
    let held = rules.held(5);
    let soon = Trace { rules: rules.rules.clone(), at: L / 2 };
    soon.refused(20, 3, held);
    let held = Trace { rules: rules.rules.clone(), at: L }.held(5);
    let later = Trace { rules: rules.rules, at: L };
    // Then it is only the leader lease that is missing.
    later.refused(22, 3, held);
}

#[test]
fn nobody_is_granted_what_another_may_still_hold() {
    let mut trace = Trace::of_three();
    trace.ok(1, trace.held(1));
    let ack = |member| Event::Acknowledged { epoch: Epoch(1), member, stamp: Duration::ZERO };
    trace.ok(1, ack(member(2)));
    let Event::Held { lock, token, epoch, until } = trace.held(1) else { unreachable!() };
    let token = token.successor(Epoch(1)).expect("below");
    trace.refused(23, 2, Event::Held { lock, token, epoch, until });
}

#[test]
fn a_lease_counts_from_what_was_heard_and_not_from_the_answer() {
    let mut trace = Trace::of_three().later(Duration::from_millis(100));
    let stamp = Duration::from_millis(50);
    trace.ok(1, Event::Acknowledged { epoch: Epoch(1), member: member(2), stamp });
    let Event::Held { lock, token, epoch, .. } = trace.held(1) else { unreachable!() };
    let until = trace.at + hold(L);
    trace.refused(5, 2, Event::Held { lock, token, epoch, until });
}
