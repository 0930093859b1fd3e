//! What a node wants of its process: messages on links, calls to the register, and what the rest of the
//! sidecar is to see.

use std::collections::BTreeMap;

use conclave_protocols::clock::{ClockMap, Source};
use conclave_protocols::elections::election_of;
use conclave_protocols::member::{ElectionEvent, Event, Member, OfElection, OfService};
use conclave_protocols::policy::Arbiter;
use conclave_protocols::protocol::{Effect, InputOf, OutboxOf};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::{Incarnation, LocalTime, MemberId, Protocol, register};
use tracing::{debug, info, warn};

use super::{Process, Sent, SentMessage};
use crate::group::LastElection;
use crate::group::believers::Notified;
use crate::group::costs::lock_costs;
use crate::group::node::requests::LEAVING;
use crate::group::node::{Ending, Surroundings, name_of};
use crate::lease::Order;
use crate::metrics::DEFAULT;
use crate::telemetry;
use crate::wire::Payload;

impl Surroundings for Process<'_> {
    fn hand(
        &mut self,
        member: &mut Member,
        now: LocalTime,
        input: InputOf<Member>,
        out: &mut OutboxOf<Member>,
    ) {
        self.note_input(now, &input);
        let begins = self.hear_ballot(now, member, &input);
        if let Some(recorder) = &mut self.recorder {
            let lines = recorder.handle(member, now, input, out);
            lines.iter().for_each(telemetry::trace);
        } else {
            member.handle(now, input, out);
        }
        if let Some(record) = member.record() {
            self.links.go_by(record);
        }
        // A view sends and elects before it is reported.
        for effect in out.effects() {
            if let Effect::Tell(Event::Installed(record)) = effect {
                self.metrics.list(&record.policy);
            }
        }
        self.note_effects(now, member, out);
        self.note_ballots(now, member, begins, out);
    }

    fn send(&mut self, to: Incarnation, payload: Payload) {
        if let Some(sent) = &self.sent {
            let (protocol, name) = payload.names();
            let lock = payload.lock().cloned();
            // The page may miss something.
            let _ = sent.try_send(Sent::Message(SentMessage { to, protocol, name, lock }));
        }
        if let Payload::Member(message) = &payload
            && let Some(about) = message.of_election()
        {
            self.metrics.ballots.sent(about);
        }
        self.links.send(to, payload);
    }

    fn call(&mut self, call: register::Message) {
        self.register.call(call, self.answers.clone());
    }

    fn order(&mut self, order: Order) {
        self.leases.carry_out(order);
    }

    fn notify(&mut self, now: LocalTime, member: &Member, event: Event) {
        match event {
            Event::Met(info) => self.links.meet(&info),
            Event::Installed(record) => self.entered(now, member, &record),
            Event::Leadership(leadership) => {
                debug!(?leadership, "leadership");
                self.publisher.stands(now, member, leadership);
            }
            Event::Grants(grants) => self.publisher.grants(grants),
            Event::Grace(until) => self.publisher.grace(until),
            Event::Confirmed(at) => self.publisher.confirmed(at),
            Event::Elected { winner, messages, took } => {
                self.publisher.elected(messages, took);
                let last = LastElection { messages, duration: took };
                self.metrics.ballots.ended(DEFAULT, winner == self.me, last);
            }
            Event::Service(OfService::Election(OfElection {
                election,
                event: ElectionEvent::Elected { winner, messages, took },
            })) => {
                let name = election_of(&election).unwrap_or_default();
                let last = LastElection { messages, duration: took };
                self.metrics.ballots.ended(name, winner == self.me, last);
            }
            Event::Ignored(reason) => {
                if reason == "full" && !std::mem::replace(&mut self.is_full, true) {
                    let members = member.record().map_or(0, |record| record.members.len());
                    warn!(members, "the group is full: another pod wants to join");
                }
                self.metrics.peers.messages_ignored.with_label_values(&[reason]).inc();
            }
            Event::Suspected(peer) => {
                let name = name_of(member.record(), peer);
                debug!(member = name, "suspected: it may have crashed");
                self.metrics.members.suspicions.inc();
                self.publisher.suspects(peer, true);
            }
            Event::Trusted { member: peer, mistaken } => {
                if let Some(mistaken) = mistaken {
                    let name = name_of(member.record(), peer);
                    debug!(member = name, ?mistaken, "it was suspected, and lives");
                    self.metrics.members.mistaken_suspicions.inc();
                }
                self.publisher.suspects(peer, false);
            }
            Event::Undone(what) => warn!("this pod ends before it could {what}"),
            Event::Service(_) | Event::Lease(_) | Event::Full(_) | Event::Left => {}
        }
    }

    fn notified(&self) -> Notified {
        *self.notified.borrow()
    }

    fn goes_by(&mut self, arbiter: Arbiter) {
        self.publisher.goes_by(arbiter);
    }

    fn adjusted(&mut self, map: &ClockMap) {
        let raw = self.clock.raw().0;
        let before = self.map.send_replace(*map);
        if map.disrupted_until > raw && before.disrupted_until <= raw {
            warn!("what was heard of clocks cannot be true if all are as is assumed");
            self.metrics.clock.disrupted();
        }
    }

    fn compared(&mut self, sources: &BTreeMap<MemberId, Source>) {
        self.metrics.clock.compared(sources.values());
    }

    fn ends(&mut self, ending: Ending) {
        self.publisher.draining();
        if ending == Ending::Leaves {
            self.publisher.out(LEAVING);
        }
    }
}

