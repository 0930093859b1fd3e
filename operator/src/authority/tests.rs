use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use rcgen::CertificateParams;

use super::*;

const HOUR: Duration = Duration::from_hours(1);

const LIFETIMES: Lifetimes =
    Lifetimes { authority: Duration::from_hours(900), overlap: HOUR, certificate: HOUR };

fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time")
}

fn hours(hours: u32) -> Timestamp {
    later(start(), HOUR * hours)
}

fn fresh() -> Authority {
    Authority::new(start(), &LIFETIMES).expect("an authority")
}

/// Does what is due at this time, which must be this.
fn step(authority: Authority, at: Timestamp, expected: Step) -> Authority {
    assert_eq!(authority.due(at, &LIFETIMES), Some(expected));
    authority.after(expected, at, &LIFETIMES).expect("a step")
}

#[test]
fn an_authority_begins_to_give_way_at_two_thirds_of_its_life() {
    let authority = fresh();
    assert_eq!(authority.due(hours(599), &LIFETIMES), None);
    assert_eq!(authority.due(hours(601), &LIFETIMES), Some(Step::Begin));
}

#[test]
fn a_member_that_trusts_a_bundle_trusts_what_signs_until_the_bundle_is_replaced_twice() {
    let first = fresh();
    let begun = step(first.clone(), hours(601), Step::Begin);
    assert_eq!(begun.current, first.current, "nobody knows the next one yet");
    let next = begun.next.clone().expect("a next one").signer;
    assert_eq!(begun.bundle(), format!("{}{}", first.current.certificate, next.certificate));

    let published = step(begun, hours(700), Step::Publish);
    assert_eq!(published.due(hours(700), &LIFETIMES), None, "everybody has the overlap's time");
    let switched = step(published, hours(701), Step::Switch);
    assert_eq!(switched.current, next);
    let both = format!("{}{}", next.certificate, first.current.certificate);
    assert_eq!(switched.bundle(), both, "the last certificate of the first one lives for an hour");

    assert_eq!(switched.due(hours(702), &LIFETIMES), None);
    let forgotten = step(switched, hours(703), Step::Forget);
    assert_eq!(forgotten.bundle(), next.certificate);
    assert_eq!(forgotten.due(hours(704), &LIFETIMES), None);
}

#[test]
fn a_person_who_asks_for_another_authority_gets_one_and_no_more() {
    let mut authority = fresh();
    authority.asked = Some("today".to_owned());
    let begun = step(authority, hours(1), Step::Begin);
    let published = step(begun, hours(1), Step::Publish);
    let mut switched = step(published, hours(2), Step::Switch);
    switched.asked = Some("again".to_owned());
    assert_eq!(switched.due(hours(3), &LIFETIMES), None, "one after the other");
    let forgotten = step(switched, hours(4), Step::Forget);
    let again = step(forgotten, hours(4), Step::Begin);
    assert_eq!(again.answered.as_deref(), Some("again"));
}

#[test]
fn a_secret_keeps_all_of_an_authority_and_what_others_wrote_on_it() {
    let mut authority = fresh();
    let mut secret = authority.write(None);
    for due in [Step::Begin, Step::Publish, Step::Switch, Step::Forget, Step::Replace] {
        secret.metadata.resource_version = Some("7".to_owned());
        secret.metadata.annotations.get_or_insert_default().insert("a".to_owned(), "b".to_owned());
        authority = authority.after(due, hours(1), &LIFETIMES).expect("a step");
        secret = authority.write(Some(&secret));
        assert_eq!(Authority::read(&secret).expect("readable"), authority, "{due:?}");
        assert_eq!(secret.metadata.annotations.clone().unwrap_or_default()["a"], "b");
        assert_eq!(secret.metadata.resource_version.as_deref(), Some("7"));
    }
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
}

#[test]
fn a_key_of_another_certificate_is_no_authority() {
    let (one, other) = (fresh().current, fresh().current);
    let mixed = Signer::read(one.certificate.clone(), other.key);
    assert!(matches!(mixed, Err(CertificateError::ForeignKey)), "{mixed:?}");
    assert!(!format!("{one:?}").contains("PRIVATE"), "no key in a log");
}

/// A Secret with all that there can be in one.
fn full() -> Secret {
    let mut authority = fresh();
    for due in [Step::Begin, Step::Publish, Step::Switch, Step::Begin] {
        authority = authority.after(due, hours(1), &LIFETIMES).expect("a step");
    }
    authority.write(None)
}

