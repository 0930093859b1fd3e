//! Superpeers: a share of the members, each of which coordinates what has one prefix of key.
//!
//! Source: Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.5.3, "Elections in large-scale
//! systems", after Lo, Zhou, Liu, `GauthierDickey` and Li, *Scalable Supernode Selection in Peer-to-Peer Overlay
//! Networks*, HOT-P2P 2005; that a member is responsible for what lies before it on a circle: Karger and others,
//! *Consistent Hashing and Random Trees*, STOC 1997; that one which has its load is passed over: Mirrokni, Thorup
//! and Zadimoghaddam, *Consistent Hashing with Bounded Loads*, SODA 2018.
//!
//! ```text
//! identifiers have m bits, of which the k leftmost are reserved: 2^k superpeers are wanted
//! who is asked for key p:  the member that is responsible for p AND 1..10..0 (k ones)
//! responsible for an id:   the first member at or after it on the circle
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | superpeers, of n members and a share of s % | 2^k with k = ⌈log2 ⌈ns / 100⌉⌉, so the next power of two at or above |
//! | | the share, and never more than the largest power of two that fits into n: 100 of 7 gives 4 |
//! | load of each | one prefix of k bits: a part of 1 / 2^k of the keys |
//! | messages | none: every member knows all members, and computes the same |
//! | when a superpeer leaves | its prefix goes to the next member that has none; another prefix moves only if |
//! | | that was to have it, or the number of superpeers changes |
//! | when another member leaves | nothing, unless the number of superpeers changes: then half of the prefixes move, |
//! | | or a few more |
//! | tolerates | what the view tolerates: members of one view have one list of members |
//! | links | none |
//!
//! Deviations:
//!
//! * The source's member may be responsible for several prefixes: with few members, and ids that lie as chance has
//!   it, some have several and others none. Here a member that has one is passed over, so that each superpeer has
//!   exactly one.
//! * The source reserves the ids themselves: a member whose id has only zeros after the first k bits is a superpeer,
//!   and 2^(k - m) n of n members are on average. ([`expected`])
//! * m is 64. An id is FNV-1a of a name (RFC 9923), scrambled by the finaliser of `SplitMix64`: FNV-1a alone hardly
//!   changes its first bits with the last letter of a name. This does not change from version to version, as members
//!   of one view have to compute the same.
//! * The source's superpeers are to be near to the others. A cluster's members are about as far from one another
//!   wherever they are, so nearness is not looked at; `protocols/tests/figures/plane.rs` measures what that costs in a
//!   plane, beside tokens that repel one another.

use crate::ids::{HoldName, MemberId, fnv_1a};
use crate::random::Random;

/// How many bits an id has: m.
pub const BITS: u32 = u64::BITS;

/// A place on the circle of ids.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(pub u64);

impl Key {
    /// That of a name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self::scrambled(fnv_1a(name.bytes()))
    }

    /// That of what a lock is called.
    #[must_use]
    pub fn of_name(name: &HoldName) -> Self {
        Self::scrambled(name.digest())
    }

    fn scrambled(digest: u64) -> Self {
        Self(Random::new(digest).draw())
    }

    /// That of a member whose name is not known.
    #[must_use]
    pub fn of_rank(rank: MemberId) -> Self {
        Self::scrambled(rank.0.into())
    }
}

/// `key AND 1..10..0`, with k ones of m bits: the first key of those with the same prefix.
#[must_use]
pub const fn prefix(key: u64, m: u32, k: u32) -> u64 {
    let zeros = m.saturating_sub(k);
    match u64::MAX.checked_shl(zeros) {
        Some(mask) => key & mask,
        None => 0,
    }
}

/// How many of n members have an id of m bits that is a prefix of k bits and zeros, on average: 2^(k - m) n.
#[must_use]
pub fn expected(n: u32, m: u32, k: u32) -> f64 {
    f64::from(n) * f64::from(k).exp2() / f64::from(m).exp2()
}

/// How many bits are reserved, for the next power of two at or above that share, or the largest that fits into the
/// group: k.
#[must_use]
pub fn reserved(members: u32, share_percent: u8) -> u32 {
    let wanted = (u64::from(members) * u64::from(share_percent)).div_ceil(100).max(1);
    let most = members.max(1).ilog2();
    wanted.next_power_of_two().ilog2().min(most)
}

/// The superpeers of a group.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Superpeers {
    /// By prefix.
    all: Vec<MemberId>,
}

impl Superpeers {
    /// Those of members with these ids, by rank.
    #[must_use]
    pub fn among(ids: &[Key], share_percent: u8) -> Self {
        let members = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let mut circle: Vec<(Key, MemberId)> =
            ids.iter().copied().zip((0..members).map(MemberId)).collect();
        circle.sort_unstable();
        let k = reserved(members, share_percent);
        let mut is_free = vec![true; circle.len()];
        let mut all = Vec::with_capacity(1 << k);
        for slot in 0..1_u64 << k {
            let start = Key(slot.checked_shl(BITS - k).unwrap_or(0));
            let first = circle.partition_point(|(id, _)| *id < start);
            let onwards = (first..circle.len()).chain(0..first);
            if let Some(place) = onwards.into_iter().find(|place| is_free[*place]) {
                is_free[place] = false;
                all.push(circle[place].1);
            }
        }
        Self { all }
    }

    /// Who is responsible for a key; nobody, of no members.
    #[must_use]
    pub fn responsible(&self, key: Key) -> Option<MemberId> {
        let k = self.all.len().max(1).ilog2();
        let slot = prefix(key.0, BITS, k).checked_shr(BITS - k).unwrap_or(0);
        usize::try_from(slot).ok().and_then(|slot| self.all.get(slot)).copied()
    }

    /// All of them, by prefix.
    #[must_use]
    pub fn all(&self) -> &[MemberId] {
        &self.all
    }
}

#[cfg(test)]
mod tests;
