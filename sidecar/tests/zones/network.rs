//! Network namespaces on a bridge, and which of them reach each other.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Two members, the lower number first.
pub(crate) type Pair = (usize, usize);

pub(crate) fn pair(one: usize, other: usize) -> Pair {
    (one.min(other), one.max(other))
}

/// Runs a test of this name in a network namespace of its own, by a process of this program. All namespaces end with
/// that process, however it ends, and that with this one.
///
/// It may have to run it again: a member that answers later than an election waits counts as dead, and on a busy machine the best
/// candidate may be one of these.
pub(crate) fn in_a_network_of_its_own(test: &str, run: impl FnOnce()) {
    if env::var_os(ISOLATED).is_some() {
        return run();
    }
    let ways: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let works =
        |way: &&&[&str]| is_done(Command::new("unshare").args(**way).args(["sh", "-c", TRIAL]));
    let Some(way) = ways.iter().find(works) else {
        return skip(&format!("{test}: it takes network namespaces with a bridge that filters"));
    };
    // As many members as two tests have are too many for a small machine.
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let program = env::current_exe().expect("this program");
    let mut command = Command::new("unshare");
    command.args(*way).args(["setpriv", "--pdeathsig", "KILL"]).arg(program);
    command.args(["--exact", test, "--nocapture"]).env(ISOLATED, "1");
    let passes = (0..ATTEMPTS).any(|_| is_done(&mut command));
    assert!(passes, "{test} failed {ATTEMPTS} times, as its output shows");
}

/// How often a test may fail before it has failed.
const ATTEMPTS: usize = 3;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Set in the process that runs a test.
const ISOLATED: &str = "CONCLAVE_IN_A_NETWORK";

/// What all of this takes.
const TRIAL: &str = "exec >/dev/null 2>&1; unshare --net true && ip link add name br type bridge && ip link add name v0 type veth \
                     peer name v1 && nft 'table bridge t { set s { type ipv4_addr . ipv4_addr; }; \
                     chain c { type filter hook forward priority 0; \
                     ether type ip ip saddr . ip daddr != @s drop; }; }' && setpriv --pdeathsig KILL true";

fn is_done(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A run of all tests counts what could show nothing (`e2e/testbed/src/skipped.rs`).
fn skip(what: &str) {
    println!("skipped: {what}");
    let Some(path) = env::var_os("CONCLAVE_SKIPPED") else { return };
    let file = File::options().append(true).create(true).open(path);
    writeln!(file.expect("a file"), "{what}").expect("noted");
}

/// A bridge, and a namespace for each member.
pub(crate) struct Network {
    members: Vec<Namespace>,
}

struct Namespace {
    file: File,
    /// Is in it from the beginning, so that others find it.
    holder: Child,
}

impl Network {
    /// Everybody reaches everybody.
    pub(crate) fn of(size: usize) -> Self {
        let members: Vec<Namespace> = (0..size).map(|_| Namespace::new()).collect();
        let mut lines = "link add name hub type bridge\nlink set hub up\n".to_owned();
        for (number, member) in members.iter().enumerate() {
            let holder = member.holder.id();
            writeln!(lines, "link add name m{number} type veth peer name eth0 netns {holder}")
                .expect("text");
            writeln!(lines, "link set m{number} master hub up").expect("text");
        }
        feed(Command::new("ip").args(["-batch", "-"]), &lines);
        for (number, member) in members.iter().enumerate() {
            let network = format!("--net=/proc/{}/ns/net", member.holder.id());
            let lines = format!(
                "link set lo up\naddress add {}/24 dev eth0\nlink set eth0 up\n",
                address(number)
            );
            feed(Command::new("nsenter").args([&network, "ip", "-batch", "-"]), &lines);
        }
        Self { members }
    }

    /// Drops each packet between two members that are none of these pairs, from now on.
    pub(crate) fn leave_only(kept: &BTreeSet<Pair>) {
        let both = kept.iter().flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        let both = both.map(|(from, to)| format!("{} . {}", address(from), address(to)));
        let both: Vec<String> = both.collect();
        let rules = format!(
            "table bridge cuts {{
                set kept {{ type ipv4_addr . ipv4_addr; elements = {{ {} }} }}
                chain forward {{
                    type filter hook forward priority 0; policy accept;
                    ether type ip ip saddr . ip daddr != @kept drop
                }}
            }}",
            both.join(", ")
        );
        feed(Command::new("nft").args(["-f", "-"]), &rules);
    }

    /// The way into a member's namespace.
    pub(crate) fn entrance(&self, member: usize) -> Entrance {
        Entrance(self.members[member].file.try_clone().expect("one more descriptor"))
    }

    /// Whether a connection to a peer's port can be had.
    pub(crate) fn reaches(&self, from: usize, to: usize) -> bool {
        let entrance = self.entrance(from);
        let connects = move || {
            entrance.enter();
            TcpStream::connect_timeout(&peer(to), Duration::from_secs(2)).is_ok()
        };
        thread::spawn(connects).join().expect("an answer")
    }
}

/// The way into a namespace.
pub(crate) struct Entrance(File);

impl Entrance {
    /// Moves this thread into it, and those that it starts from now on.
    pub(crate) fn enter(self) {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))
            .expect("a namespace");
    }
}

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        // It ends with the pipe, so with this process.
        command
            .args(["--net", "sh", "-c", "echo; exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut holder = command.spawn().expect("unshare");
        let mut out = holder.stdout.take().expect("a pipe");
        out.read_exact(&mut [0]).expect("it is in its namespace");
        let file = File::open(format!("/proc/{}/ns/net", holder.id())).expect("its namespace");
        Self { file, holder }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

fn feed(command: &mut Command, lines: &str) {
    let name: &OsStr = command.get_program();
    let name = name.to_owned();
    let mut child = command.stdin(Stdio::piped()).spawn().expect("a program");
    child.stdin.take().expect("a pipe").write_all(lines.as_bytes()).expect("read");
    let status = child.wait().expect("its end");
    assert!(status.success(), "{}: {status} of\n{lines}", name.display());
}

/// Of the addresses that are for documents alone.
fn address(member: usize) -> Ipv4Addr {
    Ipv4Addr::new(192, 0, 2, u8::try_from(member + 1).expect("few"))
}

/// Where a member is reached by the others.
pub(crate) fn peer(member: usize) -> SocketAddr {
    SocketAddr::from((address(member), 7071))
}
