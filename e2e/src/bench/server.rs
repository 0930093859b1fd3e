//! The servers that are measured: `conclave dev` and Redis, for as long as a run lasts.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::redis::Redis;
use crate::http::{Http, Reply};
use crate::{image, wait};

/// Where the group's first API is; the page is 300 above.
const BASE: u16 = 27_070;
const PAGE: u16 = BASE + 300;
const REDIS: u16 = 27_999;

/// How many members the group has.
pub(super) const MEMBERS: u16 = 5;

/// The port of a member's API.
pub(super) fn api(member: u16) -> u16 {
    BASE + member
}

/// `conclave dev`, by the programs of the image.
pub(super) struct Dev {
    process: Child,
}

impl Dev {
    pub(super) fn start() -> Result<Self> {
        image::product::make()?;
        let process = Command::new(image::product::binary("conclave"))
            .arg("dev")
            .env("CONCLAVE_BASE_PORT", BASE.to_string())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process })
    }

    /// Who says that it leads.
    pub(super) fn leader() -> Option<u16> {
        (0..MEMBERS).find(|member| {
            let answer = Self::get(*member, "/v1/elections/default/self");
            answer.is_ok_and(|(status, _)| status == 200)
        })
    }

    fn get(member: u16, path: &str) -> Result<(u16, Value)> {
        let reply = Http::connect(api(member))?.call("GET", path)?;
        Ok((reply.status, serde_json::from_str(&reply.body)?))
    }

    pub(super) fn await_leader(limit: Duration) -> Result<u16> {
        wait::until("a leader", limit, || Self::leader().context("nobody leads"))
    }

    pub(super) fn members_known(member: u16) -> Result<u16> {
        let (_, body) = Self::get(member, "/v1/members")?;
        Ok(u16::try_from(body["members"].as_array().map_or(0, Vec::len))?)
    }

    pub(super) fn await_members(limit: Duration) -> Result<()> {
        wait::until("all members", limit, || {
            for member in 0..MEMBERS {
                ensure!(Self::members_known(member)? == MEMBERS, "{member} does not know all");
            }
            Ok(())
        })
    }

    /// Does something to a member, as a click on the page does.
    pub(super) fn act(member: u16, action: &str) -> Result<()> {
        let path = format!("/members/{member}/{action}");
        let Reply { status, body, .. } = Http::connect(PAGE)?.call("POST", &path)?;
        ensure!((200..300).contains(&status), "{action}: {status} {body}");
        Ok(())
    }

    pub(super) fn memory_kib(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        Ok(number.context("no VmRSS")?.parse()?)
    }

    pub(super) fn size() -> Result<u64> {
        Ok(std::fs::metadata(image::product::binary("conclave"))?.len())
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// A Redis of Debian, without persistence.
pub(super) struct RedisServer {
    process: Child,
}

impl RedisServer {
    pub(super) fn start() -> Result<Self> {
        let process = Command::new("redis-server")
            .args(["--port", &REDIS.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .context("start redis-server; `apt-get install redis-server` brings it")?;
        let server = Self { process };
        wait::until("redis", Duration::from_secs(10), || Self::connect().map(drop))?;
        Ok(server)
    }

    /// A connection to it.
    pub(super) fn connect() -> Result<Redis> {
        Redis::connect(REDIS)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// Either step may fail only because it has ended.
fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
