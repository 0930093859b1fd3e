//! The timers of the mutexes, all behind one timer of the service.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::LockName;
use crate::mutex::AnyTimer;
use crate::time::LocalTime;

/// Timers by lock and name.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct MutexTimers {
    set: BTreeMap<LockName, BTreeMap<AnyTimer, LocalTime>>,
    due: BTreeSet<(LocalTime, LockName, AnyTimer)>,
}

impl MutexTimers {
    /// Sets a timer, or sets it anew.
    pub(super) fn set(&mut self, name: &LockName, timer: AnyTimer, at: LocalTime) {
        self.clear(name, timer);
        self.set.entry(name.clone()).or_default().insert(timer, at);
        self.due.insert((at, name.clone(), timer));
    }

    /// Clears a timer, if it is set.
    pub(super) fn clear(&mut self, name: &LockName, timer: AnyTimer) {
        let Some(timers) = self.set.get_mut(name) else { return };
        if let Some(at) = timers.remove(&timer) {
            self.due.remove(&(at, name.clone(), timer));
        }
        if timers.is_empty() {
            self.set.remove(name);
        }
    }

    /// Clears all timers of a lock.
    pub(super) fn forget(&mut self, name: &LockName) {
        for (timer, at) in self.set.remove(name).into_iter().flatten() {
            self.due.remove(&(at, name.clone(), timer));
        }
    }

    /// Clears all timers.
    pub(super) fn clear_all(&mut self) {
        *self = Self::default();
    }

    /// When the next goes off.
    pub(super) fn next(&self) -> Option<LocalTime> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Takes out one that goes off by now.
    pub(super) fn pop(&mut self, now: LocalTime) -> Option<(LockName, AnyTimer)> {
        let (_, name, timer) = self.due.first().filter(|(at, ..)| *at <= now).cloned()?;
        self.clear(&name, timer);
        Some((name, timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutex::{token_ring, voting};

    #[test]
    fn a_timer_that_is_set_again_fires_once_and_at_the_later_time() {
        let [a, b] = ["a", "b"].map(|name| LockName::try_from(name.to_owned()).expect("a name"));
        let pause = AnyTimer::TokenRing(token_ring::Timer::Pause);
        let retry = AnyTimer::Voting(voting::Timer::Retry);
        let mut timers = MutexTimers::default();
        timers.set(&a, pause, LocalTime(5));
        timers.set(&b, retry, LocalTime(7));
        timers.set(&a, pause, LocalTime(9));
        assert_eq!(timers.next(), Some(LocalTime(7)));
        assert_eq!(timers.pop(LocalTime(8)), Some((b, retry)));
        assert_eq!(timers.pop(LocalTime(8)), None);
        assert_eq!(timers.next(), Some(LocalTime(9)));
        timers.forget(&a);
        assert_eq!(timers, MutexTimers::default());
    }
}
