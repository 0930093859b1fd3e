//! Versions of what members say to each other, so that a group can be upgraded pod by pod.
//!
//! A member speaks a range of versions. A view speaks the highest that all its members speak
//! ([`Record::speaks`](crate::record::Record::speaks)): its members are frozen, so everybody in it
//! knows the same version, and whoever joins or leaves may change it with the next view. Between
//! members that share no view only the first version is spoken.
//!
//! A version *appends* messages. It changes none that there was: what an older version wrote is read
//! for ever, and a message that says more than an older one takes its place in newer views.
//!
//! | version | appends |
//! | --- | --- |
//! | 1 | everything else |
//! | 2 | the heartbeat that tells of the gate before the locks |
//! | 3 | the messages of locks that the members grant among themselves |
//! | 4 | the messages by which a grant is asked back that its member may keep; a farewell that says what the leaver holds |
//! | 5 | the heartbeat that lists what nobody but the leader could report, and the seal that tells that list |

/// The version that every member speaks.
pub const FIRST: u16 = 1;

/// The version in which heartbeats tell of the gate.
pub const GATES: u16 = 2;

/// The version in which members grant locks among themselves.
pub const PEER_LOCKS: u16 = 3;

/// The version in which members may keep a grant, and say what they hold when they leave.
pub const KEPT_GRANTS: u16 = 4;

/// The version in which leaders list the holds that nobody else could report.
pub const LISTS: u16 = 5;

/// The latest version.
pub const LATEST: u16 = LISTS;

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
