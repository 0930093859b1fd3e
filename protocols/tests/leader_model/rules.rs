//! The rules of the leader lease protocol, each with a switch, so that one piece of code searches the
//! protocol and every variant that lacks one of them.

/// When a request has been answered by enough members of the old view.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Need {
    /// As many that those who did not answer are no majority of the old view.
    BlocksTheOldMajority,
    /// One fewer than that.
    OneFewer,
    /// As many, counted in the membership of the view that is to come.
    OfTheNewMembership,
}

/// What must have happened before a candidate writes the new view into the register.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Activation {
    /// The leader lease of the old view is over.
    AfterTheOldLeaderLease,
    /// Nothing, and the leader lease is taken as soon as the view is written.
    AtOnce,
    /// Nothing; the leader lease is taken when the old one is over. The record names only this claim, so
    /// that the next candidate asks its members instead of those of the view that was in force.
    ClaimReplacesTheBase,
}

/// Until when the leader believes in its own holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OwnHolds {
    /// While it has the leader lease; after it resigned, at most until the deadline that the leader lease had.
    EndWithTheLeaderLease,
    /// For a full lease when it resigns, however soon the leader lease would have ended.
    FullLeaseAfterResigning,
    /// For a full lease, like anybody's.
    LikeAnybodys,
}

/// For how long the leases that a leader had before it led keep its view unsettled.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum OlderLeases {
    /// Until they have run out, as its application was notified.
    UnsettleUntilTheyRanOut,
    /// Until the leader first has its leader lease, from when on it ties them to the leader lease.
    UnsettleUntilTheLeaderLease,
    /// Not at all.
    Ignored,
}

/// What a leader that resigns waits for, if the state of locks sits in the members.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Freeze {
    /// Every member has answered, or was not heard of for an L.
    UntilAllAnswered,
    /// More than half of them.
    UntilMostAnswered,
    /// Nothing: its table is that of the last promises.
    No,
}

/// The rules of locks whose state sits in the members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerRules {
    /// Rule 26: nobody enters before a heartbeat of this view stated that admission is open.
    pub(crate) admission: bool,
    /// Rule 26: requests, permissions and tokens too are heard only while admission is open.
    pub(crate) hears_before_admission: bool,
    /// Rule 26: a heartbeat that a later one overtook states nothing about admission.
    pub(crate) latest_heartbeat_counts: bool,
    /// Rule 27: nobody enters without a lease that runs, and the hold lasts no longer.
    pub(crate) entry_needs_the_lease: bool,
    /// Rule 27: the lease counts from the stamp of the promise.
    pub(crate) lease_counts_from_stamp: bool,
    /// Rule 27: each view has leases of its own.
    pub(crate) lease_is_of_its_view: bool,
    /// Rule 27: every message carries the highest fencing token that its sender knows.
    pub(crate) highest_travels: bool,
    /// Rule 24: a hold from before this view that was not announced is not entered in the table.
    pub(crate) learns_only_what_is_new: bool,
    /// Rule 29: what is waited for before the leader resigns.
    pub(crate) freeze: Freeze,
    /// Rule 29: only a promise that answers the freeze counts for it.
    pub(crate) answers_name_the_freeze: bool,
    /// Rule 29: what answers a freeze that was given up answers no later one.
    pub(crate) freezes_are_distinguished: bool,
    /// Rule 29: a member counts as silent after an L.
    pub(crate) silence_lasts_a_lease: bool,
    /// Rule 29: a leader that cannot wait hands over with a whole member lease.
    pub(crate) haste_costs_a_member_lease: bool,
    /// Rule 30: what an outsider holds keeps the members out.
    pub(crate) outsider_keeps_closed: bool,
    /// Messages of a view are not heard in another.
    pub(crate) messages_name_their_view: bool,
    /// A carried holder is in the critical section from the start, or has the token.
    pub(crate) carried_holder_is_in_section: bool,
    /// A view's announcement stays as it was first made.
    pub(crate) announcement_stays: bool,
}

impl PeerRules {
    const ALL: Self = Self {
        admission: true,
        hears_before_admission: true,
        latest_heartbeat_counts: true,
        entry_needs_the_lease: true,
        lease_counts_from_stamp: true,
        lease_is_of_its_view: true,
        highest_travels: true,
        learns_only_what_is_new: true,
        freeze: Freeze::UntilAllAnswered,
        answers_name_the_freeze: true,
        freezes_are_distinguished: true,
        silence_lasts_a_lease: true,
        haste_costs_a_member_lease: true,
        outsider_keeps_closed: true,
        messages_name_their_view: true,
        carried_holder_is_in_section: true,
        announcement_stays: true,
    };
}

/// What makes a hold of the leader as long as others' (rule 22).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Hearing {
    /// Another member promised in answer to a heartbeat that listed this very hold.
    OfThisHold,
    /// A promise of another member runs.
    AnyPromise,
    /// Nothing: it is from the start.
    Needless,
}

