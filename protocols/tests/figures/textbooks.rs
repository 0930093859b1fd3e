//! What the sources state about each lock: the formulas beside which a measurement stands.

use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::{MemberId, View, cost};

use crate::measure::{Alone, Busy, T};
use crate::sent::{Mean, Sent};

/// One lock algorithm, and what is stated about its costs.
pub(crate) struct Book {
    pub(crate) name: &'static str,
    pub(crate) file: &'static str,
    /// The text of the file.
    pub(crate) text: &'static str,
    /// Messages that the sources do not count.
    pub(crate) on_top: &'static [&'static str],
    /// One member's entry, if nobody else wants to enter.
    pub(crate) alone: fn(View, MemberId) -> Alone,
    /// All messages of a run in which all want to enter.
    pub(crate) messages: fn(&Busy) -> Sent,
    /// Messages on top.
    pub(crate) extras: fn(&Busy) -> Sent,
    /// From one member's exit to another's entry, in T.
    pub(crate) sync_delay: fn(View, MemberId, MemberId) -> Sent,
    /// The sum of these delays while each member enters once, in T.
    pub(crate) round: fn(View) -> Sent,
    /// How long anybody takes from asking to leaving if it asks again as soon as it has left; how
    /// long anybody waits at most. In T, if a critical section lasts so long.
    pub(crate) turnaround: fn(&Self, View, u64) -> Sent,
    pub(crate) longest: fn(&Self, View, u64) -> Sent,
    pub(crate) statements: Statements,
}

/// What is stated about this one.
pub(crate) fn of(algorithm: LockAlgorithm) -> &'static Book {
    match algorithm {
        LockAlgorithm::Central => &CENTRAL,
        LockAlgorithm::TokenRing => &TOKEN_RING,
        LockAlgorithm::Raymond => &RAYMOND,
        LockAlgorithm::Lamport => &LAMPORT,
        LockAlgorithm::RicartAgrawala => &RICART_AGRAWALA,
        LockAlgorithm::Maekawa => &MAEKAWA,
        LockAlgorithm::Voting => &VOTING,
        LockAlgorithm::Superpeers => &SUPERPEERS,
    }
}

/// The formulas in words.
pub(crate) struct Statements {
    pub(crate) alone: &'static str,
    pub(crate) client_delay: &'static str,
    pub(crate) busy: &'static str,
    pub(crate) sync_delay: &'static str,
    pub(crate) longest: &'static str,
}

/// A coordinator.
pub(crate) const CENTRAL: Book = Book {
    name: "Central",
    file: "protocols/src/mutex/central.rs",
    text: include_str!("../../src/mutex/central.rs"),
    on_top: &["queued"],
    alone: |view, member| {
        let is_other = u64::from(member != view.leader);
        costs(cost::central(is_other), 0, 2 * is_other)
    },
    messages: |run| Sent::Exactly(cost::central(entries_of_others(run))),
    extras: |run| Sent::AtMost(cost::central_queued(entries_of_others(run))),
    sync_delay: |view, from, to| {
        let messages = [from, to].map(|member| u64::from(member != view.leader));
        Sent::Exactly(messages.iter().sum())
    },
    round: |view| Sent::Exactly(2 * (n(view) - 1)),
    turnaround: in_turn,
    longest: last_in_turn,
    statements: Statements {
        alone: "3; none for the coordinator itself",
        client_delay: "2T; none for the coordinator itself",
        busy: "3 for each entry of another than the coordinator; on top at most one `queued` each",
        sync_delay: "2T; T if one of the two is the coordinator",
        longest: IN_TURN,
    },
};

/// A token in a ring.
pub(crate) const TOKEN_RING: Book = Book {
    name: "TokenRing",
    file: "protocols/src/mutex/token_ring.rs",
    text: include_str!("../../src/mutex/token_ring.rs"),
    on_top: &["wake", "idle_token"],
    alone: |_, member| {
        let steps = u64::from(member.0);
        costs(cost::token_ring(steps), cost::token_ring_wakes(steps), 2 * steps)
    },
    messages: |run| Sent::Exactly(cost::token_ring_busy(entries(run))),
    extras: |run| Sent::AtMost(cost::token_ring_wakes(entries(run))),
    sync_delay: |view, from, to| {
        let steps = (to.0 + view.size - from.0) % view.size;
        Sent::Exactly(steps.into())
    },
    round: |view| Sent::Exactly(n(view)),
    turnaround: in_turn,
    longest: last_in_turn,
    statements: Statements {
        alone: "the steps from the token, which pauses at rank 0: 0 to n - 1; on top as many `wake`",
        client_delay: "twice as many T as steps: the token must be woken",
        busy: "1, but none for the very first entry; on top at most one `wake` each",
        sync_delay: "T for each step on the ring",
        longest: IN_TURN,
    },
};

