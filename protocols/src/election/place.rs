//! What a member knows of itself, and of its place among the others, when it elects.

use std::collections::BTreeSet;

use crate::ids::MemberId;
use crate::view::View;

/// One member of an election, before it begins.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Place {
    /// Its rank.
    pub me: MemberId,
    /// Who takes part.
    pub view: View,
    /// How fit it is to lead: the higher, the fitter. Nobody else knows it beforehand.
    pub capacity: u64,
    /// Whom an election that goes by links sends to: they are links both ways.
    pub neighbours: BTreeSet<MemberId>,
}

impl Place {
    /// A member of the capacity 0, in a full mesh.
    #[must_use]
    pub fn new(me: MemberId, view: View) -> Self {
        Self { me, view, capacity: 0, neighbours: view.peers(me).collect() }
    }

    /// The same with a capacity.
    #[must_use]
    pub fn with_capacity(self, capacity: u64) -> Self {
        Self { capacity, ..self }
    }

    /// The same with these neighbours alone.
    #[must_use]
    pub fn with_neighbours(self, neighbours: impl IntoIterator<Item = MemberId>) -> Self {
        let (me, view) = (self.me, self.view);
        let others = neighbours.into_iter().filter(|one| *one != me && view.has(*one));
        Self { neighbours: others.collect(), ..self }
    }
}
