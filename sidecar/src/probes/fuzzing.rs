//! What the target for beacons needs. No part of the product.

use std::time::{Duration, Instant};

use conclave_protocols::{Incarnation, LocalTime, PodUid};

use super::keys::{Keyring, ProbeKey};
use super::packet::{Beacon, GroupHash, Numbered, Packet};
use super::report::Report;
use super::{Source, Stamp};

const GROUP: u128 = 1;
const ME: Incarnation = Incarnation { pod: PodUid(1), run: 1 };

/// Reads a beacon, which must not be believed unless it has the seal of our key, and seals it with that.
pub fn beacon(bytes: &[u8]) -> Option<Vec<u8>> {
    let group = GroupHash::of(GROUP);
    let packet = Packet::parse(bytes, group).ok()?;
    let claimed = packet.claimed();
    let keys = Keyring::default();
    assert!(keys.believe(&packet).is_err(), "without any key");
    keys.hear_with(key(), claimed.from, Instant::now() + Duration::from_hours(1));
    let believed = keys.believe(&packet).is_ok();
    let written = claimed.seal(group, &key()).to_vec();
    assert_eq!(believed, written == bytes, "by its seal alone");
    Some(written)
}

/// A beacon with that seal: the first of its sender, or one that has heard of others.
pub fn sealed(later: bool) -> Vec<u8> {
    let at = |raw, source| Stamp { raw: LocalTime(raw), source };
    let departed = Numbered { number: 6, at: at(743_119_673_557, Source::Kernel) };
    let heard = Numbered { number: 4, at: at(743_119_923_557, Source::User) };
    let report = Report { domain: 12, raw: LocalTime(743_119_923_601), ..Report::default() };
    let known = Report {
        time_ns: 1_795_196_160_332_304_127,
        bound_ns: Some(300_000),
        wall_ns: 1_795_196_160_332_262_877,
        wall_error_ns: Some(1_500_000),
        ..report
    };
    let beacon = if later {
        let (departed, heard) = (Some(departed), Some(heard));
        Beacon { from: ME, number: 7, departed, heard, report: known }
    } else {
        Beacon { from: ME, number: 1, departed: None, heard: None, report }
    };
    beacon.seal(GroupHash::of(GROUP), &key()).to_vec()
}

fn key() -> ProbeKey {
    ProbeKey::of([7; 32])
}
