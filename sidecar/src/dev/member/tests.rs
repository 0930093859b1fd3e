//! Whole sidecars, over real links, whose group's resource is edited.

use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use conclave_protocols::detection::Stated;
use conclave_protocols::policy::{Arbiter, ElectionAlgorithm, ElectionPolicy, Timing};
use conclave_protocols::{LocalTime, LockName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::claims::{Ask, Claim, ClaimState, Held, Wait};
use crate::clocks::SharedClocks;
use crate::group::{Election, MemberStatus, Status};
use crate::http::tests::events::Events;
use crate::http::{Api, Limits, router};

mod handing_over;
mod known;
mod probed;
mod superpeers;

const BRIEF: Timing = Timing {
    leader_lease: Duration::from_millis(600),
    heartbeat: Duration::from_millis(120),
    member_lease: Duration::from_secs(3),
    api_outage: Duration::from_secs(30),
};

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

async fn until<T: Clone>(
    what: &str,
    mut state: watch::Receiver<T>,
    is_so: impl FnMut(&T) -> bool,
) -> T {
    let state = tokio::time::timeout(PATIENCE, state.wait_for(is_so)).await;
    state.unwrap_or_else(|_| panic!("{what}: not in time")).expect("the sidecar runs").clone()
}

async fn all_go_by(members: &Members, arbiter: Arbiter) {
    for number in 0..members.count() {
        let group = members.group(number).expect("it lives");
        let count = usize::from(members.count());
        let belongs = |status: &Status| {
            status.arbiter == arbiter && status.missing.is_none() && status.members.len() == count
        };
        until("all belong", group.status(), belongs).await;
    }
}

fn lock() -> LockName {
    LockName::try_from("orders".to_owned()).expect("a good name")
}

async fn ask(members: &Members, number: u16) -> watch::Receiver<Claim> {
    ask_for(members, number, lock()).await
}

async fn ask_for(members: &Members, number: u16, lock: LockName) -> watch::Receiver<Claim> {
    let ask = Ask {
        lock,
        claim: None,
        owner: None,
        metadata: None,
        wait: Wait::Forever,
        ttl: None,
        max_hold: None,
    };
    let group = members.group(number).expect("it lives");
    group.ask(ask).await.expect("it belongs").claim
}

async fn held(claim: &watch::Receiver<Claim>, arbiter: Arbiter) -> Held {
    let is_held =
        |claim: &Claim| claim.arbiter == arbiter && matches!(claim.state, ClaimState::Held(_));
    let state = until("held", claim.clone(), is_held).await.state;
    let ClaimState::Held(held) = state else { unreachable!("it was waited for") };
    held
}

fn settings(policy: Policy) -> Settings {
    // Below the ports that the system draws by itself, and others for each group: those of a group whose test
    // failed are free a little later than the next one begins.
    static GROUPS: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 100).expect("small");
    let base_port = 20_000 + process * 120 + GROUPS.fetch_add(1, Ordering::Relaxed) * 12;
    let detection = Stated::default();
    let group = "dev".to_owned();
    let (health, clock_pages, observed) = (None, None, true);
    Settings { members: 3, group, policy, detection, base_port, health, clock_pages, observed }
}

