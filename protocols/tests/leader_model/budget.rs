//! How long a search may go on, and the line that reports how far it came.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs::read_to_string;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stateright::report::{ReportData, ReportDiscovery, Reporter};
use stateright::{Checker, HasDiscoveries, Model};

/// Threads of a search in a campaign, which has the cores for itself. Any other search has one thread and shares the cores
/// with the next: of two threads each frees what the other has allocated, and they wait for each other.
const THREADS: usize = 2;
/// What the process may use of the machine's memory: 6 GiB, in pages of 4 KiB.
const PAGES_MAX: u64 = 6 << 18;

/// Instructs a search to end although it has not seen everything. A model has one, and asks it in
/// `within_boundary` and `actions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    spent: Arc<AtomicBool>,
}

/// What a search saw.
pub(crate) struct Outcome<C> {
    pub(crate) checker: C,
    /// It saw every state within its bounds, or what it looked for.
    pub(crate) exhausted: bool,
}

impl Budget {
    pub(crate) fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }
}

/// Searches a model breadth-first until it is exhausted, the discoveries are made, or the memory is used up; prints one
/// line. One that looks for failures ends after `CONCLAVE_SECONDS`, too. One that is to make a discovery does not: without it,
/// it has shown nothing.
pub(crate) fn search<M>(
    model: M,
    budget: Budget,
    finish: HasDiscoveries,
) -> Outcome<impl Checker<M>>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let limit = if matches!(finish, HasDiscoveries::AnyFailures) { seconds() } else { None };
    let mut watch = Watch { budget, seconds: limit, last: None, cut_short: false };
    let checker = model
        .checker()
        .threads(if seconds().is_some() { THREADS } else { 1 })
        .finish_when(finish)
        .spawn_bfs()
        .join_and_report(&mut watch);
    let thread = std::thread::current();
    let test = thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or_default();
    let exhausted = !watch.cut_short;
    assert!(exhausted || seconds().is_some(), "{test}: the memory ended before the search did");
    if let Some(Seen { unique, depth, took }) = watch.last {
        let end = if exhausted { "exhausted" } else { "not exhausted" };
        println!("{test}: {unique} unique states, depth {depth}, {took:.1?}, {end}");
    }
    Outcome { checker, exhausted }
}

#[expect(clippy::disallowed_methods, reason = "the limit of one run")]
fn seconds() -> Option<Duration> {
    let text = std::env::var("CONCLAVE_SECONDS").ok()?;
    let seconds = text.parse().expect("CONCLAVE_SECONDS is a number of seconds");
    Some(Duration::from_secs(seconds))
}

struct Seen {
    unique: usize,
    depth: usize,
    took: Duration,
}

struct Watch {
    budget: Budget,
    seconds: Option<Duration>,
    last: Option<Seen>,
    cut_short: bool,
}

impl<M: Model> Reporter<M> for Watch {
    fn report_checking(&mut self, data: ReportData) {
        let ReportData { unique_states: unique, max_depth: depth, duration: took, done, .. } = data;
        if done {
            // Paths are rebuilt from the model's actions.
            self.budget.spent.store(false, Ordering::Relaxed);
        } else if self.seconds.is_some_and(|limit| took > limit) || pages() > PAGES_MAX {
            self.cut_short = true;
            self.budget.spent.store(true, Ordering::Relaxed);
        }
        self.last = Some(Seen { unique, depth, took });
    }

    fn report_discoveries(
        &mut self,
        _model: &M,
        _discoveries: BTreeMap<&'static str, ReportDiscovery<M>>,
    ) where
        M::Action: Debug + PartialEq,
        M::State: Debug + Hash + PartialEq,
    {
    }

    fn delay(&self) -> Duration {
        Duration::from_millis(20)
    }
}

/// The memory that this process uses, in pages; zero where nobody reports it.
fn pages() -> u64 {
    let statm = read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|resident| resident.parse().ok()).unwrap_or_default()
}
