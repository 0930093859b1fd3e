//! Logs, and errors in them.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write;
use std::io::IsTerminal;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::LogFormat;

/// Writes logs to standard output from now on. A second call changes nothing.
pub fn init(format: LogFormat, filter: Targets) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(std::io::stdout().is_terminal());
    // The only error is that somebody, a test for instance, was first.
    drop(match format {
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .finish()
            .with(filter)
            .try_init(),
        LogFormat::Text => builder.finish().with(filter).try_init(),
    });
}

/// An error and its causes in one line. Causes that an error has already stated are left out.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            // Writing to a string cannot fail.
            write!(text, ": {cause_text}").unwrap_or_default();
        }
        next = cause.source();
    }
    text
}

/// The beginning of a text that somebody else wrote.
pub fn excerpt(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Characters of a stranger's text that are logged.
const EXCERPT: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_beginning_is_logged() {
        assert_eq!(excerpt("short"), "short");
        assert_eq!(excerpt(&"ü".repeat(300)), "ü".repeat(300));
        assert_eq!(excerpt(&"ü".repeat(301)), format!("{}…", "ü".repeat(300)));
    }
}
