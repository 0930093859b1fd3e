//! The name of a member in its certificate.

use std::fmt;
use std::str::FromStr;

use conclave_protocols::PodUid;

/// Who a member is: the one URI in its certificate,
/// `spiffe://conclave.dev/ns/NAMESPACE/sa/ACCOUNT/group/UID/pod/UID`.
///
/// There is one way to write each; whatever is written in another way names nobody.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct PeerId {
    /// The namespace of the pod and of the group.
    pub namespace: String,
    /// The `ServiceAccount` of the pod.
    pub service_account: String,
    /// The UID of the group's resource.
    pub group: PodUid,
    /// The UID of the pod.
    pub pod: PodUid,
}

/// Why a text names no member.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` names no member: expected {TRUST_DOMAIN}/ns/NAMESPACE/sa/ACCOUNT/group/UID/pod/UID")]
pub struct PeerIdError(String);

/// What all names begin with.
const TRUST_DOMAIN: &str = "spiffe://conclave.dev";

impl fmt::Display for PeerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { namespace, service_account, group, pod } = self;
        write!(f, "{TRUST_DOMAIN}/ns/{namespace}/sa/{service_account}/group/{group}/pod/{pod}")
    }
}

impl FromStr for PeerId {
    type Err = PeerIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or_else(|| PeerIdError(text.escape_default().take(SHOWN).collect()))
    }
}

fn read(text: &str) -> Option<PeerId> {
    let path = text.strip_prefix(TRUST_DOMAIN)?.strip_prefix('/')?;
    let parts: Vec<&str> = path.split('/').collect();
    let ["ns", namespace, "sa", service_account, "group", group, "pod", pod] = parts[..] else {
        return None;
    };
    let is_account = service_account.len() <= NAME_MAX && service_account.split('.').all(is_label);
    if namespace.len() > LABEL_MAX || !is_label(namespace) || !is_account {
        return None;
    }
    Some(PeerId {
        namespace: namespace.to_owned(),
        service_account: service_account.to_owned(),
        group: uid(group)?,
        pod: uid(pod)?,
    })
}

/// A UID as Kubernetes writes it: in lower case, with all its dashes.
fn uid(text: &str) -> Option<PodUid> {
    let uid: PodUid = text.parse().ok()?;
    (uid.to_string() == text).then_some(uid)
}

/// A part of a DNS name, as Kubernetes has them.
fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty() && !text.starts_with('-') && !text.ends_with('-') && text.bytes().all(inner)
}

/// The longest name of a namespace.
const LABEL_MAX: usize = 63;

/// The longest name of a `ServiceAccount`.
const NAME_MAX: usize = 253;

/// How much is shown of a text that is none.
const SHOWN: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";
    const POD: &str = "7e57ab1e-0000-4000-8000-00000000000a";

    fn good() -> String {
        format!("spiffe://conclave.dev/ns/shop/sa/till/group/{GROUP}/pod/{POD}")
    }

    #[test]
    fn a_name_reads_what_it_writes() {
        for account in ["till", "t", "till.v2", "0-0"] {
            let text = good().replace("/sa/till/", &format!("/sa/{account}/"));
            let id: PeerId = text.parse().expect("a name");
            assert_eq!(id.to_string(), text);
            assert_eq!(id.service_account, account);
            assert_eq!((id.group.to_string(), id.pod.to_string()), (GROUP.into(), POD.into()));
        }
    }

    #[test]
    fn everything_else_names_nobody() {
        let good = good();
        let other = |from: &str, to: &str| {
            assert!(good.contains(from), "{from}");
            good.replace(from, to)
        };
        let bad = [
            String::new(),
            "/".to_owned(),
            "spiffe://".to_owned(),
            "spiffe://conclave.dev".to_owned(),
            "spiffe://conclave.dev/".to_owned(),
            other("conclave.dev", "conclave.dev.example.com"),
            other("conclave.dev", "example.com"),
            other("conclave.dev", "CONCLAVE.DEV"),
            other("conclave.dev", "conclave.dev."),
            other("conclave.dev", "conclave.dev:443"),
            other("conclave.dev", "somebody@conclave.dev"),
            other("conclave.dev", ""),
            other("spiffe://", "https://"),
            other("spiffe://", "SPIFFE://"),
            other("spiffe://", "spiffe:/"),
            other("spiffe://", ""),
            format!(" {good}"),
            format!("{good} "),
            format!("{good}/"),
            format!("{good}\n"),
            format!("{good}\0"),
            format!("{good}?x"),
            format!("{good}#x"),
            format!("{good}/container/till"),
            format!("{good},{good}"),
            other("/ns/shop", ""),
            other("/sa/till", ""),
            other(&format!("/group/{GROUP}"), ""),
            other(&format!("/pod/{POD}"), ""),
            other("/ns/shop/sa/till", "/sa/till/ns/shop"),
            format!("spiffe://conclave.dev/ns/shop/sa/till/pod/{POD}/group/{GROUP}"),
            other("/ns/", "/namespace/"),
            other("/ns/", "/NS/"),
            other("/ns/", "//ns/"),
            other("/ns/", "/./ns/"),
            other("/ns/shop", "/ns/shop/../other"),
            other("shop", ""),
            other("shop", "Shop"),
            other("shop", "-shop"),
            other("shop", "shop-"),
            other("shop", "shop.other"),
            other("shop", "sh%6fp"),
            other("shop", &"s".repeat(64)),
            other("till", ""),
            other("till", "Till"),
            other("till", "till..v2"),
            other("till", ".till"),
            other("till", "till_v2"),
            other("till", "tïll"),
            other("till", &"t".repeat(254)),
            other(GROUP, ""),
            other(GROUP, "orders"),
            other(GROUP, &GROUP.to_uppercase()),
            other(GROUP, &GROUP.replace('-', "")),
            other(GROUP, &format!("{GROUP}0")),
            other(POD, ""),
            other(POD, &POD.to_uppercase()),
            other(POD, &POD.replace('-', "")),
            other(POD, &POD[..35]),
            other(POD, &POD.replace('7', "g")),
            other(POD, &format!("{{{POD}}}")),
        ];
        assert!(bad.len() >= 50);
        for text in bad {
            assert!(text.parse::<PeerId>().is_err(), "{text:?}");
        }
    }
}
