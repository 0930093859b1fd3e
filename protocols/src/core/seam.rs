//! Where the core and its service meet: what goes from the one to the other, in order.

use super::message::{Admission, Envelope, Extended, Promise, Table};
use super::service::{Cx, Notice, ServiceEffect};
use super::{Event, Member, Nominator, Out, PeerMessage, Service, Timer, send};
use crate::ids::{Incarnation, MemberId};
use crate::policy::LeaseClass;
use crate::record::Record;
use crate::time::LocalTime;

/// A service, and for when its timer is set.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Serving<S> {
    service: S,
    armed: Option<LocalTime>,
}

impl<S: Service> Serving<S> {
    pub(super) fn new(me: Incarnation) -> Self {
        Self { service: S::new(me), armed: None }
    }

    pub(super) fn service(&self) -> &S {
        &self.service
    }

    /// Sets its timer, if the time for it has changed.
    fn arm<N: Nominator>(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        let next = self.service.next_timer();
        if std::mem::replace(&mut self.armed, next) != next {
            match next {
                Some(at) => out.arm(Timer::Service, now.until(at)),
                None => out.disarm(Timer::Service),
            }
        }
    }
}

impl<S: Service, N: Nominator> Member<S, N> {
    /// Lets the service hear what the core noticed, and then do something; and carries out what it wants.
    pub(super) fn with_service<R>(
        &mut self,
        now: LocalTime,
        out: &mut Out<S, N>,
        act: impl FnOnce(&mut S, &mut Cx<'_, S>) -> R,
    ) -> R {
        let mut effects = Vec::new();
        let (service, holds) = (&mut self.serving.service, &mut self.holds);
        let detector = self.detection.detector();
        let mut cx = Cx { now, holds, detector, out: &mut effects };
        hear_notices(service, &mut cx);
        let result = act(service, &mut cx);
        hear_notices(service, &mut cx);
        let (mut notified, mut next) = (false, None);
        for effect in effects {
            match effect {
                ServiceEffect::Send(to, body) => self.send_envelope(to, body, out),
                ServiceEffect::Tell(event) => {
                    notified = true;
                    out.tell(Event::Service(event));
                }
                ServiceEffect::Transfer(to) => {
                    next = self.holds.seat().and_then(|seat| seat.member(to));
                }
            }
        }
        if notified {
            self.arm_holds(now, out);
        }
        self.serving.arm::<N>(now, out);
        if let Some(next) = next {
            self.transfer(now, next, out);
        }
        result
    }

    fn send_envelope(&mut self, to: MemberId, body: S::Message, out: &mut Out<S, N>) {
        let Some(seat) = self.holds.seat() else { return };
        let Some(receiver) = seat.member(to) else { return };
        let (epoch, number) = (seat.view().epoch, self.links.next(to, S::part(&body)));
        send(receiver, PeerMessage::Service(Box::new(Envelope { epoch, number, body })), out);
    }

    /// Lets the service hear what the core noticed.
    pub(super) fn let_hear(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.with_service(now, out, |_, _| ());
    }

    pub(super) fn notice(&mut self, now: LocalTime, notice: Notice, out: &mut Out<S, N>) {
        self.holds.notice(notice);
        self.let_hear(now, out);
    }

    /// Ends the holds that are over by now.
    fn end_what_is_over(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.holds.end_what_is_over(now);
        self.let_hear(now, out);
    }

    /// Ends the holds that are over by now, and sets the timer for the next.
    pub(super) fn arm_holds(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.holds.end_what_is_over(now);
        if self.holds.has_notices() {
            self.let_hear(now, out);
        }
        match self.holds.next_end() {
            Some(deadline) => out.arm(Timer::Holds, now.until(deadline)),
            None => out.disarm(Timer::Holds),
        }
    }

    /// The timer of the service fires.
    pub(super) fn service_timer(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.serving.armed = None;
        self.with_service(now, out, Service::fire);
    }

    /// A member that entered a view earlier may speak in it before this one has entered it.
    pub(super) fn on_envelope(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        envelope: Envelope<S::Message>,
        out: &mut Out<S, N>,
    ) {
        if self.may_enter(envelope.epoch) {
            return self.links.keep_early(from, envelope);
        }
        // Rule 12: a member that sealed a view neither sends nor hears anything of its services any more.
        if self.promises.is_sealed() {
            return out.tell(Event::Ignored("sealed"));
        }
        self.open_envelope(now, from, envelope, out);
    }

    fn open_envelope(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        envelope: Envelope<S::Message>,
        out: &mut Out<S, N>,
    ) {
        let Envelope { epoch, number, body } = envelope;
        let Some(rank) = self.holds.rank_of(from, epoch) else { return };
        let repairs = self.holds.seat().is_some_and(|seat| S::repairs(seat.policy(), &body));
        if self.links.accept(rank, S::part(&body), number, repairs) {
            self.holds.hear(rank, now);
            self.with_service(now, out, |service, cx| service.receive(cx, rank, body));
        }
    }

    /// Enters a view: the service starts afresh, with its holders and those that wait.
    pub(super) fn begin_view(
        &mut self,
        now: LocalTime,
        record: &Record,
        carried: &Table,
        out: &mut Out<S, N>,
    ) {
        self.end_view();
        let carried = self.holds.enter(now, record, carried);
        self.with_service(now, out, |service, cx| service.begin_view(cx, &carried));
        for (from, envelope) in self.links.take_early(record.epoch) {
            self.open_envelope(now, from, envelope, out);
        }
    }

    /// From now on nothing of the view is sent or heard.
    pub(super) fn end_view(&mut self) {
        self.holds.leave_view();
        self.links.anew();
        self.serving.service.end_view(&self.holds);
    }

    /// This member leads no longer: its own holds go on as a lease until the deadline of which
    /// their applications were notified.
    pub(super) fn resign(&mut self) {
        self.holds.resign();
        self.end_view();
    }

    /// Holds that nothing arbitrated end with the view, and nothing is heard of such views any more.
    pub(super) fn end_advisory_view(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.holds.lose_all();
        self.let_hear(now, out);
        self.end_view();
        self.links.forget_unarbitrated();
    }

    /// What the leader knows of holders and of those that wait, at the end of its view: it grants nothing any
    /// more.
    pub(super) fn table(&mut self, now: LocalTime, out: &mut Out<S, N>) -> Table {
        self.holds.set_open(now, false);
        self.holds.see_to_what_is_due(now);
        self.let_hear(now, out);
        let lines = self.holds.seat().map(|seat| self.serving.service.lines(seat));
        self.holds.table(now, lines.unwrap_or_default())
    }

    /// Once a heartbeat, at the leader and at those that hear of it.
    pub(super) fn tick(&mut self, now: LocalTime, out: &mut Out<S, N>) {
        self.holds.tick(now);
        self.let_hear(now, out);
    }

    /// The leader stated whether anything is granted.
    pub(super) fn admit(&mut self, now: LocalTime, admission: Admission, out: &mut Out<S, N>) {
        self.holds.hear_admission(admission);
        self.tick(now, out);
    }

    /// What has changed of what this member holds and waits for, for a promise.
    pub(super) fn changes(
        &mut self,
        now: LocalTime,
        out: &mut Out<S, N>,
    ) -> super::message::Changes {
        self.end_what_is_over(now, out);
        self.holds.changes()
    }

    /// The leader acknowledged a promise of this member.
    pub(super) fn on_extended(&mut self, now: LocalTime, extended: Extended, out: &mut Out<S, N>) {
        for class in LeaseClass::ALL {
            if self.holds.has_lapsed(now, class) {
                self.notice(now, Notice::Doubt(class), out);
            }
        }
        self.end_what_is_over(now, out);
        self.holds.set_refused(now, &extended.refused);
        self.let_hear(now, out);
        if let Some(lease) = self.holds.extend(&extended) {
            out.tell(Event::Lease(lease));
            let (asked, wanted) = (extended.stamp, extended.wanted);
            self.notice(now, Notice::Extended { asked, wanted }, out);
            self.arm_holds(now, out);
        }
    }

    /// The leader lease of this member, which leads, lasts until then, and admission is open or not.
    pub(super) fn set_leader_lease(
        &mut self,
        now: LocalTime,
        until: LocalTime,
        open: bool,
        out: &mut Out<S, N>,
    ) {
        if until > now {
            self.end_what_is_over(now, out);
        }
        if let Some(lease) = self.holds.set_leader_lease(now, until) {
            out.tell(Event::Lease(lease));
            self.arm_holds(now, out);
        }
        self.holds.set_open(now, open);
        self.let_hear(now, out);
    }

    /// What a promise reports about holds: the lease of its member extends what it lists. Nothing if the list is not
    /// known whole. `asked`: when the heartbeat was sent that it answers.
    pub(super) fn extend_member(
        &mut self,
        now: LocalTime,
        from: Incarnation,
        asked: LocalTime,
        promise: Promise,
        out: &mut Out<S, N>,
    ) -> Option<Extended> {
        let stamp = promise.stamp;
        let heard = self.holds.hear_promise(now, from, promise)?;
        let rank = heard.rank;
        self.with_service(now, out, |service, cx| {
            for want in heard.wants {
                service.find(cx, rank, want, asked);
            }
            let mut refused = Vec::new();
            for (name, token) in cx.holds.doubtful(rank) {
                if cx.holds.may_adopt(now, &name) && service.adopt(cx, rank, &name) {
                    cx.holds.adopt(now, rank, from, &name, token);
                }
                if !cx.holds.renew(now, from, &name, token) {
                    refused.push((name, token));
                }
            }
            cx.holds.set_doubtful(rank, &refused);
            let wanted = service.wanted_of(cx, from);
            if heard.first {
                cx.holds.notice(Notice::Open);
            }
            Some(Extended { stamp, refused, wanted })
        })
    }
}

fn hear_notices<S: Service>(service: &mut S, cx: &mut Cx<'_, S>) {
    while let Some(notice) = cx.holds.next_notice() {
        service.notice(cx, notice);
    }
}
