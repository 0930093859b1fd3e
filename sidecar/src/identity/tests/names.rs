//! Whose a certificate is.

use conclave_pods::PeerId;
use rcgen::{CertificateParams, SanType};

use super::*;

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().expect("ASCII"))
}

fn read(change: impl FnOnce(&mut CertificateParams)) -> Result<Leaf, LeafError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let (_, pem) = certified(&AUTHORITY, &id(1, 2), change);
    Leaf::read(&CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM"))
}

#[test]
fn a_certificate_says_whose_it_is_and_how_long_it_is_good() {
    let leaf = read(|_| {}).expect("a member's certificate");
    assert_eq!(leaf.id, id(1, 2));
    let now = std::time::SystemTime::now();
    assert!(leaf.begins <= now - Duration::from_mins(4));
    assert!(leaf.ends >= now + Duration::from_hours(23));
}

#[test]
fn a_certificate_with_any_other_names_is_nobodys() {
    let good = id(1, 2).to_string();
    let mine = || uri(&good);
    let dns = || SanType::DnsName("till.shop.svc".try_into().expect("ASCII"));
    let ip = || SanType::IpAddress([10, 0, 0, 1].into());
    let mail = || SanType::Rfc822Name("till@example.com".try_into().expect("ASCII"));
    for names in [
        vec![],
        vec![dns()],
        vec![ip()],
        vec![mine(), mine()],
        vec![mine(), uri(&id(1, 3).to_string())],
        vec![mine(), dns()],
        vec![dns(), mine()],
        vec![mine(), ip()],
        vec![mine(), mail()],
    ] {
        let read = read(|params| params.subject_alt_names.clone_from(&names));
        assert_eq!(read, Err(LeafError::Names), "{names:?}");
    }
    let foreign = read(|params| params.subject_alt_names = vec![uri("spiffe://example.com/x")]);
    assert!(matches!(foreign, Err(LeafError::Id(_))));
    assert_eq!(Leaf::read(b"no certificate"), Err(LeafError::Malformed));
}

#[test]
fn a_member_takes_only_its_own_certificate_for_its_own_key_of_its_own_authority() {
    let me = id(1, 2);
    let take = |of: &PeerId, by: &LocalAuthority, key: Option<KeyPair>| {
        let (own, certificate) = certified(by, of, |_| {});
        let key = key.unwrap_or(own);
        Credentials::new(me.group, me.pod, &key, &certificate, bundle_of(&[&AUTHORITY]))
    };
    assert!(take(&me, &AUTHORITY, None).is_ok());
    assert!(matches!(take(&id(1, 3), &AUTHORITY, None), Err(CredentialsError::Foreign(_))));
    assert!(matches!(take(&id(2, 2), &AUTHORITY, None), Err(CredentialsError::Foreign(_))));
    assert!(matches!(take(&me, &authority(), None), Err(CredentialsError::Tls(_))));
    let other = KeyPair::generate().expect("a key");
    assert!(matches!(take(&me, &AUTHORITY, Some(other)), Err(CredentialsError::Tls(_))));
}

#[test]
fn a_bundle_has_certificates_and_nothing_that_cannot_be_read() {
    assert_eq!(Bundle::read("").err(), Some(BundleError::Empty));
    let good = AUTHORITY.bundle();
    let bad = good.replace("MII", "III");
    assert_eq!(Bundle::read(&format!("{good} {bad}")).err(), Some(BundleError::Malformed));
    assert_eq!(Bundle::read(&format!("{good} MI%")).err(), Some(BundleError::Malformed));
    assert!(Bundle::read(&format!("{good} {}", authority().bundle())).is_ok());
}
