//! The certificate that the API server is shown where somebody else makes it, such as cert-manager:
//! a pair of files that are replaced before the certificate ends.
//!
//! The kubelet replaces all files of a Secret at once, but they are read one after the other. So a
//! certificate is taken only with the key that belongs to it; otherwise the last pair stays in use,
//! and the next look finds a whole one.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;
use tokio::time::sleep;
use tracing::{info, warn};
use x509_parser::parse_x509_certificate;

use crate::metrics::Metrics;
use crate::telemetry::chain;

/// What reads the files again and again.
pub struct Mounted {
    directory: PathBuf,
    metrics: Metrics,
    taken: Option<Pair>,
    shown: watch::Sender<Option<Arc<CertifiedKey>>>,
}

/// What the files hold. There is no `Debug`: a key belongs into no log.
#[derive(Eq, PartialEq)]
struct Pair {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// Why files are not taken. The last ones that were stay in use.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// A file cannot be read.
    #[error("`{0}` cannot be read")]
    Unreadable(PathBuf, #[source] io::Error),
    /// A file is no PEM, or has not what it should have.
    #[error("`{0}` has not what it should have")]
    Pem(&'static str, #[source] pem::Error),
    /// The two do not belong together, or are of no use for TLS.
    #[error("certificate and key cannot be used together")]
    Pair(#[from] rustls::Error),
    /// It is not known until when the certificate is valid.
    #[error("the certificate cannot be read")]
    Certificate,
}

impl Mounted {
    /// The files in this directory, which nobody has looked at yet.
    pub fn new(directory: PathBuf, metrics: Metrics) -> Self {
        Self { directory, metrics, taken: None, shown: watch::Sender::new(None) }
    }

    /// What is to be shown.
    pub(super) fn shown(&self) -> watch::Receiver<Option<Arc<CertifiedKey>>> {
        self.shown.subscribe()
    }

    /// Looks again and again, for good.
    pub async fn watch(mut self) {
        loop {
            if let Err(error) = self.look() {
                warn!(error = chain(&error), "the certificate of the webhook stays as it is");
            }
            sleep(PAUSE).await;
        }
    }

    /// Reads the files once; says whether they were new. They are small and in memory, so nobody
    /// waits for them.
    pub fn look(&mut self) -> Result<bool, MountError> {
        let pair = Pair { certificate: self.read(CERTIFICATE)?, key: self.read(KEY)? };
        if self.taken.as_ref() == Some(&pair) {
            return Ok(false);
        }
        let (certified, ends) = pair.certified()?;
        self.shown.send_replace(Some(Arc::new(certified)));
        self.metrics.webhook_certificate_ends(ends);
        self.taken = Some(pair);
        info!(until = %ends, "the webhook has a new certificate");
        Ok(true)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, MountError> {
        let path = self.directory.join(name);
        fs::read(&path).map_err(|error| MountError::Unreadable(path, error))
    }
}

impl Pair {
    /// What TLS needs, and when the certificate ends.
    fn certified(&self) -> Result<(CertifiedKey, Timestamp), MountError> {
        let certificates = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| MountError::Pem(CERTIFICATE, error))?;
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| MountError::Pem(KEY, error))?;
        let certified = CertifiedKey::from_der(certificates, key, &ring::default_provider())?;
        let leaf = certified.end_entity_cert()?;
        let (_, leaf) = parse_x509_certificate(leaf).map_err(|_| MountError::Certificate)?;
        let ends = Timestamp::from_second(leaf.validity().not_after.timestamp())
            .map_err(|_| MountError::Certificate)?;
        Ok((certified, ends))
    }
}

/// What the files are called in a Secret of the type `kubernetes.io/tls`.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";

/// How often the files are read. The kubelet takes a minute or so to bring a Secret's new content.
const PAUSE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey as Made, generate_simple_self_signed};
    use tempfile::TempDir;

    use super::*;

    fn made() -> Made<rcgen::KeyPair> {
        generate_simple_self_signed(["operator".to_owned()]).expect("a certificate")
    }

    /// The files of a Secret that has this certificate and this key.
    fn put(directory: &TempDir, certificate: &str, key: &str) {
        fs::write(directory.path().join(CERTIFICATE), certificate).expect("written");
        fs::write(directory.path().join(KEY), key).expect("written");
    }

