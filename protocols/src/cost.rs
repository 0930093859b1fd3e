//! What the textbook says that an algorithm costs, in messages.
//!
//! Only messages that the textbook has are counted: what a real system adds, such as the
//! acknowledgement of a hop, has a name of its own and is counted apart.
//!
//! A formula that no member shows is there for tests alone.

// Elections. `n` members, of which the highest is dead and the others live: the case of the textbook.

/// The bully algorithm, when this rank notices the death, and no lower one.
///
/// Each rank from the initiator up to the highest that lives asks all above it, the dead one too,
/// and all that live answer: that is the square of the number of ranks above the initiator. Then
/// n - 2 members are notified.
#[must_use]
pub const fn bully(n: u64, initiator: u64) -> u64 {
    let above = n.saturating_sub(1).saturating_sub(initiator);
    above * above + n.saturating_sub(2)
}

/// The bully algorithm at its best: the second highest rank notices.
#[must_use]
pub const fn bully_best(n: u64) -> u64 {
    bully(n, n.saturating_sub(2))
}

/// The bully algorithm at its worst: the lowest rank notices.
#[must_use]
pub const fn bully_worst(n: u64) -> u64 {
    bully(n, 0)
}

/// What our bully adds to the textbook's count: the winner's announcements to the ranks above it, which
/// are taken for dead.
#[must_use]
pub const fn bully_announced_upwards(n: u64, winner: u64) -> u64 {
    n.saturating_sub(1).saturating_sub(winner)
}

/// The bully algorithm among n that all live, when this rank begins: each rank from there on asks all above
/// it, all answer, and n - 1 members are notified.
#[must_use]
pub const fn bully_living(n: u64, initiator: u64) -> u64 {
    let above = n.saturating_sub(1).saturating_sub(initiator);
    above * (above + 1) + n.saturating_sub(1)
}

/// What that adds if the highest rank lives: it has nobody to wait for and has won when the next asks
/// it, so it announces itself again for each that asks but the first.
#[must_use]
pub const fn bully_announced_again(n: u64, initiator: u64) -> u64 {
    let asks = n.saturating_sub(1).saturating_sub(initiator);
    asks.saturating_sub(1) * n.saturating_sub(1)
}

/// The election on a ring of n that all live, when one begins: two passes.
#[must_use]
pub const fn ring_living(n: u64) -> u64 {
    if n > 1 { 2 * n } else { 0 }
}

/// The election on a ring, when so many members start one before they hear of another's: two passes
/// of the n - 1 living for each; a member alone has nobody to send to. A send to a dead member that
/// fails is no message.
#[must_use]
pub const fn ring(n: u64, initiators: u64) -> u64 {
    if n > 2 { 2 * (n - 1) * initiators } else { 0 }
}

/// Chang and Roberts' election on a ring of n in the order of ranks that all live, when this rank begins,
/// and no lower one: the ranks from there on send one identifier each, up to the highest. Its goes round,
/// and then its announcement.
#[must_use]
pub const fn chang_roberts_living(n: u64, initiator: u64) -> u64 {
    let above = n.saturating_sub(1).saturating_sub(initiator);
    if n > 1 { above + 2 * n } else { 0 }
}

/// The same if the highest of n ranks is dead. A send to a dead member that fails is no message.
#[must_use]
pub const fn chang_roberts(n: u64, initiator: u64) -> u64 {
    chang_roberts_living(n.saturating_sub(1), initiator)
}

/// Chang and Roberts' election at its best: the highest of n that live notices.
#[must_use]
pub const fn chang_roberts_best(n: u64) -> u64 {
    chang_roberts_living(n, n.saturating_sub(1))
}

/// The same at its worst if one notices: the successor of the highest of n that live. 3n - 1.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn chang_roberts_worst(n: u64) -> u64 {
    chang_roberts_living(n, 0)
}

/// The most that it costs on a ring of n in any order: every identifier goes as far as
/// the highest in the order that is worst, n(n + 1)/2, and the announcement goes round.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn chang_roberts_most(n: u64) -> u64 {
    if n > 1 { n * (n + 1) / 2 + n } else { 0 }
}

/// The links of a full mesh.
#[must_use]
pub const fn full_mesh(n: u64) -> u64 {
    n * n.saturating_sub(1) / 2
}

