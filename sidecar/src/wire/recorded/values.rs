//! What the recorded messages carry: one value of each kind, with every part that it may have.

use std::time::Duration;

use conclave_protocols::member::message::{
    Admission, Announced, Announcement, Changes, Extended, HandOver, Heartbeat, LeaderList, List,
    ListItem, MemberChanges, Note, Seal, Table, TableHold,
};
use conclave_protocols::mutex::central::RequestNumber;
use conclave_protocols::policy::{Caching, LockAlgorithm, LockPolicy, Policy, Timing};
use conclave_protocols::record::{LeftHold, MemberInfo, RECORD_VERSION, Record};
use conclave_protocols::{
    Epoch, FencingToken, Incarnation, LocalTime, LockName, MemberId, PodUid, clock,
};

pub(super) fn known() -> clock::Known {
    let line = |raw, ns, rate| clock::Line { raw, ns, rate: clock::Slope::of_units(rate) };
    let path = clock::Course {
        first: line(5_000_000_000, 1_000, -4_000),
        then: line(6_250_000_000, 1_250_001_000, 3_000),
        last: line(7_250_000_000, 2_250_000_500, 0),
    };
    let (growth, later) = (clock::Slope::default(), clock::Slope::of_units(168_000_000_000));
    let (raw, later_raw, last_raw) = (5_000_000_000, 6_250_000_000, 8_250_000_000);
    let bound = clock::Bound { raw, error_ns: 70, growth, later_raw, later, last_raw, last: later };
    clock::Known { path, bound, epoch: Epoch(11), common: true }
}

pub(super) fn heartbeat() -> Heartbeat {
    let announcement = Announcement { record: Announced::Whole(record()), carried: table() };
    Heartbeat {
        epoch: Epoch(12),
        seq: 7,
        admission: Admission { open: true, ceiling: Epoch(15), full: true },
        list: Some(leader_list()),
        listed: 41,
        extended: Some(Extended {
            stamp: LocalTime(5_000_000_000),
            refused: vec![(lock(), token())],
            wanted: vec![lock()],
        }),
        announcement: Some(Box::new(announcement)),
    }
}

/// What a member of the view before gets.
pub(super) fn heartbeat_with_changes() -> Heartbeat {
    let record = Record { members: vec![], ..record() };
    let (gone, joins) = (vec![MemberId(0), MemberId(3)], vec![member(2)]);
    let members = MemberChanges { gone, joins, digest: 0x0123_4567_89ab_cdef };
    let record = Announced::Changes { record, members };
    let announcement = Some(Box::new(Announcement { record, carried: table() }));
    Heartbeat { announcement, ..heartbeat() }
}

pub(super) fn seal() -> Seal {
    Seal {
        base: Epoch(12),
        holds: vec![(lock(), token(), note())],
        waits: vec![(lock(), Duration::from_millis(1_250))],
        list: Some(list()),
        hand_over: Some(Box::new(hand_over())),
    }
}

pub(super) fn changes() -> Changes {
    Changes {
        since: 39,
        latest: 42,
        items: vec![
            (lock(), ListItem { holds: Some(token()), waits: Some(RequestNumber(4)) }),
            (lock(), ListItem::default()),
        ],
        digest: 0x0123_4567_89ab_cdef,
    }
}

fn leader_list() -> LeaderList {
    let List { holds: outsiders, rest, grace } = list();
    LeaderList { changes: changes(), notes: vec![(lock(), note())], outsiders, rest, grace }
}

fn list() -> List {
    let (rest, grace) = (Duration::from_millis(6_700), Duration::from_millis(300));
    List { holds: table().holds, rest, grace }
}

pub(super) fn hand_over() -> HandOver {
    HandOver {
        base: Epoch(12),
        table: table(),
        grace: Duration::from_millis(300),
        member_lease: Duration::from_secs(10),
        stays: vec![one(1), one(2)],
        joins: vec![member(3)],
        believed: true,
    }
}

fn table() -> Table {
    let (name, holder, rest) = (lock(), one(1), Some(Duration::from_secs(3)));
    let held = TableHold { name: name.clone(), holder, token: token(), rest, note: note() };
    Table { holds: vec![held], waits: vec![(name, vec![one(2)])] }
}

fn record() -> Record {
    let members = vec![member(1), member(2)];
    let locks = LockAlgorithm::ALL
        .into_iter()
        .flat_map(|algorithm| {
            [Caching::Disabled, Caching::Enabled].map(|caching| LockPolicy {
                algorithm,
                caching,
                ..LockPolicy::default()
            })
        })
        .collect();
    let held = LeftHold { name: lock(), holder: one(1), token: token(), rest_ms: Some(3_000) };
    Record {
        version: RECORD_VERSION,
        epoch: Epoch(12),
        ceiling: Epoch(15),
        leader: members.last().map(|member| member.incarnation),
        members,
        settled: true,
        closing: false,
        base_unknown: false,
        base: Some(Epoch(8)),
        held: Some(vec![held]),
        timing: Timing::default(),
        longest_leader_lease: Timing::default().leader_lease,
        policy: Policy { locks, ..Policy::default() },
        nonce: 7,
    }
}

pub(super) fn member(number: u8) -> MemberInfo {
    MemberInfo {
        incarnation: one(number),
        name: format!("shop-{number}"),
        addresses: vec![([10, 1, 2, number], 7071).into()],
        priority: 0,
        capacity: 8,
        zone: Some("zone-a".to_owned()),
        seniority: u64::from(number),
        protocol: (1, 1),
    }
}

pub(super) fn one(number: u8) -> Incarnation {
    Incarnation { pod: PodUid(number.into()), run: 7 }
}

pub(super) fn lock() -> LockName {
    LockName::try_from("orders".to_owned()).expect("a good name")
}

pub(super) fn token() -> FencingToken {
    FencingToken::before(Epoch(12)).successor(Epoch(15)).expect("below the ceiling")
}

pub(super) fn note() -> Note {
    Note { owner: "till".to_owned(), metadata: Some("{\"shift\":2}".to_owned().into()) }
}
