//! Having a certificate, at all times.

use std::sync::Arc;
use std::time::Duration;

use conclave_crds::AuthorityStatus;
use conclave_protocols::PodUid;
use rcgen::KeyPair;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Bundle, Credentials, IssueError, Issuer, OwnCredentials};
use crate::metrics::Metrics;

/// Asks for a first certificate, and for the next one at half of the life of each. A changed bundle is
/// taken at once.
pub struct Renewal {
    issuer: Issuer,
    group: PodUid,
    pod: PodUid,
    metrics: Metrics,
    /// Where the authority is, and its certificates; nothing before the operator has announced it.
    authority: watch::Receiver<Option<AuthorityStatus>>,
    held: watch::Sender<Option<Arc<Credentials>>>,
    missing: watch::Sender<String>,
    /// The last authority that was announced and could be used.
    known: Option<(String, Bundle)>,
    /// When to ask again after a failure, and how long to wait after the next one.
    again: Instant,
    pause: Duration,
    /// What is left of the certificate when it is renewed.
    reserve: Duration,
}

/// The pause after a first failure; doubled after each, up to the longest.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// Between two looks at the wall clock, which may be set, or go on while the machine sleeps.
const LOOK: Duration = Duration::from_secs(30);

impl Renewal {
    /// Prepares to have certificates for this pod as a member of this group.
    pub fn new(
        issuer: Issuer,
        group: PodUid,
        pod: PodUid,
        authority: watch::Receiver<Option<AuthorityStatus>>,
        metrics: Metrics,
    ) -> Self {
        Self {
            issuer,
            group,
            pod,
            metrics,
            authority,
            held: watch::Sender::new(None),
            missing: watch::Sender::new(String::new()),
            known: None,
            again: Instant::now(),
            pause: PAUSE.0,
            reserve: Duration::ZERO,
        }
    }

    /// The credentials, whenever they change.
    pub fn held(&self) -> OwnCredentials {
        self.held.subscribe()
    }

    /// What is missing before there are any.
    pub fn missing(&self) -> watch::Receiver<String> {
        self.missing.subscribe()
    }

    /// Runs until this is dropped.
    pub async fn run(mut self) {
        self.adopt();
        loop {
            let wait = self.wait();
            tokio::select! {
                biased;
                Ok(()) = self.authority.changed() => self.adopt(),
                () = tokio::time::sleep(wait.min(LOOK)) => {
                    if wait.is_zero() {
                        self.renew().await;
                    }
                }
            }
        }
    }

    /// Takes note of what the operator says of its authority.
    fn adopt(&mut self) {
        let Some(sent) = self.authority.borrow_and_update().clone() else {
            return self.lacks("the operator has not published where its authority is");
        };
        match Bundle::read(&sent.bundle) {
            Ok(bundle) => {
                self.trust(&bundle);
                self.known = Some((sent.address, bundle));
                // What failed there may succeed here.
                (self.again, self.pause) = (Instant::now(), PAUSE.0);
            }
            Err(error) => {
                warn!(%error, "the operator's authority");
                self.lacks(&error.to_string());
            }
        }
    }

    /// Believes this bundle alone from now on.
    fn trust(&self, bundle: &Bundle) {
        let held = self.held.borrow().clone();
        let Some(held) = held.filter(|held| held.bundle() != bundle) else { return };
        info!(?bundle, "the authority's bundle has changed");
        match held.trusting(bundle.clone()) {
            Ok(credentials) => {
                self.held.send_replace(Some(Arc::new(credentials)));
            }
            Err(error) => warn!(%error, "take the authority's bundle"),
        }
    }

    /// How long until the next request; zero if it is due.
    fn wait(&self) -> Duration {
        if self.known.is_none() {
            return Duration::MAX;
        }
        let held = self.held.borrow();
        let good = held.as_ref().filter(|held| held.is_believed());
        let good = good.map_or(Duration::ZERO, |held| held.remaining());
        let again = self.again.saturating_duration_since(Instant::now());
        good.saturating_sub(self.reserve).max(again)
    }

