//! The certificate authority by which the members of a group know one another.
//!
//! Its state is the Secret [`SECRET_NAME`] in the operator's namespace ([`secret`]). The replica that
//! acts makes and changes it, the others read it ([`keeper`]). It is replaced long before it ends, in
//! steps that leave nobody with a certificate that the others do not trust ([`rotation`]). Every
//! replica certifies members ([`issuing`]).

mod bearer;
mod certificates;
pub mod issuing;
pub mod keeper;
pub mod mounted;
mod problem;
mod publishing;
pub mod rotation;
pub mod secret;
pub mod serving;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use rcgen::{Issuer, KeyPair};

pub use certificates::CertificateError;
pub use rotation::Step;
pub use secret::{REVOKE_ANNOTATION, ROTATE_ANNOTATION, SECRET_NAME, SecretError};

/// The certificates that are trusted, and the key that signs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Authority {
    /// What signs.
    pub current: Signer,
    /// What will sign.
    pub next: Option<Next>,
    /// What has signed.
    pub previous: Option<Previous>,
    /// What a person asked for a new authority with; whatever is new is a new question.
    pub asked: Option<String>,
    /// What the last rotation answered.
    pub answered: Option<String>,
    /// What a person revoked the authority with; whatever is new is another revocation.
    pub revoke: Option<String>,
    /// What the last revocation answered.
    pub revoked: Option<String>,
}

/// A certificate of an authority and its key.
#[derive(Clone, Eq, PartialEq)]
pub struct Signer {
    certificate: String,
    key: String,
    life: Life,
}

/// What will sign, once everybody trusts it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Next {
    /// The certificate and its key.
    pub signer: Signer,
    /// Since when every group and the webhook have the certificate, if they have.
    pub published: Option<Timestamp>,
}

/// What has signed, and is trusted while certificates of its own may live.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Previous {
    /// The certificate in PEM. The key is gone.
    pub certificate: String,
    /// Until when it is trusted.
    pub until: Timestamp,
}

/// When a certificate is valid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Life {
    /// From then on.
    pub begins: Timestamp,
    /// Until then.
    pub ends: Timestamp,
}

/// How long things last.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lifetimes {
    /// A certificate of the authority.
    pub authority: Duration,
    /// How long everybody has to learn of another authority before it matters.
    pub overlap: Duration,
    /// A certificate of a member, or of this server.
    pub certificate: Duration,
}

impl Authority {
    /// A first authority.
    pub fn new(now: Timestamp, lifetimes: &Lifetimes) -> Result<Self, CertificateError> {
        Ok(Self {
            current: Signer::new(now, lifetimes.authority)?,
            next: None,
            previous: None,
            asked: None,
            answered: None,
            revoke: None,
            revoked: None,
        })
    }

    /// The certificates that are trusted in PEM, one after another, each with one end of line behind
    /// it: somebody may have edited the Secret.
    pub fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.signer.certificate.as_str());
        let previous = self.previous.as_ref().map(|previous| previous.certificate.as_str());
        let all = [Some(self.current.certificate.as_str()), next, previous];
        all.into_iter().flatten().flat_map(|certificate| [certificate.trim(), "\n"]).collect()
    }
}

impl Signer {
    /// A new one.
    pub fn new(now: Timestamp, lifetime: Duration) -> Result<Self, CertificateError> {
        let (certificate, key) = certificates::authority(now, lifetime)?;
        Self::read(certificate, key)
    }

    /// One that was kept. Key and certificate must belong together.
    pub(crate) fn read(certificate: String, key: String) -> Result<Self, CertificateError> {
        let life = certificates::check_authority(&certificate, &key)?;
        Ok(Self { certificate, key, life })
    }

    /// The certificate in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// When it was made.
    fn made(&self) -> Timestamp {
        later(self.life.begins, certificates::BACKDATED)
    }

    /// When the certificate is valid.
    pub fn life(&self) -> Life {
        self.life
    }

    /// What signs with the key.
    fn issuer(&self) -> Result<Issuer<'static, KeyPair>, CertificateError> {
        let key = KeyPair::from_pem(&self.key)?;
        Ok(Issuer::from_ca_cert_pem(&self.certificate, key)?)
    }
}

/// Without the key, which belongs into no log.
impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("life", &self.life).finish_non_exhaustive()
    }
}

impl Life {
    /// The moment when this share of the life is over.
    pub fn after(&self, numerator: u32, denominator: u32) -> Timestamp {
        let whole = Duration::try_from(self.ends.duration_since(self.begins)).unwrap_or_default();
        later(self.begins, whole * numerator / denominator)
    }
}

/// A time and so much later; the end of time, if that is too much.
fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