impl Process<'_> {
    /// The member entered a view.
    fn entered(&mut self, now: LocalTime, member: &Member, record: &Record) {
        self.is_full = false;
        for info in &record.members {
            self.links.meet(info);
        }
        let is_found = |peer| self.discovered.iter().any(|info| info.incarnation == peer);
        self.links.keep_only(|peer| record.rank(*peer).is_some() || is_found(*peer));
        info!(
            epoch = record.epoch.0,
            members = record.members.len(),
            leader = name_of(Some(record), record.leader.unwrap_or(self.me)),
            "view"
        );
        self.probe(record);
        let (is_open, suspects) = (|peer| self.links.is_open(peer), |peer| member.suspects(peer));
        self.publisher.installed(now, record, is_open, suspects);
        self.metrics.locks.expect(&lock_costs(record, self.me));
    }

    /// Has the clocks of these compared with this member's.
    fn probe(&mut self, record: &Record) {
        let Some(probes) = &self.probes else { return };
        let members = probed(record, self.me);
        self.probed = members.iter().map(|info| info.incarnation).collect();
        probes.probe(&members, &record.policy.clock);
        self.greet();
    }

    /// Opens links to those who are to be probed, until there is a key with each.
    pub(super) fn greet(&mut self) {
        for peer in &self.probed {
            if !self.links.has_key(*peer) {
                self.links.greet(*peer);
            }
        }
    }
}

/// With whom a member exchanges clock probes: in a small view with everybody, in a larger one the leader does with all
/// and the others do with the leader. So their number grows as the members do.
fn probed(record: &Record, me: Incarnation) -> Vec<MemberInfo> {
    let all = record.members.len() <= MESH || record.leader == Some(me);
    let others = record.members.iter().filter(|info| info.incarnation != me);
    others.filter(|info| all || record.leader == Some(info.incarnation)).cloned().collect()
}

/// The largest view in which everybody probes everybody.
const MESH: usize = 16;

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;

    use super::*;
    use crate::group::sample;

    fn member(number: u64) -> Incarnation {
        Incarnation { pod: PodUid(number.into()), run: number }
    }

    /// A view of so many, led by one of them.
    fn view(members: u64, leader: Option<u64>) -> Record {
        let info = |number| sample::member(member(number), &format!("shop-{number}"));
        Record { leader: leader.map(member), ..sample::view((0..members).map(info).collect()) }
    }

    /// Whom a member probes there.
    fn by(number: u64, view: &Record) -> Vec<u64> {
        probed(view, member(number)).iter().map(|info| info.incarnation.run).collect()
    }

    #[test]
    fn in_a_view_of_16_everybody_probes_everybody() {
        for leader in [Some(3), None] {
            let view = view(16, leader);
            for me in 0..16 {
                let others = (0..16).filter(|other| *other != me);
                assert_eq!(by(me, &view), others.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn in_a_view_of_17_the_leader_probes_everybody_and_the_others_probe_the_leader() {
        let led = view(17, Some(3));
        for me in 0..17 {
            let others = (0..17).filter(|other| *other != me);
            let expected = if me == 3 { others.collect::<Vec<_>>() } else { vec![3] };
            assert_eq!(by(me, &led), expected);
            assert_eq!(by(me, &view(17, None)), [0; 0], "nobody leads");
        }
    }
}
