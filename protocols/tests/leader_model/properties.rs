//! What must always be true, and what a search must reach so that it is not vacuous.

use stateright::Property;

use super::model::LeaderModel;
use super::state::{Event, LOCKS, Members, NodeId, State, all_nodes};

/// At most one node believes that it has the leader lease.
pub(crate) const ONE_LEADER: &str = "at most one leader lease at a time";
/// At most one application believes that it holds a lock.
pub(crate) const ONE_HOLDER: &str = "at most one believing holder of a lock";
/// The tokens of a lock rise in the order of the grants, across views.
pub(crate) const TOKENS_RISE: &str = "the tokens of a lock rise for ever";

/// When nothing fails any more, there is soon a leader lease that can grant.
pub(crate) const LEADER_COMES_BACK: &str = "a leader lease that can grant comes back";

pub(crate) const LEADER_IN_A_LATER_VIEW: &str = "a leader lease in a later view";
pub(crate) const GRANTED_LATER: &str = "a grant in a later view without grace period";
pub(crate) const GRANTED_AFTER_GRACE: &str = "a grant after a grace period";
pub(crate) const GRANTED_AFTER_OUTSIDER: &str = "a grant after an outsider's lease ran out";
pub(crate) const GRANTED_ABOVE_EPOCH: &str = "a grant with an epoch above the view's";
pub(crate) const GRANTED_ABOVE_FLOOR: &str = "a grant above the floor";
pub(crate) const CARRIED_RENEWED: &str = "a hold of an older view renewed";
pub(crate) const UNDER_WAY_EXTENDED: &str = "the entry of a grant under way extended";
pub(crate) const GRACE_SKIPPED: &str = "a leader lease taken without grace period";
pub(crate) const HANDED_OVER: &str = "a leader lease taken by hand-over";
pub(crate) const LOSS_REPLACED: &str = "a lost record replaced by a leader that lives";
pub(crate) const FIRST_READ: &str = "a wait counted from an earlier read of the mark";
pub(crate) const CLOSED: &str = "a leader lease taken after E and P";
pub(crate) const OLDER_WRITE: &str = "a leader lease taken because of an older write";
pub(crate) const LEFT: &str = "a leader lease taken after a leader left while a lock may be held";
pub(crate) const READ_BACK_APPLIED: &str = "a write read back as applied";
pub(crate) const READ_BACK_REFUSED: &str = "a write read back as refused";
pub(crate) const SEALED_REFUSED: &str = "a leader lease not taken because its view was sealed";
pub(crate) const OLDER_CONFIRMATION: &str = "a promise on an older view's confirmation";
pub(crate) const DEAD_SUCCEEDED: &str = "a leader lease taken after E and P from nobody that lives";
pub(crate) const MARK_CLEARED: &str = "a closing mark cleared by the leader's next view";
pub(crate) const STEPPED_DOWN: &str = "a lapsed leader lease given up";
pub(crate) const OVERTAKEN: &str = "a heartbeat that overtook an older one";
pub(crate) const LATE_GRANT: &str = "a grant that meets a later request";
pub(crate) const SHORTENED: &str = "a view with a shorter L than the one before";
pub(crate) const REPLACED: &str = "a grant in a view of which nobody founded the group";
pub(crate) const ENTERED_LATER: &str = "an entry in a later view";
pub(crate) const ENTERED_AFTER_ANOTHER: &str = "an entry after another in the same view";
pub(crate) const ENTERED_ABOVE_EPOCH: &str = "an entry with an epoch above the view's";
pub(crate) const ENTERED_ON_OLD_LEASE: &str = "an entry on a lease of a view that is over";
pub(crate) const LEFT_BY_ITSELF: &str = "a hold that ends by time";
pub(crate) const FROZEN: &str = "a hand-over after a freeze, with a hold in the table";
pub(crate) const IN_HASTE: &str = "a hand-over that did not wait for all answers";
pub(crate) const SILENT_COUNTED: &str = "a hand-over without a member that is silent";
pub(crate) const REOPENED: &str = "a freeze given up";
pub(crate) const OUTSIDER_KEPT_OUT: &str = "a member let in but for an outsider's hold";
pub(crate) const EVIDENCE: &str = "evidence of a death counted";
pub(crate) const CEILING_RAISED: &str = "a ceiling raised";
pub(crate) const BEYOND_THE_LEASE: &str = "a hold of the leader told beyond its leader lease";

/// The promises, and the situations that this search must reach.
pub(crate) fn of(model: &LeaderModel) -> Vec<Property<LeaderModel>> {
    let mut properties = vec![
        Property::always(ONE_LEADER, one_leader),
        Property::always(ONE_HOLDER, |_, state: &State| one_holder(state)),
        Property::always(TOKENS_RISE, |_, state: &State| !state.token_went_back),
    ];
    if model.scope.recovers {
        properties.push(Property::always(LEADER_COMES_BACK, LeaderModel::comes_back));
    }
    let promises = properties.len();
    properties.extend(situations().into_iter().filter(|p| model.reaches.contains(&p.name)));
    assert_eq!(properties.len(), promises + model.reaches.len(), "an unknown situation is named");
    properties
}

