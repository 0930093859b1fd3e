//! What clock probes show.

use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::clock::{Assumptions, Link, Missing, Relation};
use conclave_protocols::{Incarnation, PodUid};
use serde_json::json;

use super::double::*;
use crate::os_clock::OsClock;
use crate::probes::{Audited, Counts, HostClock, Peer, PeerFigures, Probed, Source};

#[tokio::test]
async fn without_probes_there_is_nobody() {
    let double = Double::new();
    let answer = double.get("/v1/time/peers").await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (200, json!({"assumed": null, "host": null, "peers": []}))
    );
    assert_eq!(double.get("/v1/time/peers?wait=1s").await.problem(), "invalid");
}

#[tokio::test]
async fn each_peer_is_shown_with_what_is_known_of_it() {
    let double = Double::new();
    let silent =
        PeerFigures { samples: 0, there: None, back: None, last: None, ..figures("shop-2", None) };
    let silent = PeerFigures { same_clock: None, audit: Audited::default(), host: None, ..silent };
    let host = Some(HostClock { offset_ns: 90, max_error_ns: None, is_outlier: true });
    let peers = vec![figures("shop-1", Some(41_250)), silent];
    double.probed.send_replace(Probed { peers, host });
    let peers = double.get("/v1/time/peers").await.json();
    let age = peers["peers"][0]["sample_age_ns"].as_u64().expect("a number");
    assert!(age < 10_000_000_000, "{peers}");
    let uid = "00000000-0000-0000-0000-00000000002b";
    let packets = json!({"sent": 0, "received": 0, "refused": 0});
    // The packet there says at most 7.00002 s, and the one back at least 6.99998 s; both were a moment ago, since when the
    // clocks may have drifted.
    let offset = peers["peers"][0]["offset"].clone();
    let ns =
        |field: &str| offset[field].as_str().and_then(|ns| ns.parse::<i64>().ok()).expect(field);
    let (least, most) = (ns("least_ns"), ns("most_ns"));
    assert!((6_997_000_000..=6_999_980_000).contains(&least), "{offset}");
    assert!((7_000_020_000..7_003_000_000).contains(&most), "{offset}");
    assert!((least..=most).contains(&ns("ns")), "{offset}");
    let bound = offset["error_bound_ns"].as_i64().expect("a number");
    assert!(bound >= (most - least) / 2 && bound <= most - least, "{offset}");
    assert!(offset["most_rate_ppb"].as_i64() >= offset["rate_ppb"].as_i64(), "{offset}");
    assert_eq!(offset["least_rate_ppb"], -200_021);
    let assumed = json!({"max_drift_ppm": 100, "wander_ppb": 15_000});
    let own =
        json!({"offset_ns": "90", "synchronized": false, "max_error_ns": null, "outlier": true});
    let host =
        json!({"offset_ns": "-7", "synchronized": true, "max_error_ns": 1_500, "outlier": false});
    let expected = json!({"assumed": assumed, "host": own, "peers": [
        {"pod": "shop-1", "uid": uid, "run": 8123, "samples": 962, "sample_age_ns": age,
         "rtt_min_ns": 41250, "offset": offset, "disrupted": false, "contradictions": 2,
         "same_clock": false, "audit": {"checked": 481, "violations": 1}, "host": host, "timestamps": {"sent": "kernel", "received": "user"}, "packets": packets},
        {"pod": "shop-2", "uid": uid, "run": 8123, "samples": 0, "sample_age_ns": null,
         "rtt_min_ns": null, "offset": null, "disrupted": false, "contradictions": 2,
         "same_clock": null, "audit": {"checked": 0, "violations": 0}, "host": null, "timestamps": {"sent": null, "received": null}, "packets": packets},
    ]});
    assert_eq!(peers, expected);
}

#[tokio::test]
async fn what_is_assumed_is_that_of_the_policy_by_which_the_peers_were_probed() {
    let double = Double::new();
    for (max_drift_ppm, wander_ppb) in [(100, 15_000), (731, 1_000)] {
        let mut peer = figures("shop-1", None);
        peer.peer.assumptions = Assumptions { max_drift_ppm, wander_ppb, ..ASSUMED };
        double.probed.send_replace(Probed { peers: vec![peer], host: None });
        let peers = double.get("/v1/time/peers").await.json();
        let expected = json!({"max_drift_ppm": max_drift_ppm, "wander_ppb": wander_ppb});
        assert_eq!(peers["assumed"], expected);
    }
}

const ASSUMED: Assumptions =
    Assumptions { max_drift_ppm: 100, wander_ppb: 15_000, min_delay_ns: 0, stamp_slack_ns: 0 };

/// What is known of a member's clock.
pub(crate) fn figures(pod: &str, rtt_min_ns: Option<u64>) -> PeerFigures {
    let incarnation = Incarnation { pod: PodUid(43), run: 8_123 };
    let peer = Peer {
        incarnation,
        name: pod.to_owned(),
        addresses: Vec::new(),
        assumptions: ASSUMED,
        counts: Arc::<Counts>::default(),
    };
    let (there, back) = (Some(Source::Kernel), Some(Source::User));
    let last = Some(OsClock::default().raw());
    let relation = rtt_min_ns.map(|_| relation()).ok_or(Missing::Unknown);
    let contradictions = 2;
    let (same_clock, audit) = (Some(false), Audited { checked: 481, violations: 1 });
    let host = Some(HostClock { offset_ns: -7, max_error_ns: Some(1_500), is_outlier: false });
    PeerFigures {
        peer,
        samples: 962,
        rtt_min_ns,
        there,
        back,
        last,
        relation,
        contradictions,
        same_clock,
        audit,
        host,
    }
}

/// Two clocks 7 s apart, of which a packet each way says what it can.
fn relation() -> Relation {
    let mut link = Link::new(ASSUMED, Duration::from_mins(1));
    let now = OsClock::default().raw().0;
    link.sent(now - 1_020_000, now + 6_999_000_000);
    link.received(now + 6_999_980_000, now);
    link.relation(now).expect("packets both ways")
}