/// The rules of what leaders list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListRules {
    /// Rule 22: when a hold of the leader outlasts its leader lease.
    pub(crate) hearing: Hearing,
    /// Rule 21: seals report what the leader listed as its own.
    pub(crate) seals_tell_own: bool,
    /// Rule 21: and what it listed of members outside of the view.
    pub(crate) seals_tell_outsiders: bool,
    /// Rule 21: heartbeats report the rest of the grace period.
    pub(crate) rest_is_notified: bool,
    /// Rule 20: if nobody entered the base, nobody knows its rest.
    pub(crate) somebody_entered: bool,
    /// Rule 20: all members but the leader must have sealed.
    pub(crate) everybody_seals: bool,
}

impl ListRules {
    const ALL: Self = Self {
        hearing: Hearing::OfThisHold,
        seals_tell_own: true,
        seals_tell_outsiders: true,
        rest_is_notified: true,
        somebody_entered: true,
        everybody_seals: true,
    };
}

/// One switch for each rule; `true` is the protocol. The numbers are those of the model's
/// document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Rule 2: a restarted process is nobody that any view names.
    pub(crate) restart_is_a_new_member: bool,
    /// Rule 5, leader lease: the leader counts a promise from before it sent the heartbeat.
    pub(crate) leader_lease_counts_from_send: bool,
    /// Rule 27: a member's lease counts from the stamp of the promise that is acknowledged.
    pub(crate) lock_counts_from_send: bool,
    /// Rule 5: the waits of a view are those in its record, not those of a node's configuration.
    pub(crate) waits_of_the_record: bool,
    /// Rule 6: one reading of the clock decides a grant.
    pub(crate) one_reading: bool,
    /// Rule 7: a deadline that passed is final.
    pub(crate) expiry_is_final: bool,
    /// Rule 8: a member that sealed a view makes no more promises in it.
    pub(crate) seal_ends_promises: bool,
    /// Rule 8: a member promises only while the register confirmed the view.
    pub(crate) promise_needs_confirmation: bool,
    /// Rule 8, refinement: the confirmation of an older view counts for a newer one.
    pub(crate) confirmation_carries_over: bool,
    /// Rule 9: the leader lease ends when the leader resigns.
    pub(crate) resigning_ends_the_leader_lease: bool,
    /// Rule 9, liveness: a leader whose leader lease has lapsed steps down.
    pub(crate) lapsed_leader_steps_down: bool,
    /// Rule 11, liveness: a nominee that does not reach the register leaves it to the next in rank.
    pub(crate) nominee_withdraws: bool,
    /// Rule 12: a member seals only after its promise ran out.
    pub(crate) seal_waits_for_the_promise: bool,
    /// Rule 12, refinement: nobody seals early on hearing that the leader resigned.
    pub(crate) hearsay_does_not_seal: bool,
    /// Rule 12: a member that sealed takes no more grants of that view.
    pub(crate) seal_ends_grants: bool,
    /// Rule 13: the leader's seal brings its table and the rest of the grace period.
    pub(crate) table_comes_with_the_seal: bool,
    /// Rule 14: a dead follower counts only P after its death.
    pub(crate) evidence_waits: bool,
    /// Rule 14: a member that counts as dead is dead.
    pub(crate) evidence_is_true: bool,
    /// Rule 15: how many seals end the old leader lease.
    pub(crate) need: Need,
    /// Rule 15: a candidate that waits E and P out has marked the record first.
    pub(crate) closing_is_marked: bool,
    /// Rule 15: a closing mark stays until there is another view.
    pub(crate) mark_stays: bool,
    /// Rule 15, liveness: a candidate that waits in vain for seals marks the record and waits E and P out.
    pub(crate) closing_ends_the_wait: bool,
    /// Rule 15, for a lost record: only E and P end the leader lease, because nobody knows the members.
    pub(crate) lost_record_waits: bool,
    /// Rule 15: a candidate that waits for E and P waits for all of it.
    pub(crate) waits_are_whole: bool,
    /// Rule 33: a leader replaces a lost record by its next view.
    pub(crate) leader_replaces: bool,
    /// Rule 33: only while it has its leader lease.
    pub(crate) replaces_while_leading: bool,
    /// Rule 33: a write that another mark refused is forgotten with its table.
    pub(crate) refused_is_forgotten: bool,
    /// Rule 34: a candidate that waits counts from when it first read the mark.
    pub(crate) counts_from_first_read: bool,
    /// Rule 34: this mark, and not another one.
    pub(crate) first_read_names_the_mark: bool,
    /// Rule 20, for a lost record: a member lease passes.
    pub(crate) lost_record_begins_a_grace_period: bool,
    /// Rule 13, without a successor: the record states whether a lock may be held.
    pub(crate) leaver_reports_if_locks_are_held: bool,
    /// Rule 13, without a successor: a leader that finds that a lock may be held waits for it.
    pub(crate) leavers_message_counts: bool,
    /// Rule 13, without a successor: the leader resigns before it writes that nobody leads.
    pub(crate) leaver_resigns_first: bool,
    /// Rule 17: what comes before activation.
    pub(crate) activation: Activation,
    /// Rule 17: a write names the version it replaces.
    pub(crate) write_compares: bool,
    /// Rule 17, tokens: the next epoch is above the ceiling too.
    pub(crate) epoch_above_ceiling: bool,
    /// Rule 17, waits: a view keeps the longer L of the one before it.
    pub(crate) longer_member_lease_stays: bool,
    /// Rule 18: after an unknown outcome the writer reads back.
    pub(crate) unknown_is_read_back: bool,
    /// Rule 19: a leader that has sealed the view it activated does not take its leader lease.
    pub(crate) sealed_view_has_no_leader: bool,
    /// Rule 20: no new grant during the grace period.
    pub(crate) grace_period: bool,
    /// Rule 20: a reported lock is busy.
    pub(crate) reports_count: bool,
    /// Rule 20: a reported lock waits for the grace period like any other.
    pub(crate) reported_locks_wait_too: bool,
    /// Rule 21: after an unsettled view, a full set of seals does not end the grace period.
    pub(crate) unsettled_base_waits: bool,
    /// Rule 21: a view is not settled while somebody outside of it holds a lock.
    pub(crate) outsider_unsettles: bool,
    /// Rule 21, amendment: nor while its leader holds something from before it led.
    pub(crate) leaders_older_leases: OlderLeases,
    /// Rule 22: the leader's own holds.
    pub(crate) own_holds: OwnHolds,
    /// Rule 23: the leader checks its leader lease when it grants.
    pub(crate) grant_checks_leader_lease: bool,
    /// Rule 23: the leader checks its leader lease when it renews.
    pub(crate) renewal_checks_leader_lease: bool,
    /// Rule 23: the token begins with the view.
    pub(crate) token_names_view: bool,
    /// Rule 23: a grant names the request that it answers.
    pub(crate) grant_names_request: bool,
    /// Rule 23: a new request gets a new token, even from the member that has the entry.
    pub(crate) new_request_gets_new_token: bool,
    /// Rule 23: a release names its token.
    pub(crate) release_names_token: bool,
    /// Rule 24: what the leader does not know of is not renewed.
    pub(crate) renewal_needs_an_entry: bool,
    /// One lease per member: an acknowledgement extends what the answer listed and nothing else.
    pub(crate) acknowledges_what_was_listed: bool,
    /// Rule 27: a member whose lease was over asks anew for what it waits for.
    pub(crate) asks_anew: bool,
    /// Rule 27: a promise that lists a wait extends the entry of a grant that is under way.
    pub(crate) under_way_is_extended: bool,
    /// Tokens: a ceiling is used after the register took it.
    pub(crate) ceiling_is_written_first: bool,
    /// Tokens: a forgotten lock leaves its number in the floor.
    pub(crate) floor_is_kept: bool,
    /// Rules 20 to 22, with lists.
    pub(crate) lists: ListRules,
    /// Rules 26 to 30.
    pub(crate) peers: PeerRules,
}

