//! The bounds of one search: who takes part, how long the waits are, and what may go wrong.

use super::peers::Way;
use super::state::{Members, Ticks, Timing};

/// What one search covers. Everything that is not bounded here is unbounded: time, renewals,
/// heartbeats, reads of the register and the delay of every message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Members of the first view. Node 0 leads it, and everybody has just promised.
    pub(crate) founders: Members,
    /// Nodes that run from the start and belong to no view until one names them. A restarted
    /// process is such a node, because a restart is a new incarnation (rule 2).
    pub(crate) joiners: Members,
    /// Who may become a candidate.
    pub(crate) candidates: Members,
    /// Who may be given the leader lease by the leader itself.
    pub(crate) successors: Members,
    /// Joiners that every new view takes in.
    pub(crate) admitted: Members,
    /// Nodes that no new view takes in, even if they answered.
    pub(crate) expelled: Members,
    /// By turn from the second view on, whom it takes in and whom not, where that changes from view
    /// to view. Empty: `admitted` and `expelled` count for all.
    pub(crate) succession: &'static [(Members, Members)],
    /// What admits a member to the critical section.
    pub(crate) way: Way,
    /// Who asks for locks.
    pub(crate) askers: Members,
    /// Who may crash, and how many of them.
    pub(crate) mortal: Members,
    /// How many nodes may crash.
    pub(crate) crashes: u8,
    /// How many locks there are, at most [`super::state::LOCKS`].
    pub(crate) locks: usize,
    /// P, the wait of the leader lease.
    pub(crate) promise: Ticks,
    /// L, the wait of a lock.
    pub(crate) lease: Ticks,
    /// E, the wait of the register. Zero: every promise counts as confirmed, and nobody may wait
    /// E out.
    pub(crate) confirmation: Ticks,
    /// Nodes whose own configuration has other waits, which their views then get.
    pub(crate) differ: Members,
    /// Their waits.
    pub(crate) policy: Timing,
    /// How many views there may be, the first included.
    pub(crate) views: u8,
    /// How many grants there may be, over all locks and views.
    pub(crate) grants: u8,
    /// How often the ceiling may be raised.
    pub(crate) raises: u8,
    /// Holders may release.
    pub(crate) releases: bool,
    /// A leader may forget a lock that is free.
    pub(crate) forgets: bool,
    /// Holders may renew, by listing their holds when they answer a heartbeat.
    pub(crate) renewals: bool,
    /// An asker may give up, and an answer may be lost.
    pub(crate) drops: bool,
    /// A heartbeat and its answer travel, instead of being exchanged in one step.
    pub(crate) beats_travel: bool,
    /// What heartbeats state about admission and acknowledge travels by itself, and so do the answers of the
    /// members that admit each other.
    pub(crate) admissions_travel: bool,
    /// Heartbeats, promises, grants and releases overtake each other.
    pub(crate) overtakes: bool,
    /// Heartbeats, promises, grants and releases arrive more than once.
    pub(crate) duplicates: bool,
    /// A leader without a leader lease may lead no longer.
    pub(crate) steps_down: bool,
    /// The outcome of a write may stay unknown, so that the writer reads back.
    pub(crate) unknown: bool,
    /// A candidate may drop its candidacy with a write on its way, and start again.
    pub(crate) restarts_candidacy: bool,
    /// How often the record may be lost.
    pub(crate) losses: u8,
    /// A leader whose locks are all free may leave and name no successor.
    pub(crate) leaves: bool,
    /// In every state that is reached, the leader lease must come back once nothing fails any more.
    pub(crate) recovers: bool,
    /// Then these still do not reach the register.
    pub(crate) cut_off: Members,
    /// Leaders list what nobody else could report, and seals report it. For one lock that the
    /// leader grants, and heartbeats that do not travel.
    pub(crate) lists: bool,
    /// The kubelet's statement on a terminated container may be used.
    pub(crate) evidence: bool,
}

impl Scope {
    /// Three members, one of which may follow the leader; two ask for the one lock. Every wait is
    /// one tick and nothing fails.
    pub(crate) const THREE: Self = Self {
        founders: Members::of(&[0, 1, 2]),
        joiners: Members::NONE,
        candidates: Members::of(&[1]),
        successors: Members::NONE,
        admitted: Members::NONE,
        expelled: Members::NONE,
        succession: &[],
        way: Way::Leader,
        askers: Members::of(&[1, 2]),
        mortal: Members::NONE,
        crashes: 0,
        locks: 1,
        promise: 1,
        lease: 1,
        confirmation: 0,
        differ: Members::NONE,
        policy: Timing::new(0, 0, 0),
        views: 2,
        grants: 3,
        raises: 0,
        releases: false,
        forgets: false,
        renewals: true,
        drops: false,
        beats_travel: false,
        admissions_travel: false,
        overtakes: false,
        duplicates: false,
        steps_down: false,
        unknown: false,
        restarts_candidacy: false,
        losses: 0,
        leaves: false,
        recovers: false,
        cut_off: Members::NONE,
        lists: false,
        evidence: false,
    };

    /// The waits of the first view.
    pub(crate) const fn timing(&self) -> Timing {
        Timing::new(self.promise, self.lease, self.confirmation)
    }

    /// Four members, of which two seals are enough to end a leader lease.
    pub(crate) const FOUR: Self = Self { founders: Members::of(&[0, 1, 2, 3]), ..Self::THREE };

    /// Two members.
    pub(crate) const TWO: Self =
        Self { founders: Members::of(&[0, 1]), askers: Members::of(&[0, 1]), ..Self::THREE };
}
