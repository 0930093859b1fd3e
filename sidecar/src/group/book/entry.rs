//! One claim, and its watchers.

use std::time::Duration;

use conclave_protocols::LocalTime;
use conclave_protocols::member::message::Note;
use conclave_protocols::member::{Lease, Term};
use conclave_protocols::policy::{Arbiter, LockAlgorithm, LockPolicy};
use tokio::sync::watch;

use super::super::Asked;
use crate::claims::{
    Ask, AskError, Claim, ClaimError, ClaimId, ClaimState, Held, Holder, LostReason, Wait,
};

/// A claim as the book keeps it.
pub(super) struct ClaimEntry {
    id: ClaimId,
    claim: watch::Sender<Claim>,
    /// What was asked for.
    ask: Ask,
    /// What the application must renew within, as it stated last.
    ttl: Option<Duration>,
    max_hold: Duration,
    /// Until when it waits, if it waits and not for ever.
    wait_until: Option<LocalTime>,
    /// Until when the application has renewed it, if it must.
    ttl_until: Option<LocalTime>,
    max_hold_until: Option<LocalTime>,
    /// Until when the member holds the lock.
    term: Term,
    /// When that was last extended.
    extended: LocalTime,
    /// When it is in jeopardy unless it is extended, if somebody may watch it.
    endangered: Option<LocalTime>,
}

/// The member's lease, and when it was last extended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extended {
    pub(super) at: LocalTime,
    pub(super) lease: Lease,
}

/// A claim that was not extended for that long is in jeopardy. Leases are extended several times a
/// second.
const JEOPARDY: Duration = Duration::from_secs(1);

/// Without an answer of anybody who could grant, a claim that does not wait is refused after that.
pub(super) const TRY: Duration = Duration::from_secs(3);

impl ClaimEntry {
    pub(super) fn new(
        now: LocalTime,
        id: ClaimId,
        ask: Ask,
        pod: &str,
        policy: &LockPolicy,
        arbiter: Arbiter,
    ) -> Self {
        let max_hold = ask.max_hold.map_or(policy.max_hold, |asked| asked.min(policy.max_hold));
        let wait_until = match ask.wait {
            Wait::For(Duration::ZERO) => Some(now.after(TRY)),
            Wait::For(wait) => Some(now.after(wait)),
            Wait::Forever => None,
        };
        let claim = Claim {
            id: id.clone(),
            lock: ask.lock.clone(),
            state: ClaimState::Waiting { holder: None, heard: false },
            asked: now,
            settled: None,
            ended: None,
            owner: ask.owner.clone().unwrap_or_else(|| pod.to_owned()),
            metadata: ask.metadata.clone(),
            ttl: ask.ttl,
            max_hold,
            algorithm: policy.algorithm,
            arbiter,
            index: 1,
        };
        Self {
            id,
            claim: watch::Sender::new(claim),
            max_hold,
            ttl: ask.ttl,
            ask,
            wait_until,
            ttl_until: None,
            max_hold_until: None,
            term: Term::default(),
            extended: LocalTime::default(),
            endangered: None,
        }
    }

    pub(super) fn id(&self) -> &ClaimId {
        &self.id
    }

    pub(super) fn watch(&self) -> watch::Receiver<Claim> {
        self.claim.subscribe()
    }

    /// When something about it is due: it has waited long enough, its hold is over, or it is in jeopardy unless it
    /// is extended.
    pub(super) fn due(&self) -> Option<LocalTime> {
        let all = [self.wait_until, self.ttl_until, self.max_hold_until, self.endangered];
        all.into_iter().flatten().min()
    }

    /// Why its hold is over, if the application has not renewed it or it has held long enough: what came first. If it
    /// was in jeopardy before, that comes first, and so does the end of its lease.
    pub(super) fn is_cut_short(&self, now: LocalTime) -> Option<LostReason> {
        let (at, reason) = self.cut_short_at().filter(|(at, _)| *at <= now)?;
        self.endangered.is_none_or(|endangered| at <= endangered).then_some(reason)
    }

