//! How long something is safe, as answers and events say it.

use axum::http::{HeaderMap, HeaderName};
use conclave_protocols::LocalTime;
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::claim_view::millis;
use crate::os_clock::ApplicationTime;

/// How long a hold or a leadership is safe; without any of it, it is not.
///
/// Only the deadlines are for programs: they are good however long the answer was on its way.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[expect(clippy::struct_field_names, reason = "they are the names of the API")]
pub(super) struct Safety {
    /// For how long it is safe, from when this was sent: for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    safe_for_ms: Option<u64>,
    /// Until when it is safe: a reading of this machine's `CLOCK_BOOTTIME`, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "743119673557000")]
    safe_until_boottime_ns: Option<Digits>,
    /// The same as a reading of `CLOCK_MONOTONIC`, for as long as the machine is not suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "743119673557000")]
    safe_until_monotonic_ns: Option<Digits>,
}

impl Safety {
    /// It is safe until `deadline`, which lies ahead of `now`.
    pub(super) fn until(deadline: LocalTime, now: ApplicationTime) -> Self {
        Self {
            safe_for_ms: Some(millis(deadline - now.boottime)),
            safe_until_boottime_ns: Some(Digits(deadline.0)),
            safe_until_monotonic_ns: Some(Digits(now.monotonic_ns_at(deadline))),
        }
    }

    /// Says the same in headers.
    pub(super) fn write_to(&self, headers: &mut HeaderMap) {
        let values = [
            (SAFE_FOR_MS, self.safe_for_ms),
            (SAFE_UNTIL_BOOTTIME_NS, self.safe_until_boottime_ns.map(|Digits(ns)| ns)),
            (SAFE_UNTIL_MONOTONIC_NS, self.safe_until_monotonic_ns.map(|Digits(ns)| ns)),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                headers.insert(name, value.into());
            }
        }
    }
}

/// A number that is sent as text, since not every program reads one so large from JSON.
#[derive(Clone, Copy, Debug)]
struct Digits(u64);

impl Serialize for Digits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

const SAFE_FOR_MS: HeaderName = HeaderName::from_static("conclave-safe-for-ms");
const SAFE_UNTIL_BOOTTIME_NS: HeaderName =
    HeaderName::from_static("conclave-safe-until-boottime-ns");
const SAFE_UNTIL_MONOTONIC_NS: HeaderName =
    HeaderName::from_static("conclave-safe-until-monotonic-ns");
