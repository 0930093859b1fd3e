//! What grows with the members of a group: the record in the register's Lease, and the messages of its leader.

use std::net::SocketAddr;

use conclave_protocols::member::message::{
    Admission, Announced, Announcement, Heartbeat, LeaderList, MemberChanges, PeerMessage, Table,
};
use conclave_protocols::policy::Policy;
use conclave_protocols::record::{
    ADMITTED_MAX, MEMBERS_MAX, MemberInfo, POLICY_BYTES_MAX, RECORD_BYTES_MAX, RECORD_VERSION,
    Record,
};
use conclave_protocols::zone::ZONE_MAX;
use conclave_protocols::{Epoch, Incarnation, MemberId, PodUid, version};

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

A group has at most {MEMBERS_MAX} members. Four things grow with them. The **record** of a view lists all, in an annotation of
one Lease, and Kubernetes lets all annotations of an object have {} bytes together. A usual member has a name of 22
characters and one address; the longest that is admitted has 253 characters, 16 addresses of IPv6
and a zone of {ZONE_MAX} characters; a usual one states none. The **leader** sends a
heartbeat to each of them and hears its promise, each {} ms by default. And at the **beginning of a view** it announces
the record to each: what has changed, to those that were in the view before, and the whole to others
(rule 41 of [views.md](views.md)). That is why one change admits {ADMITTED_MAX} members at most. The **API server** still sends the whole record to each
of them at each write of the Lease: to the watch of each member, and again when that reads the Lease, {} bytes for
{MEMBERS_MAX} usual members together. Superpeers carry none of this: they take over locks, and nothing else.

The last three columns are the bytes that the leader sends at the beginning of a view of n usual members: if one of the view
before is gone, if {ADMITTED_MAX} of the n have joined, and if everybody needs the whole, as it is without an arbiter and after
the record was lost.\n\n",
        whole(ANNOTATIONS_MAX),
        policy.timing.heartbeat.as_millis(),
        whole(2 * MEMBERS_MAX * json(&record(MEMBERS_MAX, &usual()))),
    );
    let have_joined = format!("{ADMITTED_MAX} have joined");
    text += &table(&[
        "n",
        "record in bytes, usual members",
        "longest members",
        "heartbeats and promises a second at the leader",
        "one is gone",
        &have_joined,
        "all whole",
    ]);
    for members in [3, 50, 256, MEMBERS_MAX, 1_000, 10_000] {
        let [usual, longest] = [usual(), longest()].map(|member| json(&record(members, &member)));
        let joined = (members > ADMITTED_MAX).then(|| whole(begins(members, 0, ADMITTED_MAX)));
        text += &cells(&[
            whole(members),
            whole(usual),
            whole(longest),
            beats(members as u64).to_string(),
            whole(begins(members, 1, 0)),
            joined.unwrap_or_else(|| "–".to_owned()),
            whole(begins(members, 0, members - 1)),
        ]);
    }
    let most = |member: &MemberInfo| {
        let admits = |members: &usize| record(*members, member).has_room_for(member);
        (1..=MEMBERS_MAX).find(|members| !admits(members)).expect("a group has a limit")
    };
    let (usual_most, longest_most) = (most(&usual()), most(&longest()));
    assert_eq!(usual_most, MEMBERS_MAX, "a group as large as can be fits its register");
    let longest = json(&record(longest_most, &longest()));
    let rest = ANNOTATIONS_MAX - RECORD_BYTES_MAX;
    assert!(longest + POLICY_BYTES_MAX < RECORD_BYTES_MAX, "there is room for the rest: {longest}");
    let text_of_rest = format!(
        "
Of the annotations the members may have 208 KiB together, the policy {} KiB, and the locks that a closed record names 16 KiB;
what others write on the Lease has {} KiB. {} usual members have room there, and {} of the longest. A joiner that would need
more stays out, gets `not-ready` (the group is full), and keeps nobody else out. A policy that would need more is not accepted.
If more is held when a group closes, its record names no lock, and all wait. A
group of more members than the record holds would need a record that names the members by one digest, and the list where
all can read it: in one object for some hundred members each, or with each member, which proves by the digest that it is
one. It would also need heartbeats that a leader does not send to all by itself: by a tree, or by superpeers that each collect
the promises of a part, which a leader lease must not depend on while one of them may be slow.\n\n{MEASURED}",
        POLICY_BYTES_MAX >> 10,
        rest >> 10,
        whole(usual_most),
        whole(longest_most),
    );
    text + &text_of_rest
}

