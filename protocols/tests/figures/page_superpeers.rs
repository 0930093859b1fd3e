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
        many::recovery(1_000, 10),
        many::recovery(10_000, 1),
        many::recovery(10_000, 10),
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
        "at most / mean",
    ]);
    for load in loads {
        let share = match load.share_percent {
            0 => "none".to_owned(),
            share => format!("{share} %"),
        };
        let most = Mean { sum: load.most * load.mean.count, count: load.mean.sum };
        text += &cells(&[
            whole(load.members.into()),
            share,
            whole(load.coordinators as u64),
            Mean { sum: load.messages, count: load.entries }.to_string(),
            load.mean.to_string(),
            whole(load.most),
            most.to_string(),
        ]);
    }
    text + "\n"
}

fn recoveries(recoveries: &[Recovery]) -> String {
    let mut text = String::from(
        "One coordinator dies in the midst of that, 50 ms after the beginning. The next view begins with the locks that are held
and waited for, as a group's does; in it every member that waited enters, and no two at once:\n\n",
    );
    text += &table(&[
        "n",
        "coordinators",
        "prefixes that move",
        "names that move",
        "locks in use",
        "of these, its own",
        "members that waited and entered",
    ]);
    for recovery in recoveries {
        text += &cells(&[
            whole(recovery.members.into()),
            whole(recovery.coordinators as u64),
            whole(recovery.prefixes_moved as u64),
            format!("{} of {}", whole(recovery.names_moved as u64), whole(recovery.names.into())),
            whole(recovery.in_use as u64),
            whole(recovery.of_it as u64),
            whole(recovery.waited as u64),
        ]);
    }
    text + "\n"
}

fn spreads(compared: &[Compared]) -> String {
    let mut text = String::from(
        "How near superpeers are. Members have random places in a square whose opposite sides meet. In the second method of the
source as many tokens begin at random members; each is pushed away by those within two distances of a perfect grid, and
moves to the next member in that direction while the force is more than 0.3, and smaller there. After three rounds in
which none moves their members are superpeers. No token is lost or made (`protocols/tests/figures/plane.rs`). A distance of 1 is the mean of a
perfect grid of as many. A member that is a superpeer is at a distance of 0. Prefixes look at no places, so they
lie as chance has it, and cost nothing; a group has them:\n\n",
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
