//! Fifty sidecars, whose locks are spread over eight of them.

use std::collections::BTreeMap;

use conclave_protocols::election::superpeers::{Key, Superpeers};
use conclave_protocols::policy::{LockAlgorithm, LockPolicy};

use super::known::get_until;
use super::*;

const MEMBERS: u16 = 50;

/// On two cores fifty sidecars take a while to greet one another.
const PATIENT: Timing = Timing {
    leader_lease: Duration::from_secs(10),
    heartbeat: Duration::from_secs(1),
    member_lease: Duration::from_secs(20),
    api_outage: Duration::from_secs(60),
};

/// What was sent about one entry: from whom, to whom, and what.
async fn sent(members: &Members, lock: &LockName) -> Vec<(u64, u64, String)> {
    let settled = async {
        loop {
            let entry = members.chronicle.entry(lock, OsClock::default().now());
            let entry = serde_json::to_value(entry).expect("plain data");
            let messages = entry["messages"].as_array().cloned().unwrap_or_default();
            let arrived = messages.iter().all(|message| !message["received_ns"].is_null());
            if entry["ended"] == serde_json::json!(true) && arrived {
                return messages;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let messages = tokio::time::timeout(PATIENCE, settled).await.expect("it ends");
    let number = |value: &serde_json::Value| value.as_u64().expect("a member");
    let name = |value: &serde_json::Value| value.as_str().expect("a name").to_owned();
    let all = messages.iter();
    all.map(|sent| (number(&sent["from"]), number(&sent["to"]), name(&sent["name"]))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn among_fifty_members_each_lock_is_granted_by_the_one_of_eight_that_its_name_falls_to() {
    let _alone = ONE_GROUP.lock().await;
    let locks = vec![LockPolicy { algorithm: LockAlgorithm::Superpeers, ..LockPolicy::default() }];
    let policy = Policy { generation: 1, timing: PATIENT, locks, ..Policy::default() };
    // Fifty ports from there on, apart from those of the other groups.
    let base_port = 10_000 + u16::try_from(std::process::id() % 100).expect("small") * 60;
    let settings = Settings { members: MEMBERS, base_port, ..settings(policy) };
    let members = Members::start(settings).await.expect("the ports are free");
    all_go_by(&members, Arbiter::Quorum).await;
    let ids: Vec<Key> = (0..MEMBERS).map(|number| Key::of(&format!("dev-{number}"))).collect();
    let superpeers = Superpeers::among(&ids, 10);
    assert_eq!(superpeers.all().len(), 8);
    let (mut expected, mut counted) = (BTreeMap::new(), BTreeMap::<u64, usize>::new());
    for number in 0..MEMBERS {
        let lock = LockName::try_from(format!("lock-{number}")).expect("a good name");
        let coordinator = superpeers.responsible(Key::of_name(&lock)).expect("somebody").0;
        let claim = ask_for(&members, number, lock.clone()).await;
        held(&claim, Arbiter::Quorum).await;
        let path = format!("/v1/locks/{lock}");
        let (pod, by) = (format!("dev-{coordinator}"), u16::try_from(coordinator).expect("small"));
        let shown = get_until(&members, number / 2, &path, |_| true).await;
        assert_eq!(shown["coordinator"], pod, "{shown}");
        let expected_messages = if number / 2 == by { 0 } else { 3 };
        assert_eq!(shown["expected_messages"], expected_messages, "{shown}");
        let (group, id) = (members.group(number).expect("it lives"), claim.borrow().id.clone());
        group.release(lock.clone(), id).await.expect("it holds");
        let (member, by) = (u64::from(number), u64::from(coordinator));
        let messages = sent(&members, &lock).await;
        let script = [(member, by, "request"), (by, member, "grant"), (member, by, "release")];
        let script = script.map(|(from, to, name)| (from, to, name.to_owned()));
        let script = if member == by { vec![] } else { script.to_vec() };
        assert_eq!(messages, script, "{lock}");
        *expected.entry(by).or_default() += if member == by { 0_usize } else { 3 };
        *counted.entry(by).or_default() += messages.len();
    }
    assert_eq!(counted, expected);
    assert_eq!(counted.len(), 8, "each has some of fifty names");
    members.end().await;
}
