//! Numbers and names that must not be confused with one another.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};

/// A member's rank in a view: its place by (priority, seniority, pod UID), counted
/// from zero. The most senior member has the highest rank. Textbook process ids are ranks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct MemberId(pub u32);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// The number of a view. Epochs only rise, for the life of a group.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Epoch(pub u64);

impl Epoch {
    /// Views that no register numbers, because nothing arbitrates, number themselves from here on.
    ///
    /// The register's numbers stay far below: its time term ends at 2^32
    /// ([`TIME_TERM_MAX`](crate::register::TIME_TERM_MAX)), and views begin once a second at most. So
    /// nothing that was sent in a view of the one kind can be taken for a message of the other.
    pub const UNARBITRATED: Self = Self(1_000_000_000_000);

    /// Whether a view of this number numbered itself.
    #[must_use]
    pub fn is_unarbitrated(self) -> bool {
        self >= Self::UNARBITRATED
    }

    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proof of the order in which something was granted: its later grants have larger tokens, for
/// ever, whatever crashes.
///
/// A token is `high * 2^20 + n`. `high` starts at the epoch of the view and stays at or below the
/// view's ceiling; the next epoch lies above the ceiling. Below 2^53, so that it survives as a JSON
/// number.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct FencingToken(u64);

impl FencingToken {
    const LOW_BITS: u32 = 20;

    /// A block is that many tokens: what one grant may use. A holder that is lost uses up what is left of its
    /// block, since nobody knows how far it came; so a high part has many.
    const BLOCK: u64 = 1 << 12;

    /// What comes before the first token of a view: no grant carries it.
    #[must_use]
    pub fn before(epoch: Epoch) -> Self {
        Self(epoch.0 << Self::LOW_BITS)
    }

    /// The token of the next grant, or nothing if it would lie above the ceiling.
    #[must_use]
    pub fn successor(self, ceiling: Epoch) -> Option<Self> {
        let next = Self(self.0.saturating_add(1));
        (next.high() <= ceiling).then_some(next)
    }

    /// The next token of the same block, which a member that enters again on its grant takes by itself.
    #[must_use]
    pub fn next_of_block(self) -> Option<Self> {
        (self < self.last_of_block()).then(|| Self(self.0 + 1))
    }

    /// The last of those.
    #[must_use]
    pub fn last_of_block(self) -> Self {
        Self(self.0 | (Self::BLOCK - 1))
    }

    /// Whether a member that was granted this token may by now use the other.
    #[must_use]
    pub fn may_become(self, later: Self) -> bool {
        self <= later && later <= self.last_of_block()
    }

    /// The part that the ceiling bounds.
    #[must_use]
    pub fn high(self) -> Epoch {
        Epoch(self.0 >> Self::LOW_BITS)
    }

    /// As a number, for the wire and for people.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Distinguishes a member's requests for one name, within one view. Zero is a request carried over from the
/// view before.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct RequestNumber(pub u64);

/// Lamport's logical clock.
///
/// Source: Lamport, *Time, Clocks, and the Ordering of Events in a Distributed System*,
/// CACM 21(7), 1978, rules IR1 and IR2.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct LamportTime(u64);

impl LamportTime {
    /// IR1: a clock ticks between two successive events of its process.
    pub fn tick(&mut self) -> Self {
        self.0 = self.0.saturating_add(1);
        *self
    }

    /// A clock that has come to this number.
    #[must_use]
    pub fn at(number: u64) -> Self {
        Self(number)
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// IR2(b): on receipt, moves past the sender's timestamp.
    pub fn witness(&mut self, received: Self) -> Self {
        self.0 = self.0.max(received.0).saturating_add(1);
        *self
    }
}

/// The UID that Kubernetes gave a pod: 128 bits, written as a UUID.
#[derive(Clone, Copy, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PodUid(pub u128);

impl fmt::Display for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hex = format!("{:032x}", self.0);
        let [first, second, third, fourth] = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20]];
        write!(f, "{first}-{second}-{third}-{fourth}-{}", &hex[20..])
    }
}

impl fmt::Debug for PodUid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is no pod UID.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no UID: expected 32 hexadecimal digits, with or without dashes")]
pub struct PodUidError(String);

impl std::str::FromStr for PodUid {
    type Err = PodUidError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let hex: String = text.chars().filter(|c| *c != '-').collect();
        if hex.len() != 32 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(PodUidError(text.chars().take(80).collect()));
        }
        u128::from_str_radix(&hex, 16).map(Self).map_err(|_| PodUidError(text.to_owned()))
    }
}

impl Serialize for PodUid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for PodUid {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            text.parse().map_err(serde::de::Error::custom)
        } else {
            u128::deserialize(deserializer).map(Self)
        }
    }
}

/// One life of one sidecar: its pod, and a number drawn when the process started. A restarted
/// sidecar is another member.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Incarnation {
    /// The pod.
    pub pod: PodUid,
    /// The draw; below 2^53.
    pub run: u64,
}

impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:x}", self.pod, self.run)
    }
}

/// The name of a hold, such as a lock: 1 to 253 bytes of UTF-8 without control characters.
///
/// Names are ordered by a digest first, so that two are compared without a look at their texts: members
/// keep maps of tens of thousands, whose names often differ in their last letters alone.
#[derive(Clone, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(try_from = "String")]
pub struct HoldName {
    digest: u64,
    text: Arc<str>,
}

/// The name of a lock.
pub type LockName = HoldName;

/// FNV-1a, the same on every member whatever it was built with (Fowler, Noll and Vo; RFC 9923).
pub(crate) fn fnv_1a(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Why a text is no name of a hold.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum HoldNameError {
    /// It is empty or too long.
    #[error("a lock name has 1 to 253 bytes, this one has {0}")]
    Length(usize),
    /// It has a control character.
    #[error("a lock name has no control characters")]
    Control,
}

impl HoldName {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Of its text: the same for equal names, on every member.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }
}

impl Hash for HoldName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

impl fmt::Debug for HoldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

impl TryFrom<String> for HoldName {
    type Error = HoldNameError;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        if name.is_empty() || name.len() > 253 {
            return Err(HoldNameError::Length(name.len()));
        }
        if name.chars().any(char::is_control) {
            return Err(HoldNameError::Control);
        }
        Ok(Self { digest: fnv_1a(name.bytes()), text: name.into() })
    }
}

impl From<HoldName> for String {
    fn from(name: HoldName) -> Self {
        name.as_str().to_owned()
    }
}

impl Serialize for HoldName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl fmt::Display for HoldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_up_n_carries_into_high_until_the_ceiling() {
        let mut token = FencingToken::before(Epoch(7));
        for _ in 0..(1 << 20) {
            token = token.successor(Epoch(8)).expect("below the ceiling");
        }
        assert_eq!(token.high(), Epoch(8));
        assert_eq!(FencingToken(8 << 20 | 0xf_ffff).successor(Epoch(8)), None);
    }

    #[test]
    fn a_pod_uid_reads_what_it_writes() {
        let text = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";
        let uid: PodUid = text.parse().expect("a UID");
        assert_eq!(uid.to_string(), text);
        assert!("é".repeat(16).parse::<PodUid>().is_err());
        assert!("+123".parse::<PodUid>().is_err());
    }

    #[test]
    fn lock_names_are_checked() {
        assert!(HoldName::try_from("a/b".to_owned()).is_ok());
        assert_eq!(HoldName::try_from(String::new()), Err(HoldNameError::Length(0)));
        assert_eq!(HoldName::try_from("a\nb".to_owned()), Err(HoldNameError::Control));
    }
}
