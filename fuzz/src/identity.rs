//! What a peer shows of itself: the name of a member, and the certificate that has it.

use conclave_pods::PeerId;
use conclave_sidecar::identity::Leaf;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

/// There is one way to write a name; a certificate that is read has one, and no other.
pub(crate) fn run(input: &[u8]) {
    if let Ok(text) = std::str::from_utf8(input)
        && let Ok(id) = text.parse::<PeerId>()
    {
        assert_eq!(id.to_string(), text, "what was read is not what was written");
    }
    let Ok(leaf) = Leaf::read(input) else { return };
    let (rest, certificate) = X509Certificate::from_der(input).expect("it was read");
    assert!(rest.is_empty(), "something follows the certificate");
    let names: Vec<_> = names(&certificate).collect();
    let [GeneralName::URI(uri)] = names[..] else { panic!("{names:?} were read as {}", leaf.id) };
    assert_eq!(leaf.id.to_string(), *uri, "what was read is not what was written");
}

/// Every name, whichever extension has it.
fn names<'a>(certificate: &'a X509Certificate<'_>) -> impl Iterator<Item = &'a GeneralName<'a>> {
    let lists = certificate.extensions().iter().filter_map(|extension| {
        let parsed = extension.parsed_extension();
        let ParsedExtension::SubjectAlternativeName(names) = parsed else { return None };
        Some(&names.general_names)
    });
    lists.flatten()
}

#[cfg(test)]
mod tests {
    use conclave_sidecar::identity::LeafError;

    use super::*;

    const MEMBER: &[u8] = include_bytes!("../seeds/identity/member.der");
    const OTHERS: [&[u8]; 3] = [
        include_bytes!("../seeds/identity/two-uris.der"),
        include_bytes!("../seeds/identity/uri-and-dns.der"),
        include_bytes!("../seeds/identity/no-name.der"),
    ];
    const NAME: &str = include_str!("../seeds/identity/name");

    #[test]
    fn the_seeds_are_a_member_and_what_looks_like_one() {
        let leaf = Leaf::read(MEMBER).expect("a member");
        assert_eq!(leaf.id.to_string(), NAME);
        for other in OTHERS {
            assert_eq!(Leaf::read(other), Err(LeafError::Names));
        }
    }
}