#[test]
fn what_cannot_be_read_of_a_secret_is_not_taken_for_missing() {
    let read = |key: &str, bytes: Option<&[u8]>| {
        let mut secret = full();
        let data = secret.data.as_mut().expect("data");
        assert!(data.remove(key).is_some(), "{key}");
        data.extend(bytes.map(|bytes| (key.to_owned(), ByteString(bytes.to_vec()))));
        Authority::read(&secret)
    };
    for key in ["current.crt", "current.key", "next.crt", "next.key", "previous.crt"] {
        let found = read(key, Some(b"\xff"));
        assert!(matches!(found, Err(SecretError::NoText(named)) if named == key), "{found:?}");
        let found = read(key, Some(b"text"));
        assert!(matches!(found, Err(SecretError::NoAuthority(..))), "{key}: {found:?}");
    }
    for key in ["current.crt", "current.key", "next.crt", "next.key"] {
        let found = read(key, None);
        assert!(matches!(found, Err(SecretError::Missing(named)) if named == key), "{found:?}");
    }
    assert_eq!(read("previous.crt", None).expect("nobody was before").previous, None);
    let more = [fresh().current.certificate(), fresh().current.certificate()].concat();
    let found = read("previous.crt", Some(more.as_bytes()));
    assert!(matches!(found, Err(SecretError::NoAuthority(..))), "one is kept there: {found:?}");
}

#[test]
fn certificates_do_not_run_together_whatever_somebody_has_done_to_the_ends_of_lines() {
    let mut secret = full();
    let expected = Authority::read(&secret).expect("readable").bundle();
    assert_eq!(expected.matches("-----END CERTIFICATE-----\n").count(), 3);
    for end in ["", "\n\n"] {
        for bytes in secret.data.as_mut().expect("data").values_mut() {
            let text = String::from_utf8(bytes.0.clone()).expect("text");
            if text.contains("CERTIFICATE") {
                bytes.0 = format!("{}{end}", text.trim()).into_bytes();
            }
        }
        assert_eq!(Authority::read(&secret).expect("readable").bundle(), expected);
    }
}

#[test]
fn an_authority_that_has_ended_is_replaced_at_once() {
    let first = fresh();
    let replaced = step(first.clone(), hours(900), Step::Replace);
    assert_eq!(replaced.bundle(), replaced.current.certificate);
    assert_ne!(replaced.current, first.current);
    assert_eq!(replaced.due(hours(900), &LIFETIMES), None);

    let begun = step(first, hours(899), Step::Begin);
    let next = begun.next.clone().expect("a next one").signer;
    let switched = step(begun, hours(900), Step::Switch);
    assert_eq!(switched.current, next, "who has learnt of the next one trusts it");
}

#[test]
fn an_authority_that_has_ended_signs_nothing() {
    let signer = fresh().current;
    let (_, key, _) = certificates::server(&signer, &[], hours(899), HOUR).expect("a certificate");
    let request = CertificateParams::default().serialize_request(&key).expect("a request");
    let key = certificates::requested_key(&request.pem().expect("PEM")).expect("a key");
    let member = |at| certificates::member(&signer, &key, "spiffe://conclave.dev/a", at, HOUR);
    member(hours(899)).expect("a certificate");
    let ended = member(hours(900));
    assert!(matches!(ended, Err(CertificateError::Ended)), "{ended:?}");
    let ended = certificates::server(&signer, &[], hours(900), HOUR).map(|(_, _, life)| life);
    assert!(matches!(ended, Err(CertificateError::Ended)), "{ended:?}");
}

#[test]
fn what_has_signed_is_trusted_as_long_as_certificates_were_made_for() {
    let long = Lifetimes { certificate: HOUR * 24, ..LIFETIMES };
    let mut authority = fresh();
    for due in [Step::Begin, Step::Publish, Step::Switch] {
        authority = authority.after(due, hours(1), &long).expect("a step");
    }
    let kept = Authority::read(&authority.write(None)).expect("readable");
    assert_eq!(kept.due(hours(25), &LIFETIMES), None, "they are shorter since, but not those");
    assert_eq!(kept.due(hours(26), &LIFETIMES), Some(Step::Forget));
}

#[test]
fn an_authority_that_was_revoked_is_trusted_no_more_whatever_was_under_way() {
    let mut authority = fresh();
    let mut secret = authority.write(None);
    for (nth, due) in [Step::Begin, Step::Publish, Step::Switch].into_iter().enumerate() {
        authority = authority.after(due, hours(1), &LIFETIMES).expect("a step");
        secret = authority.write(Some(&secret));
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(REVOKE_ANNOTATION.to_owned(), nth.to_string());
        let before = Authority::read(&secret).expect("readable");
        let after = step(before.clone(), hours(1), Step::Replace);
        assert_eq!(after.bundle(), after.current.certificate, "{due:?}");
        assert!(!before.bundle().contains(&after.current.certificate));
        let kept = Authority::read(&after.write(Some(&secret))).expect("readable");
        assert_eq!(kept, after);
        assert_eq!(kept.due(hours(2), &LIFETIMES), None, "once is enough");
    }
}