/// A token in a tree.
pub(crate) const RAYMOND: Book = Book {
    name: "Raymond",
    file: "protocols/src/mutex/raymond.rs",
    text: include_str!("../../src/mutex/raymond.rs"),
    on_top: &[],
    alone: |_, member| {
        let distance = tree_distance(ROOT, member);
        costs(cost::raymond(distance), 0, 2 * distance)
    },
    messages: |run| {
        let last = run.sections.last().expect("somebody entered").who;
        let rounds = entries(run) / n(run.view) * cost::raymond_busy(n(run.view), 0);
        Sent::Exactly(rounds - 2 * tree_distance(ROOT, last))
    },
    extras: |_| Sent::Exactly(0),
    sync_delay: |_, from, to| Sent::Exactly(tree_distance(from, to)),
    round: |view| Sent::Exactly(2 * (n(view) - 1)),
    turnaround: in_turn,
    longest: last_in_turn,
    statements: Statements {
        alone: "2d, at the distance d from the token, which is at the root",
        client_delay: "2dT",
        busy: "4(n - 1) while each member enters once, but not the way back from the last of all",
        sync_delay: "T for each step in the tree between the two",
        longest: IN_TURN,
    },
};

/// A queue at every member.
pub(crate) const LAMPORT: Book = Book {
    name: "Lamport",
    file: "protocols/src/mutex/lamport.rs",
    text: include_str!("../../src/mutex/lamport.rs"),
    on_top: &[],
    alone: |view, _| costs(cost::lamport(n(view), 1), 0, 2),
    messages: |run| Sent::Exactly(cost::lamport(n(run.view), entries(run))),
    extras: |_| Sent::Exactly(0),
    sync_delay: |_, _, _| Sent::Exactly(1),
    round: |view| Sent::Exactly(n(view)),
    turnaround: in_turn,
    longest: last_in_turn,
    statements: Statements {
        alone: "3(n - 1)",
        client_delay: "2T",
        busy: "3(n - 1)",
        sync_delay: "T",
        longest: IN_TURN,
    },
};

/// A permission of everybody.
pub(crate) const RICART_AGRAWALA: Book = Book {
    name: "RicartAgrawala",
    file: "protocols/src/mutex/ricart_agrawala.rs",
    text: include_str!("../../src/mutex/ricart_agrawala.rs"),
    on_top: &["queued"],
    alone: |view, _| costs(cost::ricart_agrawala(n(view), 1), 0, 2),
    messages: |run| Sent::Exactly(cost::ricart_agrawala(n(run.view), entries(run))),
    extras: |run| {
        // All ask at once at first: of two that do, one defers the other.
        let others = n(run.view) - 1;
        let withheld = others * entries(run) - others * n(run.view) / 2;
        Sent::Exactly(cost::ricart_agrawala_withheld(withheld))
    },
    sync_delay: |_, _, _| Sent::Exactly(1),
    round: |view| Sent::Exactly(n(view)),
    turnaround: in_turn,
    longest: |book, view, section| last_in_turn(book, view, section).map(|longest| longest + 1),
    statements: Statements {
        alone: "2(n - 1)",
        client_delay: "2T",
        busy: "2(n - 1); on top a `queued` of each that defers: all others, and half of them at first",
        sync_delay: "T",
        longest: "all enter in turn, and the first of all waits 2T and not T",
    },
};

/// The votes of a row and a column.
pub(crate) const MAEKAWA: Book = Book {
    name: "Maekawa",
    file: "protocols/src/mutex/maekawa.rs",
    text: include_str!("../../src/mutex/maekawa.rs"),
    on_top: &[],
    alone: |view, member| {
        let quorum = Quorums::grid(view.size).of(member).len();
        costs(cost::maekawa(quorum as u64), 0, 2)
    },
    messages: |run| {
        let quorums = Quorums::grid(run.view.size);
        let sizes = || run.sections.iter().map(|section| quorums.of(section.who).len() as u64);
        let [least, most] = [cost::maekawa, cost::maekawa_most].map(|cost| sizes().map(cost).sum());
        Sent::Between(least, most)
    },
    extras: |_| Sent::Exactly(0),
    sync_delay: |_, _, _| Sent::Between(1, 2),
    round: |view| Sent::Between(n(view), 2 * n(view)),
    turnaround: in_turn,
    longest: |_, view, section| Sent::AtMost(2 * n(view) * (section + 2)),
    statements: Statements {
        alone: "3(K - 1), with a quorum of K",
        client_delay: "2T",
        busy: "3(K - 1) to 6(K - 1)",
        sync_delay: "2T; T if the two are the only voters that they have in common",
        longest: "2n(E + 2T): each other enters at most twice more once the requests have arrived",
    },
};

