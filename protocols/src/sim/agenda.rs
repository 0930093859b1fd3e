//! What is yet to happen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use slab::Slab;

/// Things by the time at which they happen, those of one time in the order in which they were entered. The order is
/// kept apart from the things, which are large: so none is moved for another.
#[derive(Clone)]
pub(super) struct Agenda<T> {
    order: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    things: Slab<T>,
    entered: u64,
}

impl<T> Agenda<T> {
    pub(super) const fn new() -> Self {
        Self { order: BinaryHeap::new(), things: Slab::new(), entered: 0 }
    }

    /// Enters a thing.
    pub(super) fn enter(&mut self, at: Duration, thing: T) {
        self.entered += 1;
        self.order.push(Reverse((at, self.entered, self.things.insert(thing))));
    }

    /// How many things were ever entered.
    pub(super) const fn entered(&self) -> u64 {
        self.entered
    }

    /// Takes out the next thing with its time, if it happens by `end`.
    pub(super) fn next_until(&mut self, end: Duration) -> Option<(Duration, T)> {
        let Reverse((at, _, place)) = *self.order.peek().filter(|Reverse((at, ..))| *at <= end)?;
        self.order.pop();
        Some((at, self.things.remove(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_by_their_time_and_those_of_one_time_as_they_were_entered() {
        let mut agenda = Agenda::new();
        let at = Duration::from_secs;
        for (seconds, thing) in [(3, 'd'), (1, 'a'), (2, 'b'), (2, 'c')] {
            agenda.enter(at(seconds), thing);
        }
        let mut next = |end| agenda.next_until(at(end)).map(|(at, thing)| (at.as_secs(), thing));
        assert_eq!(next(0), None);
        assert_eq!([next(2), next(2), next(2)], [Some((1, 'a')), Some((2, 'b')), Some((2, 'c'))]);
        assert_eq!(next(2), None);
        // Into places that are vacant again: 'f' into one before that of 'e'.
        for (seconds, thing) in [(4, 'e'), (4, 'f'), (1, 'g')] {
            agenda.enter(at(seconds), thing);
        }
        assert_eq!((agenda.things.vacant_key(), agenda.entered()), (4, 7));
        let rest = [(); 5].map(|()| agenda.next_until(at(9)).map(|(_, thing)| thing));
        assert_eq!(rest, [Some('g'), Some('d'), Some('e'), Some('f'), None]);
    }
}
