//! What was sent of late about an election, so that a client whose stream broke hears of what it missed: with the
//! header `Last-Event-ID`, which is what the HTML standard calls it.
//!
//! Nothing of the past is stated as if it were the case: a lead that is over looks over. The present state follows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::HeaderMap;
use axum::response::Response;
use futures::{StreamExt, stream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::Api;
use super::elections::ElectionView;
use super::watched::{self, Progress, Watched, changed, seen_at};
use crate::group::Election;
use crate::os_clock::{ApplicationTime, OsClock};

/// The trails of the elections that somebody listens to, by their names.
#[derive(Default)]
pub(super) struct Trails(Mutex<BTreeMap<String, Arc<Trail>>>);

/// What happened to one election since somebody listens to it.
struct Trail {
    state: watch::Receiver<Election>,
    remembered: Mutex<Remembered>,
}

/// What is remembered.
#[derive(Default)]
struct Remembered {
    past: VecDeque<Past>,
    /// Of what came after this index, all is there.
    complete_after: u64,
    last: Option<(Progress, ElectionView)>,
}

/// An event that was.
#[derive(Clone)]
struct Past {
    name: &'static str,
    index: u64,
    view: ElectionView,
}

/// Events that are remembered of one election.
const REMEMBERED: usize = 64;

/// Streams every change of an election: first what came after the event that the caller read last, if it names one,
/// then the present state. The stream keeps `caller` alive.
pub(super) fn events<C: Send + 'static>(
    api: &Api,
    state: watch::Receiver<Election>,
    headers: &HeaderMap,
    caller: (C, OwnedSemaphorePermit),
) -> Response {
    let trail = api.trails.of(&state, api.group.os_clock());
    let (past, missed) = trail.after(last_read(headers), api.group.os_clock().moment());
    let past =
        past.into_iter().filter_map(|past| watched::event(past.name, past.index, &past.view));
    // Of the first event alone it says that there may have been others.
    let missed = AtomicBool::new(missed);
    let write = move |name: &'static str, index, view: &ElectionView| {
        if missed.swap(false, Ordering::Relaxed) {
            return watched::event(name, index, &view.clone().after_others());
        }
        watched::event(name, index, view)
    };
    let present = watched::changes(api, state, caller, write);
    watched::sse(api, stream::iter(past.collect::<Vec<_>>()).chain(present))
}

/// What the client read last.
#[derive(Clone, Copy)]
enum LastRead {
    /// It says nothing about that.
    Nothing,
    /// The event of that index.
    Index(u64),
    /// Something that is no event of this sidecar.
    Unknown,
}

/// What the client read last, as the header has it. An empty one names nothing.
fn last_read(headers: &HeaderMap) -> LastRead {
    let value = headers.get("last-event-id").filter(|value| !value.is_empty());
    let Some(value) = value else { return LastRead::Nothing };
    // An index has digits and nothing else.
    let digits = value.to_str().ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
    digits.and_then(|text| text.parse().ok()).map_or(LastRead::Unknown, LastRead::Index)
}

impl Trails {
    /// The trail of an election. It begins when it is asked for first.
    fn of(&self, state: &watch::Receiver<Election>, clock: OsClock) -> Arc<Trail> {
        let name = state.borrow().name.clone();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was gone and is there again is another, and of those that are gone nothing is left.
        all.retain(|_, trail| trail.state.has_changed().is_ok());
        if let Some(trail) = all.get(&name) {
            return Arc::clone(trail);
        }
        let trail = Arc::new(Trail { state: state.clone(), remembered: Mutex::default() });
        let seen = trail.record(clock.moment());
        tokio::spawn(Arc::clone(&trail).follow(seen, clock));
        all.insert(name, Arc::clone(&trail));
        trail
    }
}

impl Trail {
    async fn follow(self: Arc<Self>, mut seen: Progress, clock: OsClock) {
        let mut state = self.state.clone();
        while changed(&mut state, seen, None, clock).await {
            seen = self.record(clock.moment());
        }
    }

    /// Remembers the present state, if it is another than before.
    fn record(&self, now: ApplicationTime) -> Progress {
        let mut remembered = self.remembered();
        let state = self.state.borrow();
        let seen = seen_at(&*state, now.boottime);
        if remembered.last.as_ref().is_some_and(|(last, _)| *last == seen) {
            return seen;
        }
        let view = state.view(now);
        match remembered.last.take() {
            Some((last, before)) => {
                if last.index == seen.index {
                    // A client that has read one event of that number may have missed the other.
                    remembered.complete_after = seen.index.saturating_add(1);
                }
                for name in Election::events(Some(&before), &view) {
                    remembered.push(Past { name, index: seen.index, view: view.clone().past() });
                }
            }
            None => remembered.complete_after = seen.index,
        }
        remembered.last = Some((seen, view));
        seen
    }

    /// What came after the event that was read last, up to now; and whether there may have been something else.
    fn after(&self, last: LastRead, now: ApplicationTime) -> (Vec<Past>, bool) {
        let present = self.record(now).index;
        let remembered = self.remembered();
        match last {
            LastRead::Nothing => (Vec::new(), false),
            LastRead::Index(index) if (remembered.complete_after..=present).contains(&index) => {
                let after = remembered.past.iter().filter(|past| past.index > index);
                (after.cloned().collect(), false)
            }
            LastRead::Index(_) | LastRead::Unknown => (Vec::new(), true),
        }
    }

    fn remembered(&self) -> MutexGuard<'_, Remembered> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remembered {
    fn push(&mut self, past: Past) {
        self.past.push_back(past);
        if self.past.len() > REMEMBERED
            && let Some(gone) = self.past.pop_front()
        {
            self.complete_after = self.complete_after.max(gone.index);
        }
    }
}
