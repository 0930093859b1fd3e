//! What claims are worth, safe with an arbiter and advisory without one, and how they are granted: both
//! may change while they wait or hold.

use conclave_protocols::policy::{Arbiter, Policy};

use super::{Book, Line};

impl Book {
    /// The member goes by that arbiter from now on: so does every claim that waits or holds.
    pub(in crate::group) fn goes_by(&mut self, arbiter: Arbiter) {
        if std::mem::replace(&mut self.arbiter, arbiter) == arbiter {
            return;
        }
        for entry in self.locks.values_mut().flat_map(Line::entries_mut) {
            entry.goes_by(arbiter);
        }
    }

    /// The view has another policy: so every claim that waits or holds is granted by that.
    pub(in crate::group) fn set_policy(&mut self, policy: &Policy) {
        for (lock, line) in &mut self.locks {
            let Some(of_lock) = policy.for_lock(lock.as_str()) else { continue };
            for entry in line.entries_mut() {
                entry.set_policy(of_lock);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::member::{LockEvent, LostReason, Term};
    use conclave_protocols::policy::{LockAlgorithm, LockPolicy};
    use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime, LockName, PodUid};
    use tokio::sync::watch;

    use super::*;
    use crate::claims::{Ask, Claim, ClaimState, Wait};
    use crate::metrics::Metrics;

    const NOW: LocalTime = LocalTime(1_000_000_000);

    fn lock(name: &str) -> LockName {
        LockName::try_from(name.to_owned()).expect("a good name")
    }

    fn ask(book: &mut Book, name: &str) -> watch::Receiver<Claim> {
        let ask = Ask {
            lock: lock(name),
            claim: None,
            owner: None,
            metadata: None,
            wait: Wait::Forever,
            ttl: None,
            max_hold: None,
        };
        book.ask(NOW, ask, &Policy::default()).expect("it may be asked for").claim
    }

    fn tell(book: &mut Book, name: &str, event: LockEvent) {
        book.on_event(NOW, &lock(name), event, |member| member.pod.to_string());
    }

    /// A claim that is held with a token, one that waits, and one that was given back.
    fn claims(book: &mut Book) -> [watch::Receiver<Claim>; 3] {
        let claims = [ask(book, "a"), ask(book, "b"), ask(book, "c")];
        for name in ["a", "c"] {
            let entered = LockEvent::Entered {
                token: Some(FencingToken::before(Epoch(7))),
                epoch: Epoch(7),
                term: Term::new(LocalTime(2), LocalTime(9_000_000_000), true),
                messages: 3,
            };
            tell(book, name, entered);
        }
        let given_back = claims[2].borrow().id.clone();
        book.release(NOW, &lock("c"), &given_back).expect("it is held");
        claims
    }

    fn book() -> Book {
        let me = Incarnation { pod: PodUid(1), run: 7 };
        Book::new("shop-0", me, Metrics::new("orders").locks)
    }

    #[test]
    fn what_is_held_becomes_advisory_and_says_so() {
        let mut book = book();
        let mut claims = claims(&mut book);
        let before = claims.clone().map(|mut claim| claim.borrow_and_update().clone());
        for claim in &mut claims {
            claim.mark_unchanged();
        }
        book.goes_by(Arbiter::None);
        for (claim, before) in claims.iter().zip(&before).take(2) {
            assert!(claim.has_changed().expect("it is kept"));
            let claim = claim.borrow();
            assert_eq!((claim.arbiter, claim.index), (Arbiter::None, before.index + 1));
            assert_eq!(claim.state, before.state, "a token that was notified stays");
        }
        let ended = claims[2].borrow();
        assert_eq!((ended.arbiter, ended.index), (Arbiter::Quorum, before[2].index), "it was safe");
        drop(ended);
        for claim in &mut claims {
            claim.mark_unchanged();
        }
        book.goes_by(Arbiter::None);
        assert!(claims[..2].iter().all(|claim| !claim.has_changed().expect("it is kept")));
    }

    #[test]
    fn what_is_lost_to_an_arbiter_was_advisory_and_what_waits_will_be_safe() {
        let mut book = book();
        let claims = claims(&mut book);
        book.goes_by(Arbiter::None);
        tell(&mut book, "a", LockEvent::Lost(LostReason::ViewChange));
        book.goes_by(Arbiter::Quorum);
        assert!(matches!(claims[0].borrow().state, ClaimState::Lost(_)));
        assert_eq!(claims[0].borrow().arbiter, Arbiter::None);
        assert!(matches!(claims[1].borrow().state, ClaimState::Waiting { .. }));
        assert_eq!(claims[1].borrow().arbiter, Arbiter::Quorum);
    }

    #[test]
    fn a_claim_is_worth_what_the_member_goes_by_and_not_what_a_policy_says() {
        let mut book = book();
        book.goes_by(Arbiter::None);
        assert_eq!(ask(&mut book, "a").borrow().arbiter, Arbiter::None);
    }
    #[test]
    fn a_claim_tells_by_which_algorithm_it_is_granted_now() {
        let mut book = book();
        let [held, waits, ended] = claims(&mut book);
        let algorithm = LockAlgorithm::Lamport;
        let locks = vec![LockPolicy { algorithm, ..LockPolicy::default() }];
        let indices = [&held, &waits, &ended].map(|claim| claim.borrow().index);
        book.set_policy(&Policy { locks, ..Policy::default() });
        let now =
            [&held, &waits, &ended].map(|claim| (claim.borrow().algorithm, claim.borrow().index));
        let [held, waits, ended] = indices;
        let before = LockAlgorithm::Central;
        assert_eq!(now, [(algorithm, held + 1), (algorithm, waits + 1), (before, ended)]);
    }
}
