//! Our checker of histories and Porcupine, on the same histories. No cluster is asked, but Porcupine is
//! built with the cluster's programs.

#[path = "../../protocols/tests/history/bad.rs"]
mod bad;
#[path = "../../protocols/tests/history/good.rs"]
mod good;
#[path = "../../protocols/tests/history/mutations.rs"]
mod mutations;
#[path = "../../protocols/tests/history/reference.rs"]
mod reference;
#[path = "../../protocols/tests/history/script.rs"]
mod script;

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use conclave_e2e::second_opinion::{Opinion, ask, check};
use conclave_protocols::history::{History, Law, Operation, Scope};
use conclave_protocols::random::Random;

use crate::bad::BAD;
use crate::good::GOOD;
use crate::mutations::{MUTATIONS, spoiled};
use crate::reference::{Reference, Weather};
use crate::script::history;

/// Which breaches of a law Porcupine's model can show.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Sight {
    /// All: it is about the order of steps.
    All,
    /// Those after which nobody can have held by the token any more. When the call that gave a lock back
    /// returned is not recorded, so a token that is shown after it may have come first; and a
    /// loss is no step.
    Some,
    /// None: it is about what was reported to one client of its own hold, which is no order of steps.
    None,
}

fn sight(law: Law) -> Sight {
    match law {
        Law::Form
        | Law::Exclusion
        | Law::TokenOrder
        | Law::TokenOnce
        | Law::Fence
        | Law::Refused
        | Law::OneLeader
        | Law::LeaderOfEpoch
        | Law::EpochsRise => Sight::All,
        Law::Holder => Sight::Some,
        Law::Deadline | Law::Past | Law::Final => Sight::None,
    }
}

/// Whether Porcupine has something against a history.
fn is_refused(bad: &History) -> bool {
    is_refused_in(bad, &[])
}

fn is_refused_in(bad: &History, options: &[&str]) -> bool {
    match ask(bad, options) {
        Ok(Opinion::Ordered(_)) => false,
        Ok(Opinion::Unordered(sent)) => {
            assert!(sent.contains("cannot be put in order"), "{sent}");
            true
        }
        // The recording itself makes no sense.
        Err(error) => {
            assert!(error.to_string().contains("no history"), "{error}");
            let laws = bad.check(Scope::Everything);
            assert!(laws.iter().any(|violation| violation.law == Law::Form), "{error}");
            true
        }
    }
}

#[test]
fn good_histories_pass() {
    for (name, text) in GOOD {
        assert!(!is_refused(&history(text)), "{name}: {text}");
    }
    for seed in 0..100 {
        let history = Reference::run(seed, Weather::default());
        assert!(!is_refused(&history) && !is_refused_in(&history, &["-part", "1"]), "{seed}");
    }
}

#[test]
fn every_bad_history_is_refused_as_far_as_the_model_reaches() {
    let mut unseen = Vec::new();
    for (name, law, text) in BAD {
        let refused = is_refused(&history(text));
        match sight(*law) {
            Sight::All => assert!(refused, "{name}: {text}"),
            Sight::None => assert!(!refused, "{name}: {text}"),
            Sight::Some if refused => {}
            Sight::Some => unseen.push(*name),
        }
    }
    assert_eq!(unseen, ["renewed after a release", "renewed after a loss"]);
}

#[test]
fn every_mutation_is_refused_as_far_as_the_model_reaches() {
    let mut random = Random::new(11);
    for (name, law, mutate) in MUTATIONS {
        let spoiled = spoiled(*mutate, &mut random, 0..60);
        let mut refused = 0;
        for (seed, bad) in &spoiled {
            let seen = is_refused(bad);
            refused += usize::from(seen);
            match sight(*law) {
                Sight::All => assert!(seen, "{name}, {seed}"),
                Sight::None => assert!(!seen, "{name}, {seed}"),
                Sight::Some => {}
            }
        }
        println!("{name}: {refused} of {}", spoiled.len());
        assert!(spoiled.len() > 15, "{name}: {}", spoiled.len());
        assert!(refused > 0 || sight(*law) == Sight::None, "{name}");
    }
}

