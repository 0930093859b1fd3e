//! The spanning tree, if all of a full mesh begin at once: what it costs depends on which computation is heard of first.

use std::collections::BTreeMap;

use conclave_protocols::election::spanning_tree::Message;
use conclave_protocols::election::{Command, Election, Place, SpanningTree, Timing};
use conclave_protocols::{Effect, Input, LocalTime, MemberId, Outbox, Protocol, cost};

use crate::elections::{ALL_SIZES, hold};
use crate::locks::SIZES;
use crate::measure::{T, view};
use crate::page::{cells, each, table};
use crate::sent::Sent;

/// A group of one size, in which all live: the messages that the source counts.
pub(crate) struct Row {
    size: u32,
    /// The highest is heard of first, then the next: all follow its computation at once.
    least: (u64, Sent),
    /// The lowest is heard of first, and each member joins one computation after the other.
    ascending: (u64, Sent),
    /// The same, and each computation ends among all that can be in it before anybody hears of the next.
    most: (u64, Sent),
}

/// All sizes.
pub(crate) fn all() -> Vec<Row> {
    ALL_SIZES.map(row).collect()
}

fn row(size: u32) -> Row {
    let n = u64::from(size);
    let arrival = |_: &Message| 0;
    let of_computation = |message: &Message| message.of().source.0;
    Row {
        size,
        least: hold(elect(size, (0..size).rev(), arrival), Sent::Exactly((n - 1) * (3 * n - 2))),
        ascending: hold(
            elect(size, 0..size, arrival),
            Sent::Exactly(cost::spanning_tree_at_once(n, n)),
        ),
        most: hold(
            elect(size, 0..size, of_computation),
            Sent::Exactly(cost::spanning_tree_most(n)),
        ),
    }
}

/// They begin in this order, and of what is under way that arrives first which has the least key, and then what was sent
/// first. No member is dead, so no timer is waited for.
fn elect(size: u32, begin: impl Iterator<Item = u32>, key: impl Fn(&Message) -> u32) -> u64 {
    let timing = Timing { answer: T * 10, announcement: T * 30 };
    let place = |me| Place::new(me, view(size));
    let mut members: Vec<SpanningTree> =
        view(size).members().map(|me| SpanningTree::new(place(me), timing)).collect();
    let mut under_way = BTreeMap::new();
    let (mut sent, mut counted) = (0_u64, 0);
    let mut feed = |member: MemberId, input, under_way: &mut BTreeMap<_, _>| {
        let mut out = Outbox::default();
        members[member.0 as usize].handle(LocalTime(0), input, &mut out);
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => {
                    (sent, counted) = (sent + 1, counted + u64::from(message.is_counted()));
                    under_way.insert((key(&message), sent), (member, to, message));
                }
                Effect::Arm { .. } | Effect::Disarm(_) | Effect::Tell(_) => {}
            }
        }
    };
    for one in begin {
        feed(MemberId(one), Input::Command(Command::Elect), &mut under_way);
    }
    while let Some((_, (from, to, message))) = under_way.pop_first() {
        feed(to, Input::Message { from, message }, &mut under_way);
    }
    assert!(
        members.iter().all(|one| one.elected() == Some(MemberId(size - 1)) && !one.is_electing())
    );
    counted
}

/// The part of the page.
pub(crate) fn section(rows: &[Row]) -> String {
    let columns = ["n", "least", "(n - 1)(3n - 2)", "ascending", "formula", "most", "formula"];
    let mut text = ON_ORDERS.to_owned() + &table(&columns);
    for row in rows.iter().filter(|row| SIZES.contains(&row.size)) {
        let mut line = vec![row.size.to_string()];
        for (sent, formula) in [row.least, row.ascending, row.most] {
            line.extend([each(sent, 1), formula.per(1)]);
        }
        text += &cells(&line);
    }
    text + "\n"
}

const ON_ORDERS: &str = "\
All n of a full mesh live and begin at once, measured for every n from 2 to 64. It costs least if the computation of the
highest is heard of first, (n - 1)(3n - 2) messages: each other has sent its own ELECTION in vain. If the lowest is heard of first
and the others in the order of ranks, everybody joins one after the other, n(n - 1)(n + 2)/2. It costs most if in addition each
computation ends among all that can be in it before anybody hears of the next, (n - 1)(n - 2)(n - 3)/3 more:

";
