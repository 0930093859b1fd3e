//! A client of Redis that does no more than it must: one connection, one call at a time.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use anyhow::{Result, bail};

/// A connection to Redis.
pub(super) struct Redis {
    stream: BufReader<TcpStream>,
}

const PATIENCE: Duration = Duration::from_secs(30);

impl Redis {
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream: BufReader::new(stream) })
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
