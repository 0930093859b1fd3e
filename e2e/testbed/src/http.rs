//! A lean HTTP client for APIs of this machine: one connection, one call at a time.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A connection to a server.
#[derive(Debug)]
pub struct Http<S = TcpStream> {
    host: String,
    stream: BufReader<S>,
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
}

impl Http<UnixStream> {
    /// To a socket among the files.
    pub fn connect_to_socket(path: &Path) -> Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { host: "localhost".to_owned(), stream: BufReader::new(stream) })
    }
}

impl<S: Read + Write> Http<S> {
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
        let (mut length, mut in_chunks, mut location) = (0, false, None);
        loop {
            let line = self.line()?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header without a name")?;
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.parse()?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                in_chunks = value == "chunked";
            } else if name.eq_ignore_ascii_case("location") {
                location = Some(value.to_owned());
            }
        }
        let body = if in_chunks { self.chunks()? } else { self.bytes(length)? };
        Ok(Reply { status, location, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// A body that comes in chunks, each of which states its length (RFC 9112, 7.1).
    fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let length = usize::from_str_radix(&self.line()?, 16)?;
            body.extend(self.bytes(length)?);
            let end = self.line()?;
            ensure!(end.is_empty(), "a chunk goes on with {end:?}");
            if length == 0 {
                return Ok(body);
            }
        }
    }

    fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_in_chunks_is_read_whole_and_then_the_next_answer() {
        let (near, mut far) = UnixStream::pair().unwrap();
        let mut http = Http { host: "localhost".to_owned(), stream: BufReader::new(near) };
        far.write_all(b"HTTP/1.1 200 OK\r\nX-Empty: \r\nTransfer-Encoding: chunked\r\n\r\n")
            .unwrap();
        far.write_all(b"a\r\n0123456789\r\n2\r\nab\r\n0\r\n\r\n").unwrap();
        far.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno").unwrap();
        let replies = [http.call("GET", "/one").unwrap(), http.call("GET", "/two").unwrap()];
        let seen = replies.map(|reply| (reply.status, reply.body));
        assert_eq!(seen, [(200, "0123456789ab".to_owned()), (404, "no".to_owned())]);
    }
}
