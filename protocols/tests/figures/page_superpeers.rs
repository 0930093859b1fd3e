//! The page's section on superpeers of groups that are larger than one can be.

use crate::many::{self, Load, Recovery};
use crate::page::{cells, head, table};
use crate::plane::{self, Compared, Spread};
use crate::sent::Mean;

/// The file of the selection.
pub(crate) const SUPERPEERS: &str = include_str!("../../src/election/superpeers.rs");

/// All of it.
pub(crate) fn section() -> String {
    let file = "protocols/src/election/superpeers.rs";
    let mut text = head("Superpeers of many members", file, SUPERPEERS);
    text += &loads(&many::loads());
    text += &recoveries(&[
        many::recovery(1_000, 10, 1),
        many::recovery(1_000, 10, 8),
        many::recovery(10_000, 1, 1),
        many::recovery(10_000, 1, 8),
        many::recovery(10_000, 10, 1),
        many::recovery(10_000, 10, 64),
    ]);
    text + &spreads(&plane::all())
}

fn loads(loads: &[Load]) -> String {
    let mut text = String::from(
        "In the simulator, with more members than a group can have. Each asks for two of 2n locks at random times within 100 ms,
and no two are ever in one lock at once. A share of *none* is the one coordinator of `Central`. What a coordinator
receives is a request and a release for each entry of another member:\n\n",
    );
    text += &table(&[
        "n",
        "share",
        "coordinators",
        "messages of an entry",
        "received by a coordinator, mean",
        "at most",
        "bound",
        "at most / mean",
    ]);
    for load in loads {
        let most = Mean { sum: load.most.0 * load.mean.count, count: load.mean.sum };
        text += &cells(&[
            whole(load.members.into()),
            share(load),
            whole(load.coordinators),
            Mean { sum: load.messages, count: load.entries }.to_string(),
            load.mean.to_string(),
            whole(load.most.0),
            load.most.1.per(1),
            most.to_string(),
        ]);
    }
    text + ON_WORK + &work(loads)
}

/// What the parts of the busiest coordinator handle.
fn work(loads: &[Load]) -> String {
    let mut text = table(&[
        "n",
        "share",
        "names of a coordinator, mean",
        "at most",
        "bound",
        "inputs of the busiest",
        "of those of the one",
    ]);
    let mut one = 0;
    for load in loads {
        if load.share_percent == 0 {
            one = load.handled;
        }
        text += &cells(&[
            whole(load.members.into()),
            share(load),
            load.names.to_string(),
            whole(load.names_most.0),
            load.names_most.1.per(1),
            whole(load.handled),
            format!("{} %", Mean { sum: 100 * load.handled, count: one }),
        ]);
    }
    text + "\n"
}

fn share(load: &Load) -> String {
    match load.share_percent {
        0 => "none".to_owned(),
        share => format!("{share} %"),
    }
}

const ON_WORK: &str = "
What is bounded is the part of the keys: each superpeer has one prefix, and no prefix is larger than another. Which names have
it, and how often these are asked for, is left to the hash, so a coordinator may have many names and another none. The bounds
are those of balls in bins, by Chernoff: of c coordinators with m names on average none has more than the least of
(m(e^λ - 1) + ln 1,000c) / λ over λ > 0, but for one of 1,000 placements; and of entries, of which each name
has one on average, no more than if the λ in the exponent is e^λ - 1, with a request and a release for each. For a fixed m the bound grows with ln c; and the more names a
coordinator has, the nearer it is to the mean.

The work of a coordinator is what its parts in locks handle: what it receives, the grants that it is sent for its own entries, and
its own commands. The last column compares the busiest with the one coordinator of `Central`. What the handlers cost the
processor is [measured by hand](#what-limits-a-group):

";

fn recoveries(recoveries: &[Recovery]) -> String {
    let mut text = String::from(
        "Those coordinators die in the midst of that, 50 ms after the beginning, that have most locks in use. The next view begins
with the locks that are held and waited for, as a group's does; in it every member that waited enters, and no two at
once. The last column is from the beginning of that view until the last of them has entered: where l members wait for one lock,
that is at most l(E + 2T), with a section E = 10 T and no deaths any more. Before that a group takes as long to notice the deaths
and to change the view as its `timing` has it, which is not simulated here:\n\n",
    );
    text += &table(&[
        "n",
        "coordinators",
        "of these, die",
        "prefixes that move",
        "names that move",
        "locks in use",
        "of these, theirs",
        "members that waited and entered",
        "all have entered, in T",
        "l(E + 2T)",
    ]);
    for recovery in recoveries {
        text += &cells(&[
            whole(recovery.members.into()),
            whole(recovery.coordinators as u64),
            whole(recovery.died as u64),
            whole(recovery.prefixes_moved as u64),
            format!("{} of {}", whole(recovery.names_moved as u64), whole(recovery.names.into())),
            whole(recovery.in_use as u64),
            whole(recovery.of_them as u64),
            whole(recovery.waited as u64),
            recovery.took.0.to_string(),
            recovery.took.1.per(1),
        ]);
    }
    text + "\n"
}

fn spreads(compared: &[Compared]) -> String {
    let hundredths = |sum| Mean { sum, count: 100 };
    let mut text = format!(
        "How near superpeers are. Members have random places in a square whose opposite sides meet. In the second method of the
source as many tokens begin at random members; each is pushed away by those within two distances of a perfect grid, and
moves to the next member in that direction while the force is more than 0.3, and smaller there. After three rounds in
which none moves their members are superpeers. No token is lost or made (`protocols/tests/figures/plane.rs`). A distance of 1 is the mean of a
perfect grid of as many. A member that is a superpeer is at a distance of 0. Prefixes look at no places, so they
lie as chance has it, and cost nothing; a group has them. With tokens the mean and the largest distance are smaller than with
prefixes, and so is the number of members that have one superpeer as the nearest: in these runs at most {} times the mean,
and {} times with prefixes. Neither is a promise, since both follow from the places of the members. For a lock a member
asks the superpeer to which the name falls, which need not be the nearest:\n\n",
        hundredths(plane::LOAD_BY_TOKENS),
        hundredths(plane::LOAD_BY_PREFIX),
    );
    text += &table(&[
        "n",
        "superpeers",
        "method",
        "distance to the nearest, mean",
        "at most",
        "members nearest to one, at most / mean",
        "rounds",
        "moves",
    ]);
    for compared in compared {
        let none = "0".to_owned();
        text += &row(&compared.by_prefix, "prefixes", none.clone(), none);
        let (rounds, moves) = (whole(compared.rounds.into()), whole(compared.moves.into()));
        text += &row(&compared.by_tokens, "tokens", rounds, moves);
    }
    text + "\n"
}

fn row(spread: &Spread, method: &str, rounds: String, moves: String) -> String {
    let hundredths = |sum| Mean { sum, count: 100 }.to_string();
    cells(&[
        whole(spread.members.into()),
        whole(spread.superpeers as u64),
        method.to_owned(),
        hundredths(spread.mean),
        hundredths(spread.most),
        hundredths(spread.load),
        rounds,
        moves,
    ])
}

fn whole(sum: u64) -> String {
    Mean { sum, count: 1 }.to_string()
}
