use std::time::Duration;

use super::*;
use crate::ids::{Epoch, PodUid};
use crate::policy::{Policy, Timing};
use crate::record::RECORD_VERSION;

fn member(number: u64, priority: i32) -> MemberInfo {
    MemberInfo {
        incarnation: Incarnation { pod: PodUid(number.into()), run: 7 },
        name: format!("shop-{number}"),
        addresses: vec![([10, 1, 2, 3], 7071).into()],
        priority,
        capacity: 8,
        zone: None,
        seniority: number,
        protocol: (1, 1),
    }
}

fn ranked(mut members: Vec<MemberInfo>) -> Vec<MemberInfo> {
    members.sort_by_key(MemberInfo::rank_key);
    members
}

fn record(epoch: u64, base: u64, members: Vec<MemberInfo>) -> Record {
    Record {
        version: RECORD_VERSION,
        epoch: Epoch(epoch),
        ceiling: Epoch(epoch + 3),
        leader: members.last().map(|info| info.incarnation),
        members,
        settled: false,
        closing: false,
        base_unknown: false,
        base: Some(Epoch(base)),
        held: None,
        timing: Timing { heartbeat: Duration::from_millis(70), ..Timing::default() },
        longest_leader_lease: Timing::default().leader_lease,
        policy: Policy { generation: 4, ..Policy::default() },
        nonce: epoch,
    }
}

fn announced(next: &Record, base: &Record) -> Announced {
    let members = next.changes_since(base).expect("it is made from that");
    Announced::Changes { record: next.without_members(), members }
}

/// Of five, each stays as it was, leaves, or comes back with another priority; and some join.
#[test]
fn whatever_changes_each_member_of_the_base_comes_to_the_whole_record() {
    let base = record(10, 6, ranked((1..=5).map(|number| member(number, 0)).collect()));
    for fates in 0..3_u32.pow(5) {
        for joiners in 0..3 {
            let fate = |place: u32| fates / 3_u32.pow(place) % 3;
            let stay = (0..).zip(&base.members).filter(|(place, _)| fate(*place) != 0);
            let stay = stay.map(|(place, info)| match fate(place) {
                1 => info.clone(),
                _ => MemberInfo { priority: 1, ..info.clone() },
            });
            let joins = (6..6 + joiners).map(|number| member(number, 0));
            let next = record(14, 10, ranked(stay.chain(joins).collect()));
            let changes = announced(&next, &base);
            assert_eq!(changes.clone().on_top_of(Some(&base)), Some(next.clone()), "{fates}");
            // It may have read the view in the register before, with another ceiling.
            let read = Record { ceiling: Epoch(17), ..next.clone() };
            assert_eq!(changes.clone().on_top_of(Some(&read)), Some(next.clone()), "{fates}");
            let other = record(9, 6, base.members.clone());
            assert_eq!(changes.clone().on_top_of(Some(&other)), None);
            assert_eq!(changes.on_top_of(None), None);
            assert_eq!(Announced::Whole(next.clone()).on_top_of(None), Some(next));
        }
    }
}

#[test]
fn nobody_builds_on_other_members_of_the_same_number() {
    let base = record(10, 6, ranked((1..=5).map(|number| member(number, 0)).collect()));
    let next = record(14, 10, ranked((2..=6).map(|number| member(number, 0)).collect()));
    let changes: [fn(&mut MemberInfo); 7] = [
        |info| info.name.push('x'),
        |info| info.addresses[0] = ([10, 1, 2, 4], 7071).into(),
        |info| info.addresses.clear(),
        |info| info.capacity = 9,
        |info| info.zone = Some("zone-a".to_owned()),
        |info| info.protocol.1 = 2,
        |info| info.incarnation.run = 8,
    ];
    for change in changes {
        for known in [&base, &next] {
            let mut known = known.clone();
            change(&mut known.members[3]);
            assert_eq!(announced(&next, &base).on_top_of(Some(&known)), None, "{known:?}");
        }
    }
}

#[test]
fn where_few_know_the_base_the_record_is_announced_whole() {
    let base = record(10, 6, vec![member(1, 0), member(2, 0)]);
    let next = record(14, 10, base.members.clone());
    assert!(next.changes_since(&base).is_some());
    let without = |of: &Record| {
        let policy = Policy { arbiter: Arbiter::None, ..of.policy.clone() };
        Record { policy, ..of.clone() }
    };
    let lost = Record { base_unknown: true, ..base.clone() };
    let closed = Record { leader: None, ..base.clone() };
    for other in [without(&base), lost, closed, record(9, 6, base.members.clone())] {
        assert_eq!(next.changes_since(&other), None, "{other:?}");
    }
    assert_eq!(without(&next).changes_since(&base), None);
}

/// What no leader sends is refused, whatever its digest.
#[test]
fn changes_that_cannot_be_so_are_refused() {
    let base: Vec<MemberInfo> = (1..=4).map(|number| member(number, 0)).collect();
    let whole = |gone: &[u32], joins: Vec<MemberInfo>| {
        let stay = (0..).zip(&base).filter(|(rank, _)| !gone.contains(rank));
        let stay = stay.map(|(_, info)| info.clone());
        let digest = digest(&ranked(stay.chain(joins.clone()).collect()));
        let gone = gone.iter().copied().map(MemberId).collect();
        MemberChanges { gone, joins, digest }.apply(&base)
    };
    assert!(whole(&[0, 3], vec![member(7, 0)]).is_some());
    assert!(whole(&[0, 1, 2, 3], vec![]).is_some_and(|members| members.is_empty()));
    for gone in [&[4][..], &[u32::MAX], &[1, 1], &[2, 1], &[0, 1, 2, 3, 4], &[0, 0, 0, 0, 0]] {
        assert_eq!(whole(gone, vec![]), None, "{gone:?}");
    }
    assert_eq!(whole(&[], vec![member(1, 0)]), None, "it is there");
    assert_eq!(whole(&[], vec![member(1, 9)]), None, "it is there, with another rank");
    assert_eq!(whole(&[], vec![member(8, 0), member(8, 1)]), None, "twice");
    let endless = MemberInfo { name: "a".repeat(254), ..member(9, 0) };
    assert_eq!(whole(&[], vec![endless]), None);
    let crowd = |most: usize| (10..10 + most as u64).map(|number| member(number, 0)).collect();
    assert!(whole(&[], crowd(MEMBERS_MAX - 4)).is_some());
    assert_eq!(whole(&[], crowd(MEMBERS_MAX - 3)), None);
}
