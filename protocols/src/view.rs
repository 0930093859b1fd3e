//! Who takes part, as the textbook algorithms see it.

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, MemberId};

/// A frozen membership: the ranks `0..size`, one of them the leader.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct View {
    /// The number of the view.
    pub epoch: Epoch,
    /// How many members it has.
    pub size: u32,
    /// Who leads it.
    pub leader: MemberId,
}

impl View {
    /// All members, by rank.
    pub fn members(self) -> impl DoubleEndedIterator<Item = MemberId> + Clone {
        (0..self.size).map(MemberId)
    }

    /// All members but one.
    pub fn peers(self, me: MemberId) -> impl DoubleEndedIterator<Item = MemberId> + Clone {
        self.members().filter(move |peer| *peer != me)
    }

    /// The members of higher rank.
    pub fn above(self, me: MemberId) -> impl Iterator<Item = MemberId> + Clone {
        (me.0.saturating_add(1)..self.size).map(MemberId)
    }

    /// The next on the ring, which is in rank order; a member alone is its own successor.
    pub fn successor(self, me: MemberId) -> MemberId {
        if me.0.saturating_add(1) < self.size { MemberId(me.0 + 1) } else { MemberId(0) }
    }

    /// Whether this rank is one of the view's.
    pub fn has(self, member: MemberId) -> bool {
        member.0 < self.size
    }

    /// How many are a majority.
    pub fn majority(self) -> usize {
        self.size as usize / 2 + 1
    }
}

/// Who held and who waited when the view before ended, by the ranks of this one.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Carried {
    /// Who holds: it is in the critical section.
    pub holder: Option<MemberId>,
    /// Who waits, the first in line first.
    pub waiting: Vec<MemberId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_closes() {
        let view = View { epoch: Epoch(1), size: 3, leader: MemberId(2) };
        assert_eq!(view.successor(MemberId(0)), MemberId(1));
        assert_eq!(view.successor(MemberId(2)), MemberId(0));
        assert_eq!(view.above(MemberId(1)).collect::<Vec<_>>(), [MemberId(2)]);
        assert_eq!(view.majority(), 2);
    }
}
