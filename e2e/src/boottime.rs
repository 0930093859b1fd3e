//! The clock by which deadlines are stated to applications.

use std::time::Duration;

use anyhow::{Context, Result};
use rustix::time::{ClockId, clock_gettime};
use serde_json::Value;

/// A moment of this machine's `CLOCK_BOOTTIME`: where a history of applications on it begins.
#[derive(Clone, Copy, Debug)]
pub struct Boottime(Duration);

impl Boottime {
    /// This moment.
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        Self(Duration::try_from(now).expect("it began at zero"))
    }

    /// The time from the start of the machine to this moment.
    pub fn since_boot(self) -> Duration {
        self.0
    }

    /// The time since then.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }

    /// The deadline that a body of an answer states, as the time from this moment to it. The sidecar
    /// must be on this machine.
    pub fn until_safe(self, body: &Value) -> Result<Duration> {
        let text = body["safe_until_boottime_ns"].as_str();
        let text = text.with_context(|| format!("no deadline in {body}"))?;
        Ok(Duration::from_nanos(text.parse()?).saturating_sub(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_as_far_from_the_beginning_as_from_now() {
        let begun = Boottime::now();
        let deadline = begun.0 + Duration::from_secs(10);
        let body = serde_json::json!({"safe_until_boottime_ns": deadline.as_nanos().to_string()});
        assert_eq!(begun.until_safe(&body).unwrap(), Duration::from_secs(10));
        assert!(begun.until_safe(&serde_json::json!({"safe_for_ms": 10_000})).is_err());
    }
}
