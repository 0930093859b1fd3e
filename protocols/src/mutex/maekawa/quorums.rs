//! Whom each member asks: sets of voters of which every two meet.

use std::collections::BTreeSet;

use crate::ids::MemberId;

/// The voters of each member.
///
/// Every member is in its own set, and every two sets have a member in common: that one votes for
/// one candidate at a time, and so no two candidates have all their votes.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Quorums {
    /// By rank.
    sets: Vec<BTreeSet<MemberId>>,
}

/// Why sets are no quorums.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum QuorumError {
    /// A member would not ask itself.
    #[error("{0} is not in its own set")]
    NotInItsOwn(MemberId),
    /// A set names somebody who is no member.
    #[error("the set of {of} names {stranger}, who is no member")]
    Stranger {
        /// Whose set.
        of: MemberId,
        /// Whom it names.
        stranger: MemberId,
    },
    /// Two sets have nobody in common: both members could be in the critical section.
    #[error("the sets of {0} and {1} do not meet")]
    Apart(MemberId, MemberId),
}

impl Quorums {
    /// The ranks in rows of ⌈√n⌉, and to each member its row and its column:
    ///
    /// ```text
    /// n = 9     0 1 2        n = 8     0 1 2
    ///           3 4 5                  3 4 5
    ///           6 7 8                  6 7
    ///
    /// of 4:  1 3 4 5 7       of 4:  1 3 4 5       of 7:  1 4 6 7
    /// ```
    ///
    /// With n = k² that is Maekawa's grid, of 2k - 1 voters each. Otherwise the last row is short,
    /// and a column ends above it but for the members of that row. Every two sets meet:
    ///
    /// - Two members of full rows: where the row of one crosses the column of the other.
    /// - A member of the short row and one of a full row: where the full row crosses the column
    ///   of the other, which goes through all full rows.
    /// - Two members of the short row have it in common.
    ///
    /// No set contains another without being the same: none asks more than it needs.
    #[must_use]
    pub fn grid(size: u32) -> Self {
        let columns = size.saturating_sub(1).isqrt() + 1;
        let full_rows = size / columns;
        let set = |me: u32| {
            let (row, column) = (me / columns, me % columns);
            let row = (row * columns..(row + 1) * columns).filter(|member| *member < size);
            let column = (0..full_rows).map(|row| row * columns + column);
            row.chain(column).map(MemberId).collect()
        };
        Self { sets: (0..size).map(set).collect() }
    }

    /// These sets, by rank, if they are quorums.
    pub fn given(sets: Vec<BTreeSet<MemberId>>) -> Result<Self, QuorumError> {
        let all = || (0..).map(MemberId).zip(&sets);
        for (of, set) in all() {
            if !set.contains(&of) {
                return Err(QuorumError::NotInItsOwn(of));
            }
            if let Some(&stranger) = set.iter().find(|voter| voter.0 as usize >= sets.len()) {
                return Err(QuorumError::Stranger { of, stranger });
            }
            if let Some((other, _)) = all().find(|(_, other)| set.is_disjoint(other)) {
                return Err(QuorumError::Apart(of, other));
            }
        }
        Ok(Self { sets })
    }

    /// Whom this member asks; nobody, if it is no member.
    #[must_use]
    pub fn of(&self, member: MemberId) -> BTreeSet<MemberId> {
        self.sets.get(member.0 as usize).cloned().unwrap_or_default()
    }

    /// Whether this member asks that voter.
    #[must_use]
    pub fn asks(&self, member: MemberId, voter: MemberId) -> bool {
        self.sets.get(member.0 as usize).is_some_and(|set| set.contains(&voter))
    }

    /// How many members there are.
    #[must_use]
    pub fn members(&self) -> usize {
        self.sets.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(members: &[u32]) -> BTreeSet<MemberId> {
        members.iter().copied().map(MemberId).collect()
    }

    /// The set of a member in the grid, as the textbook prints it: counted from one.
    fn printed(size: u32, member: u32) -> Vec<u32> {
        Quorums::grid(size).of(MemberId(member - 1)).iter().map(|voter| voter.0 + 1).collect()
    }

    #[test]
    fn the_grids_of_four_nine_and_sixteen_are_those_of_the_textbook() {
        assert_eq!(printed(4, 1), [1, 2, 3]);
        assert_eq!(printed(9, 1), [1, 2, 3, 4, 7]);
        assert_eq!(printed(9, 5), [2, 4, 5, 6, 8]);
        assert_eq!(printed(16, 6), [2, 5, 6, 7, 8, 10, 14]);
    }

    #[test]
    fn in_a_square_all_sets_are_as_large_and_all_members_are_asked_as_often() {
        for side in 1..=8 {
            let size = side * side;
            let grid = Quorums::grid(size);
            for member in (0..size).map(MemberId) {
                let asked_by = (0..size).filter(|other| grid.asks(MemberId(*other), member));
                assert_eq!(grid.of(member).len(), 2 * side as usize - 1);
                assert_eq!(asked_by.count(), 2 * side as usize - 1);
            }
        }
    }

    #[test]
    fn every_grid_is_made_of_quorums_that_are_no_larger_than_those_of_the_square_around_it() {
        for size in 0..=70 {
            let grid = Quorums::grid(size);
            let side = (1..=9).find(|side| side * side >= size).expect("a side");
            assert_eq!(grid.members(), size as usize);
            assert_eq!(Quorums::given(grid.sets.clone()), Ok(grid.clone()), "n = {size}");
            assert!(grid.sets.iter().all(|set| set.len() < 2 * side as usize), "n = {size}");
        }
    }

    #[test]
    fn no_set_of_a_grid_asks_all_of_another_and_more() {
        for size in 1..=70 {
            let grid = Quorums::grid(size);
            for set in &grid.sets {
                assert!(grid.sets.iter().all(|other| set == other || !set.is_superset(other)));
            }
        }
    }

    #[test]
    fn sets_that_do_not_meet_or_leave_out_their_own_or_name_a_stranger_are_refused() {
        let triangle = vec![set(&[0, 1]), set(&[1, 2]), set(&[2, 0])];
        assert!(Quorums::given(triangle).is_ok());
        let foreign = vec![set(&[0, 1]), set(&[0, 2]), set(&[2, 0])];
        assert_eq!(Quorums::given(foreign), Err(QuorumError::NotInItsOwn(MemberId(1))));
        let apart = vec![set(&[0, 1]), set(&[0, 1]), set(&[2])];
        assert_eq!(Quorums::given(apart), Err(QuorumError::Apart(MemberId(0), MemberId(2))));
        let stranger = QuorumError::Stranger { of: MemberId(1), stranger: MemberId(2) };
        assert_eq!(Quorums::given(vec![set(&[0, 1]), set(&[1, 2])]), Err(stranger));
    }

    #[test]
    fn a_stranger_asks_nobody() {
        assert_eq!(Quorums::grid(4).of(MemberId(4)), set(&[]));
        assert!(!Quorums::grid(4).asks(MemberId(4), MemberId(0)));
    }
}
