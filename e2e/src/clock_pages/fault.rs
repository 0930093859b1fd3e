//! What is wrong with the clock of a sidecar.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// A fault that is injected into the raw clock of a sidecar; by default none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fault {
    /// How far the clock is off, in milliseconds.
    pub offset_ms: i32,
    /// How much too fast it runs, in parts per million.
    pub drift_ppm: i32,
    /// By how much its rate differs from that besides, in parts per billion: one way for ten seconds, and then the other.
    pub wander_ppb: i32,
}

impl Fault {
    /// What the sidecar's clock reads when that of the machine does so.
    pub fn at(self, raw: u64) -> u64 {
        if self == Self::default() {
            return raw;
        }
        let raw = i128::from(raw);
        let drift = raw * i128::from(self.drift_ppm) / 1_000_000;
        let since = (raw.rem_euclid(2 * SWING_NS) - SWING_NS).abs();
        let wander = since * i128::from(self.wander_ppb) / 1_000_000_000;
        let offset = i128::from(self.offset_ms) * 1_000_000 + ORIGIN_NS;
        u64::try_from(raw + drift + wander + offset).unwrap_or(0)
    }

    /// The variables by which a sidecar has it.
    pub(super) fn variables(self) -> Vec<Value> {
        let set = |name: &str, value: i32| json!({ "name": name, "value": value.to_string() });
        if self == Self::default() {
            return Vec::new();
        }
        vec![set(OFFSET, self.offset_ms), set(DRIFT, self.drift_ppm), set(WANDER, self.wander_ppb)]
    }

    /// The fault of a container with that environment.
    pub(super) fn of(environment: &Value) -> Result<Self> {
        let variables = environment.as_array().context("there is no environment")?;
        let value = |name: &str| {
            let found = variables.iter().find(|variable| variable["name"] == name);
            let text = found.and_then(|variable| variable["value"].as_str());
            text.map_or(Ok(0), str::parse).with_context(|| format!("{name} is no number"))
        };
        let (offset_ms, drift_ppm) = (value(OFFSET)?, value(DRIFT)?);
        let fault = Self { offset_ms, drift_ppm, wander_ppb: value(WANDER)? };
        ensure!(fault.drift_ppm > -1_000_000, "its clock goes backward: {fault:?}");
        Ok(fault)
    }
}

const OFFSET: &str = "CONCLAVE_TEST_CLOCK_OFFSET_MS";
const DRIFT: &str = "CONCLAVE_TEST_CLOCK_DRIFT_PPM";
const WANDER: &str = "CONCLAVE_TEST_CLOCK_WANDER_PPB";

/// For so long a clock that wanders does so in one direction.
const SWING_NS: i128 = 10_000_000_000;

/// A raw clock with a fault counts from that long before the machine began: 30 days.
const ORIGIN_NS: i128 = 30 * 24 * 3_600 * 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const FAULT: Fault = Fault { offset_ms: -2, drift_ppm: 80, wander_ppb: 3_000 };

    #[test]
    fn a_clock_without_a_fault_is_that_of_the_machine() {
        assert_eq!(Fault::default().at(7_000_000_000), 7_000_000_000);
        assert!(Fault::default().variables().is_empty());
    }

    #[test]
    fn a_fault_is_an_offset_a_drift_and_a_wander_from_a_month_before() {
        let month = 2_592_000_000_000_000;
        for (raw, drift, wander) in
            [(10_000_000_000, 800_000, 0), (24_000_000_000, 1_920_000, 18_000)]
        {
            assert_eq!(FAULT.at(raw), month + raw + drift + wander - 2_000_000);
        }
    }

    #[test]
    fn the_environment_has_the_fault_of_its_container() {
        assert_eq!(Fault::of(&Value::Array(FAULT.variables())).unwrap(), FAULT);
        assert_eq!(Fault::of(&json!([])).unwrap(), Fault::default());
        assert!(Fault::of(&json!([{ "name": OFFSET, "value": "x" }])).is_err());
    }
}
