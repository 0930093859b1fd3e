//! What clock probes show.

use std::sync::Arc;

use conclave_protocols::{Incarnation, PodUid};
use serde_json::json;

use super::double::*;
use crate::os_clock::OsClock;
use crate::probes::{Counts, Peer, PeerFigures, Source};

#[tokio::test]
async fn without_probes_there_is_nobody() {
    let double = Double::new();
    let answer = double.get("/v1/clock/peers").await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"peers": []})));
    assert_eq!(double.get("/v1/clock/peers?wait=1s").await.problem(), "invalid");
}

#[tokio::test]
async fn each_peer_is_shown_with_what_is_known_of_it() {
    let double = Double::new();
    let silent =
        PeerFigures { samples: 0, there: None, back: None, last: None, ..figures("shop-2", None) };
    double.probed.send_replace(vec![figures("shop-1", Some(41_250)), silent]);
    let peers = double.get("/v1/clock/peers").await.json();
    let age = peers["peers"][0]["sample_age_ns"].as_u64().expect("a number");
    assert!(age < 10_000_000_000, "{peers}");
    let uid = "00000000-0000-0000-0000-00000000002b";
    let packets = json!({"sent": 0, "received": 0, "refused": 0});
    let expected = json!({"peers": [
        {"pod": "shop-1", "uid": uid, "run": 8123, "samples": 962, "sample_age_ns": age,
         "rtt_min_ns": 41250, "timestamps": {"sent": "kernel", "received": "user"}, "packets": packets},
        {"pod": "shop-2", "uid": uid, "run": 8123, "samples": 0, "sample_age_ns": null,
         "rtt_min_ns": null, "timestamps": {"sent": null, "received": null}, "packets": packets},
    ]});
    assert_eq!(peers, expected);
}

/// What is known of a member's clock.
pub(crate) fn figures(pod: &str, rtt_min_ns: Option<u64>) -> PeerFigures {
    let incarnation = Incarnation { pod: PodUid(43), run: 8_123 };
    let peer = Peer {
        incarnation,
        name: pod.to_owned(),
        addresses: Vec::new(),
        counts: Arc::<Counts>::default(),
    };
    let (there, back) = (Some(Source::Kernel), Some(Source::User));
    let last = Some(OsClock::default().raw());
    PeerFigures { peer, samples: 962, rtt_min_ns, there, back, last }
}
