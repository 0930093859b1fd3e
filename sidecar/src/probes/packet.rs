//! What a beacon is on the wire: 160 bytes at fixed places, all numbers in network order.
//!
//! | at | bytes | |
//! | --- | --- | --- |
//! | 0 | 4 | `CNB` and the layout, 1 |
//! | 4 | 1 | sources of the two stamps: bit 0 for `departed`, bit 1 for `heard`; set if it is the kernel's |
//! | 5 | 3 | zero |
//! | 8 | 8 | the group: the beginning of the SHA-256 of its UID |
//! | 16 | 24 | the sender: UID of the pod, number of the process |
//! | 40 | 8 | the number of the beacon; numbers only rise |
//! | 48 | 16 | an earlier beacon of the sender to this peer: its number, 0 if there is none, and when it departed |
//! | 64 | 16 | what the sender heard last of this peer: its number, 0 if nothing, and when it arrived |
//! | 80 | 8 | which raw clock the sender reads |
//! | 88 | 8 | a reading of it a moment ago, of which the rest is |
//! | 96 | 8 | the sender's group time then, in nanoseconds since 1970, signed |
//! | 104 | 8 | how far group time is from that at most; all ones if that is not known |
//! | 112 | 8 | its wall clock then, in nanoseconds since 1970, signed |
//! | 120 | 8 | how far that is from UTC at most; all ones if nobody says that it is synchronized |
//! | 128 | 32 | HMAC-SHA256 of all before it |

use conclave_protocols::{Incarnation, LocalTime, PodUid};
use ring::digest;

use super::keys::ProbeKey;
use super::report::Report;
use super::{Source, Stamp};

/// What a member sends to a peer again and again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Beacon {
    pub(crate) from: Incarnation,
    /// Rises from beacon to beacon, also from one peer to the other.
    pub(crate) number: u64,
    /// When an earlier one departed, by the sender's raw clock.
    pub(crate) departed: Option<Numbered>,
    /// When the latest one of the addressee arrived, by the sender's raw clock.
    pub(crate) heard: Option<Numbered>,
    /// What the sender states of its clocks.
    pub(crate) report: Report,
}

/// When the beacon of that number, which is never 0, departed or arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Numbered {
    pub(crate) number: u64,
    pub(crate) at: Stamp,
}

/// The beginning of the hash of a group's UID.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct GroupHash([u8; 8]);

/// Bytes in the form of a beacon. Their sender is not known before [`Packet::is_sealed_by`].
pub(crate) struct Packet<'a> {
    claimed: Beacon,
    sealed: &'a [u8],
    seal: &'a [u8],
}

/// Why bytes are no beacon of this group.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum PacketError {
    /// They do not have its form.
    #[error("no beacon of a layout that this program knows")]
    Malformed,
    /// They are of another group.
    #[error("a beacon of another group")]
    Group,
}

/// The length of every beacon.
pub(crate) const LENGTH: usize = SEALED + SEAL;
const SEALED: usize = 128;
const SEAL: usize = 32;

const MAGIC: [u8; 4] = *b"CNB\x01";
const DEPARTED_BY_KERNEL: u8 = 1;
const HEARD_BY_KERNEL: u8 = 2;
const UNKNOWN: u64 = u64::MAX;

impl GroupHash {
    /// Of the UID of the group's resource.
    pub(crate) fn of(group: u128) -> Self {
        let hash = digest::digest(&digest::SHA256, &group.to_be_bytes());
        let mut beginning = [0; 8];
        beginning.copy_from_slice(&hash.as_ref()[..8]);
        Self(beginning)
    }
}

impl Beacon {
    /// As bytes, which nobody without the key can make.
    pub(crate) fn seal(&self, group: GroupHash, key: &ProbeKey) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        let (sealed, seal) = bytes.split_at_mut(SEALED);
        self.write(group, sealed);
        seal.copy_from_slice(key.sign(sealed).as_ref());
        bytes
    }

    fn write(&self, group: GroupHash, bytes: &mut [u8]) {
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        let mut sources = 0;
        put(0, &MAGIC);
        put(8, &group.0);
        put(16, &self.from.pod.0.to_be_bytes());
        put(32, &self.from.run.to_be_bytes());
        put(40, &self.number.to_be_bytes());
        for (at, one, by_kernel) in
            [(48, self.departed, DEPARTED_BY_KERNEL), (64, self.heard, HEARD_BY_KERNEL)]
        {
            let Some(Numbered { number, at: stamp }) = one else { continue };
            put(at, &number.to_be_bytes());
            put(at + 8, &stamp.raw.0.to_be_bytes());
            if stamp.source == Source::Kernel {
                sources |= by_kernel;
            }
        }
        put(4, &[sources]);
        let Report { domain, raw, time_ns, bound_ns, wall_ns, wall_error_ns } = self.report;
        put(80, &domain.to_be_bytes());
        put(88, &raw.0.to_be_bytes());
        put(96, &time_ns.to_be_bytes());
        put(104, &bound_ns.unwrap_or(UNKNOWN).to_be_bytes());
        put(112, &wall_ns.to_be_bytes());
        put(120, &wall_error_ns.unwrap_or(UNKNOWN).to_be_bytes());
    }
}

