//! What the sidecar states about an election.

use conclave_protocols::LocalTime;
use serde::Deserialize;

use super::course::{Input, Lead};
use super::events::Event;

/// An election, as an event shows it: what matters here.
#[derive(Debug, Deserialize)]
struct State {
    is_leader: bool,
    safe_for_ms: Option<u64>,
    safe_until_boottime_ns: Option<String>,
    token: Option<u64>,
}

/// Why an event cannot be acted on.
#[derive(Debug, thiserror::Error)]
pub(super) enum StateError {
    /// It is no state of an election.
    #[error("the event `{name}` shows no election")]
    Malformed {
        /// The event's name.
        name: String,
        /// Why not.
        #[source]
        source: serde_json::Error,
    },
    /// It says that this member leads, and not until when.
    #[error("the event `{0}` has no deadline")]
    NoDeadline(String),
    /// The deadline is further ahead than it can be.
    #[error(
        "the clock of this container is not that of its sidecar: a deadline that is {safe_for_ms} ms ahead there is \
         {ahead_ms} ms ahead here"
    )]
    OtherClock {
        /// As the sidecar has it.
        safe_for_ms: u64,
        /// As it is here.
        ahead_ms: u128,
    },
}

/// What an event that came by `now` means.
pub(super) fn input(now: LocalTime, event: &Event) -> Result<Input, StateError> {
    let state: State = serde_json::from_str(&event.data)
        .map_err(|source| StateError::Malformed { name: event.name.clone(), source })?;
    // With another token the member leads anew, and is notified of the end before.
    if event.name == "lost" || !state.is_leader {
        return Ok(Input::LeadsNot);
    }
    let no_deadline = || StateError::NoDeadline(event.name.clone());
    let until = state.safe_until_boottime_ns.and_then(|text| text.parse().ok());
    let until = LocalTime(until.ok_or_else(no_deadline)?);
    let safe_for_ms = state.safe_for_ms.ok_or_else(no_deadline)?;
    // Whole milliseconds were left when the event was made, and it was made before it came.
    let ahead_ms = now.until(until).as_millis();
    if ahead_ms > u128::from(safe_for_ms) + 1 {
        return Err(StateError::OtherClock { safe_for_ms, ahead_ms });
    }
    Ok(Input::Leads(Lead { until, token: state.token }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: LocalTime = LocalTime(5_000_000_000);

    fn of(name: &str, data: &str) -> Result<Input, StateError> {
        input(NOW, &Event { name: name.to_owned(), data: data.to_owned() })
    }

    fn leads(until: &str, more: &str) -> String {
        format!(
            r#"{{"is_leader": true, "safe_until_boottime_ns": "{until}"{more}, "leader": null}}"#
        )
    }

    #[test]
    fn a_member_leads_until_the_deadline_that_is_stated() {
        let lead = Lead { until: LocalTime(6_000_000_000), token: Some(12) };
        let data = leads("6000000000", r#", "safe_for_ms": 1000, "token": 12"#);
        for name in ["elected", "safe", "epoch", "changed"] {
            assert_eq!(of(name, &data).unwrap(), Input::Leads(lead));
        }
        let data = leads("6000000000", r#", "safe_for_ms": 1000"#);
        assert_eq!(of("elected", &data).unwrap(), Input::Leads(Lead { token: None, ..lead }));
    }

    #[test]
    fn it_does_not_lead_when_it_is_notified_of_that_in_whatever_way() {
        let data = leads("6000000000", r#", "safe_for_ms": 1000"#);
        assert_eq!(of("lost", &data).unwrap(), Input::LeadsNot, "it leads anew");
        for name in ["leader", "no-leader", "handing-over", "safe"] {
            assert_eq!(of(name, r#"{"is_leader": false}"#).unwrap(), Input::LeadsNot);
        }
    }

    #[test]
    fn what_cannot_be_acted_on_is_an_error() {
        let no_number = leads("soon", r#", "safe_for_ms": 1000"#);
        for data in ["", "[]", "{}", &leads("6000000000", ""), &no_number] {
            assert!(of("elected", data).is_err(), "{data}");
        }
    }

    #[test]
    fn a_deadline_by_another_clock_is_noticed() {
        for (until, is_possible) in [("6001999999", true), ("6002000000", false)] {
            let read = of("elected", &leads(until, r#", "safe_for_ms": 1000"#));
            assert_eq!(read.is_ok(), is_possible, "{until}: {read:?}");
        }
    }
}
