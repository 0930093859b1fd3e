//! For how long nobody leads, by what the metrics of the pods show.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Scope};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use conclave_testbed::cluster::Pod;
use conclave_testbed::http::Http;

use crate::product::ADMIN;

/// The gauge of the group's own leader.
pub const LEADS_GROUP: &str = "conclave_leader{";

/// Looks from outside at gauges by which pods report that they lead, until it is stopped.
#[derive(Debug)]
pub struct LeaderWatch<const N: usize> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<[Duration; N]>,
}

/// What all pods have reported by one gauge.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// When one of them last reported that it leads.
    led: Instant,
    longest: Duration,
}

/// What the looks at all pods have in common.
struct Looks<const N: usize> {
    gauges: [&'static str; N],
    stop: Arc<AtomicBool>,
    seen: Mutex<[Seen; N]>,
}

impl<const N: usize> LeaderWatch<N> {
    /// Watches the pods that `pods` lists, which may take its time, or fail. `gauges`: how their lines begin, up to the
    /// value.
    pub fn start(
        gauges: [&'static str; N],
        pods: impl Fn() -> Result<Vec<Pod>> + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Mutex::new([Seen { led: Instant::now(), longest: Duration::ZERO }; N]);
        let looks = Looks { gauges, stop: Arc::clone(&stop), seen };
        let thread = thread::spawn(move || {
            thread::scope(|scope| looks.list(scope, &pods));
            looks.note([false; N]).map(|seen| seen.longest)
        });
        Self { stop, thread }
    }

    /// For each gauge, the longest time that nobody was seen to lead by it.
    pub fn longest_holes(self) -> Result<[Duration; N]> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().ok().context("the watch panicked")
    }
}

impl<const N: usize> Looks<N> {
    /// Looks at each pod by itself: one that ends may take its time to answer, and the others do not wait for it.
    fn list<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        pods: &impl Fn() -> Result<Vec<Pod>>,
    ) {
        let mut known: Vec<(Pod, Arc<Mutex<Instant>>)> = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            // While a pod starts it has no address yet.
            for pod in pods().unwrap_or_default() {
                let now = Instant::now();
                if let Some((_, listed)) = known.iter().find(|(other, _)| other.uid == pod.uid) {
                    *listed.lock().unwrap_or_else(PoisonError::into_inner) = now;
                    continue;
                }
                let (listed, address) = (Arc::new(Mutex::new(now)), (pod.address, ADMIN).into());
                known.push((pod, Arc::clone(&listed)));
                scope.spawn(move || self.look_at(address, &listed));
            }
            thread::sleep(LISTS);
        }
    }

    /// One that is about to end is listed no more, and may lead for a while yet; then its address may be another's.
    fn look_at(&self, admin: SocketAddr, listed: &Mutex<Instant>) {
        let is_there = || listed.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < ENDS;
        let mut connection = None;
        while !self.stop.load(Ordering::Relaxed) && is_there() {
            match self.leads(&mut connection, admin) {
                Ok(leads) => drop(self.note(leads)),
                Err(_) => connection = None,
            }
            thread::sleep(PAUSE);
        }
    }

    fn leads(&self, connection: &mut Option<Http>, admin: SocketAddr) -> Result<[bool; N]> {
        let http = match connection {
            Some(http) => http,
            None => connection.insert(Http::connect_to(admin)?),
        };
        let metrics = http.call("GET", "/metrics")?.body;
        let is_one = |gauge: &str| {
            metrics.lines().any(|line| line.starts_with(gauge) && line.ends_with(" 1"))
        };
        Ok(self.gauges.map(is_one))
    }

    fn note(&self, leads: [bool; N]) -> [Seen; N] {
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        for (seen, leads) in all.iter_mut().zip(leads) {
            seen.longest = seen.longest.max(now - seen.led);
            if leads {
                seen.led = now;
            }
        }
        *all
    }
}

/// How long a pod may take to end.
const ENDS: Duration = Duration::from_secs(15);

/// How often a watch lists the pods.
const LISTS: Duration = Duration::from_millis(300);

/// Between two looks at a pod.
const PAUSE: Duration = Duration::from_millis(20);
