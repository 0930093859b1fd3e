//! One change to a good history: it must be found.

use conclave_protocols::history::{History, Law, Operation, RecordedOperation};
use conclave_protocols::random::Random;

use crate::reference::{Reference, Weather};

/// A way to spoil a history. It returns false if there is nothing to spoil that way.
pub(crate) type Mutation = fn(&mut Vec<RecordedOperation>, usize) -> bool;

/// What is changed, a law that it breaks, and the change.
pub(crate) const MUTATIONS: &[(&str, Law, Mutation)] = &[
    ("a grant is told for longer", Law::Exclusion, |entries, place| {
        let Some(next) = next_grant(entries, place) else { return false };
        let end = entries[next].at + std::time::Duration::from_nanos(1);
        let Operation::Granted { claim, until, .. } = &mut entries[place].operation else {
            return false;
        };
        *until = (*until).max(end);
        let claim = *claim;
        entries.retain(|entry| entry.operation != Operation::Released { claim });
        let notified = |entry: &RecordedOperation| matches!(entry.operation, Operation::Extended { claim: c, .. } if c == claim);
        entries.retain(|entry| !notified(entry));
        true
    }),
    ("a token is given again", Law::TokenOnce, |entries, place| {
        let Some(next) = next_grant(entries, place) else { return false };
        let Operation::Granted { token: given, .. } = entries[place].operation else {
            return false;
        };
        let Operation::Granted { token, .. } = &mut entries[next].operation else { return false };
        *token = given;
        true
    }),
    ("a token falls", Law::TokenOrder, |entries, place| {
        let Operation::Granted { claim, .. } = entries[place].operation else { return false };
        let lock = lock_of(entries, claim);
        let asked = asked(entries, claim);
        let before = (0..asked).rev().find(|before| {
            let Operation::Granted { claim, .. } = entries[*before].operation else { return false };
            lock_of(entries, claim) == lock
        });
        let Some(before) = before else { return false };
        let Operation::Granted { token: Some(given), .. } = entries[before].operation else {
            return false;
        };
        let below = (0..given).rev().find(|t| !is_given(entries, &lock, *t));
        let (Some(below), Operation::Granted { token, .. }) =
            (below, &mut entries[place].operation)
        else {
            return false;
        };
        *token = Some(below);
        true
    }),
    ("the token of one that waits falls", Law::TokenOrder, |entries, place| {
        let Some(next) = next_grant(entries, place) else { return false };
        let Operation::Granted { claim, .. } = entries[next].operation else { return false };
        let waits = asked(entries, claim) < place;
        let Operation::Granted { token: Some(given), .. } = entries[place].operation else {
            return false;
        };
        let Operation::Granted { token, view, .. } = &mut entries[next].operation else {
            return false;
        };
        (*token, *view) = (given.checked_sub(1), None);
        waits && token.is_some()
    }),
    ("a later view gives a smaller token", Law::Fence, |entries, place| {
        let Some(next) = next_grant(entries, place) else { return false };
        let Operation::Granted { view: later, .. } = entries[next].operation else { return false };
        let Operation::Granted { view, .. } = &mut entries[place].operation else { return false };
        *view = later.map(|later| later + 1);
        true
    }),
    ("a holder is refused", Law::Refused, |entries, place| {
        let Operation::Stored { lock, token, accepted: true } = entries[place].operation.clone()
        else {
            return false;
        };
        entries[place].operation = Operation::Stored { lock: lock.clone(), token, accepted: false };
        believes(entries, place, &lock, token)
    }),
    ("a hold is revived", Law::Past, |entries, place| {
        let Operation::Granted { claim, until, .. } = entries[place].operation else {
            return false;
        };
        entries.retain(|entry| {
            !matches!(entry.operation, Operation::Extended { claim: c, .. } | Operation::Lost { claim: c }
                if c == claim)
        });
        entries
            .push(RecordedOperation { at: until, operation: Operation::Extended { claim, until } });
        true
    }),
    ("a store takes what it refused", Law::Fence, |entries, place| {
        let Operation::Stored { accepted, .. } = &mut entries[place].operation else {
            return false;
        };
        !std::mem::replace(accepted, true)
    }),
    ("who holds no more is not refused", Law::Holder, |entries, place| {
        let Operation::Shown { accepted, .. } = &mut entries[place].operation else {
            return false;
        };
        !std::mem::replace(accepted, true)
    }),
    ("a deadline is taken back", Law::Deadline, |entries, place| {
        let Operation::Extended { until, .. } = &mut entries[place].operation else {
            return false;
        };
        *until = std::time::Duration::ZERO;
        true
    }),
    ("a lost hold is extended", Law::Final, |entries, place| {
        let Operation::Lost { claim } = entries[place].operation else { return false };
        let at = entries[place].at;
        let operation = Operation::Extended { claim, until: at };
        entries.insert(place + 1, RecordedOperation { at, operation });
        true
    }),
    ("a request was not recorded", Law::Form, |entries, place| {
        let Operation::Granted { claim, .. } = entries[place].operation else { return false };
        let asked = asked(entries, claim);
        entries.remove(asked);
        true
    }),
    ("a grant was not recorded", Law::Form, |entries, place| {
        let Operation::Granted { claim, .. } = entries[place].operation else { return false };
        let of_it = |operation: &Operation| {
            matches!(operation, Operation::Extended { claim: c, .. } | Operation::Lost { claim: c }
                if *c == claim)
        };
        entries.remove(place);
        entries.iter().any(|entry| of_it(&entry.operation))
    }),
    ("another leads the same view", Law::LeaderOfEpoch, |entries, place| {
        let Operation::Leads { epoch, .. } = entries[place].operation else { return false };
        let first = entries.iter().position(
            |entry| matches!(entry.operation, Operation::Leads { epoch: e, .. } if e == epoch),
        );
        let Operation::Leads { who, .. } = &mut entries[place].operation else { return false };
        "somebody else".clone_into(who);
        first != Some(place)
    }),
    ("somebody else leads besides", Law::OneLeader, |entries, place| {
        let Operation::Leads { until, epoch, .. } = entries[place].operation else { return false };
        let next = entries.get(place + 1).map(|entry| entry.at);
        let Some(at) = next.filter(|at| *at < until) else { return false };
        let who = "somebody else".to_owned();
        if matches!(entries[place + 1].operation, Operation::Resigned { .. }) {
            return false;
        }
        let operation = Operation::Leads { who, epoch: epoch + 1_000_000, until };
        entries.insert(place + 1, RecordedOperation { at, operation });
        true
    }),
    ("a view falls", Law::EpochsRise, |entries, place| {
        let Operation::Leads { epoch, .. } = entries[place].operation else { return false };
        let lower = epoch.checked_sub(1);
        let is_last = !entries[place + 1..].iter().any(
            |entry| matches!(entry.operation, Operation::Leads { epoch: e, .. } if e == epoch),
        );
        let before = entries[..place].iter().any(
            |entry| matches!(entry.operation, Operation::Leads { epoch: e, .. } if e == epoch),
        );
        let Operation::Leads { epoch, .. } = &mut entries[place].operation else { return false };
        let Some(lower) = lower else { return false };
        *epoch = lower;
        is_last && before
    }),
];

