//! `conclave elect` beside real sidecars, with commands that are real processes.

#[path = "elect/application.rs"]
mod application;
#[path = "elect/dev.rs"]
mod dev;

use std::io::Write as _;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use self::dev::{Dev, conclave, is_gone, until};

/// Leases are too brief for several groups on a busy machine.
static ONE_GROUP: Mutex<()> = Mutex::new(());

/// Reports that it runs: the member, the election, the token, the process. It reports as well whether a process that was
/// to be gone is still there. It goes on until it is asked to end by a file.
const REPORT: &str = r#"
for pid in $(cat gone 2>/dev/null); do kill -0 $pid 2>/dev/null && echo "$pid is there" >> overlaps; done
echo "$MEMBER $CONCLAVE_ELECTION $CONCLAVE_TOKEN $$" >> runs
while [ ! -e "end-$MEMBER" ]; do sleep 0.02; done
exit 7
"#;

/// The fields of a report.
fn report(dev: &Dev, number: usize) -> Vec<String> {
    dev.line("runs", number).split(' ').map(str::to_owned).collect()
}

fn token(report: &[String]) -> u64 {
    report[2].parse().expect("a token")
}

#[test]
fn command_runs_at_the_leader_alone_and_its_status_is_passed_on() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    dev.is_whole();
    let mut elects = [0, 1].map(|member| dev.elect(member, "reports", &[], REPORT));
    let first = report(&dev, 0);
    assert_eq!(first[1], "reports");
    thread::sleep(Duration::from_secs(1));
    assert_eq!(dev.lines("runs").len(), 1, "two run");
    let (leader, other) = if first[0] == "0" { (0, 1) } else { (1, 0) };
    dev.write(&format!("end-{leader}"));
    assert_eq!(elects[leader].ends().code(), Some(7));
    let second = report(&dev, 1);
    assert_eq!(second[0], other.to_string());
    assert!(token(&second) > token(&first), "{second:?} after {first:?}");

    // It is killed, and cannot do anything about COMMAND any more.
    elects[other].signal(Signal::KILL);
    elects[other].ends();
    is_gone(&second[3]);
    let _third = dev.elect(2, "reports", &[], REPORT);
    let third = report(&dev, 2);
    assert_eq!(third[0], "2");
    assert!(token(&third) > token(&second), "{third:?} after {second:?}");
}

/// Ignores that it should end, and so does a process that it starts in a session of its own. The second time it ends at
/// once.
const STUBBORN: &str = r#"
echo "$MEMBER $CONCLAVE_ELECTION $CONCLAVE_TOKEN $$" >> runs
if [ -e gone ]; then exit 8; fi
trap 'echo asked >> asked' TERM
setsid sh -c 'trap "" TERM; while :; do sleep 0.1; done' &
echo "$! $$" > gone
while :; do sleep 0.02; done
"#;

#[test]
fn when_the_sidecar_falls_silent_all_of_command_is_gone_before_another_leads() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    dev.is_whole();
    let mut silent = dev.elect(0, "reports", &[], STUBBORN);
    let first = report(&dev, 0);
    dev.line("gone", 0);
    let _other = dev.elect(1, "reports", &[], REPORT);
    dev.act("/members/0/pause");
    let second = report(&dev, 1);
    assert_eq!(second[0], "1");
    assert!(token(&second) > token(&first), "{second:?} after {first:?}");
    assert_eq!(dev.lines("asked"), ["asked"], "it had time to end");
    assert_eq!(dev.lines("overlaps"), Vec::<String>::new());
    for pid in dev.line("gone", 0).split(' ') {
        is_gone(pid);
    }
    // It stands again, and waits.
    dev.act("/members/0/resume");
    assert!(silent.is_there());
    dev.write("end-1");
    assert_eq!(report(&dev, 2)[0], "0");
    assert_eq!(silent.ends().code(), Some(8));
}

