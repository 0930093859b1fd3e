//! How the health of an application is looked after: what its pod's annotations and the sidecar's settings may say.

use std::time::Duration;

use conclave_crds::Period;

/// How the sidecar asks an application whether it is well: `GET http://127.0.0.1:PORT/PATH`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HealthCheck {
    /// Where the application listens.
    pub port: u16,
    /// The path, and a query if there is one.
    pub path: String,
    /// From one question to the next.
    pub interval: Duration,
    /// How long an answer may take.
    pub timeout: Duration,
    /// After so many failures in a row the application is not healthy.
    pub threshold: u32,
}

/// The path that is asked for if none is given.
pub const HEALTH_PATH: &str = "/";

/// From one question to the next, if nothing else is given.
pub const HEALTH_INTERVAL: &str = "2s";

/// How long an answer may take, if nothing else is given.
pub const HEALTH_TIMEOUT: &str = "1s";

/// How many failures in a row it takes, if nothing else is given.
pub const HEALTH_THRESHOLD: u32 = 3;

/// A port of the application. An error says what is expected.
pub fn health_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("must be a port, a number from 1 to 65535, and is `{text}`"))
}

/// A path that a request can ask for. An error says what is expected.
pub fn health_path(text: &str) -> Result<String, String> {
    let is_fit = |c: char| c.is_ascii_graphic() && !"#<>`".contains(c);
    if !text.starts_with('/') || !text.chars().all(is_fit) || text.len() > PATH_MAX {
        return Err(format!(
            "must be a path such as `/healthz`, of at most {PATH_MAX} visible characters, and is `{text}`"
        ));
    }
    Ok(text.to_owned())
}

/// Between two questions, or until an answer. An error says what is expected.
pub fn health_period(text: &str) -> Result<Duration, String> {
    let period = Period::new(text).duration().ok();
    let period = period.filter(|period| (SHORTEST..=LONGEST).contains(period));
    period.ok_or_else(|| format!("must be a duration from 100ms to 1h, and is `{text}`"))
}

/// A number of failures. An error says what is expected.
pub fn health_threshold(text: &str) -> Result<u32, String> {
    let threshold = text.parse().ok().filter(|count| (1..=THRESHOLD_MAX).contains(count));
    threshold.ok_or_else(|| format!("must be a number from 1 to {THRESHOLD_MAX}, and is `{text}`"))
}

const PATH_MAX: usize = 1_024;
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_hours(1);
const THRESHOLD_MAX: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_range_is_read_and_anything_else_is_refused_by_what_was_expected() {
        assert_eq!((health_port("1"), health_port("65535")), (Ok(1), Ok(65_535)));
        for port in ["0", "65536", "http", "", "-1"] {
            assert!(health_port(port).is_err_and(|e| e.contains("1 to 65535")), "{port}");
        }
        assert_eq!(health_path("/live?full=1"), Ok("/live?full=1".to_owned()));
        for path in ["", "healthz", "/a b", "/a#b", "/\u{e9}", "/a\n", &"/a".repeat(600)] {
            assert!(health_path(path).is_err_and(|e| e.contains("/healthz")), "{path}");
        }
        assert_eq!(health_period("100ms"), Ok(Duration::from_millis(100)));
        for period in ["99ms", "1h1ms", "2", "-1s", "1.5s", ""] {
            assert!(health_period(period).is_err_and(|e| e.contains("100ms to 1h")), "{period}");
        }
        assert_eq!((health_threshold("1"), health_threshold("100")), (Ok(1), Ok(100)));
        for threshold in ["0", "101", "x", ""] {
            assert!(health_threshold(threshold).is_err_and(|e| e.contains("1 to 100")));
        }
    }

    #[test]
    fn what_is_taken_if_nothing_is_given_is_in_range() {
        assert!(health_path(HEALTH_PATH).is_ok());
        let (interval, timeout) = (health_period(HEALTH_INTERVAL), health_period(HEALTH_TIMEOUT));
        assert!(timeout.unwrap() <= interval.unwrap());
        assert!(health_threshold(&HEALTH_THRESHOLD.to_string()).is_ok());
    }
}
