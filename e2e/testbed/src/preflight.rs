//! What must be true of the machine before anything is attempted on it.

use std::fs;

use anyhow::{Result, ensure};

/// Checks that this machine can host the test cluster, and says what is missing if it cannot.
pub fn check() -> Result<()> {
    ensure!(cfg!(target_os = "linux"), "the test cluster needs Linux");
    ensure!(
        rustix::process::geteuid().is_root(),
        "the test cluster makes network namespaces and cgroups, which needs root; \
         or give the tests a cluster of your own with USE_EXISTING_CLUSTER=true, KUBECONFIG and \
         CONCLAVE_IMAGE"
    );
    let systems = fs::read_to_string("/proc/filesystems")?;
    ensure!(systems.contains("\toverlay"), "the kernel has no overlay file system");
    Ok(())
}
