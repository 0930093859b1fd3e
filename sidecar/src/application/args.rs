//! How an application's health is asked, as the command line has it.

use std::time::Duration;

use clap::Args;
use conclave_pods::health::{
    HEALTH_INTERVAL, HEALTH_PATH, HEALTH_THRESHOLD, HEALTH_TIMEOUT, HealthCheck, health_path,
    health_period, health_port, health_threshold,
};

/// The settings of the health check.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "they are the names of the settings")]
pub(crate) struct HealthArgs {
    /// The port at which the application's health is asked: without it nobody asks.
    #[arg(long, env = "CONCLAVE_APP_HEALTH_PORT", value_parser = health_port)]
    app_health_port: Option<u16>,
    /// The path that is asked for.
    #[arg(long, env = "CONCLAVE_APP_HEALTH_PATH", default_value = HEALTH_PATH, value_parser = health_path)]
    app_health_path: String,
    /// From one question to the next.
    #[arg(long, env = "CONCLAVE_APP_HEALTH_INTERVAL", default_value = HEALTH_INTERVAL, value_parser = health_period)]
    app_health_interval: Duration,
    /// How long an answer may take.
    #[arg(long, env = "CONCLAVE_APP_HEALTH_TIMEOUT", default_value = HEALTH_TIMEOUT, value_parser = health_period)]
    app_health_timeout: Duration,
    /// After so many failures in a row the application is not healthy.
    #[arg(long, env = "CONCLAVE_APP_HEALTH_THRESHOLD", default_value_t = HEALTH_THRESHOLD, value_parser = health_threshold)]
    app_health_threshold: u32,
}

impl HealthArgs {
    /// What is to be asked, if anything is.
    pub(crate) fn check(&self) -> Option<HealthCheck> {
        Some(HealthCheck {
            port: self.app_health_port?,
            path: self.app_health_path.clone(),
            interval: self.app_health_interval,
            timeout: self.app_health_timeout,
            threshold: self.app_health_threshold,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        health: HealthArgs,
    }

    #[test]
    fn without_a_port_nobody_asks_and_with_one_the_rest_may_be_left_out() {
        assert_eq!(Line::parse_from(["sidecar"]).health.check(), None);
        let line = ["sidecar", "--app-health-port", "8080"];
        let check = HealthCheck {
            port: 8080,
            path: "/".to_owned(),
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            threshold: 3,
        };
        assert_eq!(Line::parse_from(line).health.check(), Some(check));
        let wrong = Line::try_parse_from(["sidecar", "--app-health-interval", "2"]);
        let error = wrong.map(|line| line.health).unwrap_err().to_string();
        assert!(error.contains("must be a duration from 100ms to 1h"), "{error}");
    }
}
