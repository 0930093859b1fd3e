//! A sidecar as a process, whose label names no group: what it says to its application, and who it is to the API server.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// What an API server answers to a pod for which the operator has granted nothing.
const FORBIDDEN: &str = r#"{"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
    "message": "conclaves.conclave.dev \"odrers\" is forbidden: User \"system:serviceaccount:shop:till\" cannot get
    resource \"conclaves\" in API group \"conclave.dev\" in the namespace \"shop\"", "reason": "Forbidden", "code": 403}"#;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A sidecar. It is killed when the value goes.
struct Sidecar {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.process.kill().expect("it ran");
        self.process.wait().expect("it ends");
    }
}

impl Sidecar {
    fn start(api_server: &str) -> Self {
        let folder = TempDir::new().expect("a folder");
        let config = folder.path().join("config");
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{}}}}], \
             clusters: [{{name: c, cluster: {{server: 'http://{api_server}'}}}}], \
             contexts: [{{name: c, context: {{cluster: c, user: u, namespace: shop}}}}]}}"
        );
        std::fs::write(&config, text).expect("it is written");
        let port = free_ports();
        let process = Command::new(env!("CARGO_BIN_EXE_conclave"))
            .arg("sidecar")
            .env("KUBECONFIG", &config)
            .env("CONCLAVE_GROUP", "odrers")
            .env("CONCLAVE_BASE_PORT", port.to_string())
            .env("CONCLAVE_TERMINATION_MESSAGE_PATH", folder.path().join("message"))
            .envs([("POD_NAME", "till-0"), ("POD_NAMESPACE", "shop"), ("POD_IPS", "127.0.0.1")])
            .env("POD_UID", "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01")
            .stdout(Stdio::null())
            .spawn()
            .expect("it starts");
        Self { process, port, _folder: folder }
    }

    /// The answer to a call for a lock; nothing while nobody listens.
    fn lock(&self) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        let call = "POST /v1/locks/ledger HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\
                    connection: close\r\n\r\n";
        stream.write_all(call.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    }
}

/// The first of three ports that are free one after another.
fn free_ports() -> u16 {
    loop {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = first.local_addr().expect("an address").port();
        let next = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if port < u16::MAX - 2 && next(port + 1) && next(port + 2) {
            return port;
        }
    }
}

/// An API server that refuses everything, and the heads of the requests that it got.
fn refuses() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let heads = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&heads);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, asked) = (stream.expect("a client"), Arc::clone(&asked));
            thread::spawn(move || {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while stream.read(&mut byte).is_ok_and(|count| count > 0) {
                    head.extend(byte);
                    if head.ends_with(b"\r\n\r\n") {
                        let text = String::from_utf8_lossy(&head).to_lowercase();
                        asked.lock().expect("nobody panics with it").push(text);
                        head.clear();
                        let body = FORBIDDEN.replace('\n', " ");
                        let length = body.len();
                        let answer = format!(
                            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/json\r\n\
                             content-length: {length}\r\n\r\n{body}"
                        );
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                }
            });
        }
    });
    (address, heads)
}

#[test]
fn an_application_hears_that_its_group_may_not_be_there_and_the_api_server_who_asks() {
    let (address, heads) = refuses();
    let sidecar = Sidecar::start(&address);
    let expected = "no right to read Conclave shop/odrers: either there is no Conclave odrers in the namespace shop, \
                    or the ServiceAccount till is not bound to the Role of the group";
    let begun = Instant::now();
    let answer = loop {
        let answer = sidecar.lock().unwrap_or_default();
        if answer.contains(expected) {
            break answer;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer}");
        thread::sleep(Duration::from_millis(50));
    };
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("/not-ready"), "{answer}");
    let heads = heads.lock().expect("nobody panics with it");
    let expected = format!("user-agent: conclave-sidecar/{}\r\n", env!("CARGO_PKG_VERSION"));
    assert!(!heads.is_empty() && heads.iter().all(|head| head.contains(&expected)), "{heads:?}");
}
