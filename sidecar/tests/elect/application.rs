//! Applications that die or fall sick while they lead, as processes of their own.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread;

use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

use super::ONE_GROUP;
use super::dev::{Dev, HEALTH, MANIFEST, until};

/// An application that stands by its connection, and writes down what it is sent. It is killed when the value goes.
struct Application(Child);

/// Where it finds the port of its sidecar, and the file.
const PORT: &str = "TEST_APPLICATION_PORT";
const FILE: &str = "TEST_APPLICATION_FILE";

impl Application {
    fn start(dev: &Dev, member: u16) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("it has a path"));
        command.args(["--exact", "application::an_application", "--ignored", "--nocapture"]);
        command
            .env(PORT, dev.port(member).to_string())
            .env(FILE, dev.path(&format!("seen-{member}")));
        Self(command.stdout(Stdio::null()).spawn().expect("it starts"))
    }

    /// It ends as by SIGKILL: it does nothing about it.
    fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it is ours");
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // Either may fail only because it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "it is the process that the tests below start"]
fn an_application() {
    let port: u16 = std::env::var(PORT).expect("a port").parse().expect("a number");
    let mut file = File::create(std::env::var(FILE).expect("a file")).expect("it is made");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("the sidecar listens");
    let headers = "Accept: text/event-stream\r\nContent-Length: 0";
    let line = "PUT /v1/elections/reports/candidacy";
    write!(stream, "{line} HTTP/1.1\r\nHost: localhost:{port}\r\n{headers}\r\n\r\n").expect("sent");
    for line in BufReader::new(stream).lines() {
        let line = line.expect("text");
        if let Some(data) = line.strip_prefix("data: ") {
            writeln!(file, "{} {data}", boottime_ns()).expect("it is written");
        }
    }
}

fn boottime_ns() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let parts = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    parts.0.expect("positive") * 1_000_000_000 + parts.1.expect("positive")
}

/// When an application read that, and what it says.
fn seen(dev: &Dev, member: u16) -> Vec<(u64, Value)> {
    let read = |line: String| {
        let (at, data) = line.split_once(' ')?;
        // The last line may not be whole yet.
        Some((at.parse::<u64>().ok()?, serde_json::from_str::<Value>(data).ok()?))
    };
    dev.lines(&format!("seen-{member}")).into_iter().filter_map(read).collect()
}

/// When a member's application read first that it leads, and what it read last.
fn leads(dev: &Dev, member: u16) -> (u64, Value) {
    until(&format!("{member} to lead"), || {
        let mut all = seen(dev, member).into_iter().filter(|(_, data)| data["is_leader"] == true);
        let (at, first) = all.next()?;
        Some((at, all.next_back().map_or(first, |(_, last)| last)))
    })
}

/// So long that what a busy machine does meanwhile is over before it.
const LONG: &str = "
apiVersion: conclave.dev/v1alpha1
kind: Conclave
metadata: {name: dev}
spec:
  timing: {leaderLease: 20s, heartbeat: 250ms, memberLease: 30s, apiOutage: 60s}
  elections:
  - {name: reports}
";

/// Applications at two members, of which the first one leads.
fn leader_and_candidate(dev: &Dev) -> [Application; 2] {
    dev.is_whole();
    let first = Application::start(dev, 0);
    leads(dev, 0);
    let second = Application::start(dev, 1);
    until("two candidates", || {
        dev.call(0, "GET /v1/elections/reports").contains("\"candidates\":2").then_some(())
    });
    [first, second]
}

/// The second one led before the deadline that the first one knew when it was killed, and with a larger token.
fn is_followed_in_time(dev: &Dev) {
    let (_, last) = leads(dev, 0);
    let (at, next) = leads(dev, 1);
    let deadline = last["safe_until_boottime_ns"].as_str().expect("a text");
    let deadline: u64 = deadline.parse().expect("digits");
    assert!(at < deadline, "{at} is not before {deadline}");
    assert!(next["token"].as_u64() > last["token"].as_u64(), "{next} after {last}");
}

#[test]
fn an_application_that_is_killed_is_followed_before_the_deadline_that_it_knew() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    let dev = Dev::start_as(LONG, |_, _| {});
    let [mut first, _second] = leader_and_candidate(&dev);
    first.kill();
    is_followed_in_time(&dev);
}

/// Its sidecar is asked to end while it leads, and leaves when the application has stopped.
#[test]
fn an_application_whose_sidecar_ends_is_notified_and_followed_when_it_has_stopped() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    let dev = Dev::start_as(LONG, |_, _| {});
    let [mut first, _second] = leader_and_candidate(&dev);
    dev.act("/members/0/leave");
    until("the notice", || {
        let ends = |data: &Value| data["candidacy"] == "terminating" && data["is_leader"] == true;
        seen(&dev, 0).iter().any(|(_, data)| ends(data)).then_some(())
    });
    assert!(
        seen(&dev, 1).iter().all(|(_, data)| data["is_leader"] == false),
        "the first one leads"
    );
    first.kill();
    is_followed_in_time(&dev);
}

/// The answers of an application about its health: 200 while it is well.
fn health(port: u16) -> Arc<AtomicBool> {
    let is_well = Arc::new(AtomicBool::new(false));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("the port is free");
    let answers = Arc::clone(&is_well);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            let status = if answers.load(Ordering::Relaxed) { "200 OK" } else { "503 Sick" };
            // The sidecar may end meanwhile.
            let _ = stream.read(&mut [0; 1024]);
            let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
        }
    });
    is_well
}

#[test]
fn an_application_that_falls_sick_is_followed_and_stands_again_when_it_is_well() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(PoisonError::into_inner);
    let dev = Dev::start_as(MANIFEST, |command, base| {
        let port = (base + HEALTH).to_string();
        command.args(["--app-health-port", &port, "--app-health-path", "/live"]);
        command.args(["--app-health-interval", "300ms", "--app-health-timeout", "300ms"]);
    });
    let well: Vec<_> = (0..2).map(|member| health(dev.port(HEALTH + member))).collect();
    dev.is_whole();
    let shown = |member: u16| -> Value {
        let answer = dev.call(member, "GET /v1/elections/reports");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
        serde_json::from_str(body).expect("JSON")
    };
    let becomes = |member: u16, field: &str, value: &Value| {
        until(&format!("{field} {value} of {member}"), || {
            let shown = shown(member);
            (shown[field] == *value).then_some(shown)
        })
    };
    for member in 0..2 {
        let answer = dev.call(member, "PUT /v1/elections/reports/candidacy");
        assert!(answer.contains("\"candidacy\":\"unhealthy\""), "it was not well yet: {answer}");
    }
    well[0].store(true, Ordering::Relaxed);
    let first = becomes(0, "is_leader", &true.into());
    well[1].store(true, Ordering::Relaxed);
    becomes(1, "candidacy", &"stands".into());
    becomes(0, "candidates", &2.into());
    well[0].store(false, Ordering::Relaxed);
    let second = becomes(1, "is_leader", &true.into());
    assert!(second["token"].as_u64() > first["token"].as_u64(), "{second} after {first}");
    let sick = shown(0);
    assert_eq!((&sick["candidacy"], &sick["is_leader"]), (&"unhealthy".into(), &false.into()));
    well[0].store(true, Ordering::Relaxed);
    becomes(0, "candidacy", &"stands".into());
}
