//! Which raw clock a process reads.

use std::os::unix::fs::MetadataExt;

use conclave_protocols::Incarnation;
use ring::digest::{SHA256, digest};

use super::OsClock;

/// The kernel whose raw clock this process reads: its boot, and the time namespace with the offsets that it adds.
struct Kernel {
    boot: Vec<u8>,
    namespace: u64,
}

impl OsClock {
    /// Names the raw clock that a member reads: two members with the same number read the same clock. A clock with a
    /// fault is nobody else's, and neither is one of which the kernel does not say what boot it is of.
    pub(crate) fn domain(self, me: Incarnation) -> u64 {
        let kernel = Kernel::read();
        let is_shared = !self.is_faulty() && !kernel.boot.is_empty();
        let owner = [&me.pod.0.to_le_bytes()[..], &me.run.to_le_bytes()].concat();
        kernel.hash(if is_shared { &[] } else { &owner })
    }
}

impl Kernel {
    fn read() -> Self {
        let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = std::fs::metadata("/proc/self/ns/time").map_or(0, |file| file.ino());
        Self { boot: boot.trim_ascii().to_vec(), namespace }
    }

    fn hash(&self, owner: &[u8]) -> u64 {
        let identity = [&self.boot, &self.namespace.to_le_bytes()[..], owner].concat();
        digest(&SHA256, &identity).as_ref().first_chunk().copied().map_or(0, u64::from_le_bytes)
    }
}

/// Which raw clock this process reads, whatever fault is put in. Where the kernel does not say, all processes that it
/// runs have the same clock as far as anybody knows.
pub(crate) fn clock_domain() -> u64 {
    Kernel::read().hash(&[])
}

#[cfg(test)]
mod tests {
    use conclave_protocols::PodUid;

    use super::*;
    use crate::os_clock::ClockFault;

    #[test]
    fn members_of_one_machine_share_its_clock_and_one_with_a_fault_shares_it_with_nobody() {
        let member = |pod| Incarnation { pod: PodUid(pod), run: 1 };
        let sound = OsClock::default();
        assert_eq!(sound.domain(member(1)), sound.domain(member(2)));
        assert_eq!(sound.domain(member(1)), clock_domain());
        let faulty = OsClock::with_fault(ClockFault { drift_ppm: 1, ..ClockFault::default() });
        assert_ne!(faulty.domain(member(1)), sound.domain(member(1)));
        assert_ne!(faulty.domain(member(1)), faulty.domain(member(2)));
        let again = Incarnation { run: 2, ..member(1) };
        assert_ne!(faulty.domain(member(1)), faulty.domain(again));
    }
}
