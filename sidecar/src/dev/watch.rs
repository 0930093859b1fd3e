//! What the members say to each other, for the page.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::{mpsc, watch};

use super::chronicle::Chronicle;
use super::elections::Elections;
use super::member::number_of;
use crate::group::task::{Sent, SentMessage};

/// The latest messages of all members.
#[derive(Debug)]
pub(super) struct Journal {
    lines: Mutex<Lines>,
    /// The number of the last line.
    last: watch::Sender<u64>,
}

/// The lines by protocol, so that one that sends much leaves the others theirs.
type Lines = BTreeMap<&'static str, VecDeque<Line>>;

/// A message that a member sent.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// Counts the lines.
    number: u64,
    /// Milliseconds since 1970.
    at_ms: u64,
    from: u16,
    to: Option<u16>,
    protocol: &'static str,
    message: &'static str,
    lock: Option<String>,
}

/// How many lines of a protocol are kept.
const LINES: usize = 200;

/// What a leader and its followers say at rest, several times a second: not worth a line.
const AT_REST: [&str; 2] = ["heartbeat", "promise"];

impl Default for Journal {
    fn default() -> Self {
        Self { lines: Mutex::default(), last: watch::Sender::new(0) }
    }
}

impl Journal {
    fn write(&self, from: u16, sent: &SentMessage) {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let mut lines = self.lines();
        let number = *self.last.borrow() + 1;
        let line = Line {
            number,
            at_ms: u64::try_from(at_ms).unwrap_or(u64::MAX),
            from,
            to: number_of(sent.to.pod),
            protocol: sent.protocol,
            message: sent.name,
            lock: sent.lock.as_ref().map(ToString::to_string),
        };
        let kept = lines.entry(sent.protocol).or_default();
        kept.push_back(line);
        if kept.len() > LINES {
            kept.pop_front();
        }
        // Nobody is notified of a line before it can be read.
        self.last.send_replace(number);
    }

    /// The lines after a number, the oldest first.
    pub(super) fn after(&self, number: u64) -> Vec<Line> {
        let lines = self.lines();
        let new = lines.values().flatten().filter(|line| line.number > number);
        let mut new: Vec<Line> = new.cloned().collect();
        drop(lines);
        new.sort_unstable_by_key(|line| line.number);
        new
    }

    /// The number of the last line.
    pub(super) fn last(&self) -> watch::Receiver<u64> {
        self.last.subscribe()
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Counts the lines.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// Where what members say and do is written down.
pub(super) struct Listener {
    pub(super) journal: Arc<Journal>,
    pub(super) chronicle: Arc<Chronicle>,
    pub(super) elections: Arc<Elections>,
}

impl Listener {
    /// Writes down what a member says and does, until it ends.
    pub(super) async fn listen_in(self, number: u16, mut heard: mpsc::Receiver<Sent>) {
        while let Some(sent) = heard.recv().await {
            match sent {
                Sent::Message(sent) if AT_REST.contains(&sent.name) => {}
                Sent::Message(sent) => self.journal.write(number, &sent),
                Sent::Step(step) => self.chronicle.note(number, step),
                Sent::Ballot(step) => self.elections.note(number, step),
                Sent::Lease(lease) => self.chronicle.extend(number, lease),
            }
        }
    }
}
