//! What clock probes show, peer by peer.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conclave_protocols::LocalTime;
use conclave_protocols::clock::{Missing, Relation};
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::fields::QueryFields;
use super::problem::{Problem, ProblemBody};
use crate::probes::{HostClock, PeerFigures, Source};

/// The members that this one exchanges clock probes with.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockPeers)]
pub(super) struct ClockPeersView {
    /// All members of a view of up to 16; in a larger one all if this member leads, and else the leader.
    peers: Vec<ClockPeerView>,
    /// The wall clock of this member's machine; null as long as group time is not known, and where there are no probes.
    host: Option<HostView>,
    /// What the bounds rest on; null where there are no probes.
    assumed: Option<AssumedView>,
}

/// What is assumed of raw clocks.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ClockAssumptions)]
struct AssumedView {
    /// How far the rate of each is from that of true time, at most: `maxDriftPpm` of the policy.
    max_drift_ppm: u32,
    /// How far the rate of one, as another sees it, is from some constant within two minutes, at most: `maxWanderPpb` of
    /// the policy.
    wander_ppb: u64,
}

/// How far the raw clock of a member is ahead of this member's.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockOffset)]
struct OffsetView {
    /// The estimate, in nanoseconds. The clocks began when their machines did, so it may be large.
    #[schema(example = "83211000123456")]
    ns: String,
    /// It is at least this.
    least_ns: String,
    /// It is at most this.
    most_ns: String,
    /// How far the estimate is off at most.
    error_bound_ns: u64,
    /// How much faster the member's clock runs, in parts per billion.
    rate_ppb: i64,
    /// It runs at least so much faster.
    least_rate_ppb: i64,
    /// It runs at most so much faster.
    most_rate_ppb: i64,
}

/// What is known by the probes with one member.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockPeer)]
struct ClockPeerView {
    /// The pod's name.
    pod: String,
    /// The pod's UID.
    uid: String,
    /// The process' own number, below 2^53.
    run: u64,
    /// Packets of which both departure and arrival are known.
    samples: u64,
    /// How long ago the latest of them was taken, in nanoseconds; null before the first.
    sample_age_ns: Option<u64>,
    /// The shortest round trip of the last one or two minutes, in nanoseconds; null before the first.
    rtt_min_ns: Option<u64>,
    /// How far its raw clock is ahead at the answer; null before there is a packet each way.
    offset: Option<OffsetView>,
    /// The packets contradicted what is assumed of the clocks, and too few have come since: a machine was suspended or
    /// moved, or the member lies.
    disrupted: bool,
    /// How often they did.
    contradictions: u64,
    /// Whether the member reads this member's raw clock, that of the same machine; null before it has stated any.
    same_clock: Option<bool>,
    /// What became of what it states of its clocks.
    audit: AuditView,
    /// The wall clock of its machine, as it states that; null as long as it does not know group time.
    host: Option<HostView>,
    /// What stamped the latest packet each way.
    timestamps: TimestampsView,
    /// Packets each way.
    packets: PacketsView,
}

/// The wall clock of a member's machine.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockPeerHost)]
struct HostView {
    /// That clock less group time, in nanoseconds.
    #[schema(example = "-41250")]
    offset_ns: String,
    /// Whether its daemon says that it is synchronized.
    synchronized: bool,
    /// How far it is from UTC at most, if that daemon is right; null if it is not synchronized.
    max_error_ns: Option<u64>,
    /// Whether it is off, by what more than half of the members known here state.
    outlier: bool,
}

/// What a member states of its clocks, against what this member knows.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ClockAudit)]
struct AuditView {
    /// Checks that could be made.
    checked: u64,
    /// Those of them that failed: a clock or a bound is wrong, or the member lies.
    violations: u64,
}

/// What stamps packets.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ClockTimestamps)]
struct TimestampsView {
    /// Of packets to the member; null before the first.
    sent: Option<StampedBy>,
    /// Of packets from the member; null before the first.
    received: Option<StampedBy>,
}

/// What stamps packets.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum StampedBy {
    /// The kernel, at both ends.
    Kernel,
    /// The sidecar itself, at one end or both: the kernel does not.
    User,
}

/// Packets each way.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ClockPackets)]
struct PacketsView {
    /// To the member.
    sent: u64,
    /// From the member.
    received: u64,
    /// That name the member as their sender, and were not taken: not believed, or too many.
    refused: u64,
}

/// Lists the members that this one exchanges clock probes with, and what came of it.
#[utoipa::path(
    get,
    path = "/v1/time/peers",
    operation_id = "listTimePeers",
    tag = "time",
    responses(
        (status = 200, description = "Empty before the first view, and where there are no probes.",
            body = ClockPeersView),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn list_time_peers(
    State(api): State<Api>,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    query.finish(&[])?;
    let now = api.group.os_clock().raw();
    let probed = api.group.probed();
    let probed = probed.borrow();
    let peers = probed.peers.iter().map(|figures| ClockPeerView::of(figures, now)).collect();
    let host = probed.host.map(HostView::from);
    let assumed = probed.peers.first().map(|figures| AssumedView {
        max_drift_ppm: figures.peer.assumptions.max_drift_ppm,
        wander_ppb: figures.peer.assumptions.wander_ppb,
    });
    Ok(Json(ClockPeersView { peers, host, assumed }).into_response())
}

impl ClockPeerView {
    fn of(figures: &PeerFigures, now: LocalTime) -> Self {
        let peer = &figures.peer;
        let counts = &peer.counts;
        Self {
            pod: peer.name.clone(),
            uid: peer.incarnation.pod.to_string(),
            run: peer.incarnation.run,
            samples: figures.samples,
            sample_age_ns: figures.last.map(|last| now.0.saturating_sub(last.0)),
            rtt_min_ns: figures.rtt_min_ns,
            offset: figures.relation.as_ref().ok().map(|relation| OffsetView::of(relation, now)),
            disrupted: figures.relation == Err(Missing::Broken),
            contradictions: figures.contradictions,
            same_clock: figures.same_clock,
            audit: AuditView {
                checked: figures.audit.checked,
                violations: figures.audit.violations,
            },
            host: figures.host.map(HostView::from),
            timestamps: TimestampsView {
                sent: figures.there.map(StampedBy::from),
                received: figures.back.map(StampedBy::from),
            },
            packets: PacketsView {
                sent: counts.sent.get(),
                received: counts.received.get(),
                refused: counts.refused.get(),
            },
        }
    }
}

impl OffsetView {
    fn of(relation: &Relation, now: LocalTime) -> Self {
        let offset = relation.offset(now.0);
        Self {
            ns: offset.ns.to_string(),
            least_ns: offset.least_ns.to_string(),
            most_ns: offset.most_ns.to_string(),
            error_bound_ns: offset.error_ns(),
            rate_ppb: relation.rate.ppb(),
            least_rate_ppb: relation.least_rate.ppb(),
            most_rate_ppb: relation.most_rate.ppb(),
        }
    }
}

impl From<HostClock> for HostView {
    fn from(clock: HostClock) -> Self {
        Self {
            offset_ns: clock.offset_ns.to_string(),
            synchronized: clock.max_error_ns.is_some(),
            max_error_ns: clock.max_error_ns,
            outlier: clock.is_outlier,
        }
    }
}

impl From<Source> for StampedBy {
    fn from(source: Source) -> Self {
        match source {
            Source::Kernel => Self::Kernel,
            Source::User => Self::User,
        }
    }
}
