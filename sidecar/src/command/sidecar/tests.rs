//! Where the API is served, as the command line has it.

use std::path::Path;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: SidecarArgs,
}

/// What the pod's manifest says, and this besides.
fn args(port: u16, more: &[&str]) -> SidecarArgs {
    let port = port.to_string();
    let uid = "0c9d8f1e-6b1a-4f0e-9f4f-3f1f7a2b9c01";
    let pod = ["--pod-name", "shop-0", "--pod-namespace", "shop", "--pod-uid", uid];
    let rest = ["--pod-ips", "10.1.2.3", "--group", "orders", "--base-port", &port];
    let arguments = ["sidecar"].into_iter().chain(pod).chain(rest).chain(more.iter().copied());
    Line::parse_from(arguments).args
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[tokio::test]
async fn with_its_socket_alone_the_api_opens_no_port() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("conclave.sock");
    // Both are taken: opening this port fails.
    let taken = Listeners::on_loopback(0).unwrap();
    let port = taken.addresses()[0].port();
    let alone = ["--socket", text(&socket), "--api-socket-only"];
    let api = bind_api(&args(port, &alone)).unwrap();
    assert!(api.addresses().is_empty());
    tokio::net::UnixStream::connect(&socket).await.unwrap();
    assert!(bind_api(&args(port, &alone[..2])).is_err(), "the port is opened otherwise");
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_setting_that_moves_it() {
    let taken = Listeners::on_loopback(0).unwrap();
    let port = taken.addresses()[0].port();
    let error = format!("{:#}", bind_api(&args(port, &[])).unwrap_err());
    let setting =
        format!("CONCLAVE_BASE_PORT (--base-port) is {port}: listen on 127.0.0.1:{port}: ");
    assert!(error.starts_with(&setting) && error.contains("in use"), "{error}");
}

#[test]
fn a_clock_page_that_cannot_be_is_named_with_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let open =
        |path: &Path| open_page(&args(7070, &["--clock-page", text(path)]), OsClock::default());
    assert!(open_page(&args(7070, &[]), OsClock::default()).unwrap().is_none());
    assert!(open(&folder.path().join("page")).unwrap().is_some());
    let error = format!("{:#}", open(&folder.path().join("missing/page")).unwrap_err());
    assert!(error.starts_with("CONCLAVE_CLOCK_PAGE (--clock-page) is "), "{error}");
}

#[test]
fn without_a_socket_it_cannot_be_alone() {
    let error = check(&args(7070, &["--api-socket-only"])).unwrap_err().to_string();
    assert!(error.contains("CONCLAVE_API_SOCKET_ONLY needs a socket"), "{error}");
    assert!(check(&args(7070, &["--api-socket-only", "--socket", "/run/x"])).is_ok());
}

#[test]
fn a_zone_is_empty_or_what_a_label_can_state() {
    let zone = |value| zone(&args(7070, &["--zone", value])).map(str::to_owned);
    assert_eq!(zone("eu-central-1a").as_deref(), Some("eu-central-1a"));
    assert_eq!(zone(""), None);
    assert!(check(&args(7070, &["--zone", ""])).is_ok());
    assert!(check(&args(7070, &["--zone", "eu-central-1a"])).is_ok());
    let error = check(&args(7070, &["--zone", "a b"])).unwrap_err().to_string();
    assert!(error.contains("CONCLAVE_ZONE is `a b`: expected 1 to 63 letters"), "{error}");
}

#[test]
fn the_port_of_leader_elector_is_open_to_the_whole_pod() {
    let refusal = |more: &[&str]| {
        let line = [&["--leader-elector", "default"][..], more].concat();
        check(&args(7070, &line)).err().map(|error| error.to_string())
    };
    assert_eq!(refusal(&[]), None);
    for more in [&["--api-token-path", "/run/x"][..], &["--api-socket-only", "--socket", "/run/x"]]
    {
        let error = refusal(more).expect("refused");
        assert!(error.contains("CONCLAVE_LEADER_ELECTOR opens a port that asks for no"), "{error}");
    }
    let error = check(&args(7070, &["--leader-elector", ""])).unwrap_err().to_string();
    assert!(error.contains("CONCLAVE_LEADER_ELECTOR is empty"), "{error}");
}

#[test]
fn an_application_stands_in_the_named_election_that_it_is_shown() {
    for (line, expected) in [
        (&["--elections", "reports,mails"][..], &["mails", "reports"][..]),
        (&["--leader-elector", "default"], &[]),
        (&["--leader-elector", "reports"], &["reports"]),
        (&["--leader-elector", "reports", "--elections", "mails,reports"], &["mails", "reports"]),
    ] {
        assert_eq!(stands(&args(7070, line)), expected, "{line:?}");
    }
}

#[tokio::test]
async fn a_leader_elector_that_is_still_in_the_pod_is_named() {
    assert!(bind_leader_elector(&args(7070, &[])).unwrap().is_none());
    // If it cannot be bound, another process has it: that will do.
    let _taken = tokio::net::TcpListener::bind(("127.0.0.1", LEADER_ELECTOR_PORT)).await;
    let bound = bind_leader_elector(&args(7070, &["--leader-elector", "default"]));
    let error = format!("{:#}", bound.unwrap_err());
    assert!(error.starts_with("CONCLAVE_LEADER_ELECTOR (--leader-elector) opens"), "{error}");
    assert!(error.contains("listen on 127.0.0.1:4040: ") && error.contains("in use"), "{error}");
}

#[tokio::test]
async fn a_file_of_tokens_that_is_wrong_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (tokens, socket) = (folder.path().join("tokens"), folder.path().join("conclave.sock"));
    let notified = args(
        0,
        &["--api-socket-only", "--socket", text(&socket), "--api-token-path", text(&tokens)],
    );
    assert!(bind_api(&notified).is_err(), "there is none");
    std::fs::write(&tokens, "use short").unwrap();
    let error = format!("{:#}", bind_api(&notified).unwrap_err());
    assert!(error.contains("line 1 of the file of tokens must be"), "{error}");
    std::fs::write(&tokens, "use 1sGxOBQaStJ3vS8b").unwrap();
    assert!(bind_api(&notified).is_ok());
}
