//! Logs: one line for each record, on standard output.

use tracing_subscriber::filter::{EnvFilter, ParseError};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, fmt};

/// How a record is written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum LogFormat {
    /// JSON, for machines.
    #[default]
    Json,
    /// Text, for people.
    Text,
}

/// Why logging could not begin.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error(
        "`{filter}` is no log filter: expected directives such as `info,conclave_sidecar=debug`"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// Why not.
        #[source]
        source: ParseError,
    },
    /// It has begun already.
    #[error("logging was set up before")]
    Twice(#[source] TryInitError),
}

/// Begins to log what `filter` lets through: a level, or directives as in `RUST_LOG`.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let allowed = EnvFilter::try_new(filter)
        .map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })?;
    let layer = match format {
        LogFormat::Json => fmt::layer().json().flatten_event(true).boxed(),
        LogFormat::Text => fmt::layer().boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(allowed).with(layer);
    subscriber.try_init().map_err(TelemetryError::Twice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_is_none_is_refused_with_its_text() {
        let error = init(LogFormat::Json, "conclave=loudly").expect_err("no such level");
        assert!(error.to_string().contains("`conclave=loudly`"), "{error}");
    }
}
