//! Certificates: asked for, renewed, and read.

mod asking;
mod names;
mod server;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use conclave_pods::PeerId;
use conclave_protocols::PodUid;
use rcgen::{CertificateParams, KeyPair};
use tokio::sync::watch;

use super::local::params;
use super::*;

/// The authority of all groups in tests.
static AUTHORITY: LazyLock<LocalAuthority> = LazyLock::new(authority);

pub(crate) fn authority() -> LocalAuthority {
    LocalAuthority::new().expect("an authority")
}

pub(crate) fn id(group: u128, pod: u128) -> PeerId {
    PeerId {
        namespace: "shop".to_owned(),
        service_account: "till".to_owned(),
        group: PodUid(group),
        pod: PodUid(pod),
    }
}

pub(crate) fn bundle_of(authorities: &[&LocalAuthority]) -> Bundle {
    let all: Vec<_> = authorities.iter().map(|authority| authority.bundle()).collect();
    Bundle::read(&all.join(" ")).expect("a bundle")
}

/// What is in the certificate of a member.
pub(crate) fn params_of(id: &PeerId) -> CertificateParams {
    params(id).expect("a name")
}

/// A key, and a certificate for it, which may be changed before it is signed.
pub(crate) fn certified(
    authority: &LocalAuthority,
    id: &PeerId,
    change: impl FnOnce(&mut CertificateParams),
) -> (KeyPair, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = params_of(id);
    change(&mut params);
    let certificate = authority.sign(&params, &key).expect("a certificate");
    (key, certificate)
}

/// The credentials of a member who believes these authorities.
pub(crate) fn credentials(
    by: &LocalAuthority,
    id: &PeerId,
    believed: &[&LocalAuthority],
) -> Arc<Credentials> {
    let (key, certificate) = certified(by, id, |_| {});
    let credentials = Credentials::new(id.group, id.pod, &key, &certificate, bundle_of(believed));
    Arc::new(credentials.expect("credentials"))
}

/// The credentials of a member of a group, for as long as a test takes.
pub(crate) fn held(group: u128, pod: PodUid) -> OwnCredentials {
    let credentials = credentials(&AUTHORITY, &id(group, pod.0), &[&AUTHORITY]);
    watch::Sender::new(Some(credentials)).subscribe()
}

/// Waits until something is so, but not for ever.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what}: not in time"));
}

/// Far more than anything takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
