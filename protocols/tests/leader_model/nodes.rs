//! Nodes, sets of nodes, and the small numbers of the model.

use std::ops::{Index, IndexMut};

/// Most nodes that a search may have.
pub(crate) const NODES: NodeId = 4;
/// Most locks that a search may have.
pub(crate) const LOCKS: usize = 3;
/// Tokens per epoch are 2 to this power, so that a search reaches the end of an epoch's tokens.
pub(crate) const TOKEN_BITS: u8 = 1;

/// A node's number. Small, because a search keeps millions of states.
pub(crate) type NodeId = u8;
/// No node: leads a view whose leader has left it.
pub(crate) const NOBODY: NodeId = 7;
/// A lock's number.
pub(crate) type LockId = usize;
/// Remaining ticks; a deadline has passed at zero.
pub(crate) type Ticks = u8;
/// A view's number, which is its epoch. Zero is no view.
pub(crate) type View = u8;
/// A fencing token, `epoch * 2^TOKEN_BITS + n`. Zero is no token.
pub(crate) type Token = u8;

/// The waits of a view, each from 0 to 3 ticks; one byte, because a state has many.
#[derive(Clone, Copy, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) struct Timing(u8);

impl Timing {
    /// P, L and E.
    pub(crate) const fn new(promise: Ticks, member_lease: Ticks, confirmation: Ticks) -> Self {
        assert!(promise < 4 && member_lease < 4 && confirmation < 4, "two bits for each");
        Self(promise | member_lease << 2 | member_lease << 4 | confirmation << 6)
    }

    /// P, the wait of the leader lease.
    pub(crate) fn promise(self) -> Ticks {
        self.0 & 3
    }

    /// L, for which the granter of a lock waits.
    pub(crate) fn member_lease(self) -> Ticks {
        self.0 >> 2 & 3
    }

    /// For how long locks are given: L, or less while leases of a longer L may run.
    pub(crate) fn lease(self) -> Ticks {
        self.0 >> 4 & 3
    }

    /// E, the wait of the register.
    pub(crate) fn confirmation(self) -> Ticks {
        self.0 >> 6
    }

    /// The same with a longer L than locks are given for.
    pub(crate) fn waiting_for(self, member_lease: Ticks) -> Self {
        Self(self.0 & !0b1100 | member_lease << 2)
    }

    /// The longer of each wait.
    pub(crate) fn longest(self, other: Self) -> Self {
        let promise = self.promise().max(other.promise());
        let member_lease = self.member_lease().max(other.member_lease());
        Self::new(promise, member_lease, self.confirmation().max(other.confirmation()))
    }
}

impl std::fmt::Debug for Timing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (member_lease, lease) = (self.member_lease(), self.lease());
        write!(f, "P{} L{member_lease}/{lease} E{}", self.promise(), self.confirmation())
    }
}

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
