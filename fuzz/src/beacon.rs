//! A UDP packet on the port of clock probes.

use conclave_sidecar::fuzzing;

/// What has the form of a beacon is written as it was read, with another seal; only that seal is believed.
pub(crate) fn run(input: &[u8]) {
    let Some(written) = fuzzing::beacon(input) else { return };
    let again = fuzzing::beacon(&written).expect("what was written can be read");
    assert_eq!(again, written, "what was read is not what was written");
}
