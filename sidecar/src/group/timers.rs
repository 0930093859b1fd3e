//! Timers by name: setting one again replaces it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;

use conclave_protocols::LocalTime;

use crate::os_clock::OsClock;

/// Timers that are set, by name.
#[derive(Debug)]
pub(super) struct PodTimers<N> {
    by_name: BTreeMap<N, LocalTime>,
    by_time: BTreeSet<(LocalTime, N)>,
}

impl<N: Clone + Ord + Hash> PodTimers<N> {
    pub(super) fn new() -> Self {
        Self { by_name: BTreeMap::new(), by_time: BTreeSet::new() }
    }

    pub(super) fn set(&mut self, name: N, at: LocalTime) {
        match self.by_name.get_mut(&name) {
            Some(before) if *before == at => return,
            Some(before) => {
                self.by_time.remove(&(std::mem::replace(before, at), name.clone()));
            }
            None => _ = self.by_name.insert(name.clone(), at),
        }
        self.by_time.insert((at, name));
    }

    pub(super) fn clear(&mut self, name: &N) {
        if let Some(at) = self.by_name.remove(name) {
            self.by_time.remove(&(at, name.clone()));
        }
    }

    /// Clears all whose name is of a kind.
    pub(super) fn clear_all(&mut self, of_kind: impl Fn(&N) -> bool) {
        self.by_name.retain(|name, _| !of_kind(name));
        self.by_time.retain(|(_, name)| !of_kind(name));
    }

    /// When the next is due.
    pub(super) fn next(&self) -> Option<LocalTime> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Which is due next, if it is due.
    pub(super) fn first_due(&self, now: LocalTime) -> Option<&N> {
        self.by_time.first().filter(|(at, _)| *at <= now).map(|(_, name)| name)
    }

    /// Takes out one that is due.
    pub(super) fn take_due(&mut self, now: LocalTime) -> Option<N> {
        let (_, name) = self.by_time.first().filter(|(at, _)| *at <= now)?.clone();
        self.clear(&name);
        Some(name)
    }
}

/// Returns when a timer is due; never if there is none.
pub(crate) async fn sleep_until(clock: OsClock, due: Option<LocalTime>) {
    match due {
        Some(due) => tokio::time::sleep(clock.until(due)).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_is_set_again_fires_once() {
        let mut timers = PodTimers::new();
        timers.set("a", LocalTime(1));
        timers.set("b", LocalTime(2));
        timers.set("a", LocalTime(3));
        assert_eq!(timers.next(), Some(LocalTime(2)));
        assert_eq!(timers.take_due(LocalTime(3)), Some("b"));
        assert_eq!(timers.take_due(LocalTime(3)), Some("a"));
        assert_eq!(timers.take_due(LocalTime(9)), None);
    }
}
