//! Histories as texts: `0 ask 1 a; 1 grant 1 a7 until 10`, times in milliseconds.

use std::time::Duration;

use conclave_protocols::history::{History, Operation, Purpose};

/// Reads a history. One operation after another, separated by `;`:
///
/// ```text
/// AT ask CLAIM LOCK            AT store LOCK TOKEN ok|no
/// AT grant CLAIM TOKEN UNTIL   AT renew LOCK TOKEN ok|no
/// AT extend CLAIM UNTIL        AT drop LOCK TOKEN ok|no
/// AT free CLAIM                AT lead WHO EPOCH UNTIL
/// AT lost CLAIM                AT resign WHO
/// ```
///
/// `-` as a token stands for an advisory grant, and `7/2` for token 7 of view 2.
pub(crate) fn history(text: &str) -> History {
    let mut history = History::default();
    for line in text.split(';').map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = line.split_whitespace().collect();
        history.record(ms(parts[0]), operation(&parts[1..]));
    }
    history
}

fn operation(parts: &[&str]) -> Operation {
    match *parts {
        ["ask", claim, lock] => Operation::Asked { claim: number(claim), lock: lock.into() },
        ["grant", claim, token, until] => {
            let (token, view) = token.split_once('/').map_or((token, None), |(t, v)| (t, Some(v)));
            let token = (token != "-").then(|| number(token));
            let (claim, view) = (number(claim), view.map(number));
            Operation::Granted { claim, token, view, until: ms(until) }
        }
        ["extend", claim, until] => Operation::Extended { claim: number(claim), until: ms(until) },
        ["free", claim] => Operation::Released { claim: number(claim) },
        ["lost", claim] => Operation::Lost { claim: number(claim) },
        ["store", lock, token, end] => {
            let (lock, token) = (lock.into(), number(token));
            Operation::Stored { lock, token, accepted: end == "ok" }
        }
        ["renew", lock, token, end] => shown(lock, token, Purpose::Renew, end),
        ["drop", lock, token, end] => shown(lock, token, Purpose::Release, end),
        ["lead", who, epoch, until] => {
            Operation::Leads { who: who.into(), epoch: number(epoch), until: ms(until) }
        }
        ["resign", who] => Operation::Resigned { who: who.into() },
        _ => panic!("{parts:?}"),
    }
}

fn shown(lock: &str, token: &str, to: Purpose, end: &str) -> Operation {
    Operation::Shown { lock: lock.into(), token: number(token), to, accepted: end == "ok" }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn ms(text: &str) -> Duration {
    Duration::from_millis(number(text))
}