/// Claims at random times with random tokens: our checker finds something exactly if Porcupine
/// does, and so it does if Porcupine is given it in as small parts as can be.
#[test]
fn they_agree_on_histories_that_nobody_chose() {
    let mut random = Random::new(5);
    let mut counts = [0, 0];
    for round in 0..1_500 {
        let history = History::from_claims(&mut random);
        let violations = history.check(Scope::Polled);
        for options in [&[][..], &["-part", "1"]] {
            let refused = is_refused_in(&history, options);
            let shown: Vec<String> = history.entries().iter().map(ToString::to_string).collect();
            assert_eq!(refused, !violations.is_empty(), "{round}: {}", shown.join("\n"));
        }
        counts[usize::from(violations.is_empty())] += 1;
    }
    println!("bad and good: {counts:?}");
    assert!(counts.iter().all(|count| *count > 300), "{counts:?}");
}

trait Drawn {
    fn from_claims(random: &mut Random) -> Self;
}

impl Drawn for History {
    fn from_claims(random: &mut Random) -> Self {
        let ms = Duration::from_millis;
        let mut history = Self::default();
        for claim in 0..=random.up_to(5) {
            let asked = random.up_to(8);
            let at = asked + random.up_to(5);
            let until = (at + random.up_to(4)).saturating_sub(1);
            history.record(ms(asked), Operation::Asked { claim, lock: "a".into() });
            // Most tokens are right.
            let token = Some(if random.once_in(4) { random.up_to(9) } else { at });
            let view = if random.once_in(4) { random.up_to(3) } else { at / 4 };
            let view = random.once_in(3).then_some(view);
            history.record(ms(at), Operation::Granted { claim, token, view, until: ms(until) });
            if random.once_in(4) {
                let longer = ms(until + random.up_to(3));
                history.record(ms(at), Operation::Extended { claim, until: longer });
            }
            if random.once_in(3) {
                history.record(ms(asked + random.up_to(8)), Operation::Released { claim });
            }
        }
        history
    }
}

/// Without stores, as clients on the cluster record it; but thousands wait in the end.
#[test]
fn a_long_history_is_decided_and_one_change_in_it_is_found() {
    let long = Reference::run(3, Weather { operations: 300_000, locks: 4 });
    let mut entries = long.entries().to_vec();
    entries.retain(|entry| {
        !matches!(entry.operation, Operation::Stored { .. } | Operation::Shown { .. })
    });
    let good = History::from(entries.clone());
    let Ok(Opinion::Ordered(sent)) = ask(&good, &[]) else { panic!("it is good") };
    println!("{sent}");
    let parts: Vec<&str> = sent.split(' ').collect();
    assert_eq!(parts[0], parts[2], "{sent}");
    assert!(parts[0].parse::<usize>().expect("a number") > 20_000, "{sent}");

    let (_, _, longer) = MUTATIONS[0];
    let mut places = entries.len() / 2..entries.len();
    assert!(places.any(|place| longer(&mut entries, place)));
    assert!(is_refused(&History::from(entries)));
}

/// The service may let a lease live longer than its client can know. Where the search looks for that
/// only in the end, it takes twice as long for each.
#[test]
fn holds_that_are_given_back_after_their_deadline_are_decided_in_time() {
    let mut text = String::new();
    for claim in 1..60 {
        let at = 10 * claim;
        let until = at + 5;
        write!(text, "{at} ask {claim} a; {at} grant {claim} {claim} {until};").expect("a text");
        write!(text, "{} drop a {claim} ok;", until + 1).expect("a text");
    }
    let opinion = ask(&history(&text), &["-limit", "10s"]).expect("it has the time");
    assert_eq!(opinion, Opinion::Ordered("177 of 177 steps of 1 objects were decided".into()));
}

#[test]
fn what_could_not_be_decided_in_time_is_not_taken_for_good() {
    let history = Reference::run(3, Weather { operations: 20_000, locks: 4 });
    let error = ask(&history, &["-limit", "1ns"]).expect_err("it has no time");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
}

#[test]
fn a_history_that_is_refused_is_named_with_its_law_and_kept() {
    let (what, law, text) = BAD[0];
    let error = format!("{:#}", check(&history(text)).expect_err(what));
    assert!(error.contains(law.statement()) && error.contains("cannot be put in order"), "{error}");
    let file = error.strip_prefix("the history is in ").and_then(|rest| rest.split_once(": "));
    let (file, _) = file.expect("it is kept");
    let lines = fs::read_to_string(file).expect("it is there");
    assert_eq!(lines.lines().count(), history(text).len());
    fs::remove_file(file).expect("it is there");
}
