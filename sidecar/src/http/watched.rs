//! Ask once, hear for ever: one representation, read by a poll, a long poll or a stream of
//! server-sent events.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use conclave_protocols::LocalTime;
use futures::StreamExt;
use futures::stream::{self, Stream};
use serde::Serialize;
use tokio::sync::watch;

use super::problem::Problem;
use super::{Api, fields::Fields};
use crate::group::Believer;
use crate::os_clock::{ApplicationTime, OsClock};

/// Something with a state that can be waited for.
pub(super) trait Watched: Clone + Send + Sync + 'static {
    /// Its state as answers show it.
    type View: Serialize + Send;

    /// Rises with every change.
    fn index(&self) -> u64;

    /// When it changes without anybody saying so: a hold or a leader lease runs out. It may move on without
    /// another index.
    fn deadline(&self) -> Option<LocalTime>;

    /// How it stands at `now`.
    fn view(&self, now: ApplicationTime) -> Self::View;

    /// Until when this member leads, if the state at `now` says that it does.
    fn led_until(&self, _now: LocalTime) -> Option<LocalTime> {
        None
    }

    /// What happened since the last event; the first one shows the present state.
    fn events(before: Option<&Self::View>, now: &Self::View) -> Vec<&'static str>;

    /// Whether nothing can come after this state.
    fn is_final(view: &Self::View) -> bool;
}

/// How far a reader has read: the index, and whether the deadline had passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Progress {
    pub(super) index: u64,
    expired: bool,
}

/// A deadline that a stream has sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct SentDeadline {
    deadline: LocalTime,
    /// From when on a later one is news.
    stale: LocalTime,
}

impl SentDeadline {
    /// A later deadline is news after a third of what was left of this one: a caller that is sent a lease
    /// has two thirds of it left when it is sent the next.
    fn at(now: LocalTime, deadline: LocalTime) -> Self {
        Self { deadline, stale: now.after((deadline - now) / 3) }
    }

    /// When another deadline is to be sent; an earlier one is at once.
    fn due(self, now: LocalTime, deadline: LocalTime) -> Option<LocalTime> {
        match deadline.cmp(&self.deadline) {
            Ordering::Less => Some(now),
            Ordering::Equal => None,
            Ordering::Greater => Some(self.stale),
        }
    }
}

/// How long a poll is willing to wait for a change.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Patience {
    wait: Duration,
    index: Option<u64>,
}

impl Patience {
    /// Takes `wait` and `index`; without `wait`, answers at once.
    pub(super) fn of(fields: &mut Fields) -> Result<Self, Problem> {
        let wait = fields.duration("wait")?.unwrap_or_default();
        Ok(Self { wait, index: fields.number("index")? })
    }

    /// Waits until the state differs from the one with the given index, or else from the present
    /// one, but not longer than it is willing to.
    pub(super) async fn wait<T: Watched>(
        self,
        api: &Api,
        state: &mut watch::Receiver<T>,
    ) -> Result<(), Problem> {
        if self.wait.is_zero() {
            return Ok(());
        }
        let index = self.index.unwrap_or_else(|| state.borrow().index());
        let _permit = api.long_call()?;
        let seen = Progress { index, expired: false };
        let change = changed(state, seen, None, api.group.os_clock());
        // Both outcomes are answered with the state as it then stands.
        let _ = tokio::time::timeout(self.wait, change).await;
        Ok(())
    }
}

/// Streams every change of `state`, the present one first, and the deadline as it moves on. The stream keeps
/// `caller` alive, and with it the leave to stream.
pub(super) fn events<T: Watched, C: Send + 'static>(
    api: &Api,
    state: watch::Receiver<T>,
    caller: C,
) -> Response {
    sse(api, changes(api, state, caller, event))
}

/// One event, under its name.
pub(super) fn event<V: Serialize>(name: &str, index: u64, view: &V) -> Option<Event> {
    let event = Event::default().event(name).id(index.to_string()).retry(RETRY);
    // Our views are plain data: they always have a JSON form.
    event.json_data(view).ok()
}

