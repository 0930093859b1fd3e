//! What the textbook says that a ballot costs, as it went: with so many members and those that began it.

use std::collections::BTreeSet;

use conclave_protocols::cost;
use conclave_protocols::policy::ElectionAlgorithm;
use serde::Serialize;

use super::picture::{Flight, Picture};

/// What the textbook says that a ballot costs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) struct Formula {
    /// Messages of the textbook.
    messages: u64,
    /// What ours adds to them: the announcement to the dead, or sends to the dead that fail.
    on_top: u64,
    holds: Holds,
}

/// How exactly a formula holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Holds {
    /// If all that live answer in time.
    Exactly,
    /// If all messages take equally long.
    AtEqualDelays,
    /// A leader that begins ends the ballot before all is sent.
    AtMost,
}

/// The figure for a ballot; nothing if the textbook has no such case. It has those in which all live, or all but
/// one; of the bully that one must be the highest. What members send that are there must arrive.
pub(super) fn formula(picture: &Picture, present: &BTreeSet<u16>) -> Option<Formula> {
    let is_lost = |flight: &Flight| flight.received.is_none() && present.contains(&flight.link.1);
    if picture.counted().any(is_lost) {
        return None;
    }
    let n = picture.electorate.len() as u64;
    let absent = |member: &&u16| !present.contains(*member);
    let absent: Vec<&u16> = picture.electorate.iter().filter(absent).collect();
    let (all_live, only) = match absent.as_slice() {
        [] => (true, None),
        [only] => (false, Some(*only)),
        _ => return None,
    };
    match picture.algorithm? {
        ElectionAlgorithm::Bully => {
            let begins = lowest_asker(picture)?;
            if all_live {
                let on_top = cost::bully_announced_again(n, begins);
                let messages = cost::bully_living(n, begins);
                return Some(Formula { messages, on_top, holds: Holds::AtEqualDelays });
            }
            if only != picture.electorate.last() {
                return None;
            }
            let on_top = cost::bully_announced_upwards(n, n.checked_sub(2)?);
            Some(Formula { messages: cost::bully(n, begins), on_top, holds: Holds::Exactly })
        }
        ElectionAlgorithm::Ring => {
            let begin = initiators(picture);
            let messages =
                if all_live { cost::ring_living(n) * begin } else { cost::ring(n, begin) };
            let on_top = if all_live { 0 } else { PASSES * begin };
            Some(Formula { messages, on_top, holds: Holds::AtMost })
        }
        ElectionAlgorithm::ChangRoberts => {
            let living = n - absent.len() as u64;
            let begins = lowest_initiator(picture, &absent)?;
            let messages = cost::chang_roberts_living(living, begins);
            // So may the last identifier of another than the winner.
            let on_top = if all_live { 0 } else { PASSES + 1 };
            Some(Formula { messages, on_top, holds: Holds::AtMost })
        }
        ElectionAlgorithm::SpanningTree => {
            let (living, begin) = (n - absent.len() as u64, initiators(picture));
            let messages = match begin {
                0 => return None,
                1 => cost::spanning_tree_living(living),
                _ => cost::spanning_tree_most(living),
            };
            // A member that joins a computation asks the dead one too.
            let joined = living.saturating_sub(begin) * begin + cost::full_mesh(begin);
            let on_top = if all_live { 0 } else { begin + joined };
            Some(Formula { messages, on_top, holds: Holds::AtMost })
        }
    }
}

/// A list or an identifier goes round, and then the winner; each may find one member dead.
const PASSES: u64 = 2;

/// The rank of the lowest that asked, or that won without having anybody to ask. Those above it ask in any case.
fn lowest_asker(picture: &Picture) -> Option<u64> {
    let asks = |member: &u16| {
        let asks = |flight: &Flight| flight.link.0 == *member && flight.id.name != "answer";
        picture.counted().any(|flight| asks(flight) && flight.sent.is_some())
    };
    picture.electorate.iter().position(asks).map(|rank| rank as u64)
}

/// How many sent an election's first message before they received one.
fn initiators(picture: &Picture) -> u64 {
    picture.electorate.iter().filter(|member| initiates(picture, **member)).count() as u64
}

/// The place of the lowest of those among the living.
fn lowest_initiator(picture: &Picture, absent: &[&u16]) -> Option<u64> {
    let mut living = picture.electorate.iter().filter(|member| !absent.contains(member));
    living.position(|member| initiates(picture, *member)).map(|place| place as u64)
}

fn initiates(picture: &Picture, member: u16) -> bool {
    let lists = || picture.counted().filter(|flight| flight.id.name == "election");
    let sent = lists().filter(|flight| flight.link.0 == member).filter_map(|f| f.sent).min();
    let received = lists().filter(|flight| flight.link.1 == member).filter_map(|f| f.received);
    sent.is_some_and(|sent| received.min().is_none_or(|received| sent < received))
}
