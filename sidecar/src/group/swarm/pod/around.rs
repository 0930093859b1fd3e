//! What the node of a simulated pod is in: what it sends and reports goes to the simulator.

use std::collections::BTreeMap;

use conclave_protocols::clock::{ClockMap, Source};
use conclave_protocols::member::{Event, Leadership, Member, Node};
use conclave_protocols::policy::Arbiter;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::register;
use conclave_protocols::trace::Watch;
use conclave_protocols::{Incarnation, LocalTime, MemberId};

use super::{Out, Parcel, RawClock, Seen};
use crate::group::Answer;
use crate::group::believers::Notified;
use crate::group::node::{Ending, Surroundings};
use crate::lease::Order;
use crate::wire::Payload;

/// What the node is in.
pub(super) struct Around {
    pub(super) watch: Watch,
    /// The raw clock, which is as good as those of real machines; the other one is not.
    pub(super) raw: RawClock,
    pub(super) map: ClockMap,
    pub(super) leads: bool,
    /// What was reported to applications about this member's leadership.
    pub(super) notified: Notified,
    pub(super) is_new: bool,
    /// The caller hangs up as soon as the member does something.
    pub(super) hangs_up: Option<Answer>,
    pub(super) out: Out,
}

impl Surroundings for Around {
    fn hand(
        &mut self,
        member: &mut Member,
        now: LocalTime,
        input: InputOf<Member>,
        out: &mut OutboxOf<Member>,
    ) {
        self.hangs_up = None;
        self.watch.handle(member, now, input, out);
    }

    fn send(&mut self, to: Incarnation, payload: Payload) {
        self.out.send(Node::Member(to), Parcel::Payload(payload));
    }

    fn call(&mut self, call: register::Message) {
        self.out.send(Node::Register, Parcel::Register(call));
    }

    fn order(&mut self, _: Order) {}

    fn notify(&mut self, _now: LocalTime, member: &Member, event: Event) {
        match event {
            Event::Leadership(Leadership::Leading(until)) => {
                let epoch = member.record().map(|record| record.epoch);
                self.leads = true;
                self.is_new = true;
                self.notified.until = self.notified.until.max(until);
                // Without an arbiter nobody is promised to lead alone.
                if member.arbiter() == Arbiter::Quorum {
                    self.out.tell(Seen::Leads { epoch: epoch.unwrap_or_default(), until });
                }
            }
            Event::Leadership(_) => {
                if std::mem::take(&mut self.leads) {
                    self.out.tell(Seen::LeadsNot);
                }
            }
            Event::Installed(record) => self.out.tell(Seen::View(record)),
            Event::Ignored("version") => {
                panic!("a message of a version that this member does not speak")
            }
            Event::Service(_)
            | Event::Lease(_)
            | Event::Left
            | Event::Met(_)
            | Event::Grants(_)
            | Event::Grace(_)
            | Event::Full(_)
            | Event::Confirmed(_)
            | Event::Elected { .. }
            | Event::Suspected(_)
            | Event::Trusted { .. }
            | Event::Ignored(_)
            | Event::Undone(_) => {}
        }
    }

    fn notified(&self) -> Notified {
        self.notified
    }

    fn goes_by(&mut self, _: Arbiter) {}

    fn adjusted(&mut self, map: &ClockMap) {
        self.map = *map;
        self.out.tell(Seen::Adjusted);
    }

    fn compared(&mut self, _: &BTreeMap<MemberId, Source>) {}

    fn ends(&mut self, _: Ending) {}
}
