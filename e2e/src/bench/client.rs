//! Clients that do no more than they must: one connection each, one call at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

/// A connection to a member's API.
pub(super) struct Http {
    port: u16,
    stream: BufReader<TcpStream>,
}

/// A connection to Redis.
pub(super) struct Redis {
    stream: BufReader<TcpStream>,
}

const PATIENCE: Duration = Duration::from_secs(30);

fn connect(port: u16) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(stream))
}

impl Http {
    pub(super) fn connect(port: u16) -> Result<Self> {
        Ok(Self { port, stream: connect(port)? })
    }

    /// Takes a lock, given by name and query, and gives it back.
    pub(super) fn lock_and_unlock(&mut self, lock: &str) -> Result<()> {
        let (status, location, body) = self.call("POST", &format!("/v1/locks/{lock}"))?;
        ensure!(status == 201, "{status}: {body}");
        let claim = location.context("a grant has a location")?;
        let (status, _, body) = self.call("DELETE", &claim)?;
        ensure!(status == 204, "{status}: {body}");
        Ok(())
    }

    /// One call. Returns status, location and body.
    pub(super) fn call(
        &mut self,
        method: &str,
        path: &str,
    ) -> Result<(u16, Option<String>, String)> {
        let port = self.port;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 0\r\n\r\n"
        );
        self.stream.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let status = status.split(' ').nth(1).context("no status")?.parse()?;
        let (mut length, mut location) = (0, None);
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(": ") else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse()?;
            } else if name.eq_ignore_ascii_case("location") {
                location = Some(value.to_owned());
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok((status, location, String::from_utf8_lossy(&body).into_owned()))
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}

impl Redis {
    pub(super) fn connect(port: u16) -> Result<Self> {
        Ok(Self { stream: connect(port)? })
    }

    pub(super) fn lock_and_unlock(&mut self, lock: &str) -> Result<()> {
        self.call(&format!("SET {lock} token NX PX 10000\r\n"), "+OK")?;
        self.call(&format!("DEL {lock}\r\n"), ":1")
    }

    fn call(&mut self, command: &str, expected: &str) -> Result<()> {
        self.stream.get_mut().write_all(command.as_bytes())?;
        let mut line = String::new();
        self.stream.read_line(&mut line)?;
        if line.trim_end() != expected {
            bail!("{command:?} got {line:?}");
        }
        Ok(())
    }
}
