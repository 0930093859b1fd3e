//! Follows an election by a stream, and tries again until there is one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::api::{Call, CallError, Stream};
use super::course::Input;
use super::events::Events;
use super::state;
use crate::os_clock::OsClock;

/// What became of the stream.
#[derive(Debug)]
pub(super) enum Observation {
    /// The election, as the sidecar states it.
    Stated(Input),
    /// The stream is over: nothing follows.
    Over,
    /// There will be none: nothing follows.
    Never(anyhow::Error),
}

/// Stands in an election by a stream. Dropping it hangs up.
#[derive(Debug)]
pub(super) struct Follower {
    seen: mpsc::Receiver<Observation>,
    _task: AbortOnDropHandle<()>,
}

impl Follower {
    /// Begins after a pause.
    pub(super) fn begin(call: Arc<Call>, pause: Duration) -> Self {
        let (sender, seen) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            tokio::time::sleep(pause).await;
            let last = match stream(&call).await {
                Ok(stream) => read(stream, &sender).await,
                Err(error) => Observation::Never(error),
            };
            // A reader that has gone away does not want it.
            let _ = sender.send(last).await;
        });
        Self { seen, _task: AbortOnDropHandle::new(task) }
    }

    /// What comes next.
    pub(super) async fn next(&mut self) -> Observation {
        self.seen.recv().await.unwrap_or(Observation::Over)
    }
}

async fn stream(call: &Call) -> anyhow::Result<Stream> {
    let mut pause = FIRST_PAUSE;
    loop {
        match call.open().await {
            Ok(stream) => {
                info!(election = call.election, "waits for the lead");
                return Ok(stream);
            }
            Err(CallError::Refused(error)) => return Err(error),
            Err(CallError::NotNow(error)) => {
                warn!(error = format!("{error:#}"), again_in = ?pause, "cannot stand");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Reads a stream to its end.
async fn read(mut stream: Stream, sender: &mpsc::Sender<Observation>) -> Observation {
    let mut events = Events::default();
    loop {
        let read = stream.next().await.and_then(|bytes| Ok(events.read(&bytes)?));
        let whole = match read {
            Ok(whole) => whole,
            Err(error) => {
                warn!(error = format!("{error:#}"), "the stream is over");
                return Observation::Over;
            }
        };
        for event in whole {
            match state::input(OsClock::default().now(), &event) {
                Ok(input) => {
                    if sender.send(Observation::Stated(input)).await.is_err() {
                        return Observation::Over;
                    }
                }
                Err(error) => return Observation::Never(error.into()),
            }
        }
    }
}

/// Doubles with every attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

const LONGEST_PAUSE: Duration = Duration::from_secs(5);
