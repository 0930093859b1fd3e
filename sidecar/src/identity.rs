//! Who a member is, and who its peers are: certificates of the operator's authority.
//!
//! A member has a key that never leaves its memory, and a certificate that names its group and its
//! pod ([`conclave_pods::PeerId`]). It makes a new key for each certificate, and asks for the next one at half of the
//! life of the last ([`Renewal`]). Whom it believes is decided by the *bundle*, the certificates
//! of the authority in the status of the group's resource. Addresses prove nothing.

mod authority;
mod bundle;
mod credentials;
mod issuer;
mod leaf;
mod local;
mod renewal;
#[cfg(test)]
pub(crate) mod tests;
mod verifier;

use std::sync::Arc;

use tokio::sync::watch;

pub use authority::AuthorityClient;
pub use bundle::{Bundle, BundleError};
pub use credentials::{Credentials, CredentialsError};
pub use issuer::{IssueError, Issuer};
pub use leaf::{Leaf, LeafError};
pub use local::LocalAuthority;
pub use renewal::Renewal;
pub use verifier::Distrust;

/// The credentials of a member, whenever they change; nothing before it has any.
pub type OwnCredentials = watch::Receiver<Option<Arc<Credentials>>>;
