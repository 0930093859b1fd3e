//! A leader of the group that drains, resigns or is asked for a transfer: whom it waits for, and who leads then.

use conclave_protocols::elections::DEFAULT;

use super::*;
use crate::group::{ElectionError, Leadership};

/// So long that a busy machine does not make it short.
const LEADER_LEASE: Duration = Duration::from_secs(4);

const HEARTBEAT: Duration = Duration::from_millis(500);

async fn started() -> Members {
    let timing = Timing {
        leader_lease: LEADER_LEASE,
        heartbeat: HEARTBEAT,
        member_lease: LEADER_LEASE * 2,
        ..BRIEF
    };
    let policy = Policy { generation: 1, timing, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    members
}

/// Who of them leads, for its applications.
fn leading(members: &Members) -> Vec<u16> {
    let now = OsClock::default().now();
    let leads = |number: &u16| {
        members.group(*number).is_some_and(|group| group.election().borrow().leads_at(now))
    };
    (0..members.count()).filter(leads).collect()
}

/// Waits until another member leads, and sees to it that two never do. When that was.
async fn succeeded(members: &Members, former: u16) -> LocalTime {
    let next = async {
        loop {
            let leaders = leading(members);
            assert!(leaders.len() <= 1, "{leaders:?} lead");
            if leaders.iter().any(|leader| *leader != former) {
                return OsClock::default().now();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, next).await.expect("another leads")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_drains_waits_for_those_it_notified_and_for_nobody_else() {
    let _alone = ONE_GROUP.lock().await;
    let members = started().await;
    for is_asked in [false, true] {
        let leads = async {
            while leading(&members).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, leads).await.expect("somebody leads");
        let former = leading(&members)[0];
        let group = members.group(former).expect("it lives");
        let until = group.election().borrow().safe_until.expect("it leads");
        if is_asked {
            group.believers.answered(Some(until));
        }
        group.drain().await;
        let next = succeeded(&members, former).await;
        assert_eq!(next >= until, is_asked, "asked: {is_asked}");
    }
    members.end().await;
}

/// By one thread: the group's task has heard of nothing when it is asked to hand over.
#[tokio::test]
async fn an_application_that_was_notified_a_moment_ago_or_still_listens_is_waited_for() {
    let _alone = ONE_GROUP.lock().await;
    for how in ["drained", "transferred", "resigned"] {
        let members = started().await;
        succeeded(&members, members.count()).await;
        // The others have promised it by then.
        tokio::time::sleep(HEARTBEAT * 2).await;
        let former = leading(&members)[0];
        let group = members.group(former).expect("it lives");
        let until = group.election().borrow().safe_until.expect("it leads");
        let mut listens = group.believers.stream();
        match how {
            "resigned" => {
                listens.states(Some(until));
                let resigned = group.resign(DEFAULT, None, Duration::from_secs(10));
                resigned.await.expect("it leads");
            }
            "drained" => {
                group.believers.answered(Some(until));
                group.drain().await;
            }
            _ => {
                group.believers.answered(Some(until));
                let other = members.group((former + 1) % members.count()).expect("it lives");
                let other = other.status().borrow().pod.clone();
                group.transfer(DEFAULT, other).await.expect("it leads");
            }
        }
        assert!(succeeded(&members, former).await >= until, "{how}");
        drop(listens);
        members.end().await;
    }
}

/// An application was sent a deadline. The one that resigns says that it has stopped; a transfer waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_of_the_group_resigns_and_its_lead_is_transferred_by_any_member() {
    let _alone = ONE_GROUP.lock().await;
    let members = started().await;
    succeeded(&members, members.count()).await;
    let first = leading(&members)[0];
    let [second, third] = [1, 2].map(|more| (first + more) % members.count());
    let pod = |number: u16| Some(members.group(number)?.status().borrow().pod.clone());
    for (former, to, resigns) in [(first, third, true), (third, second, false)] {
        let group = members.group(former).expect("it lives");
        let until = group.election().borrow().safe_until.expect("it leads");
        group.believers.answered(Some(until));
        let to = pod(to).expect("it lives");
        // Until the leader has heard of the named member, and the member that is asked follows it, nothing comes of it.
        while group.election().borrow().leadership == Leadership::Leading {
            if resigns {
                // It may be refused, or have happened.
                drop(group.resign(DEFAULT, Some(to.clone()), Duration::from_secs(60)).await);
            } else {
                let other = members.group(first).expect("it lives");
                other.transfer(DEFAULT, to.clone()).await.expect("it is a member");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let next = succeeded(&members, former).await;
        assert_eq!(next < until, resigns);
        let leader = leading(&members)[0];
        assert_eq!(pod(leader), Some(to));
    }
    let (leader, rests) = (members.group(second).expect("it lives"), pod(first).expect("it lives"));
    let no_candidate = |pod: &str| Err(ElectionError::NoCandidate(pod.to_owned()));
    let (brief, third) = (Duration::from_secs(1), members.group(third).expect("it lives"));
    assert_eq!(third.resign(DEFAULT, None, brief).await, Err(ElectionError::NotLeader));
    for to in [rests.clone(), pod(second).expect("it lives"), "nobody".to_owned()] {
        let resigned = leader.resign(DEFAULT, Some(to.clone()), brief).await;
        assert_eq!(resigned, no_candidate(&to));
    }
    assert_eq!(leader.transfer(DEFAULT, rests.clone()).await, no_candidate(&rests));
    assert_eq!(third.transfer(DEFAULT, "nobody".to_owned()).await, no_candidate("nobody"));
    assert_eq!(third.transfer(DEFAULT, pod(second).expect("it lives")).await, Ok(()), "it leads");
    members.end().await;
}
