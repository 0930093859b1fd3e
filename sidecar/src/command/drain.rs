//! `conclave drain`: what `preStop` runs in the sidecar's own container.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

/// Where the sidecar is.
#[derive(Args, Debug)]
pub(super) struct DrainArgs {
    /// The port of the sidecar's API; it is asked at the next but one.
    #[arg(long, env = "CONCLAVE_BASE_PORT", default_value_t = 7070)]
    base_port: u16,
}

pub(super) fn run(args: &DrainArgs) -> ExitCode {
    let asked = args
        .base_port
        .checked_add(2)
        .context("CONCLAVE_BASE_PORT leaves no room for three ports")
        .and_then(ask);
    match asked {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// Asks the sidecar to drain. Without one there is nothing to hand on.
fn ask(port: u16) -> anyhow::Result<()> {
    let Some(stream) = find(port) else { return Ok(()) };
    let answer = call(stream).context("ask the sidecar")?;
    let status = answer.lines().next().unwrap_or_default();
    anyhow::ensure!(status.starts_with("HTTP/1.1 200 "), "the sidecar refuses: {status:?}");
    Ok(())
}

/// A connection with what listens on loopback. A pod may have one family alone.
fn find(port: u16) -> Option<TcpStream> {
    let families: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    let mut addresses = families.into_iter().map(|ip| SocketAddr::from((ip, port)));
    addresses.find_map(|address| TcpStream::connect_timeout(&address, PATIENCE).ok())
}

fn call(mut stream: TcpStream) -> io::Result<String> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /drain HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
    Ok(answer)
}

/// How long the sidecar may take: the end of its pod waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Bytes of an answer that are read.
const LONGEST_ANSWER: u64 = 4096;

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::admin::{Admin, router};
    use crate::group;
    use crate::http::tests::double::{Double, soon};
    use crate::http::{Limits, Listeners, serve_router};

    /// What becomes of `conclave drain` beside a sidecar that listens there.
    async fn drained(at: &str) -> (anyhow::Result<()>, Option<group::Request>) {
        let mut double = Double::new();
        let (_sender, bound) = watch::channel(true);
        let admin = router(Admin::new(double.group.clone(), double.metrics.clone(), bound));
        let sockets = Listeners::on(at.parse().unwrap()).unwrap();
        let port = sockets.addresses()[0].port();
        let end = CancellationToken::new();
        let _guard = end.clone().drop_guard();
        tokio::spawn(serve_router(sockets, admin, Limits::default(), end));
        let asked = soon(tokio::task::spawn_blocking(move || ask(port))).await.unwrap();
        (asked, double.requests.try_recv().ok())
    }

    #[tokio::test]
    async fn the_sidecar_is_asked_wherever_it_listens() {
        for anywhere in ["0.0.0.0:0", "[::]:0", "[::1]:0"] {
            let (asked, request) = drained(anywhere).await;
            assert!(asked.is_ok(), "{asked:?}");
            assert!(matches!(request, Some(group::Request::Drain)), "{anywhere}");
        }
    }

    #[test]
    fn without_a_sidecar_all_is_well_and_a_refusal_is_reported() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let refusing = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
        });
        let error = ask(port).unwrap_err().to_string();
        assert!(error.contains("403 Forbidden"), "{error}");
        refusing.join().unwrap();
        assert!(ask(port).is_ok(), "nobody listens there any more");
    }
}
