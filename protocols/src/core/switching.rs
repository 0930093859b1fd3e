//! A change of the arbiter while the group lives. A member goes by the arbiter of the view that it
//! is in, whatever its own policy states; so everybody switches with a view.
//!
//! * **From `Quorum` to `None`**: the next view is written into the register like any other, and
//!   states `None`. It holds no leader lease. Locks go on, and are advisory from then on. A member that missed it
//!   reads of it later.
//! * **From `None` to `Quorum`**: a leader whose policy states `Quorum` reads the register. If a view with
//!   an arbiter is there, somebody else was faster, or a leader lease of before may live: it joins. Else
//!   it begins a view on what is there, like a candidate. A member that enters that view loses its
//!   advisory holds, and keeps its place in line. A member lease passes before the first grant, because
//!   safe holds from before the time of `None` may still run.
//!
//! Views without an arbiter number themselves, from [`Epoch::UNARBITRATED`] on, where the register
//! never comes. So a message of the one kind of view is never taken for one of the other. What was
//! refused with an arbiter stays refused, and no process ever leads two views of one number.

use super::leader::{Leader, Task};
use super::{Member, Nominator, Out, Role, Service, Timer};
use crate::ids::{Epoch, Incarnation};
use crate::policy::{Arbiter, Policy};
use crate::record::{MemberInfo, Record};
use crate::register::Value;
use crate::time::LocalTime;

/// What makes outcomes safe at present, and what is remembered of what did before.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct InForce {
    pub(super) arbiter: Arbiter,
    /// No view with an arbiter up to this number is entered again: this member left them all for
    /// one without.
    pub(super) floor: Epoch,
    /// The highest number of a view that this member led and that numbered itself.
    pub(super) numbered: Epoch,
}

impl InForce {
    pub(super) fn new(arbiter: Arbiter) -> Self {
        Self { arbiter, floor: Epoch::default(), numbered: Epoch::default() }
    }
}

