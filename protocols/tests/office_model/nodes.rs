//! Nodes, sets of nodes, and the small numbers of the model.

use std::ops::{Index, IndexMut};

/// Most nodes that a search may have.
pub(crate) const NODES: NodeId = 4;
/// Most locks that a search may have.
pub(crate) const LOCKS: usize = 2;
/// Tokens per epoch are 2 to this power, so that a search reaches the end of an epoch's tokens.
pub(crate) const TOKEN_BITS: u8 = 1;

/// A node's number. Small, because a search keeps millions of states.
pub(crate) type NodeId = u8;
/// A lock's number.
pub(crate) type LockId = usize;
/// Remaining ticks; a deadline has passed at zero.
pub(crate) type Ticks = u8;
/// A view's number, which is its epoch. Zero is no view.
pub(crate) type View = u8;
/// A fencing token, `epoch * 2^TOKEN_BITS + n`. Zero is no token.
pub(crate) type Token = u8;

/// Every node's number.
pub(crate) fn all_nodes() -> std::ops::Range<NodeId> {
    0..NODES
}

/// One value for each node.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct PerNode<T>([T; NODES as usize]);

impl<T> PerNode<T> {
    pub(crate) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self.0.iter_mut()
    }
}

impl<T> Index<NodeId> for PerNode<T> {
    type Output = T;

    fn index(&self, id: NodeId) -> &T {
        &self.0[usize::from(id)]
    }
}

impl<T> IndexMut<NodeId> for PerNode<T> {
    fn index_mut(&mut self, id: NodeId) -> &mut T {
        &mut self.0[usize::from(id)]
    }
}

/// A set of nodes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Members(u8);

impl Members {
    /// Nobody.
    pub(crate) const NONE: Self = Self(0);

    /// The nodes of this list.
    pub(crate) const fn of(list: &[NodeId]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < list.len() {
            bits |= 1 << list[at];
            at += 1;
        }
        Self(bits)
    }

    /// These and one more.
    pub(crate) fn with(self, node: NodeId) -> Self {
        Self(self.0 | 1 << node)
    }

    /// These and those.
    pub(crate) fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Those of these that are also there.
    pub(crate) fn within(self, others: Self) -> Self {
        Self(self.0 & others.0)
    }

    /// These without those.
    pub(crate) fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Is this node one of them?
    pub(crate) fn has(self, node: NodeId) -> bool {
        self.0 & 1 << node != 0
    }

    /// Is every one of these there too?
    pub(crate) fn all_in(self, others: Self) -> bool {
        self.0 & !others.0 == 0
    }

    /// How many they are.
    pub(crate) fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// How many are more than half: `floor(n / 2) + 1`.
    pub(crate) fn majority(self) -> u32 {
        self.count() / 2 + 1
    }

    /// How many must seal so that the others are no majority: `n - floor(n / 2)`.
    pub(crate) fn blocking(self) -> u32 {
        self.count() - self.count() / 2
    }

    /// One after the other.
    pub(crate) fn iter(self) -> impl Iterator<Item = NodeId> {
        all_nodes().filter(move |&node| self.has(node))
    }
}

/// The epoch that a token begins with.
pub(crate) fn epoch_of(token: Token) -> View {
    token >> TOKEN_BITS
}
