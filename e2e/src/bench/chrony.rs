//! Debian's chronyd in the networks of pods, each instance with a clock of its own beside the kernel's (`-x`).

use std::fs::{self, DirBuilder, File};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use conclave_testbed::cluster::PodNetwork;
use conclave_testbed::{command, wait};
use tempfile::TempDir;

use super::footprint::time_on_core;
use super::server::end;

/// How its instances are connected, and how often they ask.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mode {
    pub(super) name: &'static str,
    /// The first instance asks the others too, and does not use what it learns.
    are_peers: bool,
    /// The time between two questions, as a power of two of a second.
    poll: i8,
    port: u16,
}

/// All that are measured, at the same time.
pub(super) const MODES: [Mode; 4] = [
    Mode { name: "chronyd, server, 1/s", are_peers: false, poll: 0, port: 31_123 },
    Mode { name: "chronyd, server, 4/s", are_peers: false, poll: -2, port: 31_124 },
    Mode { name: "chronyd, peers, 1/s", are_peers: true, poll: 0, port: 31_125 },
    Mode { name: "chronyd, peers, 4/s", are_peers: true, poll: -2, port: 31_126 },
];

/// The instances of one mode. The first has the time of the kernel, the others have theirs from it.
pub(super) struct Chrony {
    pub(super) mode: Mode,
    instances: Vec<Instance>,
}

/// What an instance reports of its clock, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tracking {
    /// The kernel's clock less its own. The kernel's clock is the first instance's, so this is all of its error.
    pub(super) offset: f64,
    /// How far it is from the first instance at most, by its own account.
    pub(super) bound: f64,
}

struct Instance {
    daemon: Child,
    client: Client,
    /// Where its files are; it goes with the instance.
    directory: TempDir,
}

/// A `chronyc` that is asked again and again.
struct Client {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Chrony {
    /// Starts an instance in each of these networks.
    pub(super) fn start(mode: Mode, places: &[(PodNetwork, IpAddr)]) -> Result<Self> {
        let addresses: Vec<IpAddr> = places.iter().map(|(_, address)| *address).collect();
        let mut instances = Vec::new();
        for (number, (network, _)) in places.iter().enumerate() {
            instances.push(Instance::start(network, &mode.sources(number, &addresses))?);
        }
        Ok(Self { mode, instances })
    }

    /// What all but the first report.
    pub(super) fn tracking(&mut self) -> Result<Vec<Tracking>> {
        self.instances.iter_mut().skip(1).map(|instance| instance.client.tracking()).collect()
    }

    /// Waits until all are in step.
    pub(super) fn await_steps(&mut self, limit: Duration) -> Result<()> {
        let name = self.mode.name;
        wait::until(&format!("{name} in step"), limit, || self.tracking().map(drop))
    }