/// The leader leases are too brief for two groups on a busy machine.
static ONE_GROUP: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_entry_into_a_lock_all_messages_are_known_with_both_their_ends() {
    let _alone = ONE_GROUP.lock().await;
    let policy = Policy { generation: 1, timing: BRIEF, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let status = members.group(0).expect("it lives").status().borrow().clone();
    let follower = status.members.iter().find(|member| !member.leader).expect("two follow");
    let member = follower.uid.parse().ok().and_then(number_of).expect("one of us");
    let claim = ask(&members, member).await;
    let token = held(&claim, Arbiter::Quorum).await.token.expect("a quorum grants").get();
    let (group, id) = (members.group(member).expect("it lives"), claim.borrow().id.clone());
    group.release(lock(), id).await.expect("it holds");
    let settled = async {
        loop {
            let entry = members.chronicle.entry(&lock(), OsClock::default().now());
            let entry = serde_json::to_value(entry).expect("plain data");
            if entry["ended"] == serde_json::json!(true) {
                return entry;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let entry = tokio::time::timeout(PATIENCE, settled).await.expect("it ends");
    assert_eq!((&entry["member"], &entry["stays"][0]["token"]), (&member.into(), &token.into()));
    let leader = entry["leader"].as_u64().and_then(|leader| u16::try_from(leader).ok());
    let leader = leader.expect("a leader granted");
    let messages = entry["messages"].as_array().expect("messages");
    let links =
        [("request", member, leader), ("grant", leader, member), ("release", member, leader)];
    for (name, from, to) in links {
        let is_it = |sent: &&serde_json::Value| {
            sent["name"] == name && sent["from"] == from && sent["to"] == to
        };
        let sent = messages.iter().find(is_it).unwrap_or_else(|| panic!("no {name} in {entry:#}"));
        assert!(sent["sent_ns"].as_i64() < sent["received_ns"].as_i64(), "{sent:#}");
    }
    members.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_an_election_every_message_is_known_and_what_went_to_the_dead_did_not_arrive() {
    let _alone = ONE_GROUP.lock().await;
    for election in ElectionAlgorithm::ALL {
        let policy = Policy { generation: 1, timing: BRIEF, election, ..Policy::default() };
        let members = Members::start(settings(policy)).await.expect("the ports are free");
        all_go_by(&members, Arbiter::Quorum).await;
        let status = members.group(0).expect("it lives").status().borrow().clone();
        let leader = status.members.iter().find(|member| member.leader).expect("one leads");
        let dead = leader.uid.parse().ok().and_then(number_of).expect("one of us");
        members.kill(dead);
        let drawn = tokio::time::timeout(PATIENCE, elected(&members, dead)).await.expect("it ends");
        assert_eq!(drawn["algorithm"], serde_json::json!(election));
        assert_eq!(drawn["electorate"].as_array().map(Vec::len), Some(3), "{drawn:#}");
        let messages = drawn["messages"].as_array().expect("messages");
        for message in messages {
            let arrived = !message["received_ns"].is_null();
            assert_eq!(arrived, message["to"] != dead, "{message:#}");
            assert!(!arrived || message["sent_ns"].as_i64() < message["received_ns"].as_i64());
        }
        let counted = messages.iter().filter(|message| message["part"] == "textbook").count();
        assert_eq!(drawn["counted"], counted);
        for end in drawn["ends"].as_array().expect("ends") {
            let until = end["at_ns"].as_i64();
            let is_own = |message: &&serde_json::Value| {
                message["from"] == end["member"]
                    && message["part"] == "textbook"
                    && message["sent_ns"].as_i64() <= until
            };
            let own = messages.iter().filter(is_own).count() as u64;
            assert!(end["messages"].as_u64().is_some_and(|count| count <= own), "{drawn:#}");
        }
        members.end().await;
    }
}

/// The nomination of the group's leader after the death of another, once it has come to something.
async fn elected(members: &Members, dead: u16) -> serde_json::Value {
    loop {
        let now = OsClock::default().now();
        let drawable = serde_json::to_value(members.elections.drawable(now)).expect("plain data");
        let latest = drawable[0]["ballots"].as_array().and_then(|ballots| ballots.last());
        if let Some(latest) = latest.filter(|latest| latest["ended"] == true) {
            let number = latest["number"].as_u64().expect("a number");
            let diagram = members.elections.diagram("default", number, now).expect("it is there");
            let diagram = serde_json::to_value(diagram).expect("plain data");
            if diagram["deaths"][0]["member"] == dead {
                return diagram;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_whose_arbiter_is_taken_away_and_given_back_goes_on() {
    let _alone = ONE_GROUP.lock().await;
    let policy = Policy { generation: 1, timing: BRIEF, ..Policy::default() };
    let members = Members::start(settings(policy.clone())).await.expect("the ports are free");
    let edit = |generation, arbiter| {
        members.policy.send_replace(Some(Policy { generation, arbiter, ..policy.clone() }));
    };
    all_go_by(&members, Arbiter::Quorum).await;
    let first = ask(&members, 0).await;
    let token = held(&first, Arbiter::Quorum).await.token;
    assert!(token.is_some());

    edit(2, Arbiter::None);
    all_go_by(&members, Arbiter::None).await;
    assert_eq!(held(&first, Arbiter::None).await.token, token, "told once, it stays told");
    let second = ask(&members, 1).await;

    edit(3, Arbiter::Quorum);
    let lost = |claim: &Claim| matches!(claim.state, ClaimState::Lost(_));
    assert_eq!(until("lost", first, lost).await.arbiter, Arbiter::None);
    assert!(held(&second, Arbiter::Quorum).await.token > token);
    all_go_by(&members, Arbiter::Quorum).await;
    members.end().await;
}

/// Events state later deadlines, each while the one before lies ahead, and none that the member was not
/// notified of.
async fn rises(events: &mut Events, mut notified: LocalTime, limit: impl Fn() -> LocalTime) {
    for _ in 0..3 {
        let (name, _, body) = events.next().await.expect("the stream goes on");
        assert!(OsClock::default().now() < notified, "{name}: others may believe already");
        let later = deadline(&body);
        assert!(later > notified || name != "safe", "{name}: {body}");
        assert!(later <= limit(), "nobody was told {body}");
        notified = later;
    }
}

fn deadline(body: &serde_json::Value) -> LocalTime {
    let deadline = body["safe_until_boottime_ns"].as_str().map(str::parse);
    LocalTime(deadline.unwrap_or_else(|| panic!("no deadline in {body}")).expect("a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_tell_later_deadlines_as_long_as_a_hold_and_a_lead_go_on() {
    let _alone = ONE_GROUP.lock().await;
    // Long enough that a busy machine does not cost the leader its leader lease.
    let timing = Timing { leader_lease: Duration::from_millis(1_500), ..BRIEF };
    let timing = Timing { member_lease: Duration::from_secs(4), ..timing };
    let policy = Policy { generation: 1, timing, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let leads = |number: &u16| {
        let group = members.group(*number).expect("it lives");
        group.election().borrow().leads_at(OsClock::default().now())
    };
    let leader = (0..members.count()).find(leads).expect("one leads");
    let router = |number| {
        let group = members.group(number).expect("it lives");
        router(Api::new(
            group,
            SharedClocks::new("dev"),
            Metrics::new("dev"),
            Limits::default(),
            None,
        ))
    };

    let mut events = Events::open(router(leader), "GET /v1/elections/default").await;
    let notified = deadline(&events.expect("elected").await);
    let election = members.group(leader).expect("it lives").election();
    let limit = || election.borrow().safe_until.expect("it leads");
    rises(&mut events, notified, limit).await;

    let follower = (leader + 1) % members.count();
    let mut events = Events::open(router(follower), "POST /v1/locks/orders?wait=forever").await;
    let (mut name, _, mut body) = events.next().await.expect("it begins");
    while name == "waiting" {
        (name, _, body) = events.next().await.expect("it goes on");
    }
    let claims = members.group(follower).expect("it lives").claims().await;
    let limit = || {
        let claim = claims[0].borrow();
        let ClaimState::Held(held) = &claim.state else { panic!("{:?}", claim.state) };
        held.safe_until
    };
    rises(&mut events, deadline(&body), limit).await;
    drop(events);
    members.end().await;
}

/// The sum of what all members count under that name and those labels; nothing where it is not counted.
async fn counted(members: &Members, counter: &str) -> Vec<u64> {
    let mut all = Vec::new();
    for number in 0..members.count() {
        let port = members.settings.base_port + ADMIN + number;
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await;
        let mut stream = stream.expect("it is served");
        let request = b"GET /metrics HTTP/1.1\r\nhost: dev\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.expect("it is read");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("it is answered");
        let counts = text.lines().filter_map(|line| line.strip_prefix(counter)?.strip_prefix(' '));
        all.extend(counts.filter_map(|count| count.parse::<u64>().ok()));
    }
    all
}

/// How a named election stands, as a member sees it.
fn named(members: &Members, number: u16) -> watch::Receiver<Election> {
    let elections = members.group(number).expect("it lives").named_elections();
    elections.borrow().get("reports").expect("the policy lists it").clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applications_stand_in_an_election_and_one_of_them_leads_after_the_other() {
    let _alone = ONE_GROUP.lock().await;
    let reports = ElectionPolicy::new("reports", ElectionAlgorithm::Ring);
    let elections = vec![reports];
    // So long that a busy machine does not end a lead.
    let (leader_lease, heartbeat) = (Duration::from_secs(4), Duration::from_millis(250));
    let timing = Timing { leader_lease, heartbeat, member_lease: leader_lease * 2, ..BRIEF };
    let policy = Policy { generation: 1, timing, elections, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let group = |number| members.group(number).expect("it lives");
    assert!(group(0).stand("other", 0).await.is_err(), "no policy lists it");
    for number in 0..3 {
        assert!(group(number).stand("reports", 0).await.expect("it is listed").created);
    }
    // Then two are left for the second ballot, which sends something.
    until("all stand", named(&members, 0), |election| election.candidates == 3).await;
    let leads = |number: &u16| named(&members, *number).borrow().leads_at(OsClock::default().now());
    let mut tokens = Vec::new();
    for _ in 0..3 {
        let someone = |election: &Election| election.leader.is_some();
        let leader =
            until("one leads", named(&members, 0), someone).await.leader.expect("just seen");
        let leader = leader.uid.parse().ok().and_then(number_of).expect("one of us");
        for number in 0..3 {
            let of_it = |election: &Election| {
                let known = election.leader.as_ref().and_then(|known| known.uid.parse().ok());
                known.and_then(number_of) == Some(leader)
            };
            until("all know", named(&members, number), of_it).await;
        }
        assert_eq!((0..3).filter(leads).collect::<Vec<_>>(), [leader]);
        tokens.push(named(&members, leader).borrow().token.expect("a quorum grants").get());
        assert!(!group(leader).stand("reports", 0).await.expect("it stands").created);
        assert_eq!(group(leader).withdraw("reports").await, Ok(()));
        assert!(!leads(&leader), "it gave the lead up");
        let other = |election: &Election| {
            let known = election.leader.as_ref().and_then(|known| known.uid.parse().ok());
            known.and_then(number_of) != Some(leader)
        };
        until("another, or nobody", named(&members, 0), other).await;
    }
    assert!(tokens.is_sorted() && tokens.len() == 3, "{tokens:?}");
    let elected = r#"conclave_elections_total{algorithm="Ring",election="reports",result="elected",group="dev"}"#;
    assert!(counted(&members, elected).await.iter().sum::<u64>() >= 3);
    let sent = |kind: &str| {
        format!(
            r#"conclave_election_messages_sent_total{{election="reports",kind="{kind}",group="dev"}}"#
        )
    };
    for kind in ["textbook", "acknowledgement", "notice"] {
        let counts = counted(&members, &sent(kind)).await;
        assert!(counts.len() == 3 && counts.iter().sum::<u64>() > 0, "{kind}: {counts:?}");
    }
    let policy = Policy { generation: 2, timing, ..Policy::default() };
    members.policy.send_replace(Some(policy));
    for number in 0..3 {
        let status = group(number).status();
        until("the policy lists none", status, |status| status.policy_generation == 2).await;
    }
    assert_eq!(counted(&members, &sent("textbook")).await, Vec::<u64>::new());
    members.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_cut_off_for_a_while_is_suspected_and_that_is_counted_as_a_mistake() {
    let _alone = ONE_GROUP.lock().await;
    let policy = Policy { generation: 1, timing: BRIEF, ..Policy::default() };
    let members = Members::start(settings(policy)).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let leads = |number: &u16| {
        let status = members.group(*number).expect("it lives").status().borrow().clone();
        status.members.iter().any(|member| member.me && member.leader)
    };
    let leader = (0..members.count()).find(leads).expect("one leads");
    let cut_off = (leader + 1) % members.count();
    let uid = pod_uid(cut_off).to_string();
    let suspects = |suspected| {
        let uid = uid.clone();
        move |status: &Status| {
            let is_so = |member: &MemberStatus| member.uid == uid && member.suspected == suspected;
            status.members.len() == 3 && status.members.iter().any(is_so)
        }
    };
    let status = || members.group(leader).expect("it lives").status();
    members.cut(cut_off, true);
    until("it is suspected", status(), suspects(true)).await;
    members.cut(cut_off, false);
    until("it is trusted again", status(), suspects(false)).await;
    for counter in ["conclave_suspicions_total", "conclave_mistaken_suspicions_total"] {
        let counts = counted(&members, &format!(r#"{counter}{{group="dev"}}"#)).await;
        assert!(counts.len() == 3 && counts[usize::from(leader)] > 0, "{counter}: {counts:?}");
    }
    members.end().await;
}
