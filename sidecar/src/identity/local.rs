//! An authority within this process: what `conclave dev` has in place of the operator.

use std::time::{Duration, SystemTime};

use conclave_crds::AuthorityStatus;
use conclave_pods::PeerId;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData, SanType,
};

/// Certifies everybody that asks.
pub struct LocalAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// How long a certificate is good.
const LIFE: Duration = Duration::from_hours(24);

/// By how much earlier than it is made a certificate begins: clocks differ.
const BACKDATED: Duration = Duration::from_mins(5);

/// How long the authority is good.
const AUTHORITY_LIFE: Duration = Duration::from_hours(24 * 3_650);

impl LocalAuthority {
    /// Makes an authority with a key of its own.
    pub fn new() -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name("conclave");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (SystemTime::now() - BACKDATED).into();
        params.not_after = (SystemTime::now() + AUTHORITY_LIFE).into();
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// Its certificate, as the status of a group has it.
    pub fn bundle(&self) -> String {
        AuthorityStatus::new(String::new(), &self.issuer.pem()).bundle
    }

    /// A certificate for a member's key, in PEM.
    pub fn certify(&self, id: &PeerId, key: &impl PublicKeyData) -> Result<String, rcgen::Error> {
        self.sign(&params(id)?, key)
    }

    pub(super) fn sign(
        &self,
        params: &CertificateParams,
        key: &impl PublicKeyData,
    ) -> Result<String, rcgen::Error> {
        Ok(params.signed_by(key, &self.issuer)?.pem())
    }
}

/// What is in a member's certificate.
pub(super) fn params(id: &PeerId) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("conclave member");
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = vec![SanType::URI(id.to_string().try_into()?)];
    params.not_before = (SystemTime::now() - BACKDATED).into();
    params.not_after = (SystemTime::now() + LIFE).into();
    Ok(params)
}

fn name(common: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    name
}
