//! `conclave dev` as a process, for as long as a test lasts.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_e2e::wait;
use tempfile::NamedTempFile;

/// A running `conclave dev`. It ends when the value goes.
pub(crate) struct Dev {
    process: Child,
    base: u16,
    /// Lasts as long as the group.
    _manifest: Option<NamedTempFile>,
}

impl Dev {
    /// Starts a group of five, and waits until its page answers.
    pub(crate) fn start() -> Result<Self> {
        Self::run(None)
    }

    /// The same, with the policies of a manifest.
    pub(crate) fn start_with(manifest: &str) -> Result<Self> {
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), manifest)?;
        Self::run(Some(file))
    }

    fn run(manifest: Option<NamedTempFile>) -> Result<Self> {
        let base = free_base()?;
        let binary = binary()?;
        let mut command = Command::new(&binary);
        command.arg("dev").env("CONCLAVE_BASE_PORT", base.to_string()).stdout(Stdio::null());
        if let Some(file) = &manifest {
            command.arg("-f").arg(file.path());
        }
        let process = command
            .spawn()
            .with_context(|| format!("start {}; was it built?", binary.display()))?;
        let mut dev = Self { process, base, _manifest: manifest };
        wait::until("the page", SOON, || {
            ensure!(dev.process.try_wait()?.is_none(), "conclave dev has ended");
            let answer = minreq::get(dev.page()).with_timeout(5).send()?;
            ensure!(answer.status_code == 200, "the page answers {}", answer.status_code);
            Ok(())
        })?;
        Ok(dev)
    }

    /// Where the page is.
    pub(crate) fn page(&self) -> String {
        format!("http://127.0.0.1:{}/", self.base + PAGE)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Either may fail only because it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What `CONCLAVE_BINARY` names, or what cargo built beside this test.
fn binary() -> Result<PathBuf> {
    if let Some(chosen) = std::env::var_os("CONCLAVE_BINARY") {
        return Ok(chosen.into());
    }
    let test = std::env::current_exe()?;
    let profile = test.ancestors().nth(2).context("the test lies in cargo's target directory")?;
    Ok(profile.join("conclave"))
}

/// A base port all of whose ports are free: below those that the system gives to clients, and
/// another one for each group of this process.
fn free_base() -> Result<u16> {
    static TRIES: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(BASES))?;
    for _ in 0..BASES {
        let place = (start + TRIES.fetch_add(1, Ordering::Relaxed)) % BASES;
        let base = FIRST + STEP * place;
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let mut ports = [0, 100, 200].into_iter().flat_map(|kind| kind..kind + 5).chain([PAGE]);
        if ports.all(|port| is_free(base + port)) {
            return Ok(base);
        }
    }
    anyhow::bail!("no ports are free for a group")
}

const FIRST: u16 = 20_000;
const STEP: u16 = 400;
const BASES: u16 = 30;

/// From the base port to the page.
const PAGE: u16 = 300;

const SOON: Duration = Duration::from_secs(30);
