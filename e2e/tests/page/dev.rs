//! `conclave dev` as a process, for as long as a test lasts.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::wait;
use minreq::Method;
use serde_json::Value;
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
        Self::run(5, None)
    }

    /// The same, with the policies of a manifest.
    pub(crate) fn start_with(manifest: &str) -> Result<Self> {
        Self::start_many(5, manifest)
    }

    /// A group of so many.
    pub(crate) fn start_many(members: u16, manifest: &str) -> Result<Self> {
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), manifest)?;
        Self::run(members, Some(file))
    }

    fn run(members: u16, manifest: Option<NamedTempFile>) -> Result<Self> {
        let base = free_base(members)?;
        let binary = binary()?;
        let mut command = Command::new(&binary);
        command.args(["dev", "-n", &members.to_string()]);
        command.env("CONCLAVE_BASE_PORT", base.to_string()).stdout(Stdio::null());
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

    /// Lets the application of a member stand in an election.
    pub(crate) fn stand(&self, member: u16, election: &str) -> Result<()> {
        let path = format!("elections/{election}/candidacy");
        // A member learns late that it belongs to a group.
        wait::until("a candidacy", SOON, || self.ask(Method::Put, member, &path)).map(drop)
    }

    /// Lets it stand no longer.
    pub(crate) fn withdraw(&self, member: u16, election: &str) -> Result<()> {
        self.ask(Method::Delete, member, &format!("elections/{election}/candidacy")).map(drop)
    }

    /// Waits until a member leads in an election; returns which.
    pub(crate) fn leads(&self, election: &str) -> Result<u16> {
        wait::until("a leader", SOON, || {
            let seen = self.ask(Method::Get, 0, &format!("elections/{election}"))?;
            let pod = seen["leader"]["pod"].as_str().context("nobody leads")?;
            Ok(pod.strip_prefix("dev-").context("a member")?.parse()?)
        })
    }

    /// Who grants a lock by itself, as the leader sees it; nobody does with most algorithms.
    pub(crate) fn coordinator(&self, leader: u16, lock: &str) -> Result<Option<u16>> {
        let seen = self.ask(Method::Get, leader, &format!("locks/{}", lock.replace('/', "%2F")))?;
        let Some(pod) = seen["coordinator"].as_str() else { return Ok(None) };
        Ok(Some(pod.strip_prefix("dev-").context("a member")?.parse()?))
    }

    /// How many stand in an election.
    pub(crate) fn candidates(&self, election: &str) -> Result<u64> {
        let seen = self.ask(Method::Get, 0, &format!("elections/{election}"))?;
        seen["candidates"].as_u64().context("a number of candidates")
    }

    /// How many messages a member sent in the last election that it took part in.
    pub(crate) fn last_election(&self, member: u16, election: &str) -> Result<u64> {
        let seen = self.ask(Method::Get, member, &format!("elections/{election}"))?;
        seen["last_election"]["messages"].as_u64().context("no last election")
    }

    /// A metric of a member, by the begin of its line.
    pub(crate) fn metric(&self, member: u16, begin: &str) -> Result<u64> {
        let url = format!("http://127.0.0.1:{}/metrics", self.base + ADMIN + member);
        let answer = minreq::get(url).with_timeout(5).send()?;
        let line = answer.as_str()?.lines().find(|line| line.starts_with(begin));
        let value = line.and_then(|line| line.rsplit(' ').next()).context("no such metric")?;
        Ok(value.parse()?)
    }

    fn ask(&self, method: Method, member: u16, path: &str) -> Result<Value> {
        let url = format!("http://127.0.0.1:{}/v1/{path}", self.base + member);
        let answer = minreq::Request::new(method, url).with_timeout(5).send()?;
        let (code, body) = (answer.status_code, answer.as_bytes());
        ensure!((200..300).contains(&code), "{path}: {code}, {}", String::from_utf8_lossy(body));
        if body.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_slice(body)?) }
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
fn free_base(members: u16) -> Result<u16> {
    static TRIES: AtomicU16 = AtomicU16::new(0);
    let start = u16::try_from(std::process::id() % u32::from(BASES))?;
    for _ in 0..BASES {
        let place = (start + TRIES.fetch_add(1, Ordering::Relaxed)) % BASES;
        let base = FIRST + STEP * place;
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let mut ports =
            [0, 100, 200].into_iter().flat_map(|kind| kind..kind + members).chain([PAGE]);
        if ports.all(|port| is_free(base + port)) {
            return Ok(base);
        }
    }
    anyhow::bail!("no ports are free for a group")
}

const FIRST: u16 = 20_000;
const STEP: u16 = 400;
const BASES: u16 = 30;

/// From a member's API to its metrics.
const ADMIN: u16 = 200;

/// From the base port to the page.
const PAGE: u16 = 300;

const SOON: Duration = Duration::from_secs(30);