    fn mounted(directory: &TempDir) -> Mounted {
        Mounted::new(directory.path().to_owned(), Metrics::new().expect("metrics"))
    }

    /// The certificate that is shown, in DER.
    fn shown(mounted: &Mounted) -> Option<Vec<u8>> {
        let shown = mounted.shown.borrow();
        shown.as_ref().map(|shown| shown.end_entity_cert().expect("a certificate").to_vec())
    }

    #[test]
    fn files_are_taken_when_they_are_new() {
        let directory = TempDir::new().expect("a directory");
        let mut mounted = mounted(&directory);
        let (first, second) = (made(), made());
        put(&directory, &first.cert.pem(), &first.signing_key.serialize_pem());
        assert!(mounted.look().expect("taken"));
        assert_eq!(shown(&mounted).as_deref(), Some(&**first.cert.der()));
        assert!(!mounted.look().expect("as before"), "nothing is new");

        // With the certificate of its signer behind, as cert-manager writes it.
        let chain = format!("{}{}", second.cert.pem(), first.cert.pem());
        put(&directory, &chain, &second.signing_key.serialize_pem());
        assert!(mounted.look().expect("taken"));
        assert_eq!(shown(&mounted).as_deref(), Some(&**second.cert.der()));
        let chain = mounted.shown.borrow().as_ref().map(|shown| shown.cert.len());
        assert_eq!(chain, Some(2), "the chain is shown too");
    }

    #[test]
    fn the_last_pair_stays_until_there_is_another_whole_one() {
        let directory = TempDir::new().expect("a directory");
        let mut mounted = mounted(&directory);
        let error = mounted.look().expect_err("there are no files yet");
        assert!(matches!(error, MountError::Unreadable(..)), "{error}");
        assert_eq!(shown(&mounted), None);

        let (first, second) = (made(), made());
        let (first_key, second_key) =
            (first.signing_key.serialize_pem(), second.signing_key.serialize_pem());
        put(&directory, &first.cert.pem(), &first_key);
        mounted.look().expect("taken");
        for (certificate, key) in [
            (second.cert.pem(), first_key),
            (first.cert.pem(), second_key.clone()),
            (String::new(), second_key.clone()),
            (second.cert.pem(), String::new()),
            ("no PEM".to_owned(), "no PEM".to_owned()),
        ] {
            put(&directory, &certificate, &key);
            let error = mounted.look().expect_err("no pair");
            assert!(!format!("{error:?}").contains("PRIVATE"), "no key in a log");
            assert_eq!(shown(&mounted).as_deref(), Some(&**first.cert.der()));
        }
        put(&directory, &second.cert.pem(), &second_key);
        assert!(mounted.look().expect("taken"));
        assert_eq!(shown(&mounted).as_deref(), Some(&**second.cert.der()));
    }

    #[tokio::test(start_paused = true)]
    async fn replaced_files_are_read_though_nobody_announces_them() {
        let directory = TempDir::new().expect("a directory");
        let mounted = mounted(&directory);
        let (metrics, mut shown) = (mounted.metrics.clone(), mounted.shown());
        tokio::spawn(mounted.watch());
        let one = made();
        sleep(PAUSE / 2).await;
        assert!(shown.borrow().is_none());
        put(&directory, &one.cert.pem(), &one.signing_key.serialize_pem());
        sleep(PAUSE).await;
        let found = shown.borrow_and_update().clone().expect("it was found");
        assert_eq!(&**found.end_entity_cert().expect("a certificate"), &**one.cert.der());
        let text = String::from_utf8(metrics.text().expect("a text")).expect("UTF-8");
        let gauge = "conclave_webhook_certificate_expiry_timestamp_seconds";
        let ends = text.lines().find_map(|line| line.strip_prefix(gauge)?.trim().parse().ok());
        // The year 4096, which is what the certificates of the test have.
        assert_eq!(ends, Some(67_090_118_400_i64));
        sleep(PAUSE * 10).await;
        assert!(!shown.has_changed().expect("it goes on"), "the same files are not taken twice");
    }
}
