use super::*;
use crate::ids::{FencingToken, HoldName, PodUid};
use crate::policy::LockPolicy;
use crate::zone::ZONE_MAX;

pub(crate) fn member(number: u64) -> MemberInfo {
    MemberInfo {
        incarnation: Incarnation { pod: PodUid(number.into()), run: 7 },
        name: format!("orders-6c5d8f7b9-{number:05}"),
        addresses: vec![([10, 244, 113, 201], 7071).into()],
        priority: 0,
        capacity: 0,
        zone: None,
        seniority: number,
        protocol: (1, 1),
    }
}

/// With the longest name that a pod can have, and all the addresses and the zone that it may.
fn longest(number: u64) -> MemberInfo {
    let address = "[2001:db8:1111:2222:3333:4444:5555:6666%4294967295]:65535";
    let address: SocketAddr = address.parse().expect("an address");
    MemberInfo {
        incarnation: Incarnation { pod: PodUid(number.into()), run: u64::MAX },
        name: "a".repeat(253),
        addresses: vec![address; 16],
        priority: i32::MIN,
        capacity: u32::MAX,
        zone: Some("z".repeat(ZONE_MAX)),
        seniority: u64::MAX,
        protocol: (1, u16::MAX),
    }
}

pub(crate) fn record(members: Vec<MemberInfo>) -> Record {
    Record {
        version: RECORD_VERSION,
        epoch: Epoch(10),
        ceiling: Epoch(13),
        leader: members.last().map(|info| info.incarnation),
        members,
        settled: false,
        closing: false,
        base_unknown: false,
        base: Some(Epoch(6)),
        held: None,
        timing: Timing::default(),
        longest_leader_lease: Timing::default().leader_lease,
        policy: Policy::default(),
        nonce: 1,
    }
}

#[test]
fn no_member_has_more_bytes_in_the_register_than_are_counted() {
    let written = |info: &MemberInfo| serde_json::to_string(info).expect("plain data").len() + 1;
    let hostile = MemberInfo { name: "\u{1}\"\\\n\u{7f}ü".repeat(30), ..longest(1) };
    for info in [member(1), longest(1), hostile] {
        let (bytes, most) = (written(&info), info.bytes_most());
        assert!(bytes <= most, "{bytes}, {most}: {info:?}");
    }
    let (bytes, most) = (written(&longest(1)), longest(1).bytes_most());
    assert!(most < bytes + bytes / 20, "{bytes}, {most}");
}

#[test]
fn a_change_takes_some_of_many_joiners_in() {
    let base = record((1..=5).map(member).collect());
    let crowd = || (10..400).map(member);
    let next = base.succession(|_| true, crowd());
    assert_eq!(next.len(), 5 + ADMITTED_MAX);
    let admitted = next.iter().filter(|info| info.incarnation.pod.0 >= 10);
    assert!(admitted.clone().all(|info| info.incarnation.pod.0 < 10 + ADMITTED_MAX as u128));
    let seniorities: Vec<u64> = admitted.rev().map(|info| info.seniority).collect();
    assert!(seniorities.into_iter().eq(6..6 + ADMITTED_MAX as u64));
    // A member that left makes no room for more.
    assert_eq!(base.succession(|_| false, crowd()).len(), ADMITTED_MAX);
    let closed = Record { leader: None, ..base.clone() };
    assert_eq!(closed.succession(|_| false, crowd()).len(), 390);
    let policy = Policy { arbiter: Arbiter::None, ..Policy::default() };
    let unarbitrated = Record { policy, ..base };
    assert_eq!(unarbitrated.succession(|_| true, crowd()).len(), 395);
    assert_eq!(Record::first_members(&member(3), (1..400).map(member)).len(), 399);
    assert_eq!(Record::first_members(&member(3), (1..900).map(member)).len(), MEMBERS_MAX);
}

#[test]
fn members_fit_the_register_and_one_that_does_not_keeps_no_other_out() {
    let mut base = record(vec![longest(1)]);
    for turn in 1..=4 {
        base.members = base.succession(|_| true, (turn * 100..turn * 100 + 64).map(longest));
    }
    let written = |record: &Record| serde_json::to_string(record).expect("plain data").len();
    assert!((200_000..MEMBER_BYTES_MAX + 2_048).contains(&written(&base)), "{}", written(&base));
    let members = base.members.len();
    assert!(!base.has_room_for(&longest(900)) && base.has_room_for(&member(901)));
    let next = base.succession(|_| true, [longest(900), member(901)]);
    assert_eq!(next.len(), members + 1);
    let usual = record((0..MEMBERS_MAX as u64).map(member).collect());
    assert!(written(&usual) < MEMBER_BYTES_MAX * 2 / 3, "{}", written(&usual));
    assert!(!usual.has_room_for(&member(900)), "there are as many as can be");
}

/// Nothing that a record may have keeps it out of the register, whatever else it has.
#[test]
fn a_record_of_the_greatest_size_has_room_in_the_register() {
    let json = |of: &Policy| serde_json::to_string(of).expect("plain data").len();
    let mut policy = Policy::default();
    let pattern = |number: usize| format!("{number:03}{}", "p".repeat(250));
    let of_one = |number| LockPolicy { names: vec![pattern(number)], ..LockPolicy::default() };
    policy.locks = (0..).map(of_one).take(100).collect();
    while json(&policy) > POLICY_BYTES_MAX {
        policy.locks.pop();
    }
    assert!(json(&policy) + 500 > POLICY_BYTES_MAX, "none is greater");
    let left = |number: u64| LeftHold {
        name: HoldName::try_from(format!("{number:03}{}", "\"".repeat(250))).expect("a name"),
        holder: longest(1).incarnation,
        token: FencingToken::before(Epoch(1 << 40)),
        rest_ms: Some(u64::MAX),
    };
    let most =
        (1..10_000).find(|most| !LeftHold::have_room(&(0..*most).map(left).collect::<Vec<_>>()));
    let held: Vec<LeftHold> = (0..most.expect("some are too many") - 1).map(left).collect();
    let written = serde_json::to_string(&held).expect("plain data").len();
    assert!((LEFT_BYTES_MAX - 1_024..=LEFT_BYTES_MAX).contains(&written), "{written}");
    let mut base = record(vec![longest(1)]);
    for turn in 1..=4 {
        base.members = base.succession(|_| true, (turn * 100..turn * 100 + 64).map(longest));
    }
    base.members = base.succession(|_| true, (900..964).map(member));
    let numbers = Some(Epoch(u64::MAX));
    let timing = Timing { api_outage: Duration::MAX, ..Timing::default() };
    let greatest =
        Record { base: numbers, held: Some(held), policy, timing, nonce: u64::MAX, ..base };
    let written = serde_json::to_string(&greatest).expect("plain data").len();
    assert!((RECORD_BYTES_MAX * 19 / 20..=RECORD_BYTES_MAX).contains(&written), "{written}");
}