    /// Whether all have both stamps of each packet from the kernel.
    pub(super) fn has_kernel_stamps(&self) -> Result<bool> {
        for instance in self.instances.iter().skip(1) {
            let socket = instance.socket();
            let report = command::output(Command::new("chronyc").args(["-h", &socket, "ntpdata"]))?;
            let of_kernel = |field: &str| {
                let mut lines = report.lines().filter(|line| line.starts_with(field));
                lines.any(|line| line.ends_with("Kernel"))
            };
            if !(of_kernel("TX timestamping") && of_kernel("RX timestamping")) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The time of all instances on a core.
    pub(super) fn time_on_core(&self) -> Result<Duration> {
        let pids = self.instances.iter().map(|instance| instance.daemon.id());
        pids.map(time_on_core).sum()
    }
}

impl Mode {
    /// What one of the instances has its time from.
    fn sources(self, number: usize, addresses: &[IpAddr]) -> String {
        let Self { are_peers, poll, port, .. } = self;
        let source = |kind: &str, address: &IpAddr, more: &str| {
            format!("{kind} {address} port {port} minpoll {poll} maxpoll {poll} xleave {more}\n")
        };
        let mut lines = format!("port {port}\nallow all\nmaxclockerror 15\n");
        match (number, are_peers) {
            (0, is_asking) => {
                lines.push_str("local stratum 8\n");
                let others = addresses.iter().skip(1).filter(|_| is_asking);
                lines.extend(others.map(|address| source("peer", address, "noselect")));
            }
            (_, true) => lines.push_str(&source("peer", &addresses[0], "")),
            (_, false) => lines.push_str(&source("server", &addresses[0], "iburst")),
        }
        lines
    }
}

impl Instance {
    fn start(network: &PodNetwork, sources: &str) -> Result<Self> {
        let directory = TempDir::new()?;
        let run = directory.path().join("run");
        DirBuilder::new().mode(0o700).create(&run)?;
        let path = |name: &str| run.join(name).display().to_string();
        let own = format!(
            "cmdport 0\nbindcmdaddress {}\npidfile {}\ndriftfile {}\n",
            path(SOCKET),
            path("pid"),
            path("drift")
        );
        let settings = run.join("chrony.conf");
        fs::write(&settings, format!("{sources}{own}"))?;
        let log = File::create(run.join("log"))?;
        let mut daemon = network
            .command("setpriv")
            // It does not outlive this process, whatever that ends by.
            .args(["--pdeathsig", "KILL", "chronyd"])
            .args(["-x", "-d", "-u", "root", "-f"])
            .arg(settings)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("start chronyd")?;
        match Client::start(&run) {
            Ok(client) => Ok(Self { daemon, client, directory }),
            Err(error) => {
                end(&mut daemon);
                let log = fs::read_to_string(run.join("log")).unwrap_or_default();
                Err(error.context(log))
            }
        }
    }

    fn socket(&self) -> String {
        self.directory.path().join("run").join(SOCKET).display().to_string()
    }
}

impl Client {
    fn start(run: &Path) -> Result<Self> {
        let socket = run.join(SOCKET);
        wait::until("chronyd to listen", Duration::from_secs(10), || {
            ensure!(socket.exists(), "there is no {}", socket.display());
            Ok(())
        })?;
        let mut process = Command::new("chronyc")
            .arg("-h")
            .arg(socket)
            .args(["-n", "-c"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("start chronyc")?;
        let (questions, answers) = (process.stdin.take(), process.stdout.take());
        Ok(Self {
            process,
            questions: questions.context("it is piped")?,
            answers: BufReader::new(answers.context("it is piped")?),
        })
    }

    /// `chronyc` itself gives up on a server that does not answer.
    fn tracking(&mut self) -> Result<Tracking> {
        self.questions.write_all(b"tracking\n")?;
        self.questions.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Tracking::of(line.trim()).with_context(|| format!("chronyc answers {line:?}"))
    }
}

impl Tracking {
    /// Of the answer to `tracking` with `-c`. Source: chronyc(1), "tracking": how far the clock is from that of the first
    /// stratum at most. The offset there is that of the kernel's clock, which nothing is corrected by here.
    fn of(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split(',').collect();
        ensure!(fields.len() == 14, "{} fields", fields.len());
        ensure!(fields[13] == "Normal", "it is not in step");
        let number = |place: usize| -> Result<f64> { Ok(fields[place].parse()?) };
        Ok(Self { offset: number(4)?, bound: number(11)? + number(10)? / 2.0 })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        end(&mut self.client.process);
        end(&mut self.daemon);
    }
}

const SOCKET: &str = "ci.sock";

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESSES: [IpAddr; 2] = [
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)),
        IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2)),
    ];

    #[test]
    fn all_but_the_first_follow_the_first() {
        for mode in MODES {
            let [first, other] = [0, 1].map(|number| mode.sources(number, &ADDRESSES));
            assert!(first.contains("local stratum 8") && !other.contains("local"), "{mode:?}");
            assert!(other.contains("10.0.0.1 port") && !other.contains("noselect"), "{other}");
            assert_eq!(first.contains("peer 10.0.0.2"), mode.are_peers, "{first}");
            assert!(
                first.lines().filter(|l| l.starts_with("peer")).all(|l| l.ends_with("noselect"))
            );
        }
    }

    #[test]
    fn the_bound_is_the_dispersion_and_half_the_delay() {
        let line = "C6120B0B,198.18.11.11,9,1764188000.123456789,-0.000000150,0.000000010,\
                    0.000000200,0.001,0.000,0.010,0.000040000,0.000015000,1.0,Normal";
        let tracking = Tracking::of(line).unwrap();
        assert!((tracking.offset + 150e-9).abs() < 1e-15);
        assert!((tracking.bound - 35e-6).abs() < 1e-12);
        assert!(Tracking::of(&line.replace("Normal", "Not synchronised")).is_err());
        assert!(Tracking::of("506 Cannot talk to daemon").is_err());
    }
}
