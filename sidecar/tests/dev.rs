//! `conclave dev` as a process: what it logs, and how it refuses what cannot be.

use std::net::{Ipv4Addr, TcpListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program, without what the environment may set.
fn conclave() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
    command.env_remove("CONCLAVE_BASE_PORT").env_remove("CONCLAVE_LOG").env_remove("NO_COLOR");
    command
}

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a command complains of that refuses to begin. One that begins is ended.
fn refusal(command: &mut Command) -> String {
    let errors = tempfile::NamedTempFile::new().expect("a file");
    command.stdout(Stdio::null()).stderr(errors.reopen().expect("the same"));
    let mut process = command.spawn().expect("it starts");
    let began = Instant::now();
    let status = loop {
        match process.try_wait().expect("it is ours") {
            Some(status) => break Some(status),
            None if began.elapsed() > PATIENCE => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    // It may have ended.
    let _ = process.kill();
    process.wait().expect("it is ours");
    let error = std::fs::read_to_string(errors.path()).expect("it is there");
    assert_eq!(status.and_then(|status| status.code()), Some(64), "{error}");
    error
}

#[test]
fn a_base_port_without_room_for_the_others_is_refused_by_its_name() {
    for port in ["0", "65236"] {
        let expected = format!("--base-port (CONCLAVE_BASE_PORT) is {port}: expected 1 to 65235");
        let (mut argument, mut variable) = (conclave(), conclave());
        argument.args(["dev", "--base-port", port]);
        variable.arg("dev").env("CONCLAVE_BASE_PORT", port);
        for command in [&mut argument, &mut variable] {
            let error = refusal(command);
            assert!(error.contains(&expected), "{error}");
        }
    }
}

#[test]
fn an_address_in_use_is_named_with_the_setting_that_moves_it() {
    for offset in [0, 200, 300] {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let taken_port = taken.local_addr().expect("it is bound").port();
        let base = taken_port - offset;
        let mut dev = conclave();
        dev.args(["dev", "--members", "1", "--base-port", &base.to_string()]);
        let error = refusal(&mut dev);
        let setting = format!("--base-port (CONCLAVE_BASE_PORT) is {base}");
        let address = format!("listen on 127.0.0.1:{taken_port}: Address already in use");
        assert!(error.contains(&setting) && error.contains(&address), "{error}");
    }
}

#[test]
fn a_folder_of_clock_pages_that_cannot_be_is_named_with_its_setting() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut dev = conclave();
    dev.args(["dev", "--clock-pages"]).arg(file.path());
    let error = refusal(&mut dev);
    let setting = format!("--clock-pages is {}", file.path().display());
    assert!(error.contains(&setting), "{error}");
}

#[test]
fn what_is_logged_to_a_file_has_no_escape_codes() {
    let log = tempfile::NamedTempFile::new().expect("a file");
    let base = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|free| free.local_addr());
    let base = base.expect("a port").port().to_string();
    let mut dev = conclave();
    dev.args(["dev", "--members", "1", "--log", "debug", "--base-port", &base]);
    let mut process = dev
        .stdout(log.reopen().expect("the same"))
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let began = Instant::now();
    let text = loop {
        let text = std::fs::read_to_string(log.path()).expect("it is there");
        let is_logged = text.contains("DEBUG") || text.contains("INFO");
        if is_logged || began.elapsed() > PATIENCE {
            break text;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    process.kill().expect("it runs");
    process.wait().expect("it is ours");
    assert!(text.contains("DEBUG") || text.contains("INFO"), "nothing is logged: {text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}