/// The election by a spanning tree of n that live, with so many links, when one begins: ELECTION on each link,
/// and once more on those that are not of the tree; an answer to each; and the leader down the tree.
#[must_use]
pub const fn spanning_tree(n: u64, links: u64) -> u64 {
    let of_tree = n.saturating_sub(1);
    2 * (2 * links - of_tree) + of_tree
}

/// The same in a full mesh: (n - 1)(2n - 1).
#[must_use]
pub const fn spanning_tree_living(n: u64) -> u64 {
    spanning_tree(n, full_mesh(n))
}

/// The same in a full mesh, when so many begin at once and the lowest of them is heard first: each member joins the
/// computation of one after the other, and forwards it.
#[must_use]
pub const fn spanning_tree_at_once(n: u64, begin: u64) -> u64 {
    let others = n.saturating_sub(1);
    let joined = n.saturating_sub(begin) * begin + full_mesh(begin);
    begin * others + joined * others.saturating_sub(1) + if begin > 0 { n * others } else { 0 }
}

/// The most that it costs in a full mesh if all begin at once: all that can be in a lower computation answer one
/// another there before they hear of the next.
#[must_use]
pub const fn spanning_tree_most(n: u64) -> u64 {
    let in_vain = n.saturating_sub(1) * n.saturating_sub(2) * n.saturating_sub(3) / 3;
    spanning_tree_at_once(n, n) + in_vain
}

// The election of a group's next leader: the highest of n is dead, and all others begin at about the same time. At most,
// with what they send to the dead one, which the formulas above do not count but for the bully's questions.

/// By the bully algorithm: the winner announces itself to the dead one too.
#[must_use]
pub const fn bully_next(n: u64) -> u64 {
    bully_worst(n) + bully_announced_upwards(n, n.saturating_sub(2))
}

/// On a ring: the predecessor of the dead one tries it once.
#[must_use]
pub const fn ring_next(n: u64) -> u64 {
    if n > 1 { ring(n, n - 1) + 1 } else { 0 }
}

/// By Chang and Roberts: an identifier and the announcement may each find it dead.
#[must_use]
pub const fn chang_roberts_next(n: u64) -> u64 {
    if n > 1 { chang_roberts(n, 0) + 2 } else { 0 }
}

/// By a spanning tree in a full mesh: a member sends ELECTION to the dead one in each computation that it joins, which are
/// its own and those of higher ones.
#[must_use]
pub const fn spanning_tree_next(n: u64) -> u64 {
    spanning_tree_most(n.saturating_sub(1)) + full_mesh(n)
}

// Elections in so many zones with as many members in each, all of which live: the messages from one zone to
// another, if one member begins.

/// Pairs of members of different zones.
#[cfg(any(test, feature = "testing"))]
const fn pairs_between(zones: u64, members: u64) -> u64 {
    full_mesh(zones) * members * members
}

/// The election by a spanning tree in the topology `Zones`, with so many links of its tree between zones: from z - 1
/// to 2z - 1 of z zones, because each has two gateways. There are four links between two zones, and four messages on a
/// link: ELECTION both ways, and an answer to each. On a link of the tree there are three: ELECTION, REPORT, and LEADER.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn spanning_tree_between_zones(zones: u64, links_of_tree: u64) -> u64 {
    (4 * 4 * full_mesh(zones)).saturating_sub(links_of_tree)
}

/// The same in a full mesh, in which all are children of the member that begins.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn mesh_between_zones(zones: u64, members: u64) -> u64 {
    (4 * pairs_between(zones, members)).saturating_sub(zones.saturating_sub(1) * members)
}

/// The bully algorithm at its best: the highest begins, and announces itself.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn bully_between_zones(zones: u64, members: u64) -> u64 {
    zones.saturating_sub(1) * members
}

/// The bully algorithm at its worst: the lowest begins, so that of every two the lower asks, and is answered.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn bully_between_zones_worst(zones: u64, members: u64) -> u64 {
    2 * pairs_between(zones, members) + bully_between_zones(zones, members)
}

// Mutual exclusion.

/// The central coordinator: request, grant and release for each entry of another member. What the
/// coordinator sends to itself is no message.
#[must_use]
pub const fn central(entries_of_others: u64) -> u64 {
    3 * entries_of_others
}

/// The optional reply of the central coordinator to a member that must wait, which comes on top.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn central_queued(others_that_wait: u64) -> u64 {
    others_that_wait
}

