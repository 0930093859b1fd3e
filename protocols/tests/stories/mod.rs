//! Two stories of a lock, and what each algorithm is to send in them: run by bare mutexes in
//! `mutex_laws`, and by real members in `group`.
//!
//! The lists are written down from the figures and rules of the sources, and not from runs, with what a group
//! adds to them: a member that must wait is notified of it where the book is silent, and a token that pauses
//! is woken.

use conclave_protocols::policy::LockAlgorithm;

/// Two members ask, and leave one after the other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Story {
    /// The figure of the central algorithm in Tanenbaum and van Steen, *Distributed Systems*, 2nd
    /// edition: of the processes 0 to 3, the last of which coordinates, 1 asks and is admitted; 2
    /// asks, and is admitted once 1 has left.
    InTurn,
    /// Their figure of Ricart and Agrawala's algorithm: of the processes 0 to 2 the first and the last
    /// ask at the same moment.
    AtOnce,
}

/// Both.
pub(crate) const STORIES: [Story; 2] = [Story::InTurn, Story::AtOnce];

/// From whom, to whom, and what.
pub(crate) type Sent = (u32, u32, &'static str);

/// From whom to whom messages go, whatever they are.
pub(crate) fn ways(sent: &[Sent]) -> Vec<(u32, u32)> {
    sent.iter().map(|(from, to, _)| (*from, *to)).collect()
}

/// What a story has an algorithm send.
pub(crate) fn script(algorithm: LockAlgorithm, story: Story) -> &'static [Sent] {
    let (in_turn, at_once) = match algorithm {
        LockAlgorithm::Central => CENTRAL,
        LockAlgorithm::TokenRing => TOKEN_RING,
        LockAlgorithm::Raymond => RAYMOND,
        LockAlgorithm::Lamport => LAMPORT,
        LockAlgorithm::RicartAgrawala => RICART_AGRAWALA,
        LockAlgorithm::Maekawa => MAEKAWA,
        LockAlgorithm::Voting => VOTING,
        LockAlgorithm::Superpeers => SUPERPEERS,
    };
    match story {
        Story::InTurn => in_turn,
        Story::AtOnce => at_once,
    }
}

type Script = (&'static [Sent], &'static [Sent]);

/// In the figure a member that must wait hears nothing. Here it is notified of it. The second story
/// has its coordinator among those that ask: it admits itself without a message.
const CENTRAL: Script = (
    &[
        (1, 3, "request"),
        (3, 1, "grant"),
        (2, 3, "request"),
        (3, 2, "queued"),
        (1, 3, "release"),
        (3, 2, "grant"),
        (2, 3, "release"),
    ],
    &[(0, 2, "request"), (2, 0, "queued"), (2, 0, "grant"), (0, 2, "release")],
);

/// Who coordinates where one of several does: another than the highest, which leads.
pub(crate) fn coordinator(story: Story) -> u32 {
    match story {
        Story::InTurn => 0,
        Story::AtOnce => 1,
    }
}

/// As the central algorithm, with that coordinator. In the second story both ask it.
const SUPERPEERS: Script = (
    &[
        (1, 0, "request"),
        (0, 1, "grant"),
        (2, 0, "request"),
        (0, 2, "queued"),
        (1, 0, "release"),
        (0, 2, "grant"),
        (2, 0, "release"),
    ],
    &[
        (0, 1, "request"),
        (2, 1, "request"),
        (1, 0, "grant"),
        (1, 2, "queued"),
        (0, 1, "release"),
        (1, 2, "grant"),
        (2, 1, "release"),
    ],
);

/// The token begins at 0 and goes up. The textbook's token does not pause, so nobody has to wake it; each
/// `wake` goes the other way.
const TOKEN_RING: Script = (
    &[(1, 0, "wake"), (0, 1, "token"), (2, 1, "wake"), (1, 2, "token")],
    &[(2, 1, "wake"), (1, 0, "wake"), (0, 1, "token"), (1, 2, "token")],
);

/// The privilege begins at 0, the root, whose children are 1 and 2.
const RAYMOND: Script = (
    &[
        (1, 0, "request"),
        (0, 1, "privilege"),
        (2, 0, "request"),
        (0, 1, "request"),
        (1, 0, "privilege"),
        (0, 2, "privilege"),
    ],
    &[(2, 0, "request"), (0, 2, "privilege")],
);

