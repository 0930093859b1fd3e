//! What a sidecar asks for and may use: by default, and as the annotations of a pod have it.

use clap::Args;
use serde_json::{Value, json};

use super::problem::Problem;
use super::settings::PREFIX;

/// What sidecars ask for and may use, where the annotations of a pod say nothing else.
#[derive(Args, Clone, Debug, Eq, PartialEq)]
pub struct Resources {
    /// The processor time that a sidecar asks for: 1m to 16.
    #[arg(
        long = "sidecar-cpu-request",
        env = "CONCLAVE_SIDECAR_CPU_REQUEST",
        value_name = "QUANTITY",
        default_value = DEFAULT_CPU_REQUEST,
        value_parser = |text: &str| CPU_REQUEST.read(text)
    )]
    cpu_request: Quantity,
    /// The processor time that a sidecar may use: 50m to 16. By default there is no limit, because a member that is
    /// throttled misses heartbeats.
    #[arg(
        long = "sidecar-cpu-limit",
        env = "CONCLAVE_SIDECAR_CPU_LIMIT",
        value_name = "QUANTITY",
        value_parser = |text: &str| CPU_LIMIT.read(text)
    )]
    cpu_limit: Option<Quantity>,
    /// The memory that a sidecar asks for: 4Mi to 16Gi.
    #[arg(
        long = "sidecar-memory-request",
        env = "CONCLAVE_SIDECAR_MEMORY_REQUEST",
        value_name = "QUANTITY",
        default_value = DEFAULT_MEMORY_REQUEST,
        value_parser = |text: &str| MEMORY_REQUEST.read(text)
    )]
    memory_request: Quantity,
    /// The memory that a sidecar may use: 32Mi to 16Gi.
    #[arg(
        long = "sidecar-memory-limit",
        env = "CONCLAVE_SIDECAR_MEMORY_LIMIT",
        value_name = "QUANTITY",
        default_value = DEFAULT_MEMORY_LIMIT,
        value_parser = |text: &str| MEMORY_LIMIT.read(text)
    )]
    memory_limit: Quantity,
}

/// What the annotations of a pod say of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Wanted {
    cpu_request: Option<Quantity>,
    cpu_limit: Option<Quantity>,
    memory_request: Option<Quantity>,
    memory_limit: Option<Quantity>,
}

/// A quantity of Kubernetes, such as `10m`, `0.5` or `64Mi`.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Quantity {
    /// As it was written.
    text: String,
    /// How much that is, in billionths.
    amount: u128,
}

/// The least and the most that something may be.
struct Bounds {
    setting: &'static str,
    least: &'static str,
    most: &'static str,
}

impl Default for Resources {
    fn default() -> Self {
        let quantity = |text: &str| Quantity::read(text).expect("a default is a quantity");
        Self {
            cpu_request: quantity(DEFAULT_CPU_REQUEST),
            cpu_limit: None,
            memory_request: quantity(DEFAULT_MEMORY_REQUEST),
            memory_limit: quantity(DEFAULT_MEMORY_LIMIT),
        }
    }
}

impl Resources {
    /// Whether no sidecar asks for more than it may use: the API server refuses a pod in which one does.
    ///
    /// # Errors
    ///
    /// Which of the two is wrong.
    pub fn check(&self) -> Result<(), String> {
        let Self { cpu_request, cpu_limit, memory_request, memory_limit } = self;
        let pairs = [
            ("cpu", cpu_request, cpu_limit.as_ref()),
            ("memory", memory_request, Some(memory_limit)),
        ];
        for (of, request, limit) in pairs {
            if let Some(limit) = limit.filter(|limit| request.amount > limit.amount) {
                let (request, limit) = (&request.text, &limit.text);
                return Err(format!(
                    "`sidecar-{of}-request` must be at most `sidecar-{of}-limit`, which is {limit}, and is {request}"
                ));
            }
        }
        Ok(())
    }

    /// Those of a pod with these annotations, as its container has them.
    pub(super) fn of_pod(&self, wanted: &Wanted) -> Result<Value, Problem> {
        let cpu_limit = wanted.cpu_limit.as_ref().or(self.cpu_limit.as_ref());
        let cpu_request = wanted.cpu_request.as_ref().unwrap_or(&self.cpu_request);
        let memory_limit = wanted.memory_limit.as_ref().unwrap_or(&self.memory_limit);
        let memory_request = wanted.memory_request.as_ref().unwrap_or(&self.memory_request);
        if let Some(limit) = cpu_limit {
            fits("cpu", cpu_request, limit, wanted.cpu_limit.is_some())?;
        }
        fits("memory", memory_request, memory_limit, wanted.memory_limit.is_some())?;
        let mut limits = json!({"memory": memory_limit.text});
        if let Some(limit) = cpu_limit {
            limits["cpu"] = json!(limit.text);
        }
        let requests = json!({"cpu": cpu_request.text, "memory": memory_request.text});
        Ok(json!({"requests": requests, "limits": limits}))
    }
}