impl Rules {
    /// The protocol.
    pub(crate) const ALL: Self = Self {
        restart_is_a_new_member: true,
        leader_lease_counts_from_send: true,
        lock_counts_from_send: true,
        waits_of_the_record: true,
        one_reading: true,
        expiry_is_final: true,
        seal_ends_promises: true,
        promise_needs_confirmation: true,
        confirmation_carries_over: true,
        resigning_ends_the_leader_lease: true,
        lapsed_leader_steps_down: true,
        nominee_withdraws: true,
        seal_waits_for_the_promise: true,
        hearsay_does_not_seal: true,
        seal_ends_grants: true,
        table_comes_with_the_seal: true,
        evidence_waits: true,
        evidence_is_true: true,
        need: Need::BlocksTheOldMajority,
        closing_is_marked: true,
        mark_stays: true,
        closing_ends_the_wait: true,
        lost_record_waits: true,
        waits_are_whole: true,
        leader_replaces: true,
        replaces_while_leading: true,
        refused_is_forgotten: true,
        counts_from_first_read: true,
        first_read_names_the_mark: true,
        lost_record_begins_a_grace_period: true,
        leaver_reports_if_locks_are_held: true,
        leavers_message_counts: true,
        leaver_resigns_first: true,
        activation: Activation::AfterTheOldLeaderLease,
        write_compares: true,
        epoch_above_ceiling: true,
        longer_member_lease_stays: true,
        unknown_is_read_back: true,
        sealed_view_has_no_leader: true,
        grace_period: true,
        reports_count: true,
        reported_locks_wait_too: true,
        unsettled_base_waits: true,
        outsider_unsettles: true,
        leaders_older_leases: OlderLeases::UnsettleUntilTheyRanOut,
        own_holds: OwnHolds::EndWithTheLeaderLease,
        grant_checks_leader_lease: true,
        renewal_checks_leader_lease: true,
        token_names_view: true,
        grant_names_request: true,
        new_request_gets_new_token: true,
        release_names_token: true,
        renewal_needs_an_entry: true,
        acknowledges_what_was_listed: true,
        asks_anew: true,
        under_way_is_extended: true,
        ceiling_is_written_first: true,
        floor_is_kept: true,
        lists: ListRules::ALL,
        peers: PeerRules::ALL,
    };
}