    /// Whether it does not want to wait.
    pub(super) fn only_tries(&self) -> bool {
        self.ask.wait == Wait::For(Duration::ZERO)
    }

    /// The same request again.
    pub(super) fn repeat(&self, ask: &Ask) -> Result<Asked, AskError> {
        let claim = self.claim.borrow();
        match claim.state {
            ClaimState::Waiting { .. } | ClaimState::Held(_) if *ask == self.ask => {
                Ok(Asked { created: false, claim: self.watch() })
            }
            ClaimState::Waiting { .. } | ClaimState::Held(_) => Err(AskError::Differs),
            ClaimState::Released | ClaimState::Lost(_) | ClaimState::Refused(_) => {
                Err(AskError::Ended(Box::new(claim.clone())))
            }
        }
    }

    /// What is reported of it to others.
    pub(super) fn note(&self) -> Note {
        let claim = self.claim.borrow();
        Note { owner: claim.owner.clone(), metadata: claim.metadata.clone() }
    }

    /// The claim as those that wait for its lock see it.
    pub(super) fn as_holder(&self, now: LocalTime, pod: &str) -> Holder {
        let claim = self.claim.borrow();
        let (token, since) = match &claim.state {
            ClaimState::Held(held) => (held.token, held.since),
            ClaimState::Waiting { .. }
            | ClaimState::Released
            | ClaimState::Lost(_)
            | ClaimState::Refused(_) => (None, now),
        };
        Holder {
            pod: pod.to_owned(),
            owner: claim.owner.clone(),
            token,
            held: now - since,
            notified: now,
            metadata: claim.metadata.clone(),
        }
    }

    /// Moves to another state, if it is another.
    pub(super) fn show(&mut self, state: ClaimState) {
        self.claim.send_if_modified(|claim| {
            let changed = claim.state != state;
            if changed {
                claim.state = state;
                claim.index += 1;
            }
            changed
        });
    }

    /// Is worth from now on what that arbiter makes of it.
    pub(super) fn goes_by(&mut self, arbiter: Arbiter) {
        self.claim.send_if_modified(|claim| {
            let changed = claim.arbiter != arbiter;
            claim.arbiter = arbiter;
            claim.index += u64::from(changed);
            changed
        });
    }

    /// Is granted from now on as that policy says.
    pub(super) fn set_policy(&mut self, policy: &LockPolicy) {
        self.claim.send_if_modified(|claim| {
            let changed = claim.algorithm != policy.algorithm;
            claim.algorithm = policy.algorithm;
            claim.index += u64::from(changed);
            changed
        });
    }

    /// Holds from now on.
    pub(super) fn hold(&mut self, now: LocalTime, held: &Held, term: Term) {
        self.term = term;
        self.extended = now;
        self.wait_until = None;
        self.ttl_until = self.ttl.map(|ttl| now.after(ttl));
        self.max_hold_until = Some(now.after(self.max_hold));
        self.endangered = Some(now.after(JEOPARDY));
        let (safe_until, ends_by) = self.end_of_hold();
        self.claim.send_modify(|claim| {
            claim.state = ClaimState::Held(Held { safe_until, ends_by, ..held.clone() });
            claim.settled = Some(now);
            claim.index += 1;
        });
    }

    /// When its hold ends unless something moves that on, and by what: of two at once, by what the application
    /// has in its hand.
    pub(super) fn end_of_hold(&self) -> (LocalTime, LostReason) {
        let lease = (self.term.until(), LostReason::LeaseExpired);
        self.cut_short_at().filter(|(at, _)| *at <= lease.0).unwrap_or(lease)
    }

    /// When the application is to have renewed it or has held it for long enough, what comes first.
    fn cut_short_at(&self) -> Option<(LocalTime, LostReason)> {
        let ends =
            [(self.ttl_until, LostReason::TtlExpired), (self.max_hold_until, LostReason::MaxHold)];
        let ends = ends.into_iter().filter_map(|(at, reason)| Some((at?, reason)));
        ends.min_by_key(|(at, _)| *at)
    }

