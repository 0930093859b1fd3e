//! Locks: who may be notified that it holds one, and for how long.

use std::time::Duration;

use super::breach::{Allowed, need};
use super::leader_lease::LeaderLease;
use super::process::{Hold, HoldState};
use super::rules::{GRAIN, Rules};
use crate::elections::election_of;
use crate::ids::{Epoch, FencingToken, Incarnation, LockName};

impl Rules {
    /// A leader let a member count on its lease from one of that member's own messages.
    pub(super) fn acknowledged(
        &mut self,
        at: Duration,
        who: Incarnation,
        epoch: Epoch,
        (member, stamp): (Incarnation, Duration),
    ) -> Allowed {
        // RULE 24. What a promise lists is extended with a leader lease, though the heartbeat which states it
        // may leave later.
        self.leads_after(24, stamp, who, epoch)?;
        // RULE 5.
        need(5, stamp <= at + GRAIN, || format!("{member} never sent that at {stamp:?}"))?;
        let lease = self.leader_lease(24, epoch)?.leases.entry(member).or_default();
        *lease = stamp.max(*lease);
        Ok(())
    }

    /// A leader granted something to a member.
    pub(super) fn granted(&mut self, at: Duration, who: Incarnation, epoch: Epoch) -> Allowed {
        // RULE 23. What is granted is granted with a leader lease.
        self.leads_after(23, at, who, epoch)
    }

    fn leads_after(&mut self, rule: u8, at: Duration, who: Incarnation, epoch: Epoch) -> Allowed {
        let belief = self.process(who).belief.filter(|belief| belief.epoch == epoch);
        let until = belief.map(|belief| belief.until);
        need(rule, until.is_some_and(|until| until > at), || {
            format!("{who} grants or extends in view {epoch} at {at:?}, and led until {until:?}")
        })
    }

    pub(super) fn held(
        &mut self,
        at: Duration,
        who: Incarnation,
        lock: &LockName,
        token: FencingToken,
        epoch: Epoch,
        until: Duration,
    ) -> Allowed {
        let process = self.process(who);
        // RULE 12. A member hears of locks only in the view that it is in.
        let in_section = process.entered == epoch && process.refuses < epoch;
        let last = process.holds.get(lock).copied();
        need(12, in_section, || format!("{who} entered {lock} in view {epoch}, which it refuses"))?;
        let (ceiling, grace) = {
            let leader_lease = self.leader_lease(23, epoch)?;
            (leader_lease.content.ceiling, leader_lease.grace_until)
        };
        // RULE 23. Tokens rise, up to the ceiling that was written.
        let highest = self.tokens.insert(lock.clone(), token);
        need(23, Some(token) > highest, || format!("{lock} went from {highest:?} to {token}"))?;
        need(23, token.high() <= ceiling, || format!("{token} of {lock} is above {ceiling}"))?;
        // RULES 20 and 26. Nothing is newly granted in the grace period. RULE 32: a member that kept its grant, and
        // enters again, is granted nothing.
        let kept = last
            .is_some_and(|last| Some(last.token) == highest && last.token.high() == token.high());
        need(20, kept || at + GRAIN >= grace, || {
            format!(
                "{who} entered {lock} in the grace period of view {epoch}, which is until {grace:?}"
            )
        })?;
        // RULE 23. The entry is free: nobody else was notified of more.
        let other = self.processes.iter().find(|(other, process)| {
            **other != who && process.holds.get(lock).is_some_and(|hold| hold.is_live(at))
        });
        let other = other.map(|(other, _)| *other);
        need(23, other.is_none(), || format!("{who} entered {lock}, which {other:?} holds"))?;
        let carried = if kept { self.longest(who, lock) } else { Duration::ZERO };
        self.lasts_no_longer(who, lock, epoch, until, carried)?;
        self.process(who).holds.insert(lock.clone(), Hold { token, until, state: HoldState::Held });
        Ok(())
    }

    pub(super) fn extended(
        &mut self,
        at: Duration,
        who: Incarnation,
        lock: &LockName,
        until: Duration,
    ) -> Allowed {
        let process = self.process(who);
        let (epoch, hold) = (process.entered, process.holds.get(lock).copied());
        // RULE 7. A deadline that has passed is final, and none is taken back.
        let runs = hold.is_some_and(|hold| hold.state == HoldState::Held && hold.is_live(at));
        need(7, runs, || format!("{who} extends {lock}, which it held as {hold:?}"))?;
        let notified = hold.map(|hold| hold.until).unwrap_or_default();
        need(7, notified <= until + GRAIN, || {
            format!("{lock} was promised until {notified:?}, not {until:?}")
        })?;
        self.lasts_no_longer(who, lock, epoch, until, notified)?;
        if let Some(hold) = self.process(who).holds.get_mut(lock) {
            hold.until = until.max(notified);
        }
        Ok(())
    }

    pub(super) fn released(&mut self, who: Incarnation, lock: &LockName) {
        if let Some(hold) = self.process(who).holds.get_mut(lock) {
            hold.state = HoldState::Released;
        }
    }

    pub(super) fn lost(&mut self, who: Incarnation, lock: &LockName) {
        if let Some(hold) = self.process(who).holds.get_mut(lock)
            && hold.state == HoldState::Held
        {
            hold.state = HoldState::Lost;
        }
    }

    /// Until when such a hold of any view lasts at most. A grant that is kept goes on with what it had.
    fn longest(&self, who: Incarnation, lock: &LockName) -> Duration {
        let lasts = self.leader_leases.values();
        let lasts = lasts.map(|leader_lease| self.lasts(who, lock, leader_lease).1);
        lasts.max().unwrap_or_default()
    }

    /// Until when such a hold of this member lasts at most in a view, and the rule that states it.
    fn lasts(
        &self,
        who: Incarnation,
        lock: &LockName,
        leader_lease: &LeaderLease,
    ) -> (u8, Duration) {
        let Some(process) = self.processes.get(&who) else { return (5, Duration::ZERO) };
        let (content, clocks) = (&leader_lease.content, self.clocks);
        let is_lead = election_of(lock).is_some();
        let lease = clocks.hold(if is_lead { content.lead_lease } else { content.lease });
        if content.leader == Some(who) {
            // RULE 22. A leader's own hold ends with its leader lease, or an L after what the leader lease rests on was sent.
            let more = process.span(lease.saturating_sub(clocks.hold(content.timing.leader_lease)));
            return (22, leader_lease.lasts_until(clocks, process) + more);
        }
        // RULES 5 and 27. Others count from what they had sent when the leader heard them last.
        let stamp = leader_lease.leases.get(&who).copied();
        (5, stamp.map(|stamp| stamp + process.span(lease)).unwrap_or_default())
    }

    /// How long an application may be notified that a hold lasts. `known`: until when it may in any case.
    fn lasts_no_longer(
        &mut self,
        who: Incarnation,
        lock: &LockName,
        epoch: Epoch,
        until: Duration,
        known: Duration,
    ) -> Allowed {
        self.leader_lease(5, epoch)?;
        let (rule, most) = self
            .leader_leases
            .get(&epoch)
            .map(|leader_lease| self.lasts(who, lock, leader_lease))
            .unwrap_or_default();
        let most = most.max(known);
        need(rule, until <= most + GRAIN, || {
            format!("{who} holds {lock} until {until:?}, and may until {most:?}")
        })
    }
}
