//! Versions of what members send to each other, so that a group can be upgraded pod by pod.
//!
//! A member speaks a range of versions. A view speaks the highest that all its members speak
//! ([`Record::speaks`](crate::record::Record::speaks)): its members are frozen, so everybody in it
//! knows the same version, and a member that joins or leaves may change it with the next view. Between
//! members that share no view only the first version is spoken.
//!
//! A version *appends* messages. It changes none that there was: what an older version wrote is read
//! for ever, and a message that states more than an older one takes its place in newer views.
//!
//! There is one version so far. The feature `next-version` appends a second, whose heartbeat is another
//! message: with it tests upgrade a group and roll it back.

/// The version that every member speaks.
pub const FIRST: u16 = 1;

/// The latest version.
pub const LATEST: u16 = FIRST;

/// The version that the feature `next-version` appends.
#[cfg(feature = "next-version")]
pub const NEXT: u16 = LATEST + 1;

/// The versions that a member speaks, lowest and highest.
pub type Versions = (u16, u16);

/// The highest version that all of them speak; none if there is no such version.
pub fn common(all: impl IntoIterator<Item = Versions>) -> Option<u16> {
    let narrow =
        |(lowest, highest): Versions, (low, high): Versions| (lowest.max(low), highest.min(high));
    let (lowest, highest) = all.into_iter().reduce(narrow)?;
    (lowest <= highest).then_some(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_that_all_speak_is_common() {
        assert_eq!(common([(1, 2), (1, 1), (1, 3)]), Some(1));
        assert_eq!(common([(1, 2), (2, 3)]), Some(2));
        assert_eq!(common([(1, 2), (3, 4)]), None);
        assert_eq!(common([]), None);
    }
}
