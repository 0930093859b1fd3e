//! Which keys beacons are sealed with, and which of a peer's beacons is the latest.
//!
//! Both ends of a link, which is a TLS connection between two members that have seen each other's certificates, derive
//! the same key from it (RFC 5705, RFC 8446 section 7.5), and no one else can. The end that opened the link seals its
//! beacons to the other with that key. So each direction of a pair has a key of its own, which nobody chose and which
//! was never sent. A key may be used for longer than the link is open, but not for longer than the certificate is good
//! that the other end showed on it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use conclave_protocols::Incarnation;
use conclave_protocols::record::MEMBERS_MAX;
use ring::hmac;

use super::packet::Packet;

/// A key for the beacons of one member to another: 256 bits.
#[derive(Clone)]
pub(crate) struct ProbeKey(hmac::Key);

/// The keys of a member, shared by its links and its thread of beacons; nobody waits while holding them. Cheap to
/// clone.
#[derive(Clone, Default)]
pub(crate) struct Keyring(Arc<Mutex<Keys>>);

#[derive(Default)]
struct Keys {
    of: HashMap<Incarnation, Pair>,
    /// Counts what was done, to find the pair of which nothing was heard for longest.
    used: u64,
}

/// The keys between this member and another.
#[derive(Default)]
struct Pair {
    /// For what this member sends.
    ours: Option<Good>,
    /// For what it hears: of the latest link, and of the one before, whose end may still send.
    theirs: [Option<Good>; 2],
    /// The highest number heard.
    highest: u64,
    used: u64,
}

/// A key that is good for a time.
#[derive(Clone)]
struct Good {
    key: ProbeKey,
    /// When the certificate ends of the member that has the key too.
    until: Instant,
}

impl Good {
    fn key(&self) -> Option<&ProbeKey> {
        (Instant::now() < self.until).then_some(&self.key)
    }
}

/// Why a beacon is not believed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Disbelief {
    /// There was no link from that member, or the certificate that it showed there has ended.
    NoKey,
    /// It was made without the key.
    Forged,
    /// It was heard before, or came after a later one.
    Replayed,
}

impl Disbelief {
    /// The label of metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::NoKey => "no-key",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
        }
    }
}

/// Pairs that are remembered: twice as many as a group has members, since processes restart.
const PAIRS: usize = 2 * MEMBERS_MAX;

/// What keys are derived for. RFC 5705, section 4, lets labels that begin so be used without registration.
pub(crate) const LABEL: &[u8] = b"EXPERIMENTAL conclave clock probes";

impl ProbeKey {
    pub(crate) fn of(material: [u8; 32]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, &material))
    }

    pub(super) fn sign(&self, bytes: &[u8]) -> hmac::Tag {
        hmac::sign(&self.0, bytes)
    }

    /// Takes the same time whatever differs.
    pub(super) fn has_signed(&self, bytes: &[u8], seal: &[u8]) -> bool {
        hmac::verify(&self.0, bytes, seal).is_ok()
    }
}

impl fmt::Debug for ProbeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }
}

impl Keyring {
    /// From now on this member's beacons to a peer are sealed with this: the peer has it too. Its certificate ends then.
    pub(crate) fn seal_with(&self, key: ProbeKey, to: Incarnation, until: Instant) {
        self.lock().pair(to).ours = Some(Good { key, until });
    }

    /// A peer may seal its beacons with this from now on, until its certificate ends.
    pub(crate) fn hear_with(&self, key: ProbeKey, from: Incarnation, until: Instant) {
        let mut keys = self.lock();
        let theirs = &mut keys.pair(from).theirs;
        theirs.rotate_right(1);
        theirs[0] = Some(Good { key, until });
    }

    /// From now on nothing is sent to a peer, which does not hear it: there must be another key.
    pub(crate) fn forget(&self, to: Incarnation) {
        if let Some(pair) = self.lock().of.get_mut(&to) {
            pair.ours = None;
        }
    }

    /// What to seal a beacon to a peer with.
    pub(crate) fn ours(&self, to: Incarnation) -> Option<ProbeKey> {
        self.lock().of.get(&to)?.ours.as_ref()?.key().cloned()
    }

