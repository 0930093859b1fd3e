//! How the policy of a lock is written.
//!
//! The register is read by members of all versions, also by one that has yet to join and knows fewer
//! algorithms. So a text names `Central` where every version looks, and another algorithm where only
//! those look that may know it. What members of one view send to each other needs no such care, but for
//! this: the layout is that of the first version, which has no room for more fields.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Caching, LockAlgorithm, LockPolicy};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    names: Vec<String>,
    algorithm: LockAlgorithm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    among_members: Option<LockAlgorithm>,
    max_hold: Duration,
    lock_delay: Duration,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    caching: Option<Caching>,
}

#[derive(Deserialize, Serialize)]
struct Sent {
    names: Vec<String>,
    algorithm: Form,
    max_hold: Duration,
    lock_delay: Duration,
}

/// An algorithm, and whether members keep what lets them in. Later forms are appended.
#[derive(Deserialize, Serialize)]
enum Form {
    Central,
    TokenRing,
    Raymond,
    Lamport,
    RicartAgrawala,
    Maekawa,
    Voting,
    Caching(LockAlgorithm),
}

impl Form {
    fn of(algorithm: LockAlgorithm, caching: Caching) -> Self {
        match (caching, algorithm) {
            (Caching::Enabled, algorithm) => Self::Caching(algorithm),
            (Caching::Disabled, LockAlgorithm::Central) => Self::Central,
            (Caching::Disabled, LockAlgorithm::TokenRing) => Self::TokenRing,
            (Caching::Disabled, LockAlgorithm::Raymond) => Self::Raymond,
            (Caching::Disabled, LockAlgorithm::Lamport) => Self::Lamport,
            (Caching::Disabled, LockAlgorithm::RicartAgrawala) => Self::RicartAgrawala,
            (Caching::Disabled, LockAlgorithm::Maekawa) => Self::Maekawa,
            (Caching::Disabled, LockAlgorithm::Voting) => Self::Voting,
        }
    }

    fn meant(self) -> (LockAlgorithm, Caching) {
        match self {
            Self::Central => (LockAlgorithm::Central, Caching::Disabled),
            Self::TokenRing => (LockAlgorithm::TokenRing, Caching::Disabled),
            Self::Raymond => (LockAlgorithm::Raymond, Caching::Disabled),
            Self::Lamport => (LockAlgorithm::Lamport, Caching::Disabled),
            Self::RicartAgrawala => (LockAlgorithm::RicartAgrawala, Caching::Disabled),
            Self::Maekawa => (LockAlgorithm::Maekawa, Caching::Disabled),
            Self::Voting => (LockAlgorithm::Voting, Caching::Disabled),
            Self::Caching(algorithm) => (algorithm, Caching::Enabled),
        }
    }
}

impl Serialize for LockPolicy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { names, algorithm, max_hold, lock_delay, caching } = self.clone();
        if to.is_human_readable() {
            let among_members = (!algorithm.is_led()).then_some(algorithm);
            let algorithm = LockAlgorithm::Central;
            let caching = (caching != Caching::default()).then_some(caching);
            let text = Text { names, algorithm, among_members, max_hold, lock_delay, caching };
            text.serialize(to)
        } else {
            let algorithm = Form::of(algorithm, caching);
            Sent { names, algorithm, max_hold, lock_delay }.serialize(to)
        }
    }
}

impl<'de> Deserialize<'de> for LockPolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            let Text { names, algorithm, among_members, max_hold, lock_delay, caching } =
                Text::deserialize(from)?;
            let algorithm = among_members.unwrap_or(algorithm);
            let caching = caching.unwrap_or_default();
            Ok(Self { names, algorithm, max_hold, lock_delay, caching })
        } else {
            let Sent { names, algorithm, max_hold, lock_delay } = Sent::deserialize(from)?;
            let (algorithm, caching) = algorithm.meant();
            Ok(Self { names, algorithm, max_hold, lock_delay, caching })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_an_algorithm_that_every_version_has_where_every_version_looks() {
        for algorithm in LockAlgorithm::ALL {
            for caching in [Caching::Disabled, Caching::Enabled] {
                let policy = LockPolicy { algorithm, caching, ..LockPolicy::default() };
                let text = serde_json::to_value(&policy).expect("JSON");
                assert_eq!(text["algorithm"], "Central");
                assert_eq!(serde_json::from_value::<LockPolicy>(text).expect("its own"), policy);
            }
        }
    }

    #[test]
    fn the_text_of_an_earlier_version_is_read() {
        let mut text = serde_json::to_value(LockPolicy::default()).expect("JSON");
        text.as_object_mut().expect("an object").remove("amongMembers");
        assert_eq!(
            serde_json::from_value::<LockPolicy>(text).expect("its own"),
            LockPolicy::default()
        );
    }
}
