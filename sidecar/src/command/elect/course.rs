//! When COMMAND starts and when it ends: decisions alone, without a clock, a process or a connection.

#[cfg(test)]
mod tests;

use std::time::Duration;

use conclave_protocols::LocalTime;
use rustix::process::Signal;

/// This member leads until then.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Lead {
    /// By `CLOCK_BOOTTIME`.
    pub(super) until: LocalTime,
    /// The fencing token, if there is one.
    pub(super) token: Option<u64>,
}

/// What happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Input {
    /// The sidecar states that this member leads.
    Leads(Lead),
    /// The sidecar states that it does not.
    LeadsNot,
    /// The connection is over, and with it the candidacy.
    Broken,
    /// COMMAND has ended, with what a shell would call its status.
    Ended(u8),
    /// This process was sent a signal.
    Signal(Signal),
    /// It is the time that [`Course::wake`] named.
    Time,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Action {
    /// COMMAND starts, with this fencing token.
    Start(Option<u64>),
    /// All processes of COMMAND get a signal.
    Send(Signal),
    /// All processes of COMMAND are killed.
    Kill,
    /// The candidacy ends, and another begins.
    StandAnew,
    /// This process ends with this status.
    Exit(u8),
}

/// The course of one `conclave elect`.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// How long before the deadline COMMAND gets SIGTERM, if the lease is long enough.
    grace: Duration,
    /// It ends with the first lead.
    once: bool,
    /// It ends with COMMAND, however that ends.
    ending: bool,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// COMMAND does not run.
    Waits,
    Runs(Limits),
    /// COMMAND had SIGTERM, since its time was nearly over. A later deadline does not save it, an earlier one counts.
    Stops(Limits),
    /// COMMAND was killed, and has not ended yet.
    Dies,
    Over,
}

/// The times of a lead, as its last deadline sets them.
#[derive(Clone, Copy, Debug)]
struct Limits {
    lead: Lead,
    /// The longest that any deadline of this lead was ahead when it was stated: what is kept free before a deadline
    /// does not shrink because it is stated again later.
    longest: Duration,
    /// When COMMAND gets SIGTERM.
    stop: LocalTime,
    /// When it is killed.
    kill: LocalTime,
}

impl Course {
    pub(super) fn new(grace: Duration, once: bool) -> Self {
        Self { grace, once, ending: false, phase: Phase::Waits }
    }

    /// When [`Input::Time`] is due.
    pub(super) fn wake(&self) -> Option<LocalTime> {
        match self.phase {
            Phase::Runs(limits) => Some(limits.stop),
            Phase::Stops(limits) => Some(limits.kill),
            Phase::Waits | Phase::Dies | Phase::Over => None,
        }
    }

