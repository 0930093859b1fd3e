//! Makes certificates and reads requests for them.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
    PublicKey, PublicKeyData, SanType, SerialNumber,
};
use x509_parser::pem::parse_x509_pem;

use super::{Life, Signer, later};

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// It cannot be made or read.
    #[error("a certificate cannot be made or read")]
    Certificate(#[from] rcgen::Error),
    /// There is no randomness for a serial number.
    #[error("no randomness")]
    Randomness(#[from] getrandom::Error),
    /// A certificate of an authority is none.
    #[error("a certificate of the authority cannot be read")]
    Unreadable,
    /// The certificate that would sign has ended.
    #[error("the authority has ended")]
    Ended,
    /// A key belongs to another certificate.
    #[error("a key of the authority belongs to another certificate")]
    ForeignKey,
}

/// Why a request for a certificate is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum RequestError {
    #[error("`request` must be a PKCS#10 request in PEM that its own key has signed")]
    Unreadable,
    #[error("the key in `request` must be one of ECDSA with the curve P-256")]
    OtherKey,
}

/// A certificate of an authority and its key, in PEM.
pub(super) fn authority(
    now: Timestamp,
    lifetime: Duration,
) -> Result<(String, String), CertificateError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let life = Life { begins: backdated(now), ends: later(now, lifetime) };
    let mut params = params(life)?;
    // Each has a name of its own, so that of two that are trusted at a time the right one is found.
    params.distinguished_name.push(DnType::CommonName, format!("Conclave authority of {now:.0}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Whether this is an authority's certificate with its key, and when it is valid.
pub(super) fn check_authority(certificate: &str, key: &str) -> Result<Life, CertificateError> {
    let key = KeyPair::from_pem(key)?;
    check(certificate, Some(key.der_bytes()))
}

/// Whether this is one certificate, and when it is valid.
pub(super) fn check_certificate(certificate: &str) -> Result<Life, CertificateError> {
    check(certificate, None)
}

fn check(certificate: &str, key: Option<&[u8]>) -> Result<Life, CertificateError> {
    let unreadable = |_| CertificateError::Unreadable;
    let (rest, pem) = parse_x509_pem(certificate.as_bytes()).map_err(unreadable)?;
    // Whatever follows would be trusted, too.
    if !rest.trim_ascii().is_empty() {
        return Err(CertificateError::Unreadable);
    }
    let parsed = pem.parse_x509().map_err(|_| CertificateError::Unreadable)?;
    let found = parsed.public_key().subject_public_key.data.as_ref();
    if key.is_some_and(|key| key != found) {
        return Err(CertificateError::ForeignKey);
    }
    let validity = parsed.validity();
    let second =
        |seconds| Timestamp::from_second(seconds).map_err(|_| CertificateError::Unreadable);
    Ok(Life {
        begins: second(validity.not_before.timestamp())?,
        ends: second(validity.not_after.timestamp())?,
    })
}

/// A certificate of a member, in PEM: for this key and this name, and nothing else that the member
/// asked for.
pub(super) fn member(
    signer: &Signer,
    key: &PublicKey,
    name: &str,
    now: Timestamp,
    lifetime: Duration,
) -> Result<String, CertificateError> {
    let mut params = leaf(signer, now, lifetime)?;
    params.subject_alt_names = vec![SanType::URI(name.try_into()?)];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params.signed_by(key, &signer.issuer()?)?.pem())
}

/// A certificate of this server with its key.
pub(super) fn server(
    signer: &Signer,
    names: &[String],
    now: Timestamp,
    lifetime: Duration,
) -> Result<(rcgen::Certificate, KeyPair, Life), CertificateError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let mut params = leaf(signer, now, lifetime)?;
    let dns = |name: &String| Ok(SanType::DnsName(name.as_str().try_into()?));
    params.subject_alt_names = names.iter().map(dns).collect::<Result<_, rcgen::Error>>()?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let life = Life { begins: now, ends: leaf_end(signer, now, lifetime) };
    Ok((params.signed_by(&key, &signer.issuer()?)?, key, life))
}

/// The key in a request, which proves that the one that asks has it. Nothing else of it is looked at.
pub(super) fn requested_key(request: &str) -> Result<PublicKey, RequestError> {
    let request =
        CertificateSigningRequestParams::from_pem(request).map_err(|_| RequestError::Unreadable)?;
    let key = request.public_key;
    // The algorithm is that of the signature, which fits keys of other curves too.
    let is_p256 = *key.algorithm() == PKCS_ECDSA_P256_SHA256 && key.der_bytes().len() == P256_POINT;
    if is_p256 { Ok(key) } else { Err(RequestError::OtherKey) }
}

fn leaf(
    signer: &Signer,
    now: Timestamp,
    lifetime: Duration,
) -> Result<CertificateParams, CertificateError> {
    let life = Life { begins: backdated(now), ends: leaf_end(signer, now, lifetime) };
    if life.ends <= now {
        return Err(CertificateError::Ended);
    }
    let mut params = params(life)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

/// No certificate outlives the one that signed it.
fn leaf_end(signer: &Signer, now: Timestamp, lifetime: Duration) -> Timestamp {
    later(now, lifetime).min(signer.life().ends)
}

fn params(life: Life) -> Result<CertificateParams, CertificateError> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial)?;
    // A positive number without a zero in front.
    serial[0] = serial[0] & 0x3f | 0x40;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    params.not_before = SystemTime::from(life.begins).into();
    params.not_after = SystemTime::from(life.ends).into();
    Ok(params)
}

/// The clocks of nodes differ.
fn backdated(now: Timestamp) -> Timestamp {
    now.checked_sub(BACKDATED).unwrap_or(now)
}

pub(super) const BACKDATED: Duration = Duration::from_mins(5);

/// The length of an uncompressed point of P-256.
const P256_POINT: usize = 65;
