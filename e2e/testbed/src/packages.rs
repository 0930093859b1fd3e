//! The Debian packages that the cluster and the tests need.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::command;

/// What is installed on the machine itself; what runs in pods is in the client image.
const PACKAGES: &[&str] = &[
    "ca-certificates",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "curl",
    "debootstrap", // makes the root of the client image
    "g++",         // builds the fuzzer
    "gcc",         // links Rust
    "iproute2",
    "iptables",
    "libc6-dev",
    "nftables",
    "runc",
    "util-linux", // nsenter
];

/// What opens the page of `conclave dev`.
const OF_THE_PAGE: &[&str] = &["chromium", "chromium-driver"];

/// What Cilium needs besides.
const OF_THE_ENFORCER: &[&str] = &[
    "bpftool", // shows it what the kernel can do
    "clang",   // compiles what it puts into the kernel
];

/// What locks are measured beside, but for etcd, which the cluster has anyway.
const RIVALS: &[&str] = &["redis-server", "zookeeper"];

/// What group time is measured beside.
const TIME_RIVALS: &[&str] = &["chrony"];

/// Installs the packages that are missing, without starting any service they bring.
pub fn install() -> Result<()> {
    install_those(PACKAGES)
}

/// The same for what tests the page.
pub fn install_for_page() -> Result<()> {
    install_those(OF_THE_PAGE)
}

/// The same for what enforces network policies.
pub fn install_for_enforcer() -> Result<()> {
    install_those(OF_THE_ENFORCER)
}

/// The same for what locks are measured beside.
pub fn install_rivals() -> Result<()> {
    install_those(RIVALS)
}

/// The same for what group time is measured beside.
pub fn install_time_rivals() -> Result<()> {
    install_those(TIME_RIVALS)
}

fn install_those(packages: &[&str]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|package| !is_installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let _no_services = NoServices::decree()?;
    command::run(apt().arg("update"))?;
    command::run(apt().args(["install", "--yes", "--no-install-recommends"]).args(missing))
}

fn is_installed(package: &str) -> bool {
    let query = command::output(Command::new("dpkg-query").args([
        "--show",
        "--showformat=${db:Status-Status}",
        package,
    ]));
    query.is_ok_and(|status| status == "installed")
}

fn apt() -> Command {
    let mut apt = Command::new("apt-get");
    // Errors only, and no progress bars.
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-qq", "--option=Dpkg::Use-Pty=0"]);
    apt
}

/// Debian's way to forbid that an installation starts services, for as long as this value lives.
///
/// Source: the interface of `invoke-rc.d` to `policy-rc.d`, whose exit code 101 means "forbidden".
struct NoServices {
    is_ours: bool,
}

impl NoServices {
    fn decree() -> Result<Self> {
        // A machine that already has a policy, such as a container image, keeps it.
        let is_ours = !Path::new(POLICY).exists();
        if is_ours {
            fs::write(POLICY, "#!/bin/sh\nexit 101\n").context("cannot forbid services")?;
            fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self { is_ours })
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.is_ours {
            let _gone_already = fs::remove_file(POLICY);
        }
    }
}

const POLICY: &str = "/usr/sbin/policy-rc.d";
