//! Who is whose neighbour.

use std::collections::BTreeSet;

use conclave_protocols::MemberId;

/// An undirected graph without loops, whose nodes are the ranks `0..size`.
#[derive(Clone, Debug)]
pub struct Graph {
    /// How many nodes it has.
    pub size: u32,
    links: BTreeSet<(u32, u32)>,
}

impl Graph {
    /// So many nodes, with these links.
    pub fn new(size: u32, links: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let ordered = |(one, other): (u32, u32)| (one.min(other), one.max(other));
        let links: BTreeSet<_> = links.into_iter().map(ordered).collect();
        assert!(links.iter().all(|(one, other)| one < other && *other < size));
        Self { size, links }
    }

    /// Every two are neighbours.
    pub fn full(size: u32) -> Self {
        Self::new(size, (0..size).flat_map(|one| (0..one).map(move |other| (one, other))))
    }

    /// One after the other.
    pub fn line(size: u32) -> Self {
        Self::new(size, (1..size).map(|one| (one - 1, one)))
    }

    /// A line whose ends are neighbours.
    pub fn ring(size: u32) -> Self {
        Self::new(size, (0..size).map(|one| (one, (one + 1) % size)))
    }

    /// All are neighbours of one, and of nobody else.
    pub fn star(size: u32, centre: u32) -> Self {
        Self::new(size, (0..size).filter(|one| *one != centre).map(|one| (one, centre)))
    }

    /// A square of so many rows.
    pub fn grid(side: u32) -> Self {
        let at = |row: u32, column: u32| row * side + column;
        let across = (0..side).flat_map(|row| (1..side).map(move |c| (at(row, c - 1), at(row, c))));
        let down = (0..side).flat_map(|c| (1..side).map(move |row| (at(row - 1, c), at(row, c))));
        Self::new(side * side, across.chain(down).collect::<Vec<_>>())
    }

    /// Two triangles, 0 to 2 and 3 to 5, with a bridge.
    pub fn two_triangles() -> Self {
        Self::new(6, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5), (5, 3)])
    }

    /// How many links there are.
    pub fn links(&self) -> u64 {
        self.links.len() as u64
    }

    /// The neighbours of a node.
    pub fn neighbours(&self, of: MemberId) -> impl Iterator<Item = MemberId> + '_ {
        self.links.iter().filter_map(move |(one, other)| match of.0 {
            node if node == *one => Some(MemberId(*other)),
            node if node == *other => Some(MemberId(*one)),
            _ => None,
        })
    }

    /// What can be reached from a node by way of those that live, itself included.
    pub fn reached(&self, from: MemberId, lives: impl Fn(MemberId) -> bool) -> BTreeSet<MemberId> {
        let (mut reached, mut next) = (BTreeSet::from([from]), vec![from]);
        while let Some(node) = next.pop() {
            let new = self.neighbours(node).filter(|one| lives(*one) && reached.insert(*one));
            next.extend(new);
        }
        reached
    }
}