#[test]
fn when_the_sidecar_ends_the_connection_command_is_killed_at_once() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    let mut only = dev.elect(0, "reports", &["--once"], STUBBORN);
    dev.line("gone", 0);
    dev.act("/members/0/kill");
    assert_eq!(only.ends().code(), Some(75), "the lead was lost");
    for pid in dev.line("gone", 0).split(' ') {
        is_gone(pid);
    }
    assert!(dev.lines("asked").is_empty(), "there was no time to ask");
}

#[test]
fn the_leader_of_the_group_runs_command_and_hands_it_on() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    let mut elects = [0, 1, 2].map(|member| dev.elect(member, "default", &[], REPORT));
    let first = report(&dev, 0);
    assert_eq!((first[1].as_str(), first[2].as_str()), ("default", ""), "it has no token");
    let leader: usize = first[0].parse().expect("a number");
    dev.act(&format!("/members/{leader}/leave"));
    let second = report(&dev, 1);
    assert_ne!(second[0], first[0]);
    is_gone(&first[3]);
    assert!(elects[leader].is_there(), "it waits for its sidecar");
}

#[test]
fn a_signal_is_passed_on_and_the_status_is_that_of_command() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    let script = "trap 'echo hup >> got' HUP; trap 'echo usr1 >> got' USR1; trap 'exit 9' TERM; \
                  echo > runs; while :; do sleep 0.02; done";
    let mut elect = dev.elect(0, "reports", &[], script);
    dev.line("runs", 0);
    elect.signal(Signal::HUP);
    assert_eq!(dev.line("got", 0), "hup");
    elect.signal(Signal::USR1);
    assert_eq!(dev.line("got", 1), "usr1");
    elect.signal(Signal::TERM);
    assert_eq!(elect.ends().code(), Some(9));
    let mut killed = dev.elect(0, "reports", &[], "kill -9 $$");
    assert_eq!(killed.ends().code(), Some(137));
}

/// Else the deadline would pass while it waits for a reader.
#[test]
fn nobody_has_to_read_what_it_logs() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    let (_unread, mut pipe) = std::io::pipe().expect("a pipe");
    pipe.write_all(&vec![b' '; 65_536]).expect("as much as one holds");
    let mut elect = dev.elect_logging_to(pipe.into(), 0, "reports", &[], REPORT);
    assert_eq!(report(&dev, 0)[0], "0");
    dev.write("end-0");
    assert_eq!(elect.ends().code(), Some(7));
}

#[test]
fn what_cannot_be_done_is_reported() {
    let _alone = ONE_GROUP.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let dev = Dev::start();
    let mut unknown = dev.elect(0, "unknown", &[], "exit 0");
    assert_eq!(unknown.ends().code(), Some(64));
    let mut not_there = dev.elect(0, "reports", &[], "exec /no/such/program");
    assert_eq!(not_there.ends().code(), Some(127));
    let run = |arguments: &[&str]| {
        let output = conclave().arg("elect").args(arguments).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (arguments, text) in [
        (&["reports"][..], "COMMAND"),
        (&["reports", "--grace", "soon", "--", "true"], "`soon` is no duration"),
        (&["reports", "--priority", "high", "--", "true"], "--priority"),
    ] {
        let (status, error) = run(arguments);
        assert!(status == Some(2) && error.contains(text), "{arguments:?}: {error}");
    }
    let (status, error) = run(&["reports", "--url", "http://shop:80", "--", "true"]);
    assert!(status == Some(64) && error.contains("http://localhost:7070"), "{error}");
}

#[test]
fn without_a_sidecar_it_waits_for_one() {
    let mut command = conclave();
    command.args(["elect", "reports", "--socket", "/no/such/socket", "--", "true"]);
    let errors = tempfile::NamedTempFile::new().expect("a file");
    let mut elect = command.stderr(errors.reopen().expect("the same")).spawn().expect("it starts");
    let attempts = || std::fs::read_to_string(errors.path()).expect("it is there");
    until("two attempts", || {
        (attempts().matches("there is no sidecar at /no/such/socket").count() >= 2).then_some(())
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&elect), Signal::TERM)
        .expect("it runs");
    assert_eq!(elect.wait().expect("it is ours").code(), Some(143));
}
