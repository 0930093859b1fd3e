//! When an authority gives way to the next, and how.
//!
//! 1. The next one is made. The groups and the webhook get its certificate beside the present one.
//! 2. Once all of them have it, everybody has the overlap's time to learn of it. One that has not got it
//!    in that time, or in ten minutes if that is longer, is not waited for: one group must not keep the
//!    others from another authority.
//! 3. Then it signs. The one before is still trusted, because certificates of its own are alive.
//! 4. When the last of them has ended, and the overlap has passed again, it is forgotten.
//!
//! An authority that has ended is not waited for: the next one signs at once, and is made at once if
//! there is none. Nothing that the ended one has signed is good any more.
//!
//! Nor is one that a person has revoked: its key may be another's. Another one is made, signs at once,
//! and is the only one that is trusted. Members are refused until they have a certificate of its own.
//!
//! So at any other time a client that trusts one certificate of the bundle trusts what it is shown.

use std::time::Duration;

use jiff::Timestamp;

use super::{Authority, CertificateError, Lifetimes, Next, Previous, Signer, later};

/// What is to be done next with an authority.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Make the next one.
    Begin,
    /// Note that everybody has the certificate of the next one, once that is so.
    Publish,
    /// Let the next one sign.
    Switch,
    /// Forget the previous one.
    Forget,
    /// Let another one sign at once, and trust no other.
    Replace,
}

impl Authority {
    /// What is to be done now; mostly nothing.
    pub fn due(&self, now: Timestamp, lifetimes: &Lifetimes) -> Option<Step> {
        if self.revoke.is_some() && self.revoke != self.revoked {
            return Some(Step::Replace);
        }
        if now >= self.current.life().ends {
            return Some(if self.next.is_some() { Step::Switch } else { Step::Replace });
        }
        match (&self.next, &self.previous) {
            (Some(Next { published: None, .. }), _) => Some(Step::Publish),
            (Some(Next { published: Some(published), .. }), _) => {
                (now >= later(*published, lifetimes.overlap)).then_some(Step::Switch)
            }
            (None, Some(Previous { until, .. })) => (now >= *until).then_some(Step::Forget),
            (None, None) => {
                let is_old = now >= self.current.life().after(2, 3);
                let is_asked = self.asked.is_some() && self.asked != self.answered;
                (is_old || is_asked).then_some(Step::Begin)
            }
        }
    }

    /// Until when the next one waits for those who have not got it.
    pub(super) fn patience(&self, lifetimes: &Lifetimes) -> Timestamp {
        let made = self.next.as_ref().map(|next| next.signer.made());
        later(made.unwrap_or(Timestamp::MIN), lifetimes.overlap.max(PATIENCE_MIN))
    }

    /// The authority after a step that is due.
    pub fn after(
        self,
        step: Step,
        now: Timestamp,
        lifetimes: &Lifetimes,
    ) -> Result<Self, CertificateError> {
        Ok(match step {
            Step::Begin => {
                let signer = Signer::new(now, lifetimes.authority)?;
                let next = Some(Next { signer, published: None });
                Self { next, answered: self.asked.clone(), ..self }
            }
            Step::Publish => {
                let next = self.next.map(|next| Next { published: Some(now), ..next });
                Self { next, ..self }
            }
            Step::Switch => match self.next {
                None => self,
                Some(next) => {
                    let certificate = self.current.certificate;
                    // By what is in force now: later it may be less.
                    let until = later(now, lifetimes.certificate + lifetimes.overlap);
                    let previous = Some(Previous { certificate, until });
                    Self { current: next.signer, next: None, previous, ..self }
                }
            },
            Step::Forget => Self { previous: None, ..self },
            Step::Replace => {
                let current = Signer::new(now, lifetimes.authority)?;
                let (answered, revoked) = (self.asked.clone(), self.revoke.clone());
                Self { current, next: None, previous: None, answered, revoked, ..self }
            }
        })
    }
}

const PATIENCE_MIN: Duration = Duration::from_mins(10);