impl Wanted {
    /// Takes an annotation, if it is one of these; says whether it is.
    pub(super) fn set(&mut self, setting: &str, text: &str) -> Result<bool, String> {
        let fields = [
            (&CPU_REQUEST, &mut self.cpu_request),
            (&CPU_LIMIT, &mut self.cpu_limit),
            (&MEMORY_REQUEST, &mut self.memory_request),
            (&MEMORY_LIMIT, &mut self.memory_limit),
        ];
        for (bounds, field) in fields {
            if bounds.setting == setting {
                *field = Some(bounds.read(text)?);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Bounds {
    fn read(&self, text: &str) -> Result<Quantity, String> {
        let Self { least, most, .. } = self;
        let quantity = Quantity::read(text).ok_or_else(|| {
            format!("must be a quantity such as `10m` or `64Mi`, and is `{text}`")
        })?;
        let amount = |text| Quantity::read(text).map(|bound| bound.amount);
        let is_within = amount(least).is_some_and(|least| least <= quantity.amount)
            && amount(most).is_some_and(|most| quantity.amount <= most);
        is_within
            .then_some(quantity)
            .ok_or_else(|| format!("must be between {least} and {most}, and is `{text}`"))
    }
}

impl Quantity {
    fn read(text: &str) -> Option<Self> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let number_end = text.find(|c| !is_number(c)).unwrap_or(text.len());
        let (number, unit) = text.split_at(number_end);
        let (_, unit) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_short = (1..=DIGITS).contains(&(whole.len() + fraction.len()));
        if !is_short || fraction.contains('.') {
            return None;
        }
        let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
        let amount = digits.checked_mul(unit)? / 10_u128.pow(u32::try_from(fraction.len()).ok()?);
        Some(Self { text: text.to_owned(), amount })
    }
}

/// The API server refuses a container that asks for more than it may use. What the pod itself says is what must change.
fn fits(
    of: &str,
    request: &Quantity,
    limit: &Quantity,
    is_limit_annotated: bool,
) -> Result<(), Problem> {
    if request.amount <= limit.amount {
        return Ok(());
    }
    let (request, limit) = (&request.text, &limit.text);
    let field = |setting: &str| format!("metadata.annotations[{PREFIX}{of}-{setting}]");
    Err(if is_limit_annotated {
        let problem = format!("must be at least the request, which is {request}, and is {limit}");
        Problem::new(field("limit"), problem)
    } else {
        let problem = format!("must be at most the limit, which is {limit}, and is {request}");
        Problem::new(field("request"), problem)
    })
}

const DEFAULT_CPU_REQUEST: &str = "10m";
const DEFAULT_MEMORY_REQUEST: &str = "16Mi";
const DEFAULT_MEMORY_LIMIT: &str = "128Mi";

/// The names are those of annotations, and those of flags behind `sidecar-`. More than the most is a wrong unit.
const CPU_REQUEST: Bounds = Bounds { setting: "cpu-request", least: "1m", most: "16" };
/// With less a member would be throttled for longer than a heartbeat where it makes keys or shakes hands.
const CPU_LIMIT: Bounds = Bounds { setting: "cpu-limit", least: "50m", most: "16" };
const MEMORY_REQUEST: Bounds = Bounds { setting: "memory-request", least: "4Mi", most: "16Gi" };
/// Less is too little under load.
const MEMORY_LIMIT: Bounds = Bounds { setting: "memory-limit", least: "32Mi", most: "16Gi" };

/// Units, in billionths.
const UNITS: [(&str, u128); 16] = [
    ("n", 1),
    ("u", 1_000),
    ("m", 1_000_000),
    ("", ONE),
    ("k", 1_000 * ONE),
    ("M", 1_000_000 * ONE),
    ("G", 1_000_000_000 * ONE),
    ("T", 1_000_000_000_000 * ONE),
    ("P", 1_000_000_000_000_000 * ONE),
    ("E", 1_000_000_000_000_000_000 * ONE),
    ("Ki", ONE << 10),
    ("Mi", ONE << 20),
    ("Gi", ONE << 30),
    ("Ti", ONE << 40),
    ("Pi", ONE << 50),
    ("Ei", ONE << 60),
];

const ONE: u128 = 1_000_000_000;

/// Digits that a quantity may have: more are a slip.
const DIGITS: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_compared_by_what_they_are() {
        let amount = |text| Quantity::read(text).map(|quantity| quantity.amount);
        for (one, other) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("64Mi", "67108864"),
            ("0.5Gi", "512Mi"),
            ("1.5k", "1500"),
            ("1E", "1000P"),
        ] {
            assert_eq!(amount(one), amount(other), "{one}");
            assert!(amount(one).is_some(), "{one}");
        }
        assert!(amount("64M") < amount("64Mi"));
        for text in ["", ".", "m", "1.2.3", "-1", "1e3", "1 Mi", "much", "1234567890123456"] {
            assert_eq!(amount(text), None, "{text}");
        }
    }

    #[test]
    fn the_defaults_are_within_their_bounds_and_fit_each_other() {
        let Resources { cpu_request, memory_request, memory_limit, .. } = Resources::default();
        assert_eq!(CPU_REQUEST.read(&cpu_request.text), Ok(cpu_request));
        assert_eq!(MEMORY_REQUEST.read(&memory_request.text), Ok(memory_request));
        assert_eq!(MEMORY_LIMIT.read(&memory_limit.text), Ok(memory_limit));
        assert_eq!(Resources::default().check(), Ok(()));
    }
}
