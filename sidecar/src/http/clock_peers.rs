//! What clock probes show, peer by peer.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use conclave_protocols::LocalTime;
use serde::Serialize;
use utoipa::ToSchema;

use super::Api;
use super::answer::Json;
use super::fields::QueryFields;
use super::problem::{Problem, ProblemBody};
use crate::probes::{PeerFigures, Source};

/// The members that this one exchanges clock probes with.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ClockPeers)]
pub(super) struct ClockPeersView {
    /// All members of a view of up to 16; in a larger one all if this member leads, and else the leader.
    peers: Vec<ClockPeerView>,
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
    /// Who stamped the latest packet each way.
    timestamps: TimestampsView,
    /// Packets each way.
    packets: PacketsView,
}

/// Who stamps packets.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[schema(as = ClockTimestamps)]
struct TimestampsView {
    /// Of packets to the member; null before the first.
    sent: Option<StampedBy>,
    /// Of packets from the member; null before the first.
    received: Option<StampedBy>,
}

/// Who stamps packets.
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
    /// That name the member as their sender, and were not believed.
    refused: u64,
}

/// Lists the members that this one exchanges clock probes with, and what came of it.
#[utoipa::path(
    get,
    path = "/v1/clock/peers",
    operation_id = "listClockPeers",
    tag = "time",
    responses(
        (status = 200, description = "Empty before the first view, and where there are no probes.",
            body = ClockPeersView),
        (status = 400, description = "`invalid`", body = ProblemBody)
    )
)]
pub(super) async fn list_clock_peers(
    State(api): State<Api>,
    QueryFields(query): QueryFields,
) -> Result<Response, Problem> {
    query.finish(&[])?;
    let now = api.group.os_clock().raw();
    let probed = api.group.probed();
    let peers = probed.borrow().iter().map(|figures| ClockPeerView::of(figures, now)).collect();
    Ok(Json(ClockPeersView { peers }).into_response())
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

impl From<Source> for StampedBy {
    fn from(source: Source) -> Self {
        match source {
            Source::Kernel => Self::Kernel,
            Source::User => Self::User,
        }
    }
}
