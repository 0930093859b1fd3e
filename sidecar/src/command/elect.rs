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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use conclave_crds::Period;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};
use tracing::{info, warn};

use self::api::{Call, Place};
use self::course::{Action, Course, Input};
use self::follower::{Follower, Seen};
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
    /// The priority of this candidate. In `default` nobody has one.
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// How long before the deadline COMMAND gets SIGTERM; at most a third of what is left of the lease. It is killed
    /// before the deadline.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// Ends with the first lead that is lost, instead of waiting for the next one.
    #[arg(long)]
    once: bool,
    /// Where the sidecar's API is.
    #[arg(long, env = "CONCLAVE_URL", default_value = "http://localhost:7070")]
    url: String,
    /// The Unix socket of the API: it is called there rather than at the URL.
    #[arg(long, env = "CONCLAVE_SOCKET")]
    socket: Option<PathBuf>,
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

pub(super) fn run(args: ElectArgs) -> ExitCode {
    let lived = prepare(&args)
        .and_then(|call| one_thread::live(live(args, call)).context("start the runtime"));
    match lived.flatten() {
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
    telemetry::init_on_standard_error(args.log_format, &args.log)?;
    let place = match &args.socket {
        Some(path) => Place::Socket(path.clone()),
        None => Place::of_url(&args.url)?,
    };
    Ok(Call {
        place,
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

    fn see(&mut self, seen: Seen) -> anyhow::Result<Input> {
        match seen {
            Seen::Stated(input) => return Ok(input),
            Seen::Over => {}
            // COMMAND must end before this process does; then it is asked again.
            Seen::Never(error) if self.course.is_running() => {
                warn!(error = format!("{error:#}"), "the stream cannot be followed");
            }
            Seen::Never(error) => return Err(error),
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

async fn follow(follower: Option<&mut Follower>) -> Seen {
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
struct Asked {
    terminate: unix::Signal,
    interrupt: unix::Signal,
    hang_up: unix::Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            asked: Asked {
                terminate: signal(SignalKind::terminate())?,
                interrupt: signal(SignalKind::interrupt())?,
                hang_up: signal(SignalKind::hangup())?,
            },
        })
    }
}

impl Asked {
    async fn next(&mut self) -> Signal {
        tokio::select! {
            () = received(&mut self.terminate) => Signal::TERM,
            () = received(&mut self.interrupt) => Signal::INT,
            () = received(&mut self.hang_up) => Signal::HUP,
        }
    }
}

/// Waits for a signal.
async fn received(signal: &mut unix::Signal) {
    if signal.recv().await.is_none() {
        // The runtime ends.
        std::future::pending::<()>().await;
    }
}

/// Before it stands again: as long as a client waits that lost its stream.
const PAUSE: Duration = Duration::from_secs(1);
