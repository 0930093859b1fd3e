//! What the members say to each other, for the page.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::mpsc;

use super::member::pod_uid;
use crate::group::task::Said;

/// The latest messages of all members.
#[derive(Debug)]
pub(super) struct Journal {
    lines: Mutex<Lines>,
    begun: Instant,
}

#[derive(Debug, Default)]
struct Lines {
    next: u64,
    kept: VecDeque<Line>,
}

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

/// How many lines are kept.
const LINES: usize = 400;

/// What a leader and its followers say at rest, several times a second: not worth a line.
const AT_REST: [&str; 5] = ["heartbeat", "promise", "poll", "answer", "adjust"];

impl Default for Journal {
    fn default() -> Self {
        Self { lines: Mutex::default(), begun: Instant::now() }
    }
}

impl Journal {
    fn write(&self, from: u16, said: &Said) {
        let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let to = said.to.pod.0.checked_sub(pod_uid(0).0).and_then(|n| u16::try_from(n).ok());
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.next += 1;
        let line = Line {
            number: lines.next,
            at_ms: u64::try_from(at_ms).unwrap_or(u64::MAX),
            from,
            to,
            protocol: said.protocol,
            message: said.name,
            lock: said.lock.as_ref().map(ToString::to_string),
        };
        lines.kept.push_back(line);
        if lines.kept.len() > LINES {
            lines.kept.pop_front();
        }
    }

    /// The lines after a number, the oldest first.
    pub(super) fn after(&self, number: u64) -> Vec<Line> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.kept.iter().filter(|line| line.number > number).cloned().collect()
    }

    /// For how long there has been something to write.
    pub(super) fn age_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Writes down what a member says, until it ends.
pub(super) async fn listen_in(number: u16, mut heard: mpsc::Receiver<Said>, journal: Arc<Journal>) {
    while let Some(said) = heard.recv().await {
        if !AT_REST.contains(&said.name) {
            journal.write(number, &said);
        }
    }
}