/// Rules 1 to 5: each speaks to all others, and all answer.
const LAMPORT: Script = (
    &[
        (1, 0, "request"),
        (1, 2, "request"),
        (1, 3, "request"),
        (0, 1, "acknowledgment"),
        (2, 1, "acknowledgment"),
        (3, 1, "acknowledgment"),
        (2, 0, "request"),
        (2, 1, "request"),
        (2, 3, "request"),
        (0, 2, "acknowledgment"),
        (1, 2, "acknowledgment"),
        (3, 2, "acknowledgment"),
        (1, 0, "release"),
        (1, 2, "release"),
        (1, 3, "release"),
        (2, 0, "release"),
        (2, 1, "release"),
        (2, 3, "release"),
    ],
    &[
        (0, 1, "request"),
        (0, 2, "request"),
        (2, 0, "request"),
        (2, 1, "request"),
        (1, 0, "acknowledgment"),
        (2, 0, "acknowledgment"),
        (0, 2, "acknowledgment"),
        (1, 2, "acknowledgment"),
        (0, 1, "release"),
        (0, 2, "release"),
        (2, 0, "release"),
        (2, 1, "release"),
    ],
);

/// A member that is in the critical section or comes first replies when it leaves. The second story is the
/// figure: 1 replies to both, 2 to 0, and 0 to 2 only when it leaves. Until then the figure has silence; here
/// a member that must wait is notified of it.
const RICART_AGRAWALA: Script = (
    &[
        (1, 0, "request"),
        (1, 2, "request"),
        (1, 3, "request"),
        (0, 1, "reply"),
        (2, 1, "reply"),
        (3, 1, "reply"),
        (2, 0, "request"),
        (2, 1, "request"),
        (2, 3, "request"),
        (0, 2, "reply"),
        (1, 2, "queued"),
        (3, 2, "reply"),
        (1, 2, "reply"),
    ],
    &[
        (0, 1, "request"),
        (0, 2, "request"),
        (2, 0, "request"),
        (2, 1, "request"),
        (1, 0, "reply"),
        (2, 0, "reply"),
        (0, 2, "queued"),
        (1, 2, "reply"),
        (0, 2, "reply"),
    ],
);

/// In the square of four, 1 needs the votes of 0 and 3 beside its own, and 2 those of 0 and 3 too. Of
/// three, 0 needs that of 1, and 2 that of 0.
const MAEKAWA: Script = (
    &[
        (1, 0, "request"),
        (1, 3, "request"),
        (0, 1, "locked"),
        (3, 1, "locked"),
        (2, 0, "request"),
        (2, 3, "request"),
        (0, 2, "failed"),
        (3, 2, "failed"),
        (1, 0, "release"),
        (1, 3, "release"),
        (0, 2, "locked"),
        (3, 2, "locked"),
        (2, 0, "release"),
        (2, 3, "release"),
    ],
    &[
        (0, 1, "request"),
        (2, 0, "request"),
        (1, 0, "locked"),
        (0, 2, "failed"),
        (0, 2, "locked"),
        (0, 1, "release"),
        (2, 0, "release"),
    ],
);

/// Three votes of four: of oneself and the two that follow. 2 has voted for 1, as has 3, and gives
/// back what it got from 0; then it tries once more. Two of three: 0 has its own vote and denies it.
const VOTING: Script = (
    &[
        (1, 2, "request"),
        (1, 3, "request"),
        (2, 1, "grant"),
        (3, 1, "grant"),
        (2, 3, "request"),
        (2, 0, "request"),
        (3, 2, "deny"),
        (0, 2, "grant"),
        (2, 0, "release"),
        (1, 2, "release"),
        (1, 3, "release"),
        (2, 3, "request"),
        (2, 0, "request"),
        (3, 2, "grant"),
        (0, 2, "grant"),
        (2, 3, "release"),
        (2, 0, "release"),
    ],
    &[
        (0, 1, "request"),
        (2, 0, "request"),
        (1, 0, "grant"),
        (0, 2, "deny"),
        (0, 1, "release"),
        (2, 0, "request"),
        (0, 2, "grant"),
        (2, 0, "release"),
    ],
);
