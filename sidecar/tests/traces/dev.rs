//! `conclave dev` as a process that traces its members, and what a test does to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use conclave_protocols::trace::Line;
use tempfile::NamedTempFile;

/// A running group. It ends with its trace, or when the value goes.
pub(crate) struct Dev {
    process: Child,
    base: u16,
    members: u16,
    lines: Option<JoinHandle<Vec<Line>>>,
    /// Lasts as long as the group.
    _manifest: NamedTempFile,
}

/// What was answered.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) location: String,
}

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// From the first API to the page.
const PAGE: u16 = 300;

const MANIFEST: &str = "
apiVersion: conclave.dev/v1alpha1
kind: Conclave
metadata: {name: dev}
spec:
  timing: {leaderLease: 600ms, heartbeat: 120ms, memberLease: 3s, apiOutage: 10s}
  locks:
  - {names: [permitted], algorithm: RicartAgrawala}
  - {names: [passed], algorithm: TokenRing}
  - {names: [voted], algorithm: Maekawa}
  - {names: [cached], caching: Enabled}
  - {names: ['*']}
";

impl Dev {
    pub(crate) fn start(members: u16) -> Self {
        let manifest = NamedTempFile::new().expect("a file");
        std::fs::write(manifest.path(), MANIFEST).expect("it is written");
        let base = free_base(members);
        let mut process = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["dev", "--members", &members.to_string(), "--base-port", &base.to_string()])
            .args(["--log", "warn,conclave::trace=trace", "--file"])
            .arg(manifest.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let log = BufReader::new(process.stdout.take().expect("it is piped"));
        let lines = thread::spawn(move || log.lines().filter_map(|l| read(&l.ok()?)).collect());
        Self { process, base, members, lines: Some(lines), _manifest: manifest }
    }

    /// Ends it at once. All lines that it wrote.
    pub(crate) fn end(mut self) -> Vec<Line> {
        self.process.kill().expect("it runs");
        self.lines.take().expect("it is the first time").join().expect("it reads to the end")
    }

    /// Waits until one member leads that did not before.
    pub(crate) fn leader(&self, former: Option<u16>) -> u16 {
        let leads = |member: &u16| self.call(*member, "GET", SELF).is_some_and(|r| r.status == 200);
        until("a leader", || (0..self.members).filter(|m| Some(*m) != former).find(leads))
    }

    /// Takes a lock, waiting for it.
    pub(crate) fn lock(&self, member: u16, lock: &str) -> Reply {
        until("a grant", || self.try_lock(member, lock))
    }

    /// Takes a lock if it can be had soon.
    pub(crate) fn try_lock(&self, member: u16, lock: &str) -> Option<Reply> {
        let reply = self.call(member, "POST", &format!("/v1/locks/{lock}?wait=1s"))?;
        (reply.status == 201).then_some(reply)
    }

    /// Gives it back, if that can be done.
    pub(crate) fn unlock(&self, member: u16, grant: &Reply) {
        self.call(member, "DELETE", &grant.location);
    }

    /// Does what the page can do, by its path there; whether that was done.
    pub(crate) fn act(&self, path: &str) -> bool {
        self.call(PAGE, "POST", path).is_some_and(|reply| reply.status == 204)
    }

    /// Calls the API of a member; nothing if it does not live.
    fn call(&self, member: u16, method: &str, path: &str) -> Option<Reply> {
        let port = self.base + member;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let headers = format!("Host: localhost:{port}\r\nConnection: close\r\nContent-Length: 0");
        write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let status = text.split(' ').nth(1)?.parse().ok()?;
        let location = text.lines().find_map(|line| line.strip_prefix("location: "));
        Some(Reply { status, location: location.unwrap_or_default().to_owned() })
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Either may fail only because it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The line of a trace in a record of the log.
fn read(record: &str) -> Option<Line> {
    let is_trace = record.contains("conclave::trace");
    let json = is_trace.then(|| record.find('{').and_then(|begin| record.get(begin..)))??;
    // A process that is killed may not come to the end of a record.
    serde_json::from_str(json).ok()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A base port all of whose ports are free: below those that the system draws by itself, and another one
/// for each group of this process.
fn free_base(members: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let kinds = [0, 100, 200].map(|kind| kind..kind + members);
    let ports: Vec<u16> = kinds.into_iter().flatten().chain([PAGE]).collect();
    let start = u16::try_from(std::process::id() % 30).expect("small");
    let base = || 20_000 + 400 * ((start + NEXT.fetch_add(1, Ordering::Relaxed)) % 30);
    let mut bases = (0..30).map(|_| base());
    let all = |base: &u16| ports.iter().all(|port| is_free(base + port));
    bases.find(all).expect("ports are free for a group")
}

const SELF: &str = "/v1/elections/default/self";
