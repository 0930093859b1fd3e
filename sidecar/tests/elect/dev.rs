//! `conclave dev` as a process, and the files by which commands report to a test.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// A group of three. It ends when the value goes.
pub(crate) struct Dev {
    process: Child,
    base: u16,
    folder: TempDir,
}

/// A `conclave elect`. It is killed when the value goes.
pub(crate) struct Elect(Child);

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(90);

/// From the first API to the page.
const PAGE: u16 = 300;

/// From the first API to where the application of the first member has its health, in some tests.
pub(crate) const HEALTH: u16 = 40;

/// A lease so long that a busy machine does not end it.
pub(crate) const MANIFEST: &str = "
apiVersion: conclave.dev/v1alpha1
kind: Conclave
metadata: {name: dev}
spec:
  timing: {leaderLease: 4s, heartbeat: 250ms, memberLease: 8s, apiOutage: 30s}
  elections:
  - {name: reports}
";

impl Dev {
    pub(crate) fn start() -> Self {
        Self::start_as(MANIFEST, |_, _| {})
    }

    /// A group of that manifest, started with more arguments, which may depend on its first port.
    pub(crate) fn start_as(manifest_text: &str, more: impl FnOnce(&mut Command, u16)) -> Self {
        let folder = TempDir::new().expect("a folder");
        let manifest = folder.path().join("manifest");
        std::fs::write(&manifest, manifest_text).expect("it is written");
        let base = free_base();
        let mut command = conclave();
        command
            .args(["dev", "--members", "3", "--base-port", &base.to_string(), "--file"])
            .arg(manifest);
        more(&mut command, base);
        let process = command.stdout(Stdio::null()).spawn().expect("it starts");
        Self { process, base, folder }
    }

    /// Runs a script of the shell while the member leads, in the folder of the test.
    pub(crate) fn elect(&self, member: u16, election: &str, more: &[&str], script: &str) -> Elect {
        self.elect_logging_to(Stdio::inherit(), member, election, more, script)
    }

    /// The same, of which somebody may read what it logs.
    pub(crate) fn elect_logging_to(
        &self,
        log: Stdio,
        member: u16,
        election: &str,
        more: &[&str],
        script: &str,
    ) -> Elect {
        let url = format!("http://localhost:{}", self.base + member);
        let mut command = conclave();
        command.current_dir(&self.folder).env("MEMBER", member.to_string()).stderr(log);
        command
            .args(["elect", election, "--url", &url])
            .args(more)
            .args(["--", "sh", "-c", script]);
        Elect(command.spawn().expect("it starts"))
    }

    /// Waits until all are in a view, and know of a leader.
    pub(crate) fn is_whole(&self) {
        let is_ready = |member: u16| self.call(member, "GET /v1/status").contains("\"ready\":true");
        until("a group", || (0..3).all(is_ready).then_some(()));
    }

    /// Does what the page can do, by its path there.
    pub(crate) fn act(&self, path: &str) {
        let answer = self.call(PAGE, &format!("POST {path}"));
        assert!(answer.starts_with("HTTP/1.1 204 "), "{path}: {answer}");
    }

    /// What is answered; nothing if nobody listens.
    pub(crate) fn call(&self, port: u16, line: &str) -> String {
        let port = self.base + port;
        let mut text = String::new();
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return text };
        let headers = format!("Host: localhost:{port}\r\nConnection: close\r\nContent-Length: 0");
        write!(stream, "{line} HTTP/1.1\r\n{headers}\r\n\r\n").expect("it reads");
        stream.read_to_string(&mut text).expect("it answers");
        text
    }

    /// The port of a member's API.
    pub(crate) fn port(&self, member: u16) -> u16 {
        self.base + member
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    pub(crate) fn write(&self, file: &str) {
        std::fs::write(self.path(file), "").expect("it is written");
    }

    /// The lines of a file; none without it.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.path(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The line of that number, as soon as it is there.
    pub(crate) fn line(&self, file: &str, number: usize) -> String {
        until(&format!("line {number} of {file}"), || self.lines(file).get(number).cloned())
    }
}

impl Elect {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// How it ends.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        until("the end", || self.0.try_wait().expect("it is ours"))
    }

    pub(crate) fn is_there(&mut self) -> bool {
        self.0.try_wait().expect("it is ours").is_none()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Either may fail only because it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Elect {
    fn drop(&mut self) {
        // As above.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The program, without what the environment may set.
pub(crate) fn conclave() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    command.env_remove("CONCLAVE_URL").env_remove("CONCLAVE_SOCKET").env_remove("CONCLAVE_TOKEN");
    command
}

/// Waits until a process has ended.
pub(crate) fn is_gone(pid: &str) {
    let pid = Pid::from_raw(pid.parse().expect("a number")).expect("a process");
    until("a process to end", || test_kill_process(pid).is_err().then_some(()));
}

pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
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
fn free_base() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let ports = [0, 1, 2, HEALTH, HEALTH + 1, HEALTH + 2, 100, 101, 102, 200, 201, 202, PAGE];
    let start = u16::try_from(std::process::id() % 30).expect("small");
    let base = || 20_000 + 400 * ((start + NEXT.fetch_add(1, Ordering::Relaxed)) % 30);
    let mut bases = (0..30).map(|_| base());
    bases.find(|base| ports.iter().all(|port| is_free(base + port))).expect("ports are free")
}
