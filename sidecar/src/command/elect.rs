//! `conclave elect`: runs a command as long as this pod leads, for applications that speak no HTTP.

mod api;
pub(super) mod bound;
mod course;
mod events;
mod follower;
mod state;
mod timer;
mod work;

use std::ffi::OsString;
use std::future::poll_fn;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use conclave_crds::Period;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tracing::{info, warn};

use self::api::{Call, Place};
use self::course::{Action, Course, Input};
use self::follower::{Follower, Observation};
use self::timer::Timer;
use self::work::Work;
use crate::one_thread;
use crate::os_clock::OsClock;
use crate::telemetry::{self, LogFormat};

/// The settings of `conclave elect`.
#[derive(Args, Debug)]
pub(super) struct ElectArgs {
    /// The election: one that the `Conclave` lists, or `default`, the leadership of the group.
    #[arg(value_name = "NAME")]
    election: String,
    /// The priority of this candidate. In `default` the pod's annotation states it.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// How long before the deadline COMMAND gets SIGTERM; at most a third of what is left of the lease. It is killed
    /// before the deadline.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// Ends with the first lead that is lost, instead of waiting for the next one.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    place: PlaceArgs,
    /// A file with a token of the API.
    #[arg(long, value_name = "FILE", env = "CONCLAVE_TOKEN_FILE")]
    token_file: Option<PathBuf>,
    /// What is logged, on standard error.
    #[arg(long, env = "CONCLAVE_LOG", default_value = "info")]
    log: String,
    /// How it is logged.
    #[arg(long, env = "CONCLAVE_LOG_FORMAT", value_enum, default_value = "text")]
    log_format: LogFormat,
    /// The command to run while this pod leads, and what it is given.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Where the sidecar's API is. An argument comes before a variable of the environment.
#[derive(Args, Debug)]
#[group(multiple = false)]
struct PlaceArgs {
    #[arg(
        long,
        help = "Where the sidecar's API is [env: CONCLAVE_URL] [default: http://localhost:7070]"
    )]
    url: Option<String>,
    #[arg(
        long,
        help = "The Unix socket of the API: it is called there rather than at the URL [env: CONCLAVE_SOCKET]"
    )]
    socket: Option<PathBuf>,
}

impl PlaceArgs {
    fn place(&self, environment: impl Fn(&str) -> Option<OsString>) -> anyhow::Result<Place> {
        let set = |name| environment(name).filter(|value| !value.is_empty());
        if let Some(url) = &self.url {
            return Place::of_url(url);
        }
        let socket = || set("CONCLAVE_SOCKET").map(PathBuf::from);
        if let Some(path) = self.socket.clone().or_else(socket) {
            return Ok(Place::Socket(path));
        }
        let url = set("CONCLAVE_URL").unwrap_or_else(|| DEFAULT_URL.into());
        let url = url.into_string();
        let url = url.map_err(|url| anyhow::anyhow!("CONCLAVE_URL={} is no URL", url.display()))?;
        Place::of_url(&url)
    }
}

pub(super) fn run(args: ElectArgs) -> ExitCode {
    let logged = telemetry::init_on_standard_error(args.log_format, &args.log);
    let lived = logged.map_err(anyhow::Error::new).and_then(|logged| {
        let call = prepare(&args)?;
        let status = one_thread::live(live(args, call)).context("start the runtime")?;
        drop(logged);
        status
    });
    match lived {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            super::complain(&error);
            ExitCode::from(super::BAD_SETTINGS)
        }
    }
}

fn duration(text: &str) -> Result<Duration, conclave_crds::PeriodError> {
    Period::new(text).duration()
}

fn prepare(args: &ElectArgs) -> anyhow::Result<Call> {
    Ok(Call {
        place: args.place.place(|name| std::env::var_os(name))?,
        token_file: args.token_file.clone(),
        election: args.election.clone(),
        priority: args.priority,
    })
}

/// The status to end with.
async fn live(args: ElectArgs, call: Call) -> anyhow::Result<u8> {
    let signals = Signals::new().context("listen for signals")?;
    let mut elect = Elect {
        course: Course::new(args.grace, args.once),
        work: Work::new(&args.election, args.command).context("adopt processes")?,
        timer: Timer::new().context("make a timer")?,
        follower: Some(Follower::begin(Arc::new(call.clone()), Duration::ZERO)),
        call: Arc::new(call),
        signals,
    };
    loop {
        let Some(input) = elect.next().await? else { continue };
        if let Some(status) = elect.handle(input)? {
            return Ok(status);
        }
    }
}

/// The course, and what carries it out.
struct Elect {
    course: Course,
    work: Work,
    timer: Timer,
    call: Arc<Call>,
    follower: Option<Follower>,
    signals: Signals,
}

