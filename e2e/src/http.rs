//! A lean HTTP client for the APIs of members: one connection, one call at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A connection to a member.
#[derive(Debug)]
pub struct Http {
    host: String,
    stream: BufReader<TcpStream>,
}

/// What was answered.
#[derive(Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The header `Location`.
    pub location: Option<String>,
    /// The body.
    pub body: String,
}

/// How long an answer may take; longer than any wait that is asked for.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a connection may take to be made: none crosses more than this machine.
const CONNECT: Duration = Duration::from_millis(200);

impl Http {
    /// To a port of this machine, or of the network namespace that the thread is in.
    pub fn connect(port: u16) -> Result<Self> {
        Self::connect_to((Ipv4Addr::LOCALHOST, port).into())
    }

    /// To an address.
    pub fn connect_to(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, CONNECT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let port = address.port();
        Ok(Self { host: format!("localhost:{port}"), stream: BufReader::new(stream) })
    }

    /// Takes a lock, given by name and query, and gives it back.
    pub fn lock_and_unlock(&mut self, lock: &str) -> Result<()> {
        let reply = self.call("POST", &format!("/v1/locks/{lock}"))?;
        ensure!(reply.status == 201, "{}: {}", reply.status, reply.body);
        let claim = reply.location.context("a grant has a location")?;
        let reply = self.call("DELETE", &claim)?;
        ensure!(reply.status == 204, "{}: {}", reply.status, reply.body);
        Ok(())
    }

    /// One call without a body.
    pub fn call(&mut self, method: &str, path: &str) -> Result<Reply> {
        self.call_with(method, path, "")
    }

    /// One call with a body of JSON, unless it is empty.
    pub fn call_with(&mut self, method: &str, path: &str, body: &str) -> Result<Reply> {
        self.call_as(method, path, &[], body)
    }

    /// The same with further headers.
    pub fn call_as(
        &mut self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> Result<Reply> {
        let (host, length) = (&self.host, body.len());
        let content = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let headers: String = headers.iter().map(|header| [header, "\r\n"].concat()).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}{content}Content-Length: {length}\r\n\r\n{body}"
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
        Ok(Reply { status, location, body: String::from_utf8_lossy(&body).into_owned() })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the connection was closed");
        Ok(line.trim_end().to_owned())
    }
}

impl Reply {
    /// The body; null if it is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }
}
