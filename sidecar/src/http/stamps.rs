//! The stamps of logical clocks as JSON, read strictly: an error names the field.

use std::collections::BTreeMap;

use conclave_protocols::logical::hybrid::HybridTime;
use conclave_protocols::logical::{Count, ProcessId, hybrid, lamport, vector};
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::schema::AdditionalProperties;
use utoipa::openapi::{Object, OpenApi, RefOr, Schema, Type};

use super::problem::Problem;
use crate::clocks::{Kind, Stamp};

/// The stamp of an event. It is handed on as it is.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", deny_unknown_fields)]
#[schema(as = Stamp)]
pub(super) enum StampView {
    /// Of a Lamport clock.
    Lamport {
        /// What the clock showed, below 2^53.
        #[schema(example = 42, maximum = 9_007_199_254_740_991_i64)]
        counter: u64,
        /// Whose event it was: a pod, and the number of one of its clocks.
        #[schema(
            example = "shop-0/5d3c90f20a41c7",
            min_length = 1,
            max_length = 270,
            pattern = r"^[!#-\[\]-~]+$"
        )]
        process: String,
    },
    /// Of a vector clock.
    Vector {
        /// How many events of each process it knows of, each below 2^53; of any other process none. At most 256, and
        /// 24,576 bytes: 20 and its name for each.
        #[schema(example = json!({"shop-0/5d3c90f20a41c7": 3, "shop-1/1be7d21f90c4a3": 1}))]
        entries: BTreeMap<String, u64>,
    },
    /// Of a hybrid clock.
    Hybrid {
        /// 64 bits as text, since they do not fit a JSON number: the upper 48 are seconds since 1970 with 16 binary
        /// places, the lower 16 a counter. Ordered as a number is.
        #[schema(example = "7710308798532026369", pattern = r"^(0|[1-9][0-9]{0,19})$")]
        time: String,
        /// Whose event it was.
        #[schema(
            example = "shop-0/5d3c90f20a41c7",
            min_length = 1,
            max_length = 270,
            pattern = r"^[!#-\[\]-~]+$"
        )]
        process: String,
    },
}

impl From<&Stamp> for StampView {
    fn from(stamp: &Stamp) -> Self {
        match stamp {
            Stamp::Lamport(lamport::Stamp { counter, process }) => {
                Self::Lamport { counter: counter.get(), process: process.to_string() }
            }
            Stamp::Vector(stamp) => {
                let entries = stamp.entries();
                let entries = entries.map(|(process, count)| (process.to_string(), count.get()));
                Self::Vector { entries: entries.collect() }
            }
            Stamp::Hybrid(hybrid::Stamp { time, process }) => {
                Self::Hybrid { time: time.0.to_string(), process: process.to_string() }
            }
        }
    }
}

/// States what a stamp cannot have besides what its fields say: any other field, and too many entries or wrong ones.
pub(super) fn describe(document: &mut OpenApi) {
    let schemas = document.components.as_mut().map(|components| &mut components.schemas);
    let stamp = schemas.and_then(|schemas| schemas.get_mut("Stamp"));
    let Some(RefOr::T(Schema::OneOf(kinds))) = stamp else { return };
    for kind in &mut kinds.items {
        let RefOr::T(Schema::Object(kind)) = kind else { continue };
        kind.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
        if let Some(RefOr::T(Schema::Object(entries))) = kind.properties.get_mut("entries") {
            describe_entries(entries);
        }
    }
}

fn describe_entries(entries: &mut Object) {
    entries.max_properties = Some(vector::Stamp::ENTRIES_MAX);
    let mut count = Object::with_type(Type::Integer);
    count.minimum = Some(0_u64.into());
    count.maximum = Some(Count::MAX.get().into());
    let count = AdditionalProperties::RefOr(RefOr::T(Schema::Object(count)));
    entries.additional_properties = Some(Box::new(count));
    let mut process = Object::with_type(Type::String);
    process.min_length = Some(1);
    process.max_length = Some(ProcessId::BYTES_MAX);
    process.pattern = Some(PROCESS.to_owned());
    entries.property_names = Some(Box::new(Schema::Object(process)));
}

