//! What the checker reports about them.

use std::collections::BTreeSet;

use conclave_protocols::history::{History, Law, Scope};
use conclave_protocols::random::Random;

use crate::bad::BAD;
use crate::good::GOOD;
use crate::mutations::{MUTATIONS, spoiled};
use crate::reference::{Reference, Weather};
use crate::script::history;

#[test]
fn every_bad_history_breaks_exactly_the_law_that_it_was_made_for() {
    for (name, law, text) in BAD {
        let violations = history(text).check(Scope::Everything);
        let laws: BTreeSet<Law> = violations.iter().map(|violation| violation.law).collect();
        assert_eq!(laws, BTreeSet::from([*law]), "{name}: {text}\n{violations:#?}");
        assert!(violations.iter().all(|v| !v.operations.is_empty()), "{name}");
    }
}

#[test]
fn the_bad_histories_are_many_and_each_is_another() {
    let names: BTreeSet<&str> = BAD.iter().map(|(name, _, _)| *name).collect();
    let texts: BTreeSet<&str> = BAD.iter().map(|(_, _, text)| *text).collect();
    assert_eq!((names.len(), texts.len()), (BAD.len(), BAD.len()));
    assert!(BAD.len() >= 50, "{}", BAD.len());
}

#[test]
fn without_trust_in_clocks_only_the_timeless_laws_count() {
    for (name, law, text) in BAD {
        let found = !history(text).check(Scope::Timeless).is_empty();
        assert_eq!(found, law.is_timeless(), "{name}");
    }
}

#[test]
fn an_application_that_asks_now_and_then_may_learn_late_of_an_extension() {
    for (name, law, text) in BAD {
        let found = !history(text).check(Scope::Polled).is_empty();
        assert_eq!(found, *law != Law::Past, "{name}");
    }
}

#[test]
fn a_hold_that_is_revived_while_another_holds_breaks_exclusion_too() {
    let text = "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 12 grant 2 8 20; 13 extend 1 19";
    let laws: BTreeSet<Law> =
        history(text).check(Scope::Everything).iter().map(|violation| violation.law).collect();
    assert_eq!(laws, BTreeSet::from([Law::Exclusion, Law::Past]));
}

#[test]
fn a_violation_says_what_happened() {
    let violations = history("0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 9 grant 2 8 20");
    let text = violations.check(Scope::Everything)[0].to_string();
    assert_eq!(
        text,
        "broken: no two believe to hold a lock at once (Exclusion): two hold a for 1ms\n      \
         0.001000 s  claim 1 holds until 0.010000 s, token 7\n      \
         0.009000 s  claim 2 holds until 0.020000 s, token 8"
    );
}

#[test]
fn good_histories_pass() {
    for (name, text) in GOOD {
        let violations = history(text).check(Scope::Everything);
        assert!(violations.is_empty(), "{name}: {text}\n{violations:#?}");
    }
}

#[test]
fn whatever_a_reference_lock_does_passes() {
    for seed in 0..300 {
        let history = Reference::run(seed, Weather::default());
        let violations = history.check(Scope::Everything);
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
    }
}

#[test]
fn the_order_of_recording_does_not_matter() {
    for seed in 0..20 {
        let good = Reference::run(seed, Weather::default());
        let mut entries = good.entries().to_vec();
        entries.sort_by_key(|entry| (entry.at.as_nanos() % 1_009, entry.at));
        // Operations of one time keep their order: the recording of one process is in order.
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at.as_millis() / 1_000));
        let violations = History::from(entries).check(Scope::Everything);
        assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
    }
}

/// Not an assertion about time: how long it took is printed.
#[test]
#[expect(clippy::disallowed_types, reason = "it is printed how long a check takes")]
fn a_million_operations_are_checked() {
    let history = Reference::run(1, Weather { operations: 1_000_000, locks: 16 });
    assert!(history.len() >= 1_000_000);
    let begin = std::time::Instant::now();
    assert_eq!(history.check(Scope::Everything), []);
    println!("{} operations in {:?}", history.len(), begin.elapsed());
}

#[test]
fn every_mutation_of_a_good_history_is_found() {
    let mut random = Random::new(11);
    for (name, law, mutate) in MUTATIONS {
        let spoiled = spoiled(*mutate, &mut random, 0..400);
        for (seed, bad) in &spoiled {
            let violations = bad.check(Scope::Everything);
            assert!(violations.iter().any(|v| v.law == *law), "{name}, {seed}: {violations:#?}");
        }
        println!("{name}: {}", spoiled.len());
        assert!(spoiled.len() > 100, "{name}: {}", spoiled.len());
    }
}