impl<'a> Packet<'a> {
    /// Reads what somebody sent.
    pub(crate) fn parse(bytes: &'a [u8], group: GroupHash) -> Result<Self, PacketError> {
        let has_form = bytes.len() == LENGTH && bytes[..4] == MAGIC;
        if !has_form || bytes[4] > (DEPARTED_BY_KERNEL | HEARD_BY_KERNEL) || bytes[5..8] != [0; 3] {
            return Err(PacketError::Malformed);
        }
        if bytes[8..16] != group.0 {
            return Err(PacketError::Group);
        }
        let (sealed, seal) = bytes.split_at(SEALED);
        let run = number(sealed, 32);
        let pod = (u128::from(number(sealed, 16)) << 64) | u128::from(number(sealed, 24));
        let claimed = Beacon {
            from: Incarnation { pod: PodUid(pod), run },
            number: number(sealed, 40),
            departed: numbered(sealed, 48, DEPARTED_BY_KERNEL),
            heard: numbered(sealed, 64, HEARD_BY_KERNEL),
            report: report(sealed),
        };
        if claimed.number == 0 {
            return Err(PacketError::Malformed);
        }
        Ok(Self { claimed, sealed, seal })
    }

    /// What it states, its sender too. Nothing of that is to be believed yet.
    pub(crate) fn claimed(&self) -> Beacon {
        self.claimed
    }

    /// Whether it was made with that key.
    pub(crate) fn is_sealed_by(&self, key: &ProbeKey) -> bool {
        key.has_signed(self.sealed, self.seal)
    }
}

fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().fold(0, |number, byte| (number << 8) | u64::from(*byte))
}

fn numbered(bytes: &[u8], at: usize, by_kernel: u8) -> Option<Numbered> {
    let source = if bytes[4] & by_kernel == 0 { Source::User } else { Source::Kernel };
    let raw = LocalTime(number(bytes, at + 8));
    let number = number(bytes, at);
    (number > 0).then_some(Numbered { number, at: Stamp { raw, source } })
}

fn report(bytes: &[u8]) -> Report {
    let error = |at| Some(number(bytes, at)).filter(|error| *error != UNKNOWN);
    Report {
        domain: number(bytes, 80),
        raw: LocalTime(number(bytes, 88)),
        time_ns: number(bytes, 96).cast_signed(),
        bound_ns: error(104),
        wall_ns: number(bytes, 112).cast_signed(),
        wall_error_ns: error(120),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: u128 = 0x0c9d_8f1e_6b1a_4f0e_9f4f_3f1f_7a2b_9c01;

    fn beacon() -> Beacon {
        let at = |raw, source| Stamp { raw: LocalTime(raw), source };
        Beacon {
            from: Incarnation { pod: PodUid(u128::MAX / 7), run: (1 << 53) - 1 },
            number: 12,
            departed: Some(Numbered { number: 11, at: at(u64::MAX, Source::Kernel) }),
            heard: Some(Numbered { number: 4, at: at(77, Source::User) }),
            report: Report {
                domain: u64::MAX / 3,
                raw: LocalTime(u64::MAX / 5),
                time_ns: i64::MIN,
                bound_ns: Some(u64::MAX - 1),
                wall_ns: -1,
                wall_error_ns: None,
            },
        }
    }

    #[test]
    fn a_beacon_is_read_as_it_was_written() {
        let (group, key) = (GroupHash::of(GROUP), ProbeKey::of([7; 32]));
        let silent = Beacon { departed: None, heard: None, report: Report::default(), ..beacon() };
        let heard = Beacon { departed: None, ..beacon() };
        for written in [beacon(), silent, heard] {
            let bytes = written.seal(group, &key);
            let packet = Packet::parse(&bytes, group).expect("it is one");
            assert_eq!(packet.claimed(), written);
            assert!(packet.is_sealed_by(&key));
            assert!(!packet.is_sealed_by(&ProbeKey::of([8; 32])));
        }
    }

    #[test]
    fn no_byte_can_be_changed() {
        let (group, key) = (GroupHash::of(GROUP), ProbeKey::of([7; 32]));
        let bytes = beacon().seal(group, &key);
        for at in 0..LENGTH {
            for bit in 0..8 {
                let mut changed = bytes;
                changed[at] ^= 1 << bit;
                let read = Packet::parse(&changed, group);
                assert!(!read.is_ok_and(|packet| packet.is_sealed_by(&key)), "{at} {bit}");
            }
        }
    }

    #[test]
    fn bytes_of_any_length_and_of_other_groups_are_refused() {
        let (group, key) = (GroupHash::of(GROUP), ProbeKey::of([7; 32]));
        let bytes = beacon().seal(group, &key);
        for length in 0..LENGTH {
            let refused = Packet::parse(&bytes[..length], group).err();
            assert_eq!(refused, Some(PacketError::Malformed), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(Packet::parse(&longer, group).err(), Some(PacketError::Malformed));
        let other = GroupHash::of(GROUP + 1);
        assert_eq!(Packet::parse(&bytes, other).err(), Some(PacketError::Group));
        let unnumbered = Beacon { number: 0, ..beacon() }.seal(group, &key);
        assert_eq!(Packet::parse(&unnumbered, group).err(), Some(PacketError::Malformed));
    }
}