/// Reads the stamp in a field.
pub(super) fn read(field: &str, value: Option<Value>) -> Result<Stamp, Problem> {
    let Some(Value::Object(values)) = value else {
        return Err(Problem::invalid(field, "a stamp: a JSON object with its `kind`"));
    };
    let mut stamp = Open { field, values };
    let read = match stamp.kind()? {
        Kind::Lamport => Stamp::Lamport(lamport::Stamp {
            counter: count(&stamp.name("counter"), stamp.take("counter").as_ref())?,
            process: stamp.process()?,
        }),
        Kind::Vector => Stamp::Vector(stamp.entries()?),
        Kind::Hybrid => {
            Stamp::Hybrid(hybrid::Stamp { time: stamp.time()?, process: stamp.process()? })
        }
    };
    stamp.finish().map(|()| read)
}

/// A stamp that is being read.
struct Open<'a> {
    field: &'a str,
    values: Map<String, Value>,
}

impl Open<'_> {
    fn name(&self, part: &str) -> String {
        format!("{}.{part}", self.field)
    }

    fn take(&mut self, part: &str) -> Option<Value> {
        self.values.remove(part)
    }

    fn kind(&mut self) -> Result<Kind, Problem> {
        let kind = self.take("kind");
        let kind = kind.as_ref().and_then(Value::as_str).and_then(Kind::of_name);
        kind.ok_or_else(|| Problem::invalid(&self.name("kind"), KINDS))
    }

    fn process(&mut self) -> Result<ProcessId, Problem> {
        let name = match self.take("process") {
            Some(Value::String(name)) => ProcessId::try_from(name).ok(),
            _ => None,
        };
        name.ok_or_else(|| Problem::invalid(&self.name("process"), process_expected()))
    }

    fn time(&mut self) -> Result<HybridTime, Problem> {
        let time = self.take("time");
        let time = time.as_ref().and_then(Value::as_str).and_then(decimal);
        let expected = "text with a whole number below 2^64";
        time.map(HybridTime).ok_or_else(|| Problem::invalid(&self.name("time"), expected))
    }

    fn entries(&mut self) -> Result<vector::Stamp, Problem> {
        let field = self.name("entries");
        let Some(Value::Object(entries)) = self.take("entries") else {
            return Err(Problem::invalid(&field, "a JSON object with a count for each process"));
        };
        let entry = |(name, value): (String, Value)| {
            let field = format!("{field}.{name}");
            let count = count(&field, Some(&value))?;
            let process = ProcessId::try_from(name);
            let process = process.map_err(|_| Problem::invalid(&field, process_expected()))?;
            Ok((process, count))
        };
        let entries: Result<Vec<_>, Problem> = entries.into_iter().map(entry).collect();
        vector::Stamp::new(entries?).map_err(|limits| Problem::invalid(&field, limits.to_string()))
    }

    /// Refuses what no stamp of this kind has.
    fn finish(self) -> Result<(), Problem> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(name) => {
                let expected = "no such field in a stamp of this kind";
                Err(Problem::invalid(&self.name(name), expected))
            }
        }
    }
}

fn count(field: &str, value: Option<&Value>) -> Result<Count, Problem> {
    let count = value.and_then(Value::as_u64).and_then(Count::new);
    count.ok_or_else(|| Problem::invalid(field, "a whole number below 2^53"))
}

/// Digits alone, none of which is missed: a number has one form.
fn decimal(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

fn process_expected() -> String {
    let most = ProcessId::BYTES_MAX;
    format!("the name of a process: 1 to {most} visible ASCII characters without `\"` and `\\`")
}

/// The names of processes, as the document states them.
const PROCESS: &str = r"^[!#-\[\]-~]+$";

/// What a kind looks like.
pub(super) const KINDS: &str = "`Lamport`, `Vector` or `Hybrid`";