/// What was measured by hand.
const MEASURED: &str = "\
**Measured by hand**: whole sidecars of a release build, all in one process on two cores, over TLS on loopback, with the default
waits. At rest the thread of the leader took 2.5 % of a core for 50 members and 5.8 % for 100, that of a follower 0.1 %: so
the leader of 512 needs about a third of a core. With 100 members the process needed 26 % of a core and 393 MiB at rest. A
follower that was killed was out of the view of all others after 11.7 s, which is a member lease and a leader lease. What
breaks first is the election after the leader's death, if it is one that sends n² messages: most of its links have to be
opened first, which costs two handshakes of TLS for each pair.

| n | election | all are members after | from the leader's death until all follow the next | CPU for that |
| --- | --- | --- | --- | --- |
| 50 | Bully | 1.0 s | 4 s | 4.3 s |
| 100 | Bully | 3.6 s | 28 s | 35 s |
| 100 | SpanningTree | 3.7 s | 25 s | 33 s |
| 100 | ChangRoberts | 12.2 s | 1.9 s | 0.9 s |

Pods of a cluster share that work among all of them; but a group of more than 50 members had better elect by `ChangRoberts`: the
operator writes the Event `CostlyElection` where one elects its leader by `Bully`, or by `SpanningTree` without zones. 256 members in that process
ran out of its 20,000 file descriptors. 512 members were run in the simulator alone (`protocols/tests/group/full.rs`): they join,
a follower dies, and the leader dies.

What the handlers of the busiest coordinator take of 10,000 members, in the [run above](#superpeers-of-many-members): what its
parts in locks handled is handed once more to new parts, without links, leases and TLS. The least of 20 times, in two runs on two
cores with other work. `cargo test -p conclave-protocols --locked --test figures -- --nocapture the_parts_of_the_busiest`
prints them:

| share | coordinators | inputs of the busiest | processor time |
| --- | --- | --- | --- |
| none | 1 | 40,000 | 2.0 to 3.1 ms |
| 1 % | 128 | 410 | 18 to 27 µs |
| 10 % | 1,024 | 98 | 7 µs |

";

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

/// The bytes of what the leader of so many usual members announces, if so many of the view before are gone, and so many of
/// these were not in it.
fn begins(members: usize, gone: u32, joined: usize) -> usize {
    let all = record(members, &usual());
    let stay = members - 1 - joined;
    let without = Record { members: vec![], ..all.clone() };
    let gone = (0..gone).map(MemberId).collect();
    let members = MemberChanges { gone, joins: vec![usual(); joined], digest: u64::MAX };
    let changes = Announced::Changes { record: without, members };
    stay * heartbeat(changes) + joined * heartbeat(Announced::Whole(all))
}

/// The bytes of a heartbeat that announces this.
fn heartbeat(record: Announced) -> usize {
    let epoch = Epoch(1_000_000);
    let announcement = Box::new(Announcement { record, carried: Table::default() });
    let message = PeerMessage::Heartbeat(Box::new(Heartbeat {
        epoch,
        seq: 1,
        admission: Admission { open: false, ceiling: epoch, full: false },
        list: Some(LeaderList::default()),
        listed: 0,
        extended: None,
        announcement: Some(announcement),
    }));
    postcard::to_stdvec(&message).expect("plain data").len()
}

/// A record of so many.
fn record(members: usize, member: &MemberInfo) -> Record {
    let policy = Policy::default();
    Record {
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
    }
}

/// How many bytes a record has in the annotation.
fn json(record: &Record) -> usize {
    serde_json::to_string(record).expect("plain data").len()
}

fn whole(count: usize) -> String {
    Mean { sum: count as u64, count: 1 }.to_string()
}