/// Every change of `state`, the present one first, as `write` puts it: from the name of the event, the index and
/// the view it makes what is sent, or nothing. The stream keeps `caller` alive.
pub(super) fn changes<T, E, W, C>(
    api: &Api,
    state: watch::Receiver<T>,
    caller: C,
    write: W,
) -> impl Stream<Item = E> + Send + 'static + use<T, E, W, C>
where
    T: Watched,
    E: Send + 'static,
    W: Fn(&'static str, u64, &T::View) -> Option<E> + Send + 'static,
    C: Send + 'static,
{
    let reader = Reader {
        clock: api.group.os_clock(),
        state,
        seen: None,
        notified: None,
        before: None,
        believer: api.group.believers.stream(),
        leads: false,
        ready: VecDeque::new(),
        over: false,
        write,
        _caller: caller,
    };
    stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((event, reader))
    })
}

/// The answer that sends these events, and comments while there are none.
pub(super) fn sse(api: &Api, events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    let alive = KeepAlive::new().interval(api.limits.keep_alive).text("keep-alive");
    Sse::new(events).keep_alive(alive).into_response()
}

/// Whether a caller wants a stream.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|range| range.trim().eq_ignore_ascii_case("text/event-stream"))
}

/// Who reads a stream, and how far it has come.
struct Reader<T: Watched, E, W, C> {
    clock: OsClock,
    state: watch::Receiver<T>,
    seen: Option<Progress>,
    notified: Option<SentDeadline>,
    before: Option<T::View>,
    believer: Believer,
    /// The last state read says that this member leads.
    leads: bool,
    ready: VecDeque<E>,
    over: bool,
    write: W,
    _caller: C,
}

impl<T, E, W, C> Reader<T, E, W, C>
where
    T: Watched,
    W: Fn(&'static str, u64, &T::View) -> Option<E>,
{
    async fn next(&mut self) -> Option<E> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if !self.leads {
                self.believer.note_end_written(self.clock.now());
            }
            if self.over {
                return None;
            }
            if let Some(seen) = self.seen {
                self.over = !changed(&mut self.state, seen, self.notified, self.clock).await;
            }
            self.read();
        }
    }

    /// Reads the state, and makes the events that it amounts to.
    fn read(&mut self) {
        let now = self.clock.moment();
        let (seen, deadline, view) = {
            let state = self.state.borrow_and_update();
            let led_until = state.led_until(now.boottime);
            self.leads = led_until.is_some();
            self.believer.states(led_until);
            (seen_at(&*state, now.boottime), deadline_at(&*state, now.boottime), state.view(now))
        };
        if self.seen == Some(seen) && !is_due(self.notified, deadline, now.boottime) {
            return;
        }
        self.notified = deadline.map(|deadline| SentDeadline::at(now.boottime, deadline));
        for name in T::events(self.before.as_ref(), &view) {
            self.ready.extend((self.write)(name, seen.index, &view));
        }
        self.over |= T::is_final(&view);
        self.seen = Some(seen);
        self.before = Some(view);
    }
}

/// Waits until the state differs from `seen`, or its deadline from the one that was `notified` for long
/// enough; says whether more can follow.
pub(super) async fn changed<T: Watched>(
    state: &mut watch::Receiver<T>,
    seen: Progress,
    notified: Option<SentDeadline>,
    clock: OsClock,
) -> bool {
    loop {
        let next = {
            let value = state.borrow_and_update();
            let now = clock.now();
            let deadline = deadline_at(&*value, now);
            if seen_at(&*value, now) != seen || is_due(notified, deadline, now) {
                return true;
            }
            due(notified, deadline, now).or(deadline)
        };
        tokio::select! {
            change = state.changed() => if change.is_err() { return false },
            () = until(clock, next) => {}
        }
    }
}

async fn until(clock: OsClock, deadline: Option<LocalTime>) {
    match deadline {
        Some(deadline) => tokio::time::sleep(clock.until(deadline)).await,
        None => std::future::pending().await,
    }
}

/// The deadline, if it lies ahead.
fn deadline_at<T: Watched>(value: &T, now: LocalTime) -> Option<LocalTime> {
    value.deadline().filter(|deadline| now < *deadline)
}

fn due(
    notified: Option<SentDeadline>,
    deadline: Option<LocalTime>,
    now: LocalTime,
) -> Option<LocalTime> {
    notified?.due(now, deadline?)
}

fn is_due(notified: Option<SentDeadline>, deadline: Option<LocalTime>, now: LocalTime) -> bool {
    due(notified, deadline, now).is_some_and(|due| due <= now)
}

pub(super) fn seen_at<T: Watched>(value: &T, now: LocalTime) -> Progress {
    let expired = value.deadline().is_some_and(|deadline| deadline <= now);
    Progress { index: value.index(), expired }
}

const RETRY: Duration = Duration::from_secs(1);
