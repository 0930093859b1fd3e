//! What happened to each lock of late, at all members: what the page draws as a space-time diagram.
//!
//! The members are threads of one process and read one clock, so that their times can be compared.
//! Nowhere else can they.

mod course;
mod entry;

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use conclave_protocols::member::Lease;
use conclave_protocols::{LocalTime, LockName};
use serde::Serialize;

use self::course::Course;
pub(super) use self::entry::Entry;
use crate::group::task::steps::Step;

/// What happened to each lock of late.
#[derive(Debug, Default)]
pub(super) struct Chronicle {
    courses: Mutex<Courses>,
}

#[derive(Debug, Default)]
struct Courses {
    of_lock: BTreeMap<LockName, Course>,
    /// Counts the entries into all locks.
    entries: u64,
    /// Counts the steps, so that the lock can be found to which nothing happened for longest.
    steps: u64,
}

/// Which entry of a lock there is to draw.
#[derive(Debug, Serialize)]
pub(super) struct Drawable {
    lock: String,
    /// Counts the entries into all locks.
    entry: u64,
    /// The picture does not change any more.
    ended: bool,
}

/// How many locks are remembered.
const LOCKS: usize = 64;

impl Chronicle {
    /// Something happened to a lock at a member.
    pub(super) fn note(&self, member: u16, step: Step) {
        let mut courses = self.courses();
        courses.steps += 1;
        let Courses { of_lock, entries, steps } = &mut *courses;
        if of_lock.len() >= LOCKS && !of_lock.contains_key(&step.lock) {
            let oldest = of_lock.iter().min_by_key(|(_, course)| course.touched);
            if let Some(oldest) = oldest.map(|(lock, _)| lock.clone()) {
                of_lock.remove(&oldest);
            }
        }
        let course = of_lock.entry(step.lock).or_default();
        course.touched = *steps;
        course.note(step.at, member, step.what, entries);
    }

    /// The lease of a member goes on.
    pub(super) fn extend(&self, member: u16, lease: Lease) {
        for course in self.courses().of_lock.values_mut() {
            course.extend(member, lease);
        }
    }

    /// A member's process has ended, and with it every critical section that it was in or waited for.
    pub(super) fn died(&self, at: LocalTime, member: u16) {
        for course in self.courses().of_lock.values_mut() {
            course.died(at, member);
        }
    }

    /// What there is to draw of each lock.
    pub(super) fn drawable(&self, now: LocalTime) -> Vec<Drawable> {
        let mut courses = self.courses();
        let each = courses.of_lock.iter_mut().filter_map(|(lock, course)| {
            let (entry, ended) = course.drawable(now)?;
            Some(Drawable { lock: lock.to_string(), entry, ended })
        });
        each.collect()
    }

    /// The last entry of a lock that has ended; while there is none, the one that goes on.
    pub(super) fn entry(&self, lock: &LockName, now: LocalTime) -> Option<Entry> {
        self.courses().of_lock.get_mut(lock)?.entry(now)
    }

    fn courses(&self) -> MutexGuard<'_, Courses> {
        self.courses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::task::steps::What;

    #[test]
    fn only_the_locks_are_remembered_to_which_something_happened_of_late() {
        let chronicle = Chronicle::default();
        let name = |number: usize| LockName::try_from(format!("lock-{number}")).expect("a name");
        let note = |number, at| {
            chronicle.note(0, Step { at: LocalTime(at), lock: name(number), what: What::Asked });
        };
        for number in 0..LOCKS {
            note(number, 1);
        }
        note(0, 2);
        note(LOCKS, 3);
        let courses = chronicle.courses();
        assert_eq!(courses.of_lock.len(), LOCKS);
        assert!(courses.of_lock.contains_key(&name(0)), "something happened to it again");
        assert!(!courses.of_lock.contains_key(&name(1)), "nothing happened to it for longest");
    }
}