/// The votes of a majority that nobody waits for.
pub(crate) const VOTING: Book = Book {
    name: "Voting",
    file: "protocols/src/mutex/voting.rs",
    text: include_str!("../../src/mutex/voting.rs"),
    on_top: &[],
    alone: |view, _| costs(cost::voting_least(asked(view), 1), 0, 2),
    messages: |run| {
        // Every attempt asks as many others, so sums over entries are as good as each alone.
        let attempts = run.requests / asked(run.view);
        let others = asked(run.view);
        let least = cost::voting_least(others, attempts) + others * (entries(run) - 1);
        Sent::Between(least, cost::voting_most(others, attempts))
    },
    extras: |_| Sent::Exactly(0),
    sync_delay: |_, _, _| Sent::AtLeast(1),
    round: |view| Sent::AtLeast(n(view)),
    turnaround: |_, _, section| Sent::AtLeast(section + 1),
    longest: |_, _, _| Sent::Nothing,
    statements: Statements {
        alone: "3a, where a = m - 1 others are asked: half of the members",
        client_delay: "2T",
        busy: "2ak + a to 3ak, for k attempts, as many as were measured",
        sync_delay: "no bound: until somebody tries again, after a pause of up to 640 ms (1,280 T)",
        longest: "no bound",
    },
};

/// A coordinator that is one of several.
pub(crate) const SUPERPEERS: Book = Book {
    name: "Superpeers",
    file: "protocols/src/mutex/superpeers.rs",
    text: include_str!("../../src/mutex/superpeers.rs"),
    on_top: &["queued"],
    alone: |view, member| {
        let is_other = u64::from(member != Superpeers::by_rank(view));
        costs(cost::central(is_other), 0, 2 * is_other)
    },
    messages: |run| {
        Sent::Exactly(cost::central(entries_but_for(run, Superpeers::by_rank(run.view))))
    },
    extras: |run| {
        Sent::AtMost(cost::central_queued(entries_but_for(run, Superpeers::by_rank(run.view))))
    },
    sync_delay: |view, from, to| {
        let messages = [from, to].map(|member| u64::from(member != Superpeers::by_rank(view)));
        Sent::Exactly(messages.iter().sum())
    },
    round: |view| Sent::Exactly(2 * (n(view) - 1)),
    turnaround: in_turn,
    longest: last_in_turn,
    statements: Statements {
        alone: "3; none for the coordinator of the lock",
        client_delay: "2T; none for the coordinator of the lock",
        busy: "3 for each entry of another than the coordinator; on top at most one `queued` each",
        sync_delay: "2T; T if one of the two is the coordinator",
        longest: IN_TURN,
    },
};

const IN_TURN: &str = "no longer than any other: all enter in turn";

/// What is stated about the times of a run in which all want to enter, in T but for the throughput,
/// which is in entries in 100,000 T.
pub(crate) struct Times {
    pub(crate) round: Sent,
    pub(crate) response: Sent,
    pub(crate) turnaround: Sent,
    pub(crate) longest: Sent,
    pub(crate) throughput: Sent,
}

impl Book {
    /// What is stated if a critical section lasts so long.
    pub(crate) fn times_stated(&self, view: View, section: u64) -> Times {
        let round = (self.round)(view);
        let turnaround = (self.turnaround)(self, view, section);
        let entries_in = |round| Mean { sum: 1_000 * n(view), count: n(view) * section + round };
        Times {
            round,
            response: turnaround.map(|one| one - section),
            turnaround,
            longest: (self.longest)(self, view, section),
            throughput: round.map_falling(|round| entries_in(round).hundredths()),
        }
    }
}

/// If all enter in turn, a member that asks again has left again after a round: n critical sections, and the
/// delays before them.
fn in_turn(book: &Book, view: View, section: u64) -> Sent {
    (book.round)(view).map(|round| n(view) * section + round)
}

/// If all enter in turn: the critical sections of all others, and the delays of a round.
fn last_in_turn(book: &Book, view: View, section: u64) -> Sent {
    in_turn(book, view, section).map(|turnaround| turnaround - section)
}

/// So many messages, so many on top, and an entry so many T after asking.
fn costs(messages: u64, on_top: u64, client_delay: u64) -> Alone {
    let times = u32::try_from(client_delay).expect("a small number");
    Alone { messages, on_top, client_delay: T * times }
}

fn n(view: View) -> u64 {
    view.size.into()
}

fn entries(run: &Busy) -> u64 {
    run.sections.len() as u64
}

/// Entries of members that do not coordinate.
fn entries_of_others(run: &Busy) -> u64 {
    entries_but_for(run, run.view.leader)
}

fn entries_but_for(run: &Busy, coordinator: MemberId) -> u64 {
    run.sections.iter().filter(|section| section.who != coordinator).count() as u64
}

/// How many others a member asks for its vote.
pub(crate) fn asked(view: View) -> u64 {
    n(view) / 2
}

fn tree_distance(one: MemberId, other: MemberId) -> u64 {
    cost::raymond_distance(one.0.into(), other.0.into())
}

/// Where the tree's token is at first.
const ROOT: MemberId = MemberId(0);