    /// Whether a packet is of whom it says, and later than all that were believed.
    pub(crate) fn believe(&self, packet: &Packet<'_>) -> Result<(), Disbelief> {
        let claimed = packet.claimed();
        // A seal takes a while to compute. Links do not wait for that.
        let theirs = self.lock().of.get(&claimed.from).map(|pair| pair.theirs.clone());
        let theirs = theirs.iter().flatten().flatten();
        let mut theirs = theirs.filter_map(Good::key).peekable();
        theirs.peek().ok_or(Disbelief::NoKey)?;
        if !theirs.any(|key| packet.is_sealed_by(key)) {
            return Err(Disbelief::Forged);
        }
        let mut keys = self.lock();
        let known = keys.of.get_mut(&claimed.from).ok_or(Disbelief::NoKey)?;
        if claimed.number <= known.highest {
            return Err(Disbelief::Replayed);
        }
        known.highest = claimed.number;
        keys.pair(claimed.from);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Keys {
    /// The keys with a peer, for which room is made.
    fn pair(&mut self, peer: Incarnation) -> &mut Pair {
        if self.of.len() >= PAIRS && !self.of.contains_key(&peer) {
            let longest = self.of.iter().min_by_key(|(_, pair)| pair.used);
            if let Some(longest) = longest.map(|(peer, _)| *peer) {
                self.of.remove(&longest);
            }
        }
        self.used += 1;
        let pair = self.of.entry(peer).or_default();
        pair.used = self.used;
        pair
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_protocols::PodUid;

    use super::super::packet::{Beacon, GroupHash, LENGTH};
    use super::super::report::Report;
    use super::*;

    const PEER: Incarnation = Incarnation { pod: PodUid(7), run: 1 };

    fn sealed(number: u64, key: u8) -> [u8; LENGTH] {
        let beacon =
            Beacon { from: PEER, number, departed: None, heard: None, report: Report::default() };
        beacon.seal(GroupHash::of(1), &ProbeKey::of([key; 32]))
    }

    fn later() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    fn believe(keys: &Keyring, bytes: &[u8]) -> Result<(), Disbelief> {
        keys.believe(&Packet::parse(bytes, GroupHash::of(1)).expect("it has the form"))
    }

    #[test]
    fn a_beacon_is_believed_once_and_in_order() {
        let keys = Keyring::default();
        assert_eq!(believe(&keys, &sealed(5, 1)), Err(Disbelief::NoKey));
        keys.hear_with(ProbeKey::of([1; 32]), PEER, later());
        assert_eq!(believe(&keys, &sealed(5, 2)), Err(Disbelief::Forged));
        assert_eq!(believe(&keys, &sealed(5, 1)), Ok(()));
        assert_eq!(believe(&keys, &sealed(5, 1)), Err(Disbelief::Replayed));
        assert_eq!(believe(&keys, &sealed(4, 1)), Err(Disbelief::Replayed));
        assert_eq!(believe(&keys, &sealed(6, 1)), Ok(()));
    }

    #[test]
    fn the_key_before_the_latest_is_good_and_no_earlier_one() {
        let keys = Keyring::default();
        for key in 1..=3 {
            keys.hear_with(ProbeKey::of([key; 32]), PEER, later());
        }
        assert_eq!(believe(&keys, &sealed(1, 1)), Err(Disbelief::Forged));
        assert_eq!(believe(&keys, &sealed(2, 2)), Ok(()));
        assert_eq!(believe(&keys, &sealed(3, 3)), Ok(()));
        assert_eq!(believe(&keys, &sealed(2, 2)), Err(Disbelief::Replayed), "with any key");
    }

    #[test]
    fn what_a_member_seals_with_it_does_not_believe() {
        let keys = Keyring::default();
        keys.seal_with(ProbeKey::of([1; 32]), PEER, later());
        assert_eq!(believe(&keys, &sealed(1, 1)), Err(Disbelief::NoKey), "it is sent back");
    }

    #[test]
    fn room_is_made_by_the_pair_of_which_nothing_was_heard_for_longest() {
        let keys = Keyring::default();
        keys.hear_with(ProbeKey::of([1; 32]), PEER, later());
        for run in 2..=u64::try_from(PAIRS).expect("a few") {
            keys.hear_with(ProbeKey::of([9; 32]), Incarnation { run, ..PEER }, later());
        }
        assert_eq!(believe(&keys, &sealed(1, 1)), Ok(()), "it is used");
        let others = [Incarnation { run: 9_001, ..PEER }, Incarnation { run: 9_002, ..PEER }];
        for other in others {
            keys.hear_with(ProbeKey::of([9; 32]), other, later());
        }
        assert_eq!(believe(&keys, &sealed(2, 1)), Ok(()));
        assert_eq!(keys.lock().of.len(), PAIRS);
    }

    #[test]
    fn a_key_is_good_for_as_long_as_the_certificate_of_its_link() {
        let keys = Keyring::default();
        let ended = Instant::now();
        keys.hear_with(ProbeKey::of([1; 32]), PEER, ended);
        keys.seal_with(ProbeKey::of([2; 32]), PEER, ended);
        assert_eq!(believe(&keys, &sealed(1, 1)), Err(Disbelief::NoKey));
        assert!(keys.ours(PEER).is_none());
        // The link after it, on which another certificate was shown.
        keys.hear_with(ProbeKey::of([3; 32]), PEER, later());
        keys.seal_with(ProbeKey::of([4; 32]), PEER, later());
        assert_eq!(believe(&keys, &sealed(1, 1)), Err(Disbelief::Forged));
        assert_eq!(believe(&keys, &sealed(1, 3)), Ok(()));
        assert!(keys.ours(PEER).is_some());
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", ProbeKey::of([7; 32])), "a key");
    }
}
