//! The Secret that keeps the authority.
//!
//! | key | holds |
//! | --- | --- |
//! | `current.crt`, `current.key` | what signs |
//! | `next.crt`, `next.key` | what will sign, while there is such |
//! | `previous.crt` | what has signed, while it is trusted |
//!
//! | annotation | says |
//! | --- | --- |
//! | `conclave.dev/rotate` | set by a person to anything new: rotate now |
//! | `conclave.dev/rotated` | the last such text that was answered |
//! | `conclave.dev/revoke` | set by a person to anything new: trust none of these keys any more |
//! | `conclave.dev/revoked` | the last such text that was answered |
//! | `conclave.dev/next-published` | since when everybody has `next.crt` |
//! | `conclave.dev/previous-until` | until when `previous.crt` is trusted |

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;

use super::{Authority, CertificateError, Next, Previous, Signer, certificates};

/// The name of the Secret in the operator's namespace.
pub const SECRET_NAME: &str = "conclave-authority";

/// The annotation by which a person asks for a new authority.
pub const ROTATE_ANNOTATION: &str = "conclave.dev/rotate";

/// The annotation by which a person has an authority replaced at once.
pub const REVOKE_ANNOTATION: &str = "conclave.dev/revoke";

/// Why a Secret is no authority. It is never overwritten then: somebody must look.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A key is missing.
    #[error("the key `{0}` is missing")]
    Missing(&'static str),
    /// What a key holds is no text.
    #[error("what the key `{0}` holds is no text")]
    NoText(&'static str),
    /// An annotation is missing, or is no time.
    #[error("the annotation `{0}` is missing or no time")]
    NoTime(&'static str),
    /// A certificate cannot be read, or has another key.
    #[error("what is kept as `{0}` is no authority")]
    NoAuthority(&'static str, #[source] CertificateError),
}

impl Authority {
    /// What a Secret keeps.
    pub fn read(secret: &Secret) -> Result<Self, SecretError> {
        let next = match (text(secret, NEXT_CERTIFICATE)?, text(secret, NEXT_KEY)?) {
            (None, None) => None,
            (Some(_), _) | (_, Some(_)) => Some(Next {
                signer: signer(secret, "next", NEXT_CERTIFICATE, NEXT_KEY)?,
                published: secret
                    .annotations()
                    .contains_key(PUBLISHED)
                    .then(|| time(secret, PUBLISHED))
                    .transpose()?,
            }),
        };
        let previous = match text(secret, PREVIOUS_CERTIFICATE)? {
            None => None,
            Some(certificate) => {
                certificates::check_certificate(&certificate)
                    .map_err(|error| SecretError::NoAuthority("previous", error))?;
                Some(Previous { certificate, until: time(secret, UNTIL)? })
            }
        };
        let annotation = |name| secret.annotations().get(name).cloned();
        Ok(Self {
            current: signer(secret, "current", CURRENT_CERTIFICATE, CURRENT_KEY)?,
            next,
            previous,
            asked: annotation(ROTATE_ANNOTATION),
            answered: annotation(ANSWERED),
            revoke: annotation(REVOKE_ANNOTATION),
            revoked: annotation(REVOKED),
        })
    }

    /// The Secret that keeps it, in place of the one before. What others wrote on that one stays.
    pub fn write(&self, before: Option<&Secret>) -> Secret {
        let mut secret = before.cloned().unwrap_or_else(empty);
        let mut data = BTreeMap::new();
        let mut put = |key: &str, text: &str| {
            data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
        };
        put(CURRENT_CERTIFICATE, &self.current.certificate);
        put(CURRENT_KEY, &self.current.key);
        if let Some(next) = &self.next {
            put(NEXT_CERTIFICATE, &next.signer.certificate);
            put(NEXT_KEY, &next.signer.key);
        }
        if let Some(previous) = &self.previous {
            put(PREVIOUS_CERTIFICATE, &previous.certificate);
        }
        secret.data = Some(data);
        let published = self.next.as_ref().and_then(|next| next.published);
        let until = self.previous.as_ref().map(|previous| previous.until);
        let annotations = secret.annotations_mut();
        for (name, value) in [
            (PUBLISHED, published.map(|time| time.to_string())),
            (UNTIL, until.map(|time| time.to_string())),
            (ANSWERED, self.answered.clone()),
            (REVOKED, self.revoked.clone()),
        ] {
            match value {
                Some(value) => annotations.insert(name.to_owned(), value),
                None => annotations.remove(name),
            };
        }
        secret
    }
}

fn empty() -> Secret {
    let managed = ("app.kubernetes.io/managed-by".to_owned(), crate::FIELD_MANAGER.to_owned());
    let part = ("app.kubernetes.io/part-of".to_owned(), "conclave".to_owned());
    let metadata = ObjectMeta {
        name: Some(SECRET_NAME.to_owned()),
        labels: Some(BTreeMap::from([managed, part])),
        ..ObjectMeta::default()
    };
    Secret { metadata, type_: Some("Opaque".to_owned()), ..Secret::default() }
}

fn signer(
    secret: &Secret,
    name: &'static str,
    certificate: &'static str,
    key: &'static str,
) -> Result<Signer, SecretError> {
    let needed = |name| text(secret, name)?.ok_or(SecretError::Missing(name));
    Signer::read(needed(certificate)?, needed(key)?)
        .map_err(|error| SecretError::NoAuthority(name, error))
}

/// The text of a key, if there is such a key. What is there and cannot be read is not as if it were
/// missing: then the next write would delete it.
fn text(secret: &Secret, key: &'static str) -> Result<Option<String>, SecretError> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(key));
    let text = bytes.map(|bytes| String::from_utf8(bytes.0.clone()));
    text.transpose().map_err(|_| SecretError::NoText(key))
}

fn time(secret: &Secret, annotation: &'static str) -> Result<Timestamp, SecretError> {
    let text = secret.annotations().get(annotation);
    text.and_then(|text| text.parse().ok()).ok_or(SecretError::NoTime(annotation))
}

const CURRENT_CERTIFICATE: &str = "current.crt";
const CURRENT_KEY: &str = "current.key";
const NEXT_CERTIFICATE: &str = "next.crt";
const NEXT_KEY: &str = "next.key";
const PREVIOUS_CERTIFICATE: &str = "previous.crt";
const PUBLISHED: &str = "conclave.dev/next-published";
const UNTIL: &str = "conclave.dev/previous-until";
const ANSWERED: &str = "conclave.dev/rotated";
const REVOKED: &str = "conclave.dev/revoked";