    /// Whether somebody would notice a change of it.
    pub(super) fn is_watched(&self) -> bool {
        self.claim.receiver_count() > 0
    }

    /// The hold alone was extended, or is wanted by another, or no longer.
    pub(super) fn extend(&mut self, now: LocalTime, deadline: LocalTime, contended: bool) {
        self.term.extend(deadline);
        self.extended = now;
        self.claim.send_if_modified(|claim| {
            let ClaimState::Held(held) = &mut claim.state else { return false };
            let changed = held.contended != contended;
            held.contended = contended;
            claim.index += u64::from(changed);
            changed
        });
    }

    /// Whether the member's lease extends it from now on.
    pub(super) fn set_renewed(&mut self, now: LocalTime, renewed: bool, listed: bool) {
        self.term.set_renewed(now, renewed, listed);
    }

    /// Shows how a hold stands by now.
    pub(super) fn bring_up_to_date(&mut self, now: LocalTime, last: Extended) {
        if self.term.is_of(last.lease) {
            self.term.renew(last.lease);
            self.extended = self.extended.max(last.at);
        }
        let (safe_until, ends_by) = self.end_of_hold();
        let jeopardy = self.extended.after(JEOPARDY) <= now;
        self.claim.send_if_modified(|claim| {
            let ClaimState::Held(held) = &mut claim.state else { return false };
            let changed = held.jeopardy != jeopardy;
            let moved = held.safe_until != safe_until;
            (held.safe_until, held.ends_by, held.jeopardy) = (safe_until, ends_by, jeopardy);
            claim.index += u64::from(changed);
            changed || moved
        });
    }

    /// Is due when it is in jeopardy, if it is not yet.
    pub(super) fn await_jeopardy(&mut self, now: LocalTime) {
        self.endangered = Some(self.extended.after(JEOPARDY)).filter(|at| *at > now);
    }

    /// Is not due for that: nobody watches it.
    pub(super) fn ignore_jeopardy(&mut self) {
        self.endangered = None;
    }

    /// The application renewed it.
    pub(super) fn renew(
        &mut self,
        now: LocalTime,
        ttl: Option<Duration>,
    ) -> Result<Claim, ClaimError> {
        let state = self.claim.borrow().state.clone();
        match state {
            ClaimState::Waiting { .. } => return Err(ClaimError::Waiting),
            ClaimState::Held(held) if held.safe_until > now => {}
            ClaimState::Held(_)
            | ClaimState::Released
            | ClaimState::Lost(_)
            | ClaimState::Refused(_) => {
                return Err(ClaimError::Ended(Box::new(self.claim.borrow().clone())));
            }
        }
        self.ttl = ttl.or(self.ttl);
        self.ttl_until = self.ttl.map(|ttl| now.after(ttl));
        let ((safe_until, ends_by), ttl) = (self.end_of_hold(), self.ttl);
        self.claim.send_modify(|claim| {
            claim.ttl = ttl;
            if let ClaimState::Held(held) = &mut claim.state {
                (held.safe_until, held.ends_by) = (safe_until, ends_by);
            }
        });
        Ok(self.claim.borrow().clone())
    }

    /// Shows that it has ended, and returns the claim as it is then.
    pub(super) fn end(self, now: LocalTime, state: ClaimState) -> Claim {
        self.claim.send_modify(|claim| {
            claim.state = state;
            claim.settled.get_or_insert(now);
            claim.ended = Some(now);
            claim.index += 1;
        });
        self.claim.borrow().clone()
    }

    /// How its lock is granted, and how long it has held it.
    pub(super) fn held_for(&self, now: LocalTime) -> (LockAlgorithm, Duration) {
        let claim = self.claim.borrow();
        (claim.algorithm, now - claim.settled.unwrap_or(now))
    }
}
