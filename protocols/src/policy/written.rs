//! How the policy of a lock is written.
//!
//! The register is read by members of all versions, also by one that has yet to join and knows fewer
//! algorithms. So a text names `Central` where every version looks, and another algorithm where only
//! those look that may know it. What members of one view send to each other needs no such care.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{LockAlgorithm, LockPolicy};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    names: Vec<String>,
    algorithm: LockAlgorithm,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    among_members: Option<LockAlgorithm>,
    max_hold: Duration,
    lock_delay: Duration,
}

#[derive(Deserialize, Serialize)]
struct Sent {
    names: Vec<String>,
    algorithm: LockAlgorithm,
    max_hold: Duration,
    lock_delay: Duration,
}

impl Serialize for LockPolicy {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Self { names, algorithm, max_hold, lock_delay } = self.clone();
        if to.is_human_readable() {
            let among_members = (!algorithm.is_led()).then_some(algorithm);
            let algorithm = LockAlgorithm::Central;
            Text { names, algorithm, among_members, max_hold, lock_delay }.serialize(to)
        } else {
            Sent { names, algorithm, max_hold, lock_delay }.serialize(to)
        }
    }
}

impl<'de> Deserialize<'de> for LockPolicy {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        if from.is_human_readable() {
            let Text { names, algorithm, among_members, max_hold, lock_delay } =
                Text::deserialize(from)?;
            let algorithm = among_members.unwrap_or(algorithm);
            Ok(Self { names, algorithm, max_hold, lock_delay })
        } else {
            let Sent { names, algorithm, max_hold, lock_delay } = Sent::deserialize(from)?;
            Ok(Self { names, algorithm, max_hold, lock_delay })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_an_algorithm_that_every_version_has_where_every_version_looks() {
        for algorithm in LockAlgorithm::ALL {
            let policy = LockPolicy { algorithm, ..LockPolicy::default() };
            let text = serde_json::to_value(&policy).expect("JSON");
            assert_eq!(text["algorithm"], "Central");
            assert_eq!(serde_json::from_value::<LockPolicy>(text).expect("its own"), policy);
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
