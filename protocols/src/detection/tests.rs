//! What every detector does, whatever its rule.

use super::*;

const INTERVAL: Duration = Duration::from_millis(250);

fn at(millis: u64) -> LocalTime {
    LocalTime(millis * 1_000_000)
}

/// It watches two, since 1 s, with a timeout of 0.7 s.
fn two() -> Detector<u8> {
    let timeout = Some(Duration::from_millis(700));
    let mut detector = Detector::new(Stated { timeout, threshold: None }.with(INTERVAL));
    assert_eq!(detector.watch(at(1_000), &BTreeSet::from([1, 2])), []);
    detector
}

#[test]
fn a_silent_member_is_suspected_once_and_trusted_when_it_is_heard() {
    let mut detector = two();
    assert_eq!(detector.next(), Some(at(1_700)));
    assert_eq!(detector.hear(at(1_600), 1), None);
    assert_eq!(detector.look(at(1_699)), []);
    assert_eq!(detector.look(at(1_700)), [Verdict::Suspected(2)]);
    assert!(detector.is_suspected(2) && !detector.is_suspected(1));
    assert_eq!((detector.look(at(1_700)), detector.next()), (vec![], Some(at(2_300))));
    let mistaken = Some(Duration::from_millis(100));
    assert_eq!(detector.hear(at(1_800), 2), Some(Verdict::Trusted { peer: 2, mistaken }));
    assert!(!detector.is_suspected(2));
    assert_eq!(detector.look(at(2_550)), [Verdict::Suspected(1), Verdict::Suspected(2)]);
    assert_eq!(detector.next(), None);
}

#[test]
fn a_sign_that_is_no_heartbeat_counts_for_nothing_while_its_sender_is_watched() {
    let mut detector = two();
    assert_eq!(detector.look(at(1_800)).len(), 2);
    assert_eq!(detector.hear_of(at(1_900), 2), None);
    assert!(detector.is_suspected(2));
}

#[test]
fn a_mistake_is_counted_also_when_the_group_has_gone_on_without_its_victim() {
    let mut detector = two();
    assert_eq!(detector.look(at(1_800)).len(), 2);
    let unwatched = Verdict::Trusted { peer: 2, mistaken: None };
    assert_eq!(detector.watch(at(1_900), &BTreeSet::from([1])), [unwatched]);
    assert!(!detector.is_suspected(2) && detector.is_suspected(1));
    let mistaken = Some(Duration::from_millis(1_200));
    assert_eq!(detector.hear_of(at(3_000), 2), Some(Verdict::Trusted { peer: 2, mistaken }));
    assert_eq!(detector.hear_of(at(3_000), 2), None, "once");
}

#[test]
fn a_suspect_is_one_until_it_is_heard_though_it_was_not_watched_meanwhile() {
    let mut detector = two();
    assert_eq!(detector.look(at(1_800)).len(), 2);
    assert_eq!(detector.watch(at(1_900), &BTreeSet::new()).len(), 2);
    assert_eq!(detector.hear_of(at(1_950), 1).map(|_| 1), Some(1));
    assert!(detector.watch(at(2_000), &BTreeSet::from([1, 2])).is_empty());
    assert!(detector.is_suspected(2) && !detector.is_suspected(1));
    assert_eq!(detector.next(), Some(at(2_700)), "of the one that is trusted");
    let mistaken = Some(Duration::from_millis(300));
    assert_eq!(detector.hear(at(2_100), 2), Some(Verdict::Trusted { peer: 2, mistaken }));
}

#[test]
fn a_member_that_goes_is_no_mistake_and_one_that_comes_is_trusted() {
    let mut detector = two();
    assert_eq!(detector.look(at(1_800)).len(), 2);
    assert_eq!(detector.forget(2), Some(Verdict::Trusted { peer: 2, mistaken: None }));
    assert_eq!(detector.hear_of(at(1_900), 2), None);
    detector.watch(at(2_000), &BTreeSet::from([1, 2]));
    assert!(detector.is_suspected(1) && !detector.is_suspected(2));
    assert_eq!(detector.next(), Some(at(2_700)));
}

/// It wakes up ten seconds late. A member that was silent until then has what was left of its time, and an interval.
#[test]
fn a_process_that_was_paused_suspects_nobody_for_that() {
    let mut detector = two();
    detector.hear(at(1_200), 2);
    assert_eq!((detector.look(at(11_700)), detector.next()), (vec![], Some(at(11_950))));
    detector.hear(at(11_710), 2);
    assert_eq!(detector.look(at(11_950)), [Verdict::Suspected(1)]);
    assert_eq!(detector.next(), Some(at(12_410)));
}

#[test]
fn no_more_are_remembered_than_a_group_has_members() {
    let params = Stated::default().with(INTERVAL);
    let mut detector = Detector::new(params);
    for peer in 0..1_000_u64 {
        let now = at(peer * 2_000);
        detector.watch(now, &BTreeSet::from([peer]));
        assert_eq!(detector.look(now.after(params.timeout)), [Verdict::Suspected(peer)]);
    }
    detector.watch(at(2_000_000), &BTreeSet::new());
    assert_eq!(detector.suspected.len(), REMEMBERED_MAX);
    assert_eq!(detector.hear_of(at(2_000_001), 1_000 - 1 - REMEMBERED_MAX as u64), None);
    assert!(detector.hear_of(at(2_000_001), 999).is_some());
}

#[test]
fn other_parameters_count_from_when_each_was_heard() {
    let mut detector = two();
    detector.hear(at(1_200), 2);
    detector.set(Stated::default().with(INTERVAL));
    assert_eq!((detector.deadline(1), detector.deadline(2)), (Some(at(1_875)), Some(at(2_075))));
}