impl Elect {
    /// What happens next, if it is of interest. Of several things the newest deadline comes before the time of the last.
    async fn next(&mut self) -> anyhow::Result<Option<Input>> {
        tokio::select! {
            biased;
            () = received(&mut self.signals.child) => Ok(self.work.reap().map(Input::Ended)),
            signal = self.signals.asked.next() => Ok(Some(Input::Signal(signal))),
            seen = follow(self.follower.as_mut()) => self.see(seen).map(Some),
            fired = self.timer.until(self.course.wake()) => {
                fired.context("wait for a time")?;
                Ok(Some(Input::Time))
            }
        }
    }

    fn see(&mut self, seen: Observation) -> anyhow::Result<Input> {
        match seen {
            Observation::Stated(input) => return Ok(input),
            Observation::Over => {}
            // COMMAND must end before this process does; then it is asked again.
            Observation::Never(error) if self.course.is_running() => {
                warn!(error = format!("{error:#}"), "the stream cannot be followed");
            }
            Observation::Never(error) => return Err(error),
        }
        self.follower = None;
        Ok(Input::Broken)
    }

    /// Does what follows; the status to end with, if it is the end.
    fn handle(&mut self, input: Input) -> anyhow::Result<Option<u8>> {
        match self.course.handle(OsClock::default().now(), input) {
            None => {}
            Some(Action::Start(token)) => {
                self.work.start(token).context("start COMMAND")?;
                info!(token, "leads: COMMAND runs");
            }
            Some(Action::Send(signal)) => {
                self.work.send(signal);
                info!(signal = signal.as_raw(), "COMMAND was sent a signal");
            }
            Some(Action::Kill) => {
                self.work.kill();
                warn!("the lead is over: COMMAND was killed");
            }
            Some(Action::StandAnew) => {
                self.follower = Some(Follower::begin(Arc::clone(&self.call), PAUSE));
            }
            Some(Action::Exit(status)) => {
                info!(status, "ends");
                return Ok(Some(status));
            }
        }
        Ok(None)
    }
}

async fn follow(follower: Option<&mut Follower>) -> Observation {
    match follower {
        Some(follower) => follower.next().await,
        None => std::future::pending().await,
    }
}

/// What this process is sent.
struct Signals {
    child: unix::Signal,
    asked: Asked,
}

/// The signals that are passed on.
struct Asked(Vec<(Signal, unix::Signal)>);

impl Signals {
    fn new() -> std::io::Result<Self> {
        let listen = |passed_on: Signal| {
            let kind = SignalKind::from_raw(passed_on.as_raw());
            signal(kind).map(|listened| (passed_on, listened))
        };
        let asked = PASSED_ON.into_iter().map(listen).collect::<Result<_, _>>()?;
        Ok(Self { child: signal(SignalKind::child())?, asked: Asked(asked) })
    }
}

impl Asked {
    async fn next(&mut self) -> Signal {
        let Self(all) = self;
        poll_fn(|cx| {
            let mut arrived = all.iter_mut().filter_map(|(name, listened)| {
                matches!(listened.poll_recv(cx), Poll::Ready(Some(()))).then_some(*name)
            });
            arrived.next().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Waits for a signal.
async fn received(signal: &mut unix::Signal) {
    if signal.recv().await.is_none() {
        // The runtime ends.
        std::future::pending::<()>().await;
    }
}

/// What a terminal, an operator of systems or another program may send to a process to have it do something.
const PASSED_ON: [Signal; 6] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::HUP, Signal::USR1, Signal::USR2];

/// Where a sidecar is by default.
const DEFAULT_URL: &str = "http://localhost:7070";

/// Before it stands again: as long as a client waits that lost its stream.
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn place(args: [Option<&str>; 2], environment: [&str; 2]) -> anyhow::Result<Place> {
        let [url, socket] = args;
        let args = PlaceArgs { url: url.map(str::to_owned), socket: socket.map(PathBuf::from) };
        args.place(|name| {
            let [url, socket] = environment;
            Some(OsString::from(if name == "CONCLAVE_URL" { url } else { socket }))
        })
    }

    #[test]
    fn the_command_line_comes_before_the_environment_and_a_socket_before_a_url() {
        let socket = |path: &str| Place::Socket(PathBuf::from(path));
        let url = |text: &str| Place::of_url(text).unwrap();
        let near = "http://localhost:1";
        assert_eq!(place([None, None], ["", ""]).unwrap(), url(DEFAULT_URL));
        assert_eq!(place([None, None], [near, ""]).unwrap(), url(near));
        assert_eq!(place([None, None], [near, "/a"]).unwrap(), socket("/a"));
        assert_eq!(place([Some(near), None], ["", "/a"]).unwrap(), url(near));
        assert_eq!(place([None, Some("/b")], [near, "/a"]).unwrap(), socket("/b"));
        assert!(place([None, None], ["elsewhere", ""]).is_err());
    }
}
