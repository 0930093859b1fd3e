//! Who leads, in the words of two older sidecars, for applications that were written for them: Kubernetes' own
//! leader-elector (`GET /`), and the elector of NAIS (`GET /` and `GET /sse`).
//!
//! Both name a pod, and an application leads while that is its own. Neither answer has a deadline, so none names
//! this member after its own; and as on the API's port, the next leader waits for what was answered.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::get;
use futures::future::ready;
use futures::stream::{self, Stream, StreamExt};
use jiff::Timestamp;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use super::answer::Json;
use super::elections::{self, ElectionView};
use super::problem::Problem;
use super::problem_type::ProblemType;
use super::{Api, Limits, Listeners, guarded, serve_router, watched};
use crate::clocks::SharedClocks;
use crate::group::{Election, Group, NamedElections};
use crate::metrics::Metrics;
use crate::os_clock::OsClock;

/// The port that those sidecars had, and the election that it shows.
#[derive(Debug)]
pub struct LeaderElector {
    /// Where it is shown. Everybody who reaches it may call.
    pub listeners: Listeners,
    /// The election's name.
    pub election: String,
}

impl LeaderElector {
    /// Serves both forms until `shutdown`.
    pub(crate) async fn serve(
        self,
        group: Group,
        clocks: SharedClocks,
        metrics: Metrics,
        limits: Limits,
        shutdown: CancellationToken,
    ) {
        let router = router(&Api::new(group, clocks, metrics, limits, None), &self.election);
        serve_router(self.listeners, router, limits, shutdown).await;
    }
}

/// The two routes, within the guard of the API.
pub(super) fn router(api: &Api, election: &str) -> Router {
    let router = Router::new().route("/", get(leader)).route("/sse", get(leaders));
    let me = api.group.status.borrow().pod.as_str().into();
    let shown = Shown { api: api.clone(), election: election.into(), me };
    guarded(router.fallback(not_found), api).with_state(shown)
}

/// What a handler has: the election that it shows, and the name of this pod.
#[derive(Clone)]
struct Shown {
    api: Api,
    election: Arc<str>,
    me: Arc<str>,
}

/// Who leads. Either sidecar's clients find what they know: the one had the name alone.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Answer {
    /// The pod that leads. Empty if none is known to: it is no pod's name.
    name: String,
    /// Since when, by this machine's wall clock; if nobody leads, the time of the answer.
    last_update: String,
}

/// Names the pod that leads.
async fn leader(State(shown): State<Shown>) -> Json<Answer> {
    let election = elections::find(&shown.api, &shown.election);
    let view = election.map(|election| elections::present(&shown.api, &election));
    Json(view.map_or_else(|| shown.nobody(), |view| shown.answer(&view)))
}

/// Streams the same, at every change. It goes on when the election ends: those clients open no second stream.
async fn leaders(State(shown): State<Shown>) -> Result<Response, Problem> {
    let api = shown.api.clone();
    let permit = api.long_call()?;
    // The answer is plain data: it always has a JSON form.
    let event = |answer| ready(Event::default().json_data(answer).ok());
    Ok(watched::sse(&api, answers(shown, permit).filter_map(event)))
}

/// What there is to send, the present state first. The stream keeps its permit.
fn answers(
    shown: Shown,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Answer> + Send + 'static {
    let named = shown.api.group.named_elections();
    let nobody = stream::iter((!shown.is_there()).then(|| shown.nobody()));
    let lives = stream::unfold((shown, named, permit), |(shown, mut named, permit)| async move {
        let election = shown.next_life(&mut named).await?;
        let writer = shown.clone();
        let write = move |event: &str, _, view: &ElectionView| writer.write(event, view);
        let life = watched::changes(&shown.api, election, (), write);
        let over = shown.clone();
        let over = stream::once(async move { over.nobody() });
        Some((life.chain(over), (shown, named, permit)))
    });
    let news = |sent: &mut Option<String>, answer: Answer| {
        let before = sent.replace(answer.name.clone());
        ready(Some(Some(answer).filter(|answer| before.as_ref() != Some(&answer.name))))
    };
    nobody.chain(lives.flatten()).scan(None, news).filter_map(ready)
}

impl Shown {
    /// Whether there is such an election now.
    fn is_there(&self) -> bool {
        elections::find(&self.api, &self.election).as_ref().is_some_and(is_open)
    }

    /// Waits until there is. Nothing if there will be none.
    async fn next_life(
        &self,
        named: &mut watch::Receiver<NamedElections>,
    ) -> Option<watch::Receiver<Election>> {
        if *self.election == *elections::NAME {
            return Some(self.api.group.election()).filter(is_open);
        }
        let listed = |named: &NamedElections| named.get(&*self.election).is_some_and(is_open);
        named.wait_for(listed).await.ok()?.get(&*self.election).cloned()
    }

    /// What an event of the API amounts to.
    fn write(&self, event: &str, view: &ElectionView) -> Option<Answer> {
        match event {
            "elected" | "leader" => Some(self.answer(view)),
            "lost" | "no-leader" | "handing-over" => Some(self.nobody()),
            _ => None,
        }
    }

    fn answer(&self, view: &ElectionView) -> Answer {
        let Some((pod, since_ms)) = view.led_by(&self.me) else { return self.nobody() };
        Answer { name: pod.to_owned(), last_update: date(self.api.group.os_clock(), since_ms) }
    }

    fn nobody(&self) -> Answer {
        Answer { name: String::new(), last_update: date(self.api.group.os_clock(), 0) }
    }
}

/// Whether anybody can still change it.
fn is_open(election: &watch::Receiver<Election>) -> bool {
    election.has_changed().is_ok()
}

/// The time that was so many milliseconds ago, in whole seconds, as RFC 3339 has it.
fn date(clock: OsClock, ago_ms: u64) -> String {
    let now_ms = clock.wall_ns() / 1_000_000;
    let then_ms = now_ms.saturating_sub(i64::try_from(ago_ms).unwrap_or(i64::MAX));
    let then = Timestamp::from_second(then_ms.div_euclid(1_000));
    then.unwrap_or(Timestamp::UNIX_EPOCH).to_string()
}

async fn not_found() -> Problem {
    Problem::new(ProblemType::NotFound, "there are only / and /sse here")
}