impl Record {
    /// Whether this view was written to state that nothing arbitrates: it has no leader lease that could
    /// live. Of a record that was lost nobody knows.
    pub(super) fn is_advisory(&self) -> bool {
        self.policy.arbiter == Arbiter::None && !self.base_unknown
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// What makes the outcome of this member's algorithms safe at present.
    pub fn arbiter(&self) -> Arbiter {
        self.in_force.arbiter
    }

    /// Whether nothing but an election makes a leader here.
    pub(super) fn is_advisory(&self) -> bool {
        self.in_force.arbiter == Arbiter::None
    }

    /// Whether nothing arbitrates here and a newer policy asks for an arbiter.
    pub(super) fn wants_quorum(&self) -> bool {
        let known = self.record.as_ref().map(|record| record.policy.generation);
        self.is_advisory()
            && self.policy.arbiter == Arbiter::Quorum
            && known.is_none_or(|generation| self.policy.generation > generation)
    }

    /// Whether a record without an arbiter is older than a policy that asks for one.
    fn overrules(&self, record: &Record) -> bool {
        self.policy.arbiter == Arbiter::Quorum && self.policy.generation > record.policy.generation
    }

    /// Whether the register states that nothing arbitrates, and this member knows of nothing newer.
    pub(super) fn yields_to(&self, record: &Record) -> bool {
        record.is_advisory() && !self.overrules(record)
    }

    /// Whether a view of that number may be one that this member has yet to enter.
    pub(super) fn may_enter(&self, epoch: Epoch) -> bool {
        let latest = self.promises.epoch();
        match (epoch.is_unarbitrated(), latest.is_unarbitrated()) {
            (true, _) => self.is_advisory() && epoch > latest,
            (false, true) => epoch > self.in_force.floor,
            (false, false) => epoch > latest,
        }
    }

    /// The group's resource was changed.
    pub(super) fn on_policy(&mut self, now: LocalTime, policy: Policy, out: &mut Out<S, N>) {
        if policy.generation < self.policy.generation {
            return;
        }
        self.policy = policy;
        let joins = matches!(self.role, Role::Joiner { .. });
        let unseen = self.record.is_none();
        match (self.in_force.arbiter, self.policy.arbiter) {
            // In no view, and it knows of none: nobody is to be asked.
            (Arbiter::Quorum, Arbiter::None) if joins && unseen => {
                self.go_by(now, Arbiter::None, out);
                self.begin_joining(now, out);
            }
            (Arbiter::None, Arbiter::Quorum) if joins || unseen => {
                self.go_by(now, Arbiter::Quorum, out);
                self.begin_joining(now, out);
            }
            // The leader sees to it; a member that does not hear of that finds it in the register.
            (Arbiter::None, Arbiter::Quorum) => out.arm(Timer::Reread, self.register_patience()),
            (Arbiter::Quorum, Arbiter::Quorum | Arbiter::None) | (Arbiter::None, Arbiter::None) => {
            }
        }
    }

    /// What a view states about the policy is news to a member whose resource is slow to report it.
    pub(super) fn adopt_policy(&mut self, record: &Record) {
        if record.policy.generation > self.policy.generation {
            self.policy = record.policy.clone();
        }
    }

    /// Goes by that arbiter from now on. It is in no view until it enters one.
    pub(super) fn go_by(&mut self, now: LocalTime, arbiter: Arbiter, out: &mut Out<S, N>) {
        if self.in_force.arbiter == arbiter {
            return;
        }
        match arbiter {
            Arbiter::None => {
                // Rule 12: it has left all views so far, and refuses them.
                let known = self.record.as_ref().map(|record| record.epoch).unwrap_or_default();
                let left = self.promises.epoch().max(known);
                self.in_force.floor = self.in_force.floor.max(left);
            }
            Arbiter::Quorum => {
                self.end_advisory_view(now, out);
                self.belief.forget();
                self.record = None;
                self.discovered = super::advisory::Discovered::default();
                for timer in [Timer::Heartbeat, Timer::Grace, Timer::Promise] {
                    out.disarm(timer);
                }
            }
        }
        let floor = self.in_force.floor;
        self.promises.change_sides((arbiter == Arbiter::Quorum).then_some(floor));
        self.in_force.arbiter = arbiter;
    }

    /// Whether a view with another arbiter that is announced may be entered. Policies are in the
    /// order of their generations.
    ///
    /// A view with an arbiter was written into the register. One without need not have been: its
    /// leader may know of nobody's leader lease. So it is entered only when no promise runs, or if it is
    /// the promised leader itself that resigned.
    pub(super) fn may_switch(&self, now: LocalTime, from: Incarnation, record: &Record) -> bool {
        let known = self.record.as_ref();
        let newer = known.is_none_or(|k| record.policy.generation > k.policy.generation);
        newer
            && match record.policy.arbiter {
                Arbiter::Quorum => record.epoch > self.in_force.floor,
                Arbiter::None => {
                    let resigned = known.is_some_and(|known| known.leader == Some(from));
                    let leads = self.leader_lease().is_some_and(|until| until > now);
                    let free = !self.promises.run(now) || resigned;
                    record.epoch > self.floor() && free && !leads
                }
            }
    }

    /// A leader without an arbiter, whose policy asks for one, finds out what is in the register.
    pub(super) fn consider_quorum(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if !self.wants_quorum() || self.going.leaves() {
            return;
        }
        if self.leader().is_some_and(|leader| leader.begin_to_arbitrate(now)) {
            self.read_register(now, out);
        }
    }

    /// The register shows a member without an arbiter whether there is a view with one.
    pub(super) fn peers_read(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let task = self.leader().and_then(Leader::take_task);
        let seeks = task == Some(Task::Arbitrate);
        let leaderless = !matches!(self.role, Role::Leader(_)) && !self.follows(now);
        let Some(record) = &value.record else {
            // An empty register was lost, if there ever was a view with an arbiter. Its
            // keeper makes it anew.
            let never = self.in_force.floor.max(self.status.epoch) == Epoch::default();
            if seeks && never {
                self.begin_quorum(now, value, out);
            }
            return;
        };
        if self.yields_to(record) {
            return self.adopt_policy(&record.clone());
        }
        // One from before what this member knows was brought back from a backup.
        let sound =
            !record.base_unknown && record.epoch >= self.in_force.floor.max(self.status.epoch);
        if sound && (record.is_advisory() || record.is_closed()) {
            if seeks {
                self.begin_quorum(now, value, out);
            }
            return;
        }
        let known = self.record.as_ref().map(|known| known.policy.generation);
        let newer = known.is_none_or(|generation| record.policy.generation > generation);
        let switched = sound && newer && record.epoch > self.in_force.floor;
        if switched || self.wants_quorum() && (seeks || leaderless) {
            self.step_down(now, out);
            self.go_by(now, Arbiter::Quorum, out);
            self.begin_joining(now, out);
        }
    }

    /// Nobody can have a leader lease: begins a view with an arbiter, with those that follow this leader
    /// and those that want to join. A waiter keeps its place; what is held ends.
    fn begin_quorum(&mut self, now: LocalTime, value: Value, out: &mut Out<S, N>) {
        let Some(leader) = self.leader() else { return };
        let present = leader.record().clone();
        let Some(mut table) = self.retire(now, out) else { return };
        self.go_by(now, Arbiter::Quorum, out);
        table.table.holds.clear();
        // No lease of before is longer, with an arbiter or without.
        let base = value.record.as_ref().map(|base| base.timing.member_lease).unwrap_or_default();
        table.grace = present.timing.member_lease.max(base);
        table.member_lease = table.grace;
        let stays = |info: &&MemberInfo| table.stays.contains(&info.incarnation);
        let follow: Vec<MemberInfo> = present.members.iter().filter(stays).cloned().collect();
        table.joins.extend(follow);
        self.record.clone_from(&value.record);
        self.begin_candidacy_with(now, Some(table), value, out);
    }
}
