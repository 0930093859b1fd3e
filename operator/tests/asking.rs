//! The operator as a process: how it calls itself at the API server.

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};

#[test]
fn the_api_server_sees_that_the_operator_asks_and_in_which_version() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = server.local_addr().expect("an address");
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("config");
    let text = format!(
        "{{apiVersion: v1, kind: Config, current-context: c, users: [{{name: u, user: {{}}}}], \
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}], \
         contexts: [{{name: c, context: {{cluster: c, user: u, namespace: shop}}}}]}}"
    );
    std::fs::write(&config, text).expect("it is written");
    let mut operator = Command::new(env!("CARGO_BIN_EXE_conclave-operator"))
        .args(["--metrics-address", "127.0.0.1:0", "--authority-address", "127.0.0.1:0"])
        .env("KUBECONFIG", &config)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let (mut stream, _) = server.accept().expect("it asks");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).expect("a request") > 0 {
        head.extend(byte);
    }
    operator.kill().expect("it ran");
    operator.wait().expect("it ends");
    let head = String::from_utf8(head).expect("text").to_lowercase();
    let expected = format!("user-agent: conclave-operator/{}\r\n", env!("CARGO_PKG_VERSION"));
    assert!(head.contains(&expected), "{head}");
}
