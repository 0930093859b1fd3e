//! What becomes of a member's clock when one view follows another.

use std::collections::BTreeSet;
use std::time::Duration;

use super::discipline::VirtualClock;
use super::transfer::Transfer;
use crate::ids::{Epoch, Incarnation};
use crate::time::{LocalTime, hold};

/// The view that a member is in, and since when its leader may begin a group time.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Succession {
    epoch: Epoch,
    members: BTreeSet<Incarnation>,
    begins_from: LocalTime,
    /// Nothing arbitrates in it.
    is_free: bool,
}

/// A view that a member enters.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NextView {
    /// Its number.
    pub epoch: Epoch,
    /// The view that it was made from; 0 if it is the first of the group, nothing if that is not known.
    pub base: Option<Epoch>,
    /// Its members.
    pub members: BTreeSet<Incarnation>,
    /// If the member that enters it leads it: a raw reading from before any later view began.
    pub leads_since: Option<LocalTime>,
    /// How long a leader lease lasts in it.
    pub leader_lease: Duration,
    /// How long one lasts at most in it and in those before.
    pub longest_leader_lease: Duration,
    /// Whether only a view with a majority of the one before can follow it.
    pub is_arbitrated: bool,
}

impl Succession {
    /// The member enters a view at a raw reading. What it shows goes on or lapses. Returns the clock with which its algorithm
    /// begins.
    pub fn enter(
        &mut self,
        raw: LocalTime,
        next: NextView,
        transfer: &mut Transfer,
    ) -> VirtualClock {
        let is_successor = next.base == Some(self.epoch);
        // A view that the register has was made from another, in which a member of it may have begun another time, also if
        // nothing arbitrates from it on. A view that numbered itself was made from none that is known: a member that comes
        // from one with an arbiter goes on with what it would state for good there, and with nothing else.
        let goes_on_by_itself = next.epoch.is_unarbitrated() && transfer.goes_on_by_itself();
        let follows_on = is_successor || goes_on_by_itself;
        // A member that missed this view may lead a later one, and then waits for a lease that is no shorter.
        let leads = next.leads_since.map(|since| since.after(hold(next.leader_lease)));
        transfer.enter(leads, follows_on, next.is_arbitrated);
        // Where nobody was left out, the wait of the view before goes on: there is none in the first view. While nothing
        // arbitrates, nobody waits for those that were left in a view with an arbiter. When something does again, a leader
        // that begins a time does. A time that began meanwhile goes on.
        let has_all = is_successor && self.members.is_subset(&next.members);
        if !has_all || self.is_free && next.is_arbitrated {
            self.begins_from = self.begins_from.max(others_may_be_led_until(raw, &next));
        }
        let clock = transfer.clock().clone().made_from(next.base).beginning_from(self.begins_from);
        self.epoch = next.epoch;
        self.members = next.members;
        self.is_free = !next.is_arbitrated;
        clock
    }

    /// The view that it entered last.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// If the member leads, it begins a group time no earlier.
    pub fn begins_from(&self) -> LocalTime {
        self.begins_from
    }
}

/// Until when members of an earlier view that are not in the next one may still be led by the leader of that. Where nothing
/// arbitrates, nobody else's time counts.
fn others_may_be_led_until(raw: LocalTime, next: &NextView) -> LocalTime {
    if next.is_arbitrated { raw.after(next.longest_leader_lease) } else { raw }
}