    /// Whether COMMAND runs, as far as is known.
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Runs(_) | Phase::Stops(_) | Phase::Dies)
    }

    /// Deals with what happened by `now`.
    pub(super) fn handle(&mut self, now: LocalTime, input: Input) -> Option<Action> {
        match self.phase {
            Phase::Waits => self.wait(now, input),
            Phase::Runs(limits) => self.run(now, limits, input),
            Phase::Stops(limits) => self.stop(now, limits, input),
            Phase::Dies => self.die(input),
            Phase::Over => None,
        }
    }

    fn wait(&mut self, now: LocalTime, input: Input) -> Option<Action> {
        match input {
            // If a shorter lead goes on, a later deadline follows.
            Input::Leads(lead) if now.after(LEAST) <= lead.until => {
                self.phase = Phase::Runs(self.limits(now, lead, Duration::ZERO));
                Some(Action::Start(lead.token))
            }
            Input::Broken => Some(Action::StandAnew),
            Input::Signal(signal) => Some(self.exit(by_signal(signal.as_raw()))),
            Input::Leads(_) | Input::LeadsNot | Input::Ended(_) | Input::Time => None,
        }
    }

    fn run(&mut self, now: LocalTime, limits: Limits, input: Input) -> Option<Action> {
        match input {
            Input::Ended(status) => Some(self.exit(status)),
            Input::Leads(lead) if limits.goes_on(now, lead) => {
                let limits = self.limits(now, lead, limits.longest);
                self.phase = Phase::Runs(limits);
                self.keep_time(now, limits)
            }
            Input::Leads(_) | Input::LeadsNot | Input::Broken => Some(self.kill()),
            Input::Signal(signal) => Some(self.pass_on(signal)),
            Input::Time => self.keep_time(now, limits),
        }
    }

    fn stop(&mut self, now: LocalTime, limits: Limits, input: Input) -> Option<Action> {
        match input {
            Input::Ended(status) => Some(self.end(status)),
            Input::Leads(lead) if limits.goes_on(now, lead) => {
                let next = self.limits(now, lead, limits.longest);
                let limits = Limits { kill: limits.kill.min(next.kill), ..next };
                self.phase = Phase::Stops(limits);
                self.keep_time(now, limits)
            }
            Input::Leads(_) | Input::LeadsNot | Input::Broken => Some(self.kill()),
            Input::Signal(signal) => Some(self.pass_on(signal)),
            Input::Time => self.keep_time(now, limits),
        }
    }

    fn die(&mut self, input: Input) -> Option<Action> {
        match input {
            Input::Ended(status) => return Some(self.end(status)),
            Input::Signal(signal) => self.ending |= ends(signal),
            Input::Leads(_) | Input::LeadsNot | Input::Broken | Input::Time => {}
        }
        None
    }

    /// Does what the clock asks for.
    fn keep_time(&mut self, now: LocalTime, limits: Limits) -> Option<Action> {
        if now >= limits.kill {
            return Some(self.kill());
        }
        if now >= limits.stop && matches!(self.phase, Phase::Runs(_)) {
            self.phase = Phase::Stops(limits);
            return Some(Action::Send(Signal::TERM));
        }
        None
    }

    fn kill(&mut self) -> Action {
        self.phase = Phase::Dies;
        Action::Kill
    }

    fn pass_on(&mut self, signal: Signal) -> Action {
        self.ending |= ends(signal);
        Action::Send(signal)
    }

    /// COMMAND has ended, since its lead did.
    fn end(&mut self, status: u8) -> Action {
        match (self.ending, self.once) {
            (true, _) => self.exit(status),
            (false, true) => self.exit(LEAD_LOST),
            (false, false) => {
                self.phase = Phase::Waits;
                Action::StandAnew
            }
        }
    }

    fn exit(&mut self, status: u8) -> Action {
        self.phase = Phase::Over;
        Action::Exit(status)
    }

    /// Events come when a third of what they stated before is over, so a grace of at most a third disturbs no lead
    /// that goes on.
    fn limits(&self, now: LocalTime, lead: Lead, longest: Duration) -> Limits {
        let left = now.until(lead.until);
        let longest = longest.max(left);
        let margin = (longest / 12).min(MARGIN);
        let grace = self.grace.min(longest / 3).max(margin);
        let before = |span| now.after(left.saturating_sub(span));
        Limits { lead, longest, stop: before(grace), kill: before(margin) }
    }
}

impl Limits {
    /// Whether it is the same lead, which did not end in between.
    fn goes_on(&self, now: LocalTime, lead: Lead) -> bool {
        now < self.lead.until && self.lead.token == lead.token
    }
}

/// Whether a signal asks a process to end. The others may mean other things to COMMAND.
fn ends(signal: Signal) -> bool {
    [Signal::TERM, Signal::INT, Signal::QUIT].contains(&signal)
}

/// The status of a process that a signal ended, as a shell has it.
pub(super) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal).unwrap_or(0).saturating_add(128)
}

/// COMMAND does not start for less.
const LEAST: Duration = Duration::from_millis(100);

/// How long before the deadline COMMAND is killed at the earliest: a busy machine takes its time for it.
const MARGIN: Duration = Duration::from_secs(1);

/// The lead ended, and was the only one that was wanted (`EX_TEMPFAIL`).
const LEAD_LOST: u8 = 75;
