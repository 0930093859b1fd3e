//! What the sidecar and the kubelet know of the application, and what that is for its candidacies.

use conclave_protocols::{LocalTime, LockName};
use tracing::warn;

use super::Candidacies;
use super::named::Named;
use crate::application::{Application, Containers, Health};
use crate::group::{CandidacyState, Keepalive, Leadership};

impl Candidacies {
    /// Something is known of the application.
    pub(in crate::group) fn heed(&mut self, application: Application) {
        let before = std::mem::replace(&mut self.application, application);
        if let Some(by) = application.ended.filter(|_| application.ended > before.ended) {
            self.ended(by);
        }
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            self.announce(&hold);
            let Some(named) = self.all.get(&hold) else { continue };
            let is_sick = self.application.health == Health::Unhealthy && named.stands.is_some();
            let has_stopped = self.state_of(named) == CandidacyState::Stopped;
            if is_sick && named.term.is_some() {
                self.hand_over(&hold);
            } else if is_sick {
                self.give_up(&hold, Leadership::Following);
            } else if has_stopped {
                self.end_of_container(&hold);
            }
        }
    }

    /// A process of the application was over by then, and what it asked of the sidecar with it. What is left is what
    /// the pod's annotation says, and what ends by itself with a connection or a `ttl`.
    fn ended(&mut self, by: LocalTime) {
        for hold in self.all.keys().cloned().collect::<Vec<_>>() {
            let Some(named) = self.all.get_mut(&hold) else { continue };
            if !named.is_over(by) {
                continue;
            }
            let keepalive = named.stands.as_ref().map(|stands| &stands.keepalive);
            if matches!(keepalive, Some(Keepalive::Sidecar)) {
                let election = named.state.borrow().name.clone();
                warn!(election, "a container of the application ended, and so does its candidacy");
            }
            named.stands.clone_from(&named.annotated);
            (named.rests, named.alive_until) = (None, None);
            self.announce(&hold);
            self.end_of_container(&hold);
        }
    }

    /// A container of the application is not there any more. Its next process may have been notified of the lead before
    /// that was reported, and goes by the deadline.
    fn end_of_container(&mut self, hold: &LockName) {
        if self.all.get(hold).is_some_and(|named| named.term.is_some()) {
            self.hand_over(hold);
        } else {
            self.give_up(hold, Leadership::Following);
        }
    }

    /// What the application asked for is over. If so is the process that did, the annotation says what is the case.
    pub(super) fn stands_by_annotation(&mut self, hold: &LockName) {
        let Some(named) = self.all.get_mut(hold) else { return };
        if self.application.ended.is_some_and(|by| named.since <= by) {
            named.stands.clone_from(&named.annotated);
        }
    }

    /// How the application stands, and if it does not, why.
    pub(super) fn state_of(&self, named: &Named) -> CandidacyState {
        let Some(stands) = &named.stands else { return CandidacyState::None };
        let has_stopped = self.application.containers == Containers::Stopped;
        if self.drains {
            CandidacyState::Terminating
        } else if self.application.health == Health::Unhealthy {
            CandidacyState::Unhealthy
        } else if has_stopped && matches!(stands.keepalive, Keepalive::Annotation) {
            CandidacyState::Stopped
        } else if named.rests.is_some() {
            CandidacyState::Resting
        } else {
            CandidacyState::Stands
        }
    }
}

impl Named {
    /// Whether what stands here was asked for by a process that was over by then.
    fn is_over(&self, by: LocalTime) -> bool {
        match self.stands.as_ref().map(|stands| &stands.keepalive) {
            Some(Keepalive::Sidecar) => self.since <= by,
            // A lead that began later is none of that process.
            Some(Keepalive::Annotation) => !self.leads() || self.began <= by,
            Some(Keepalive::Connection(_) | Keepalive::Client(_)) => false,
            // The process that was over withdrew; the next one is put forward again.
            None => self.annotated.is_some() && self.since <= by,
        }
    }
}