    async fn renew(&mut self) {
        let Some((address, bundle)) = self.known.clone() else { return };
        let asked = self.ask(&address, bundle).await;
        let requests = &self.metrics.certificates.requests;
        match asked {
            Ok(credentials) => {
                requests.with_label_values(&["success"]).inc();
                self.hold(credentials);
            }
            Err(error) => {
                requests.with_label_values(&[error.label()]).inc();
                warn!(%error, "no certificate");
                self.lacks(&error.to_string());
                self.again = Instant::now() + part(self.pause, 50);
                self.pause = (self.pause * 2).min(PAUSE.1);
            }
        }
    }

    async fn ask(&self, address: &str, bundle: Bundle) -> Result<Credentials, IssueError> {
        let key = KeyPair::generate()?;
        let certificate = self.issuer.issue(address, &bundle, &key).await?;
        Credentials::new(self.group, self.pod, &key, &certificate, bundle)
            .map_err(|error| IssueError::Unusable(error.to_string()))
    }

    fn hold(&mut self, credentials: Credentials) {
        // However short its life is.
        (self.again, self.pause) = (Instant::now() + PAUSE.0, PAUSE.0);
        let left = credentials.remaining();
        self.reserve = left.saturating_sub(part(left / 2, 90));
        let ends = credentials.leaf().ends;
        self.metrics.certificates.expires(ends, self.reserve);
        info!(id = %credentials.leaf().id, seconds = left.as_secs(), "a new certificate");
        self.held.send_replace(Some(Arc::new(credentials)));
    }

    /// Says what is missing, as long as there never was a certificate.
    fn lacks(&self, why: &str) {
        if self.held.borrow().is_none() {
            self.missing.send_replace(format!("no certificate yet: {why}"));
        }
    }
}

/// A part of a period by chance, of at least so many per cent, so that members do not ask all at once.
fn part(period: Duration, at_least: u32) -> Duration {
    let chance = getrandom::u32().expect("the system has a source of chance");
    period * (at_least + chance % (101 - at_least)) / 100
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::tests::{authority, id};
    use crate::identity::{AuthorityClient, LocalAuthority};

    fn renewal(issuer: Issuer, authority: &LocalAuthority) -> Renewal {
        let sent = AuthorityStatus { address: String::new(), bundle: authority.bundle() };
        let (_, sent) = watch::channel(Some(sent));
        let me = id(1, 2);
        let mut renewal = Renewal::new(issuer, me.group, me.pod, sent, Metrics::new("orders"));
        renewal.adopt();
        renewal
    }

    #[tokio::test]
    async fn a_certificate_is_renewed_at_half_of_its_life() {
        let authority = Arc::new(authority());
        let issuer = Issuer::Local(Arc::clone(&authority), id(1, 2));
        let mut renewal = renewal(issuer, &authority);
        assert!(renewal.wait().is_zero(), "the first at once");
        renewal.renew().await;
        let left = renewal.held.borrow().as_ref().expect("credentials").remaining();
        let wait = renewal.wait();
        assert!(wait <= left / 2 && wait >= left * 44 / 100, "{wait:?} of {left:?}");
    }

    #[tokio::test]
    async fn failures_are_further_and_further_apart_and_a_new_authority_is_asked_at_once() {
        let client = AuthorityClient::new("orders", "/nowhere/token".into());
        let mut renewal = renewal(Issuer::Authority(client), &authority());
        for pause in [1, 2, 4, 8, 16, 32, 60, 60].map(Duration::from_secs) {
            let before = Instant::now();
            renewal.renew().await;
            assert!(renewal.again >= before + pause / 2, "{pause:?}");
            assert!(renewal.again <= Instant::now() + pause, "{pause:?}");
        }
        assert!(!renewal.wait().is_zero());
        renewal.adopt();
        assert!(renewal.wait().is_zero());
    }
}
