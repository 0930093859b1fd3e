//! What the README and the quick start have a newcomer paste before there is a cluster, as it stands there, beside
//! `conclave dev`.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The pages, and where the part about a cluster begins.
const PAGES: [(&str, &str); 2] =
    [("README.md", "\n## Install it"), ("docs/quickstart.md", "\n## On a cluster")];

/// What starts the group, which here is started already.
const BEGIN: &str = "cargo run --release --bin conclave -- dev";

/// The name of a claim in the README, which its reader replaces.
const CLAIM: &str = "5d3c90f20a41c7be90d21f-1";

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Of the ports: the lowest, how many a group has, and how many groups have room.
const LOWEST: u16 = 20_000;
const SPAN: u16 = 400;
const PLACES: u32 = 30;

/// `conclave dev`, with five members.
struct Dev {
    process: Child,
    base: u16,
}

impl Dev {
    /// Starts it, and waits until each member serves and keeps time. Its ports are below those that the system gives to
    /// connections, of which some other may be taken at any time; where one is taken all the same, others are tried.
    fn start() -> Self {
        for attempt in 0..10 {
            let place = (std::process::id() + attempt) % PLACES;
            let base = LOWEST + SPAN * u16::try_from(place).expect("small");
            let mut command = Command::new(env!("CARGO_BIN_EXE_conclave"));
            command.env_remove("CONCLAVE_LOG").args(["dev", "--base-port", &base.to_string()]);
            let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            let mut dev = Self { process: process.expect("it starts"), base };
            if dev.serves() {
                return dev;
            }
        }
        panic!("no ports are free for long enough");
    }

    /// Waits until each member is ready and knows the time, as it does before a newcomer has opened a second terminal;
    /// not if it has ended, as it does without its ports.
    fn serves(&mut self) -> bool {
        let began = Instant::now();
        while self.process.try_wait().expect("it is ours").is_none() {
            let get = |member, path| {
                let url = format!("http://127.0.0.1:{}{path}", self.base + member);
                let answer = Command::new("curl").args(["-s", "-m", "5", &url]).output();
                serde_json::from_slice(&answer.expect("curl runs").stdout).unwrap_or(Value::Null)
            };
            let serves = |member| {
                get(member, "/v1/status")["ready"] == true
                    && get(member, "/v1/time")["status"] == "synchronized"
            };
            if (0..5).all(serves) {
                return true;
            }
            assert!(began.elapsed() < PATIENCE, "it is not ready");
            std::thread::sleep(Duration::from_millis(50));
        }
        false
    }

    /// Pastes a script, whose ports are those of this group; what it printed.
    fn paste(&self, script: &str) -> String {
        let ports = (0..5).map(|member| (7_070 + member, self.base + member));
        let script = ports.fold(script.to_owned(), |script, (port, here)| {
            script.replace(&format!("127.0.0.1:{port}"), &format!("127.0.0.1:{here}"))
        });
        let bash = Command::new("bash").args(["-euo", "pipefail", "-c", &script]).output();
        let output = bash.expect("bash runs");
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{complaints}");
        String::from_utf8(output.stdout).expect("text")
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Each answer in what was printed.
fn answers(printed: &str) -> Vec<Value> {
    let all = serde_json::Deserializer::from_str(printed).into_iter::<Value>();
    all.collect::<Result<_, _>>().unwrap_or_else(|error| panic!("{error}: {printed}"))
}

#[test]
fn the_commands_of_the_first_minutes_work_as_they_are_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let dev = Dev::start();
    for (page, end) in PAGES {
        let text = fs::read_to_string(root.join(page)).expect("it is there");
        let (text, _) = text.split_once(end).unwrap_or_else(|| panic!("{page} has no {end}"));
        let scripts = text.split("\n```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let mut scripts = scripts.map(str::trim);
        assert_eq!(scripts.next(), Some(BEGIN), "{page}");
        let mut shown: Vec<Value> = Vec::new();
        let mut pasted = 0;
        for script in scripts {
            let claim = shown.iter().find_map(|answer| answer["claim"].as_str());
            let script = script.replace(CLAIM, claim.unwrap_or(CLAIM));
            shown.extend(answers(&dev.paste(&script)));
            pasted += script.lines().filter(|line| line.starts_with("curl")).count();
        }
        assert!(pasted >= 5, "{page}: {pasted} commands");
        // The lock passes from the one to the other, with a larger token, as both pages say.
        let tokens = shown.iter().filter(|answer| answer["state"] == "held");
        let tokens: Vec<_> = tokens.map(|answer| answer["token"].as_u64()).collect();
        assert_eq!(tokens.len(), 2, "{page}: {shown:?}");
        assert!(tokens[0] < tokens[1], "{page}: {tokens:?}");
        assert!(
            shown.iter().any(|answer| answer["leader"]["pod"].is_string()),
            "{page}: {shown:?}"
        );
    }
}
