//! What grows with the members of a group: the record in the register's Lease, and the messages of its leader.

use std::net::SocketAddr;

use conclave_protocols::policy::Policy;
use conclave_protocols::record::{MEMBERS_MAX, MemberInfo, RECORD_VERSION, Record};
use conclave_protocols::zone::ZONE_MAX;
use conclave_protocols::{Epoch, Incarnation, PodUid, version};

use crate::page::{cells, table};
use crate::sent::Mean;

/// What Kubernetes lets all annotations of an object have together: `TotalAnnotationSizeLimitB`, in bytes.
const ANNOTATIONS_MAX: usize = 256 << 10;

/// What the page says of it.
pub(crate) fn section() -> String {
    let policy = Policy::default();
    let beats = |members: u64| {
        let period = u64::try_from(policy.timing.heartbeat.as_millis()).expect("short");
        Mean { sum: 2 * (members - 1) * 1_000, count: period }
    };
    let mut text = format!(
        "### What limits a group

A group has at most {MEMBERS_MAX} members. Two things grow with them. The **record** of a view lists all, in an annotation of
one Lease, and Kubernetes lets all annotations of an object have {} bytes together. A usual member has a name of 22
characters and one address; the longest that is admitted has 253 characters, 16 addresses of IPv6
and a zone of {ZONE_MAX} characters; a usual one states none. The **leader** sends a
heartbeat to each of them and hears its promise, each {} ms by default, and sends the record to each at the beginning of
a view. Superpeers carry none of this: they take over locks, and nothing else.\n\n",
        whole(ANNOTATIONS_MAX),
        policy.timing.heartbeat.as_millis(),
    );
    text += &table(&[
        "n",
        "record in bytes, usual members",
        "longest members",
        "heartbeats and promises a second at the leader",
        "bytes that it sends at the beginning of a view, at most",
    ]);
    for members in [3, 50, MEMBERS_MAX, 512, 1_000, 10_000] {
        let [usual, longest] = [usual(), longest()].map(|member| record(members, &member));
        text += &cells(&[
            whole(members),
            whole(usual),
            whole(longest),
            beats(members as u64).to_string(),
            whole(usual * (members - 1)),
        ]);
    }
    let most = |member: &MemberInfo| {
        let each = record(2, member) - record(1, member);
        (ANNOTATIONS_MAX - record(0, member)) / each
    };
    let (usual_most, longest_most) = (most(&usual()), most(&longest()));
    assert!(usual_most > MEMBERS_MAX, "a group as large as can be fits its register");
    let rest = format!(
        "
About {} usual members fit into the record, and {} of the longest: there a write fails, and the view stays as it is. A
group of more members than the record holds would need a record that names the members by one digest, and the list where
all can read it: in one object for some hundred members each, or with each member, which proves by the digest that it is
one. It would also need heartbeats that a leader does not send to all by itself: by a tree, or by superpeers that each collect
the promises of a part, which a leader lease must not depend on while one of them may be slow.\n\n",
        whole(usual_most),
        whole(longest_most),
    );
    text + &rest
}

fn usual() -> MemberInfo {
    member("orders-6c5d8f7b9-x2x4k".to_owned(), vec!["10.244.113.201:7071"], None)
}

fn longest() -> MemberInfo {
    let address = "[2001:db8:1111:2222:3333:4444:5555:6666]:65535";
    member("a".repeat(253), vec![address; 16], Some("z".repeat(ZONE_MAX)))
}

fn member(name: String, addresses: Vec<&str>, zone: Option<String>) -> MemberInfo {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let info = MemberInfo {
        incarnation: Incarnation { pod: PodUid(u128::MAX), run: u64::MAX },
        name,
        addresses: addresses.into_iter().map(address).collect(),
        priority: i32::MIN,
        capacity: u32::MAX,
        zone,
        seniority: 1_000_000,
        protocol: (version::FIRST, version::LATEST),
    };
    assert!(info.is_sound());
    info
}

/// How many bytes the record of so many has in the annotation.
fn record(members: usize, member: &MemberInfo) -> usize {
    let policy = Policy::default();
    let record = Record {
        version: RECORD_VERSION,
        epoch: Epoch(1_000_000),
        ceiling: Epoch(1_000_000),
        members: vec![member.clone(); members],
        leader: Some(member.incarnation),
        settled: true,
        closing: false,
        base_unknown: false,
        base: Some(Epoch(1_000_000)),
        held: None,
        timing: policy.timing,
        longest_leader_lease: policy.timing.leader_lease,
        policy,
        nonce: u64::MAX,
    };
    serde_json::to_string(&record).expect("plain data").len()
}

fn whole(count: usize) -> String {
    Mean { sum: count as u64, count: 1 }.to_string()
}
