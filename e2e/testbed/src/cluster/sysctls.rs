//! The kernel's settings that a kubelet changes for the whole machine, kept and put back.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};

use super::state::State;

/// Writes down what the settings are now.
pub(super) fn save(state: &State) -> Result<()> {
    let mut saved = String::new();
    for setting in SETTINGS {
        let value = fs::read_to_string(Path::new(ROOT).join(setting))?;
        writeln!(saved, "{setting}={}", value.trim())?;
    }
    fs::write(state.sysctls(), saved)?;
    Ok(())
}

/// Puts back what was written down, if anything was.
pub(super) fn restore(state: &State) -> Result<()> {
    let saved = match fs::read_to_string(state.sysctls()) {
        Ok(saved) => saved,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for line in saved.lines() {
        let (setting, value) = line.split_once('=').context("no `setting=value`")?;
        let path = Path::new(ROOT).join(setting);
        fs::write(&path, value).with_context(|| format!("cannot restore {}", path.display()))?;
    }
    Ok(())
}

const ROOT: &str = "/proc/sys";

/// Source: `setupKernelTunables` in the kubelet's container manager.
const SETTINGS: &[&str] = &[
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];
