//! Nominating the next leader when promises run out.

use std::time::Duration;

use super::nomination::{Nomination, Part};
use super::{Event, Member, Nominator, Out, Role, Service, Timer};
use crate::ids::{Epoch, Incarnation, MemberId};
use crate::protocol::Input;
use crate::record::Record;
use crate::time::LocalTime;

impl<S: Service, N: Nominator> Member<S, N> {
    /// Starts a nomination, or one more if the one before came to nothing.
    pub(super) fn begin_nomination(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.going.leaves() {
            return;
        }
        if let Some(wait) = self.abstains(now) {
            return out.arm(Timer::Nominee, wait.max(self.pause()));
        }
        let nominating = self.nominations.take();
        let Some(mut nominating) = nominating.or_else(|| self.new_nomination(self.electorate()?))
        else {
            return;
        };
        if nominating.is_alone() {
            return self.begin_candidacy(now, None, out);
        }
        let early = nominating.begin(now);
        self.nominations.join(nominating);
        self.role = Role::Follower;
        out.arm(Timer::Nominee, self.pause() * 2);
        for (from, message) in early {
            self.feed_nominator(now, Input::Message { from, message }, out);
        }
        // What arrived early may be the outcome of one that began before.
        if self.nominations.present().is_some_and(|nominating| !nominating.is_at_work()) {
            self.feed_nominator(now, Input::Command(()), out);
        }
    }

    /// For how long this member still takes part in none: it could not reach the register
    /// just now, or rests or is about to end and lets others lead, if there are any.
    fn abstains(&self, now: LocalTime) -> Option<Duration> {
        let timing = self.record.as_ref().map_or(self.policy.timing, |record| record.timing);
        let last = self.promises.until().after(timing.leader_lease * 3);
        let until = self.nominations.abstains_until().max(self.going.lets_others_lead_until(last));
        (now < until).then(|| now.until(until))
    }

    /// Somebody leads: none in this view came to nothing.
    pub(super) fn end_nominations(&mut self, out: &mut Out<S, N>) {
        self.nominations.succeeded();
        self.drop_nomination(out);
    }

    /// Takes part no longer.
    pub(super) fn drop_nomination(&mut self, out: &mut Out<S, N>) {
        if let Some(nominating) = self.nominations.take() {
            nominating.end::<S>(out);
        }
        out.disarm(Timer::Nominee);
    }

    fn new_nomination(&mut self, electorate: Record) -> Option<Nomination<N>> {
        self.nominations.another(electorate, self.me.incarnation)
    }

    /// Who takes part in a nomination that begins now.
    pub fn electorate(&self) -> Option<Record> {
        if self.is_advisory() { self.peers_record() } else { self.record.clone() }
    }

    /// How long the nominee may take to begin a view.
    fn pause(&self) -> Duration {
        self.record.as_ref().map_or(self.policy.timing, |record| record.timing).leader_lease / 2
    }

    /// A message of a nominator. Only members whose own promise ran out take part; what arrives
    /// before is kept.
    pub(super) fn on_nomination(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        epoch: Epoch,
        message: N::Message,
        out: &mut Out<S, N>,
    ) {
        if self.role != Role::Follower || self.abstains(now).is_some() {
            return;
        }
        let new = if self.nominations.present().is_none() { self.electorate() } else { None };
        let present = self.nominations.present().map(Nomination::electorate);
        let Some(electorate) = present.or(new.as_ref()).filter(|one| one.epoch == epoch) else {
            return out.tell(Event::Ignored("epoch"));
        };
        let Some(rank) = electorate.rank(from) else {
            return out.tell(Event::Ignored("stranger"));
        };
        if let Some(new) = new.and_then(|electorate| self.new_nomination(electorate)) {
            self.nominations.join(new);
        }
        let runs = self.promises.run(now);
        let Some(nominating) = self.nominations.present_mut() else { return };
        if runs {
            return nominating.keep_early(rank, message);
        }
        if nominating.take_part(now) == Part::Begins {
            out.arm(Timer::Nominee, self.pause() * 2);
        }
        self.feed_nominator(now, Input::Message { from: rank, message }, out);
    }

    pub(super) fn nomination_timer(
        &mut self,
        now: LocalTime,
        timer: N::Timer,
        out: &mut Out<S, N>,
    ) {
        if self.role == Role::Follower {
            self.feed_nominator(now, Input::Timer(timer), out);
        }
    }

    fn feed_nominator(
        &mut self,
        now: LocalTime,
        input: Input<MemberId, (), N::Message, N::Timer>,
        out: &mut Out<S, N>,
    ) {
        let elected = self.nominations.present_mut().and_then(|one| one.feed::<S>(now, input, out));
        if let Some(winner) = elected {
            self.elected(now, winner, out);
        }
    }

    /// Somebody was nominated, and is no more than that until the leader lease protocol says more.
    fn elected(&mut self, now: LocalTime, winner: MemberId, out: &mut Out<S, N>) {
        let outcome = self.nominations.present().and_then(|one| one.outcome(now, winner));
        let Some((winner, messages, took)) = outcome else { return };
        out.tell(Event::Elected { winner, messages, took });
        if winner == self.me.incarnation {
            self.begin_candidacy(now, None, out);
        } else {
            out.arm(Timer::Nominee, self.pause());
        }
    }

    /// The nominee began no view in time: once more.
    pub(super) fn nominee_is_late(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        if self.role != Role::Follower {
            return;
        }
        if self.promises.run(now) {
            return out.arm(Timer::Nominee, now.until(self.promises.until()));
        }
        self.drop_nomination(out);
        self.begin_nomination(now, out);
    }
}