/// The central coordinator if members keep their grants: request and grant for each that another
/// member asks for, and two more, `wanted` and the release, for each that the coordinator asks to be
/// given back. An entry with a grant at hand costs nothing.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn central_kept(grants_to_others: u64, given_back: u64) -> u64 {
    2 * (grants_to_others + given_back)
}

/// The token ring, for one entry that nobody else wants: the token's steps from where it is when it
/// is asked for. A token that pauses there has `steps` to go; one that has just left has gone one
/// step more in vain.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn token_ring(steps: u64) -> u64 {
    steps
}

/// The token ring, when all want in: one step for each entry, but none for the first, if the token
/// begins there.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn token_ring_busy(entries: u64) -> u64 {
    entries.saturating_sub(1)
}

/// What waking a token that pauses adds: as many messages the other way.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn token_ring_wakes(steps: u64) -> u64 {
    steps
}

/// Raymond's tree, for one entry that nobody else wants: requests up the path to an idle token, and
/// the token down the same path.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn raymond(distance: u64) -> u64 {
    2 * distance
}

/// How far apart two ranks are in Raymond's tree, which is a binary heap here with rank 0 as its root:
/// whichever is greater is deeper or as deep, and goes up until they meet.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn raymond_distance(one: u64, other: u64) -> u64 {
    let (mut one, mut other, mut steps) = (one, other, 0);
    while one != other {
        if one > other {
            one = (one - 1) / 2;
        } else {
            other = (other - 1) / 2;
        }
        steps += 1;
    }
    steps
}

/// Raymond's tree of n members, when all ask at once while the token is at the root: the token walks
/// round the tree, with a request in each direction on each edge before it, but does not return from
/// the last that it admits, so far from the root. That is nearly four messages for each entry.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn raymond_busy(n: u64, last: u64) -> u64 {
    (4 * n.saturating_sub(1)).saturating_sub(2 * last)
}

/// Maekawa's algorithm when nobody else asks: request, locked and release for each voter of a
/// quorum but the member itself, whose own vote is no message.
#[must_use]
pub const fn maekawa(quorum: u64) -> u64 {
    3 * quorum.saturating_sub(1)
}

/// The same in a square of n = side² members, where a quorum is a row and a column: 3(2√n - 2).
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn maekawa_grid(side: u64) -> u64 {
    maekawa((2 * side).saturating_sub(1))
}

/// The most that an entry of Maekawa's algorithm costs when others ask too. A request that comes
/// before the one that has the vote takes inquire, relinquish and, for the other, locked again; a
/// request that does not, or that displaces one, takes failed.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn maekawa_most(quorum: u64) -> u64 {
    2 * maekawa(quorum)
}

/// An entry by m votes that takes k attempts, at least: 2mk + m. Request and answer in each attempt,
/// and a release in the end; no vote was granted in the attempts that failed.
#[must_use]
pub const fn voting_least(votes: u64, attempts: u64) -> u64 {
    2 * votes * attempts + votes
}

/// The same at most: 3mk. A release for each vote after each attempt.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn voting_most(votes: u64, attempts: u64) -> u64 {
    3 * votes * attempts
}

/// Lamport's algorithm: a request, an acknowledgment and a release for every other of n members.
#[must_use]
pub const fn lamport(n: u64, entries: u64) -> u64 {
    3 * n.saturating_sub(1) * entries
}

/// Lamport's algorithm, for each entry, if no acknowledgment is needed: every other member has sent a
/// message with a later stamp.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn lamport_least(n: u64) -> u64 {
    2 * n.saturating_sub(1)
}

/// Ricart and Agrawala's algorithm: a request to every other of n members, and a reply.
#[must_use]
pub const fn ricart_agrawala(n: u64, entries: u64) -> u64 {
    2 * n.saturating_sub(1) * entries
}

/// The optional answer of Ricart and Agrawala's algorithm when a reply is withheld, which comes on
/// top.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn ricart_agrawala_withheld(replies_withheld: u64) -> u64 {
    replies_withheld
}

/// Carvalho and Roucairol's variant, for each entry: a request and a reply for each permission that
/// is not at hand.
#[cfg(any(test, feature = "testing"))]
#[must_use]
pub const fn carvalho_roucairol(permissions_missing: u64) -> u64 {
    2 * permissions_missing
}
