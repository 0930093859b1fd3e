//! The servers that are measured, for as long as a run lasts.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::binaries::ETCD;
use conclave_testbed::http::{Http, Reply};
use conclave_testbed::{image, wait};
use serde_json::Value;
use tempfile::TempDir;

/// Where the group's first API is; the page is 300 above.
const BASE: u16 = 27_070;
const PAGE: u16 = BASE + 300;
const REDIS: u16 = 27_999;
const ZOOKEEPER: u16 = 27_998;
const ETCD_CLIENTS: u16 = 27_997;
const ETCD_PEERS: u16 = 27_996;

/// How many members the group has.
pub(super) const MEMBERS: u16 = 5;

/// The port of a member's API.
pub(super) fn api(member: u16) -> u16 {
    BASE + member
}

/// The group, with the waits of `conclave dev` and a kind of lock for each algorithm.
const GROUP: &str = include_str!("group.yaml");

/// `conclave dev`, by the programs of the image.
pub(super) struct Dev {
    process: Child,
    /// Where its manifest is.
    _data: TempDir,
}

impl Dev {
    pub(super) fn start() -> Result<Self> {
        image::product::make()?;
        let data = TempDir::new()?;
        let manifest = data.path().join("group.yaml");
        fs::write(&manifest, GROUP)?;
        let process = Command::new(image::product::binary("conclave"))
            .args(["dev", "--unobserved", "--file"])
            .arg(manifest)
            .env("CONCLAVE_BASE_PORT", BASE.to_string())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process, _data: data })
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

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    pub(super) fn memory_kib(&self) -> Result<u64> {
        memory_kib(self.process.id(), "VmRSS:")
    }

    pub(super) fn size() -> Result<u64> {
        Ok(fs::metadata(image::product::binary("conclave"))?.len())
    }
}

/// What `/proc` says of the memory of a process.
pub(super) fn memory_kib(pid: u32, field: &str) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with(field));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(number.with_context(|| format!("no {field}"))?.parse()?)
}

impl Drop for Dev {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

/// What people use instead, each alone on this machine as it comes, with its data in a folder of its own.
pub(super) struct Rivals {
    processes: Vec<Child>,
    data: TempDir,
}

impl Rivals {
    /// Starts Redis without persistence, and etcd and ZooKeeper with every write synced.
    pub(super) fn start() -> Result<Self> {
        let data = TempDir::new()?;
        let mut rivals = Self { processes: Vec::new(), data };
        let folder = rivals.data.path().to_owned();
        rivals.run(Command::new("redis-server").args(["--port", &REDIS.to_string()]).args([
            "--bind",
            "127.0.0.1",
            "--save",
            "",
        ]))?;
        let (clients, peers) = (url(ETCD_CLIENTS), url(ETCD_PEERS));
        let cluster = format!("default={peers}");
        let data = folder.join("etcd");
        rivals.run(
            Command::new(ETCD.path())
                .arg("--data-dir")
                .arg(data)
                .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
                .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
                .args(["--initial-cluster", &cluster, "--log-level", "error"]),
        )?;
        let data = folder.join("zookeeper");
        let settings = folder.join("zoo.cfg");
        let text = format!(
            "dataDir={}\nclientPort={ZOOKEEPER}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n",
            data.display()
        );
        fs::write(&settings, text)?;
        rivals.run(
            Command::new("java")
                .args(["-cp", ZOOKEEPER_CLASSES])
                .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
                .arg(settings),
        )?;
        for port in [REDIS, ETCD_CLIENTS, ZOOKEEPER] {
            let connect = || Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop)?);
            wait::until("a rival that listens", Duration::from_secs(20), connect)?;
        }
        Ok(rivals)
    }

    /// Their processes.
    pub(super) fn pids(&self) -> impl Iterator<Item = u32> {
        self.processes.iter().map(Child::id)
    }

    fn run(&mut self, command: &mut Command) -> Result<()> {
        let name = command.get_program().to_owned();
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().with_context(|| format!("start {}", name.display()))?;
        self.processes.push(process);
        Ok(())
    }

    /// Where `rivals` finds them.
    pub(super) fn arguments() -> [String; 6] {
        let address = |port: u16| format!("127.0.0.1:{port}");
        let [redis, etcd, zookeeper] = ["-redis", "-etcd", "-zookeeper"].map(str::to_owned);
        [redis, address(REDIS), etcd, url(ETCD_CLIENTS), zookeeper, address(ZOOKEEPER)]
    }
}

impl Drop for Rivals {
    fn drop(&mut self) {
        self.processes.iter_mut().for_each(end);
    }
}

/// Debian's ZooKeeper, and what it needs.
const ZOOKEEPER_CLASSES: &str = "/usr/share/java/*";

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// Ends a process. Either step may fail only because it has ended.
pub(super) fn end(process: &mut Child) {
    let _ = process.kill();
    let _ = process.wait();
}
