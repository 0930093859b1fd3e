//! The clock pages of a group that runs as a process, and what is left of them when it is killed.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use conclave_clock_page::{OpenError, Reader, Reading, Status};
use conclave_sidecar::dev::clock_fault;
use conclave_sidecar::os_clock::OsClock;
use serde_json::Value;

/// A group of three that keeps clock pages. It is killed when the value goes.
struct Dev {
    process: Child,
    base: u16,
}

/// The page of a member, and the raw clock of that member.
struct Page {
    reader: Reader,
    clock: OsClock,
}

/// What the API of a member says, in nanoseconds.
struct Time {
    shown: i64,
    earliest: i64,
    latest: i64,
}

const MEMBERS: u16 = 3;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(90);

impl Dev {
    fn start(pages: &Path) -> Self {
        let base = free_base();
        let process = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .args(["dev", "--members", &MEMBERS.to_string(), "--base-port", &base.to_string()])
            .arg("--clock-pages")
            .arg(pages)
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { process, base }
    }

    fn kill(&mut self) {
        self.process.kill().expect("it is ours");
        self.process.wait().expect("it is ours");
    }

    /// What a member says of the time; nothing while it does not know.
    fn time(&self, member: u16) -> Option<Time> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.base + member)).ok()?;
        let call = "GET /v1/time HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(call.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let time: Value = serde_json::from_str(body).ok()?;
        let ns = |field: &str| time[field].as_str()?.parse().ok();
        Some(Time { shown: ns("time_ns")?, earliest: ns("earliest_ns")?, latest: ns("latest_ns")? })
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Page {
    fn open(folder: &Path, member: u16) -> Option<Self> {
        let reader = Reader::open_even_with_fault(folder.join(member.to_string())).ok()?;
        Some(Self { reader, clock: OsClock::with_fault(clock_fault(member)) })
    }

    /// As [`Reader::now`], by the clock of the member.
    fn now(&self) -> Option<Reading> {
        let words = self.reader.words()?;
        Some(words.at(self.clock.raw().0))
    }
}

/// Waits for something, with patience.
fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "{what} did not come");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The first of ports of which the group needs some: below those that the system draws, so that no connection takes
/// one meanwhile.
fn free_base() -> u16 {
    let first = u16::try_from(12_000 + std::process::id() % 150 * 50).expect("small");
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    let needed = |base: u16| {
        let of_members =
            (0..MEMBERS).flat_map(move |member| [0, 100, 200].map(|from| base + from + member));
        of_members.chain([base + 300])
    };
    let mut bases = (first..24_000).step_by(10);
    bases.find(|base| needed(*base).all(is_free)).expect("some ports are free")
}

#[test]
fn pages_agree_with_each_other_and_with_the_api_and_expire_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dev = Dev::start(folder.path());
    let pages = [0, 1, 2].map(|member| {
        wait_for("a page", || {
            let page = Page::open(folder.path(), member)?;
            let reading = page.now()?;
            let is_whole = reading.members == u32::from(MEMBERS) && reading.epoch > 0;
            (is_whole && reading.status == Status::Synchronised).then_some(page)
        })
    });
    // Each clock is off, so that nobody takes the page for one of a real clock.
    for member in 0..MEMBERS {
        let opened = Reader::open(folder.path().join(member.to_string()));
        assert!(matches!(opened, Err(OpenError::InjectedFault)), "{opened:?}");
    }
    for _ in 0..20 {
        for (member, page) in (0..).zip(&pages) {
            let before = wait_for("a time", || dev.time(member));
            let read = page.now().expect("it is published");
            let after = wait_for("a time", || dev.time(member));
            assert_ne!(read.status, Status::Unknown);
            assert!(before.earliest <= read.latest_ns, "{member}: {read:?}");
            assert!(read.earliest_ns <= after.latest, "{member}: {read:?}");
            // It is the same clock: no farther off than the page says that it may be.
            let (least, most) = (before.shown, after.shown);
            assert!(least <= read.latest_ns && read.earliest_ns <= most, "{member}: {read:?}");
        }
        for (one, other) in [(0, 1), (1, 2), (2, 0)] {
            let [first, middle, last] =
                [one, other, one].map(|member| pages[member].now().expect("it is published"));
            assert!(first.earliest_ns <= middle.latest_ns, "{first:?} {middle:?}");
            assert!(middle.earliest_ns <= last.latest_ns, "{middle:?} {last:?}");
        }
        thread::sleep(Duration::from_millis(100));
    }
    dev.kill();
    for page in pages {
        let words = page.reader.words().expect("they stay");
        let begins = words.at(words.published_raw);
        assert_eq!(begins.status, Status::Synchronised, "{words:?}");
        assert_eq!(words.at(words.stale_after_raw).status, Status::Synchronised);
        let stale = words.at(words.stale_after_raw + 1);
        assert_eq!(stale.status, Status::Holdover);
        assert!(stale.error_ns >= begins.error_ns, "{words:?}");
        assert!(words.void_after_raw - words.stale_after_raw <= 1_000_000_000_000, "{words:?}");
        assert_eq!(words.at(words.void_after_raw).status, Status::Holdover);
        assert_eq!(words.at(words.void_after_raw + 1).status, Status::Unknown);
        // By the clock itself, too: it is stale a few seconds after the last synchronisation.
        let is_stale = || (page.now()?.status == Status::Holdover).then_some(());
        wait_for("holdover", is_stale);
        assert_eq!(page.reader.words(), Some(words));
    }
}
