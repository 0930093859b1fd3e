//! Which of the ways to a member is taken, and how soon.

use conclave_protocols::election::Way;

use super::*;
use crate::links::relays::HEAD_START;

#[tokio::test]
async fn each_zone_may_lack_a_gateway() {
    let mut shortest = Duration::MAX;
    for (near, far) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let mut zones = Zones::new().await;
        zones.parts(SPEAKER, LISTENER);
        zones.parts(SPEAKER, NEAR[near]);
        for gateway in NEAR {
            zones.parts(gateway, FAR[far]);
        }
        let begun = std::time::Instant::now();
        zones.speaks(SPEAKER).await;
        shortest = shortest.min(begun.elapsed());
        let mut expected = vec![0; 6];
        (expected[NEAR[1 - near]], expected[FAR[1 - far]]) = (1, 1);
        assert_eq!(zones.relays(), expected);
    }
    assert!(shortest < HEAD_START, "a way that failed has none: {shortest:?}");
}

#[tokio::test]
async fn a_way_that_leads_nowhere_has_a_head_start_and_no_more() {
    let mut zones = Zones::new().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = silent.local_addr().expect("it is bound");
    zones.misleads(SPEAKER, LISTENER, address);
    let begun = std::time::Instant::now();
    zones.speaks(SPEAKER).await;
    let took = begun.elapsed();
    println!("connected through two gateways after {took:?}");
    assert!(took >= HEAD_START, "{took:?}");

    // The next connection begins with what was good before. A busy machine may take longer once.
    let speaker = BTreeSet::from([zones.incarnation(SPEAKER).pod]);
    let again = async |zones: &mut Zones| {
        for gateway in NEAR {
            zones.members[gateway].apart.send_replace(speaker.clone());
        }
        until("the end", || !zones.is_open(SPEAKER, LISTENER)).await;
        let begun = std::time::Instant::now();
        for gateway in NEAR {
            zones.members[gateway].apart.send_replace(BTreeSet::new());
        }
        zones.speaks(SPEAKER).await;
        begun.elapsed()
    };
    let mut shortest = Duration::MAX;
    for _ in 0..5 {
        shortest = shortest.min(again(&mut zones).await);
    }
    println!("connected again after {shortest:?}");
    assert!(shortest < HEAD_START, "{shortest:?}");
    assert_eq!(zones.relayed(SPEAKER), 6);
}

/// It joined last, for instance. That it is a gateway opens no way to it.
#[tokio::test]
async fn a_member_that_is_a_gateway_by_now_is_reached_as_its_zone_was_before() {
    let mut zones = Zones::new().await;
    zones.parts(SPEAKER, FAR[0]);
    for one in [SPEAKER, NEAR[0], NEAR[1]] {
        zones.parts(one, LISTENER);
    }
    zones.sends(SPEAKER, FAR[0]);
    assert_eq!(zones.members[FAR[0]].hears().await, zones.incarnation(SPEAKER));
    let members = [0, 1, SPEAKER, LISTENER, FAR[1], FAR[0]];
    let infos = members.map(|member| zones.members[member].info.clone());
    let next = Record { nonce: 1, ..view(&infos) };
    for member in &mut zones.members {
        member.links.go_by(&next);
    }
    zones.speaks(SPEAKER).await;
    assert_eq!(zones.relayed(SPEAKER), 2, "one of the first view passes on");
    // Gateways of the view too, which it has speak with each other directly.
    zones.parts(NEAR[1], FAR[0]);
    for near in NEAR {
        zones.sends(near, FAR[0]);
        assert_eq!(zones.members[FAR[0]].hears().await, zones.incarnation(near));
        zones.speaks(near).await;
    }
    assert_eq!((zones.relayed(NEAR[0]), zones.relayed(NEAR[1])), (1, 2));
}

/// A nominee looks for ways when the leader has died.
#[tokio::test]
async fn a_way_by_the_leader_is_the_last() {
    let zones = Zones::new().await;
    let speaker = &zones.members[SPEAKER];
    let [by, far, to] = [NEAR[0], FAR[0], LISTENER].map(|member| zones.incarnation(member));
    let way = Way { by, then: Some(far) };
    speaker.local.roads.reached(&speaker.info, to, Some(way));
    let members = [0, 1, SPEAKER, LISTENER, FAR[1], FAR[0]];
    let infos = members.map(|member| zones.members[member].info.clone());
    for (nonce, leader, place) in [(1, SPEAKER, 0), (2, FAR[0], 2)] {
        let leader = Some(zones.incarnation(leader));
        speaker.links.go_by(&Record { nonce, leader, ..view(&infos) });
        let ways = speaker.local.roads.ways(&speaker.info, to);
        assert_eq!((ways.len(), ways[place]), (3, way), "{ways:?}");
    }
}

/// A member that has found one zone apart does not wait for the direct way to another.
#[tokio::test]
async fn one_zone_apart_stands_for_those_that_nobody_has_tried_yet() {
    let mut zones = Zones::new().await;
    let (me, other) = (zones.members[SPEAKER].info.clone(), zones.incarnation(LISTENER));
    let third = MemberInfo { zone: Some("c".to_owned()), ..info(9, me.addresses[0]) };
    let roads = zones.members[SPEAKER].local.roads.clone();
    zones.members[SPEAKER].links.meet(&third);
    let infos: Vec<_> = zones.members.iter().map(|member| member.info.clone()).collect();
    let more = [third.clone(), info(8, me.addresses[0]), info(7, me.addresses[0])];
    let c = |info: MemberInfo| MemberInfo { zone: third.zone.clone(), ..info };
    let all: Vec<_> = infos.into_iter().chain(more.into_iter().rev().map(c)).collect();
    roads.go_by(&Record { nonce: 1, ..view(&all) });
    let apart = || [other, third.incarnation].map(|one| roads.is_apart(&me, one));
    assert_eq!(apart(), [false, false]);
    zones.parts(SPEAKER, LISTENER);
    zones.speaks(SPEAKER).await;
    assert_eq!(apart(), [true, true]);
    // A neighbour says nothing of its zone, and one that is none is reached as it was.
    let far = zones.incarnation(FAR[0]);
    roads.reached(&zones.members[NEAR[0]].info.clone(), far, None);
    assert_eq!(apart(), [true, true]);
    roads.reached(&me, third.incarnation, None);
    assert_eq!(apart(), [true, false]);
    roads.reached(&me, far, None);
    assert_eq!(apart(), [false, false]);
}

#[tokio::test]
async fn another_gateway_takes_over_from_one_that_dies_or_is_cut_off() {
    for dies in [true, false] {
        let mut zones = Zones::new().await;
        zones.parts(SPEAKER, LISTENER);
        zones.speaks(SPEAKER).await;
        let first = zones.passes_on().await;
        if dies {
            zones.members[first].local.end.cancel();
        } else {
            let apart = BTreeSet::from([zones.incarnation(first).pod]);
            zones.members[SPEAKER].apart.send_replace(apart);
        }
        until("the end", || !zones.is_open(SPEAKER, LISTENER)).await;
        zones.speaks(SPEAKER).await;
        assert_eq!(zones.relayed(SPEAKER), 2);
        assert_ne!(zones.passes_on().await, first);
    }
}
