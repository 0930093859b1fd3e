//! A length of time, as a manifest writes it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use kube::core::Rule;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A length of time as text, such as `250ms` or `1m30s`.
///
/// The text is kept as the user wrote it, and one that cannot be read is an error only when it is
/// asked for its [`duration`](Self::duration): a single wrong resource must not stop the watch that
/// brings the others.
///
/// The format is that of Gateway API's GEP-2257, a part of what Go's `time.ParseDuration` reads:
/// one to four numbers of up to five digits, each with the unit `h`, `m`, `s` or `ms`.
///
/// ```
/// # use std::time::Duration;
/// let period = conclave_crds::Period::new("1m30s");
/// assert_eq!(period.duration(), Ok(Duration::from_secs(90)));
/// ```
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Period(String);

/// Why a text is no length of time.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no duration: expected {EXPECTED}")]
pub struct PeriodError(String);

impl Period {
    /// A period with this text, which is not looked at yet.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// How long it is.
    pub fn duration(&self) -> Result<Duration, PeriodError> {
        parse(&self.0).ok_or_else(|| PeriodError(self.0.chars().take(80).collect()))
    }
}

/// Writes hours, minutes, seconds and milliseconds; what is shorter than a millisecond is dropped.
impl From<Duration> for Period {
    fn from(duration: Duration) -> Self {
        let millis = duration.as_millis();
        let parts = [
            (millis / 3_600_000, "h"),
            (millis / 60_000 % 60, "m"),
            (millis / 1_000 % 60, "s"),
            (millis % 1_000, "ms"),
        ];
        let mut text = String::new();
        for (number, unit) in parts.iter().filter(|(number, _)| *number > 0) {
            text.push_str(&number.to_string());
            text.push_str(unit);
        }
        Self(if text.is_empty() { "0s".to_owned() } else { text })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn inline_schema() -> bool {
        true
    }

    /// The form is a rule and no `pattern`, whose message would be the expression alone. All other rules about
    /// periods hold of a malformed one (`well_formed`), so that it gets this message and no other.
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let rule = Rule::new(well_formed("self")).message(format!("must be {EXPECTED}").as_str());
        json_schema!({ "type": "string", "maxLength": 28, "x-kubernetes-validations": [rule] })
    }
}

/// The expression that a text can be read: `duration()` fails of one that cannot.
pub(crate) fn well_formed(text: &str) -> String {
    format!("{text}.matches('{PATTERN}')")
}

/// Reads exactly what [`PATTERN`] allows. Whole numbers only: kube's own `Duration` goes through
/// floating point, which rounds, and panics where a later part is negative.
fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    for _ in 0..4 {
        let (part, after) = parse_part(rest)?;
        total += part;
        if after.is_empty() {
            return Some(total);
        }
        rest = after;
    }
    None
}

/// Reads one number with its unit, and returns what follows.
fn parse_part(text: &str) -> Option<(Duration, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if !(1..=5).contains(&digits) {
        return None;
    }
    let (number, rest) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    // `ms` before `m`: the longer unit first.
    let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
    units.iter().find_map(|(unit, millis)| {
        rest.strip_prefix(unit).map(|after| (Duration::from_millis(number * millis), after))
    })
}

const EXPECTED: &str = "one to four numbers, each with the unit h, m, s or ms, such as 1m30s";

/// Source: <https://gateway-api.sigs.k8s.io/geps/gep-2257/>.
const PATTERN: &str = "^([0-9]{1,5}(h|m|s|ms)){1,4}$";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_reads_what_gep_2257_allows() {
        for (text, millis) in [
            ("0s", 0),
            ("1500ms", 1_500),
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("1h2m3s4ms", 3_723_004),
        ] {
            assert_eq!(Period::new(text).duration(), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn a_period_refuses_everything_else() {
        for text in
            ["", "1", "s", "1.5s", "-1s", "100000s", "1d", "1s ", "1s1s1s1s1s", "1µs", "1m-1s"]
        {
            assert!(Period::new(text).duration().is_err(), "{text}");
        }
    }

    #[test]
    fn a_written_period_is_read_as_the_same_length() {
        for millis in [0, 1, 999, 1_500, 60_000, 600_000, 3_723_004, 99_999 * 3_600_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(Period::from(duration).duration(), Ok(duration));
        }
        assert_eq!(Period::from(Duration::from_millis(1_500)).to_string(), "1s500ms");
    }
}
