//! The kinds of faults that a swarm draws from.

use super::plan::Plan;

/// A kind of fault.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Kind {
    Crash,
    /// A process ends and its pod starts another, which remembers nothing.
    Restart,
    KillLeader,
    KillHolder,
    KillAll,
    Join,
    Leave,
    Drain,
    /// Two lose what they send to each other; both see the rest.
    CutPair,
    CutOneWay,
    /// One is cut off from everything.
    Isolate,
    IsolateLeader,
    /// Some are cut off from the others; the register is reached by all.
    Split,
    /// The leader is cut off from most, together with holders; the register is reached by all.
    SplitLeaderOff,
    /// All are cut off, one by one, and come back in another order.
    Swizzle,
    /// What is under way between two is lost; what is sent later arrives.
    BreakSession,
    /// What two send to each other comes seconds late, in order.
    HoldBack,
    /// All that one sends comes seconds late.
    HoldBackOne,
    /// Messages take up to half a second.
    SlowLinks,
    /// For less than a promise.
    FreezeShort,
    /// For longer than a lock's lease.
    FreezeLong,
    FreezeLeader,
    FreezeHolder,
    RegisterAway,
    RegisterAwayForOne,
    /// The register is away for longer than a view bears.
    RegisterLongAway,
    /// One alone reaches the register, and none of the others, for longer than a view bears.
    RegisterForOneOnly,
    /// Calls time out, whether they were carried out or not.
    RegisterUnsure,
    RegisterRefuses,
    RegisterSlow,
    /// Somebody writes what is there already.
    RegisterTouched,
    /// The record is lost, and made anew by the operator's rule.
    RegisterLost,
    /// The register holds again what it held before.
    RegisterRestored,
    /// The resource is edited: other waits, another election.
    Edit,
    /// All leave in order, one after another or at once, and others come later.
    LeaveAll,
    /// The leader is instructed to end while promises are on their way to it, late.
    LeaveHeldUp,
    /// Nobody hears the leader any more, and it is to end while its leader lease runs.
    LeaveUnheard,
    /// Two groups lose what they send to each other, or one what the other sends; the register is
    /// reached by both or by one.
    CutGroups,
    /// Messages come twice, the second time at once or much later.
    Repeat,
    /// Answers of the register come after later ones.
    RegisterLate,
    /// The register and the status of the resource are brought back together, and others start.
    AllRestored,
    /// Somebody joins, and one has not heard of that when the register is brought back to before; the
    /// status of the resource reports it.
    RestoredUnheard,
    /// The leader resigns, or a transfer is asked for.
    Resign,
    /// A member and its clock stand still. Outside of what exclusion is promised for.
    ClockStands,
    /// A clock jumps forward. Outside of what exclusion is promised for.
    ClockJumps,
    /// Rates are off by up to a quarter. Outside of what exclusion is promised for.
    ClocksRunWild,
}

impl Kind {
    /// Those within the bounds of clocks.
    pub(crate) const WITHIN: [Self; 34] = [
        Self::Crash,
        Self::Restart,
        Self::KillLeader,
        Self::KillHolder,
        Self::KillAll,
        Self::Join,
        Self::Leave,
        Self::Drain,
        Self::CutPair,
        Self::CutOneWay,
        Self::Isolate,
        Self::IsolateLeader,
        Self::Split,
        Self::SplitLeaderOff,
        Self::Swizzle,
        Self::BreakSession,
        Self::HoldBack,
        Self::HoldBackOne,
        Self::SlowLinks,
        Self::FreezeShort,
        Self::FreezeLong,
        Self::FreezeLeader,
        Self::FreezeHolder,
        Self::RegisterAway,
        Self::RegisterAwayForOne,
        Self::RegisterLongAway,
        Self::RegisterForOneOnly,
        Self::RegisterUnsure,
        Self::RegisterRefuses,
        Self::RegisterSlow,
        Self::RegisterTouched,
        Self::RegisterLost,
        Self::RegisterRestored,
        Self::Edit,
    ];

    /// More of them: they came later, and the runs of earlier seeds are to stay as they are.
    pub(crate) const MORE: [Self; 7] = [
        Self::LeaveAll,
        Self::LeaveHeldUp,
        Self::LeaveUnheard,
        Self::CutGroups,
        Self::Repeat,
        Self::RegisterLate,
        Self::AllRestored,
    ];

    /// And more, later still.
    pub(crate) const LATER: [Self; 1] = [Self::RestoredUnheard];

    /// And the latest.
    pub(crate) const LATEST: [Self; 1] = [Self::Resign];

    /// Those that go beyond them.
    pub(crate) const BEYOND: [Self; 3] = [Self::ClockStands, Self::ClockJumps, Self::ClocksRunWild];

    /// Whether it can do anything to a group of that size.
    pub(crate) fn fits(self, plan: &Plan) -> bool {
        match self {
            Self::CutPair
            | Self::CutOneWay
            | Self::Split
            | Self::BreakSession
            | Self::HoldBack
            | Self::SlowLinks
            | Self::RegisterForOneOnly
            | Self::Leave
            | Self::LeaveHeldUp
            | Self::LeaveUnheard
            | Self::CutGroups
            | Self::Repeat
            | Self::RestoredUnheard
            | Self::Resign
            | Self::Drain
            | Self::Crash => plan.members > 1,
            Self::SplitLeaderOff => plan.members > 3,
            Self::Restart
            | Self::KillLeader
            | Self::KillHolder
            | Self::KillAll
            | Self::Join
            | Self::Isolate
            | Self::IsolateLeader
            | Self::Swizzle
            | Self::HoldBackOne
            | Self::FreezeShort
            | Self::FreezeLong
            | Self::FreezeLeader
            | Self::FreezeHolder
            | Self::RegisterAway
            | Self::RegisterAwayForOne
            | Self::RegisterLongAway
            | Self::RegisterUnsure
            | Self::RegisterRefuses
            | Self::RegisterSlow
            | Self::RegisterTouched
            | Self::RegisterLost
            | Self::RegisterRestored
            | Self::Edit
            | Self::LeaveAll
            | Self::RegisterLate
            | Self::AllRestored
            | Self::ClockStands
            | Self::ClockJumps
            | Self::ClocksRunWild => true,
        }
    }
}
