//! What is yet to happen.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Things by the time at which they happen, those of one time in the order in which they were entered. The order is
/// kept apart from the things, which are large: so none is moved for another.
#[derive(Clone)]
pub(super) struct Agenda<T> {
    order: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    things: Vec<Option<T>>,
    vacant: Vec<usize>,
    entered: u64,
}

impl<T> Agenda<T> {
    pub(super) const fn new() -> Self {
        Self { order: BinaryHeap::new(), things: Vec::new(), vacant: Vec::new(), entered: 0 }
    }

    /// Enters a thing.
    pub(super) fn enter(&mut self, at: Duration, thing: T) {
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.things.push(None);
            self.things.len() - 1
        });
        self.things[place] = Some(thing);
        self.entered += 1;
        self.order.push(Reverse((at, self.entered, place)));
    }

    /// How many things were ever entered.
    pub(super) const fn entered(&self) -> u64 {
        self.entered
    }

    /// Takes out the next thing with its time, if it happens by `end`.
    pub(super) fn next_until(&mut self, end: Duration) -> Option<(Duration, T)> {
        let Reverse((at, _, place)) = *self.order.peek().filter(|Reverse((at, ..))| *at <= end)?;
        self.order.pop();
        self.vacant.push(place);
        let thing = self.things[place].take().expect("its place is vacant from now on");
        Some((at, thing))
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
        agenda.enter(at(3), 'e');
        agenda.enter(at(1), 'f');
        assert_eq!(agenda.things.len(), 4, "a vacant place is taken again");
        let rest = [(); 4].map(|()| agenda.next_until(at(9)).map(|(_, thing)| thing));
        assert_eq!(rest, [Some('f'), Some('d'), Some('e'), None]);
    }
}