fn one_leader(model: &LeaderModel, state: &State) -> bool {
    all_nodes().filter(|&id| model.leader_lease_left(state, id) > 0).count() <= 1
}

fn one_holder(state: &State) -> bool {
    let holders = |lock: usize| state.nodes.iter().filter(move |n| n.holds[lock].is_live());
    (0..LOCKS).all(|lock| holders(lock).count() <= 1)
}

fn situations() -> Vec<Property<LeaderModel>> {
    macro_rules! happens {
        ($name:expr, $event:ident) => {
            Property::sometimes($name, |_: &LeaderModel, s: &State| s.event == Event::$event)
        };
    }
    vec![
        Property::sometimes(LEADER_IN_A_LATER_VIEW, |model: &LeaderModel, state: &State| {
            let later = |id: NodeId| state.nodes[id].lead.is_some_and(|lead| lead.record.turn > 1);
            all_nodes().any(|id| later(id) && model.leader_lease_left(state, id) > 0)
        }),
        Property::sometimes(REPLACED, |model: &LeaderModel, state: &State| {
            let strangers = |id: NodeId| {
                let members = state.nodes[id].lead.map(|lead| lead.record.members);
                members.is_some_and(|members| members.within(model.scope.founders) == Members::NONE)
            };
            let holds = |id: NodeId| state.nodes[id].holds[0].is_live();
            let leads = |id: NodeId| strangers(id) && model.leader_lease_left(state, id) > 0;
            let newcomers = model.scope.joiners;
            all_nodes().any(leads) && newcomers.iter().any(holds)
        }),
        Property::sometimes(OUTSIDER_KEPT_OUT, |model: &LeaderModel, state: &State| {
            all_nodes().any(|id| state.nodes[id].peer.outsider > 0 && model.is_admitted(state, id))
        }),
        happens!(ENTERED_LATER, EnteredInALaterView),
        happens!(ENTERED_AFTER_ANOTHER, EnteredAfterAnother),
        happens!(ENTERED_ABOVE_EPOCH, EnteredAboveTheEpoch),
        happens!(ENTERED_ON_OLD_LEASE, EnteredOnAnOldLease),
        happens!(LEFT_BY_ITSELF, LeftByItself),
        happens!(FROZEN, FrozenAndHandedOver),
        happens!(IN_HASTE, HandedOverWithoutWaiting),
        happens!(SILENT_COUNTED, SilentMemberCounted),
        happens!(REOPENED, Reopened),
        happens!(DEAD_SUCCEEDED, TookLeadOfTheDead),
        happens!(MARK_CLEARED, ClearsTheClosingMark),
        happens!(STEPPED_DOWN, SteppedDown),
        happens!(OVERTAKEN, BeatOvertook),
        happens!(LATE_GRANT, GrantForAnOlderRequest),
        happens!(SHORTENED, MemberLeaseShortened),
        happens!(GRANTED_LATER, GrantedInALaterView),
        happens!(GRANTED_AFTER_GRACE, GrantedAfterGracePeriod),
        happens!(GRANTED_AFTER_OUTSIDER, GrantedAfterOutsiderRanOut),
        happens!(GRANTED_ABOVE_EPOCH, GrantedAboveTheEpoch),
        happens!(GRANTED_ABOVE_FLOOR, GrantedAboveTheFloor),
        happens!(CARRIED_RENEWED, CarriedHoldRenewed),
        happens!(UNDER_WAY_EXTENDED, GrantUnderWayExtended),
        happens!(GRACE_SKIPPED, TookLeadWithoutGracePeriod),
        happens!(HANDED_OVER, TookLeadByHandOver),
        happens!(CLOSED, TookLeadAfterClosing),
        happens!(LOSS_REPLACED, ReplacesALostRecord),
        happens!(FIRST_READ, CountsFromItsFirstRead),
        happens!(OLDER_WRITE, TookLeadByOlderWrite),
        happens!(LEFT, TookLeadOfALeaver),
        happens!(READ_BACK_APPLIED, FoundOwnWriteApplied),
        happens!(READ_BACK_REFUSED, FoundOwnWriteRefused),
        happens!(SEALED_REFUSED, RefusedToTakeASealedLeaderLease),
        happens!(OLDER_CONFIRMATION, PromisedOnAnOlderConfirmation),
        happens!(EVIDENCE, EvidenceCounted),
        happens!(CEILING_RAISED, CeilingRaised),
        happens!(BEYOND_THE_LEASE, NotifiedBeyondTheLeaderLease),
    ]
}
