//! What must always be true, and what a search must reach so that it is not vacuous.

use stateright::Property;

use super::model::OfficeModel;
use super::state::{Event, LOCKS, NodeId, State, all_nodes};

/// At most one node believes that it has the office.
pub(crate) const ONE_OFFICE: &str = "at most one office at a time";
/// At most one application believes that it holds a lock.
pub(crate) const ONE_HOLDER: &str = "at most one believing holder of a lock";
/// The tokens of a lock rise in the order of the grants, across views.
pub(crate) const TOKENS_RISE: &str = "the tokens of a lock rise for ever";

pub(crate) const OFFICE_IN_A_LATER_VIEW: &str = "an office in a later view";
pub(crate) const GRANTED_LATER: &str = "a grant in a later view without quiet time";
pub(crate) const GRANTED_AFTER_QUIET: &str = "a grant after a quiet time";
pub(crate) const GRANTED_AFTER_OUTSIDER: &str = "a grant after an outsider's lease ran out";
pub(crate) const GRANTED_ABOVE_EPOCH: &str = "a grant with an epoch above the view's";
pub(crate) const GRANTED_ABOVE_FLOOR: &str = "a grant above the floor";
pub(crate) const CARRIED_RENEWED: &str = "a hold of an older view renewed";
pub(crate) const QUEUED_REFRESHED: &str = "a queued request refreshed by an answer";
pub(crate) const QUIET_SKIPPED: &str = "an office taken without quiet time";
pub(crate) const HANDED_OVER: &str = "an office taken by hand-over";
pub(crate) const CLOSED: &str = "an office taken after E and P";
pub(crate) const OLDER_WRITE: &str = "an office taken because of an older write";
pub(crate) const READ_BACK_APPLIED: &str = "a write read back as applied";
pub(crate) const READ_BACK_REFUSED: &str = "a write read back as refused";
pub(crate) const SEALED_REFUSED: &str = "an office not taken because its view was sealed";
pub(crate) const OLDER_CONFIRMATION: &str = "a promise on an older view's confirmation";
pub(crate) const EVIDENCE: &str = "evidence of a death counted";
pub(crate) const CEILING_RAISED: &str = "a ceiling raised";

/// The three promises, and the situations that this search must reach.
pub(crate) fn of(reaches: &[&'static str]) -> Vec<Property<OfficeModel>> {
    let mut properties = vec![
        Property::always(ONE_OFFICE, one_office),
        Property::always(ONE_HOLDER, |_, state: &State| one_holder(state)),
        Property::always(TOKENS_RISE, |_, state: &State| !state.token_went_back),
    ];
    properties.extend(situations().into_iter().filter(|p| reaches.contains(&p.name)));
    assert_eq!(properties.len(), 3 + reaches.len(), "an unknown situation is named");
    properties
}

fn one_office(model: &OfficeModel, state: &State) -> bool {
    all_nodes().filter(|&id| model.office_left(state, id) > 0).count() <= 1
}

fn one_holder(state: &State) -> bool {
    let holders = |lock: usize| state.nodes.iter().filter(move |n| n.holds[lock].is_live());
    (0..LOCKS).all(|lock| holders(lock).count() <= 1)
}

fn situations() -> Vec<Property<OfficeModel>> {
    macro_rules! happens {
        ($name:expr, $event:ident) => {
            Property::sometimes($name, |_: &OfficeModel, s: &State| s.event == Event::$event)
        };
    }
    vec![
        Property::sometimes(OFFICE_IN_A_LATER_VIEW, |model: &OfficeModel, state: &State| {
            let later = |id: NodeId| state.nodes[id].lead.is_some_and(|lead| lead.record.turn > 1);
            all_nodes().any(|id| later(id) && model.office_left(state, id) > 0)
        }),
        happens!(GRANTED_LATER, GrantedInALaterView),
        happens!(GRANTED_AFTER_QUIET, GrantedAfterQuietTime),
        happens!(GRANTED_AFTER_OUTSIDER, GrantedAfterOutsiderRanOut),
        happens!(GRANTED_ABOVE_EPOCH, GrantedAboveTheEpoch),
        happens!(GRANTED_ABOVE_FLOOR, GrantedAboveTheFloor),
        happens!(CARRIED_RENEWED, CarriedHoldRenewed),
        happens!(QUEUED_REFRESHED, QueuedRequestRefreshed),
        happens!(QUIET_SKIPPED, TookOfficeWithoutQuietTime),
        happens!(HANDED_OVER, TookOfficeByHandOver),
        happens!(CLOSED, TookOfficeAfterClosing),
        happens!(OLDER_WRITE, TookOfficeByOlderWrite),
        happens!(READ_BACK_APPLIED, FoundOwnWriteApplied),
        happens!(READ_BACK_REFUSED, FoundOwnWriteRefused),
        happens!(SEALED_REFUSED, RefusedToTakeASealedOffice),
        happens!(OLDER_CONFIRMATION, PromisedOnAnOlderConfirmation),
        happens!(EVIDENCE, EvidenceCounted),
        happens!(CEILING_RAISED, CeilingRaised),
    ]
}
