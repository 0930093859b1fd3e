//! Whom a member of the NTP tree polls, and what that costs.

use crate::ids::MemberId;
use crate::view::View;

/// The servers of a member: the leader, and those that follow the member in the order of ranks.
pub(super) fn servers(me: MemberId, view: View) -> Vec<MemberId> {
    let next = (1..view.size).map(|step| MemberId((me.0 + step) % view.size));
    let peers = next.filter(|id| *id != view.leader).take(PEERS as usize);
    std::iter::once(view.leader).chain(peers).collect()
}

/// How many associations a member has that does not lead.
pub fn associations(n: u32) -> u32 {
    n.saturating_sub(1).min(1 + PEERS)
}

/// What a poll by all members of a group of `n` costs: a request and a reply for each association.
pub fn messages_per_poll(n: u32) -> u32 {
    2 * n.saturating_sub(1) * associations(n)
}

/// How many servers a member has besides the leader.
const PEERS: u32 = 3;
