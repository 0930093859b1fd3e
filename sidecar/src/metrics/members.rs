//! The view and its members.

use prometheus::{Histogram, IntCounter, IntGauge, IntGaugeVec};

use super::definitions::{Definitions, doubling};
use crate::group::Status;

/// The view and its members: read from the group at every scrape.
#[derive(Clone)]
pub(crate) struct MemberMetrics {
    members: IntGaugeVec,
    epoch: IntGauge,
    ready: IntGauge,
    grants: IntGauge,
    tolerates: IntGauge,
    view_changes: IntCounter,
    /// Members that this one guessed to have crashed.
    pub(crate) suspicions: IntCounter,
    /// Of those, the ones that it heard later.
    pub(crate) mistaken_suspicions: IntCounter,
    /// How late the member was woken.
    pub(crate) pauses: Histogram,
}

impl MemberMetrics {
    pub(super) fn new(define: &mut Definitions) -> Self {
        let build = define.counts(
            "conclave_build_info",
            "The version of this sidecar; always 1.",
            &["version", "revision"],
        );
        let revision = option_env!("CONCLAVE_REVISION").unwrap_or("unknown");
        build.with_label_values(&[env!("CARGO_PKG_VERSION"), revision]).set(1);
        Self {
            members: define.counts(
                "conclave_members",
                "Members of the view, by whether this member has a session to them.",
                &["state"],
            ),
            epoch: define.count("conclave_epoch", "The number of the view; 0 before the first."),
            ready: define.count(
                "conclave_group_ready",
                "Whether this member is in a view and takes claims on locks.",
            ),
            grants: define.count(
                "conclave_group_grants",
                "Whether locks are newly granted in the group, as far as this member knows; 0 too where \
                 it cannot know, because it follows nobody.",
            ),
            tolerates: define.count(
                "conclave_members_tolerated_losses",
                "Members that may be lost at once without losing the group.",
            ),
            view_changes: define
                .counter("conclave_view_changes_total", "Views that this member has entered."),
            suspicions: define.counter(
                "conclave_suspicions_total",
                "How often this member has guessed of another, which it watches, that it has crashed.",
            ),
            mistaken_suspicions: define.counter(
                "conclave_mistaken_suspicions_total",
                "How many of these guesses were wrong: the member was heard again.",
            ),
            pauses: define.histogram(
                "conclave_pause_seconds",
                "By how much this process was late when it should have done something, if noticeably: \
                 it or its machine was held up.",
                &doubling(0.05, 12),
            ),
        }
    }

    /// Takes over how the group stands.
    pub(super) fn observe(&self, status: &Status) {
        let connected = status.members.iter().filter(|member| member.connected).count();
        let members = status.members.len();
        self.members.with_label_values(&["connected"]).set(signed(connected));
        self.members.with_label_values(&["unconnected"]).set(signed(members - connected));
        self.epoch.set(i64::try_from(status.epoch.0).unwrap_or(i64::MAX));
        self.ready.set(i64::from(status.missing.is_none()));
        let grants = status.missing.is_none() && status.grants == Some(true);
        self.grants.set(i64::from(grants));
        self.tolerates.set(i64::from(status.tolerates));
        raise(&self.view_changes, status.view_changes);
    }
}

/// Brings a counter to the value that its owner counts.
pub(super) fn raise(counter: &IntCounter, to: u64) {
    counter.inc_by(to.saturating_sub(counter.get()));
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
