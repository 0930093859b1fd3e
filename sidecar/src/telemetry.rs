//! Logs: one line for each record, on standard output.

use std::io::IsTerminal;

use conclave_protocols::trace::Line;
use tracing::{Level, Subscriber};
use tracing_appender::non_blocking::WorkerGuard;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;
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

/// Whether members are to write down what they do.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: TRACE, Level::TRACE)
}

/// Writes down something that a member did. It stands on standard output before this returns.
///
/// Times in it are `LocalTime` as the group task reads it, [`OsClock::now`](crate::os_clock::OsClock::now):
/// nanoseconds of the host's `CLOCK_BOOTTIME`, which counts from the start of the host. Of sidecars on
/// one host these are times on one axis, and of sidecars on several they are not.
pub(crate) fn trace(line: &Line) {
    match serde_json::to_string(line) {
        Ok(text) => tracing::trace!(target: TRACE, "{text}"),
        // The gap in the numbers of lines shows that there was one.
        Err(error) => tracing::error!(%error, "write a line of the trace"),
    }
}

/// The target that a filter lets through for traces: `conclave::trace=trace`.
const TRACE: &str = "conclave::trace";

/// The target that a filter lets through for how long each part of a call takes: `conclave::path=debug`.
pub(crate) const PATH: &str = "conclave::path";

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

/// Begins to log what `filter` lets through: a level, or levels of targets.
pub fn init(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let is_read = std::io::stdout().is_terminal();
    subscriber(format, filter, std::io::stdout, is_read)?.try_init().map_err(TelemetryError::Twice)
}

/// The same on standard error, where standard output is that of another program. Nobody who logs waits for its reader:
/// what there is no room for is lost. What is left is written when the value ends that this returns.
pub(crate) fn init_on_standard_error(
    format: LogFormat,
    filter: &str,
) -> Result<WorkerGuard, TelemetryError> {
    let is_read = std::io::stderr().is_terminal();
    let (writer, written) = tracing_appender::non_blocking(std::io::stderr());
    subscriber(format, filter, writer, is_read)?.try_init().map_err(TelemetryError::Twice)?;
    Ok(written)
}

fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    writer: W,
    may_colour: bool,
) -> Result<impl Subscriber + Send + Sync, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let allowed: Targets = conclave_kubernetes::filter(filter)
        .parse()
        .map_err(|source| TelemetryError::Filter { filter: filter.to_owned(), source })?;
    let layer = fmt::layer().with_writer(writer).with_span_events(FmtSpan::CLOSE);
    // Where it may, the environment decides (`NO_COLOR`).
    let layer = if may_colour { layer } else { layer.with_ansi(false) };
    let layer = match format {
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Text => layer.boxed(),
    };
    Ok(tracing_subscriber::registry().with(allowed).with(layer))
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use conclave_protocols::trace::{Event, What};
    use conclave_protocols::{Incarnation, LocalTime, PodUid};

    use super::*;

    #[test]
    fn a_line_of_a_trace_is_a_record_whose_message_is_json_and_is_written_where_that_is_wanted() {
        let who = Incarnation { pod: PodUid(1), run: 2 };
        let what = What::Did(Event::LeadsNot);
        let line = Line { who, number: 3, at: LocalTime(4), what };
        for (filter, lines) in [("info,kube=warn", 0), ("info,conclave::trace=trace", 1)] {
            let text = logged(filter, || {
                assert_eq!(is_traced(), lines > 0);
                trace(&line);
            });
            assert_eq!(text.lines().count(), lines, "{text}");
            for record in text.lines() {
                assert!(record.contains("\"conclave::trace\""), "{record}");
                let record: serde_json::Value = serde_json::from_str(record).expect("JSON");
                let message = record["message"].as_str().expect("a text");
                assert_eq!(serde_json::from_str::<Line>(message).expect("a line"), line);
            }
        }
    }

    #[test]
    fn a_span_of_the_path_is_a_record_with_its_time_where_that_is_wanted() {
        for (filter, lines) in [("info,kube=warn", 0), ("info,conclave::path=debug", 1)] {
            let text = logged(filter, || {
                tracing::debug_span!(target: PATH, "ask", lock = "orders").in_scope(|| ());
            });
            assert_eq!(text.lines().count(), lines, "{text}");
            for record in text.lines() {
                let record: serde_json::Value = serde_json::from_str(record).expect("JSON");
                assert_eq!(record["span"]["name"], "ask");
                assert_eq!(record["span"]["lock"], "orders");
                assert!(record["time.busy"].is_string(), "{record}");
            }
        }
    }

    /// What is written of what `act` does.
    fn logged(filter: &str, act: impl FnOnce()) -> String {
        let path = tempfile::NamedTempFile::new().expect("a file");
        let file = Arc::new(path.reopen().expect("the same file"));
        let subscriber = subscriber(LogFormat::Json, filter, file, true).expect("a filter");
        tracing::subscriber::with_default(subscriber, act);
        let mut text = String::new();
        path.reopen().expect("the same file").read_to_string(&mut text).expect("a text");
        text
    }

    #[test]
    fn a_filter_that_is_none_is_refused_with_its_text() {
        let error = init(LogFormat::Json, "conclave=loudly").expect_err("no such level");
        assert!(error.to_string().contains("`conclave=loudly`"), "{error}");
    }
}