/// Histories of the reference, each spoiled in one place, with their seeds.
pub(crate) fn spoiled(
    mutate: Mutation,
    random: &mut Random,
    seeds: std::ops::Range<u64>,
) -> Vec<(u64, History)> {
    let spoil = |seed| {
        let good = Reference::run(seed, Weather { operations: 150, locks: 2 });
        let entries = good.entries();
        let first = usize::try_from(random.up_to(entries.len() as u64)).expect("small");
        let places = (first..entries.len()).chain(0..first);
        let bad = places.into_iter().find_map(|place| {
            let mut entries = entries.to_vec();
            mutate(&mut entries, place).then_some(entries)
        });
        bad.map(|bad| (seed, History::from(bad)))
    };
    seeds.filter_map(spoil).collect()
}

/// Whether the one that was given a token believes to hold, at the time of an operation.
fn believes(entries: &[RecordedOperation], place: usize, lock: &str, token: u64) -> bool {
    let grant = entries.iter().find_map(|entry| {
        if let Operation::Granted { claim, token: Some(given), until, .. } = entry.operation
            && given == token
            && lock_of(entries, claim) == lock
        {
            return Some((claim, until));
        }
        None
    });
    let Some((claim, mut until)) = grant else { return false };
    for entry in &entries[..place] {
        if let Operation::Extended { claim: of, until: later } = entry.operation
            && of == claim
        {
            until = later;
        }
        if let Operation::Released { claim: of } = entry.operation
            && of == claim
        {
            until = entry.at;
        }
    }
    entries[place].at < until
}

fn lock_of(entries: &[RecordedOperation], number: u64) -> String {
    let lock = entries.iter().find_map(|entry| {
        let Operation::Asked { claim, lock } = &entry.operation else { return None };
        (*claim == number).then(|| lock.clone())
    });
    lock.expect("a grant of a good history was asked for")
}

fn asked(entries: &[RecordedOperation], number: u64) -> usize {
    let asked = |entry: &RecordedOperation| matches!(entry.operation, Operation::Asked { claim, .. } if claim == number);
    entries.iter().position(asked).expect("it was asked for")
}

fn is_given(entries: &[RecordedOperation], lock: &str, number: u64) -> bool {
    entries.iter().any(|entry| {
        matches!(entry.operation, Operation::Granted { claim, token: Some(token), .. }
            if token == number && lock_of(entries, claim) == lock)
    })
}

/// The next grant of the same lock.
fn next_grant(entries: &[RecordedOperation], place: usize) -> Option<usize> {
    let Operation::Granted { claim, .. } = entries[place].operation else { return None };
    let lock = lock_of(entries, claim);
    (place + 1..entries.len()).find(|next| {
        let Operation::Granted { claim, .. } = entries[*next].operation else { return false };
        lock_of(entries, claim) == lock
    })
}
