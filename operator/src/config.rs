//! The settings of the operator.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use conclave_crds::Period;
use conclave_pods::inject::{DEFAULT_IMAGE, Resources};
use tracing_subscriber::filter::Targets;

use crate::authority::Lifetimes;

/// Flags and environment, as they came.
#[derive(Clone, Debug, Parser)]
#[command(name = "conclave-operator", version, about = "Reconciles Conclave resources")]
pub struct Flags {
    /// The namespaces to look after, separated by commas; all, if there is none.
    #[arg(long, env = "CONCLAVE_NAMESPACES", value_delimiter = ',')]
    namespaces: Vec<String>,
    /// The Lease by which the replicas agree who acts.
    #[arg(long, env = "CONCLAVE_LEASE_NAME", default_value = "conclave-operator")]
    lease_name: String,
    /// The namespace of that Lease: the operator's own, if it is not given.
    #[arg(long, env = "POD_NAMESPACE")]
    lease_namespace: Option<String>,
    /// The name of this replica.
    #[arg(long, env = "POD_NAME", default_value = "conclave-operator")]
    replica: String,
    /// How long the other replicas wait for one that is silent.
    #[arg(long, env = "CONCLAVE_LEASE_DURATION", default_value = "15s")]
    lease_duration: String,
    /// How long a replica that cannot renew its turn goes on: less than the lease's duration.
    #[arg(long, env = "CONCLAVE_RENEW_DEADLINE", default_value = "10s")]
    renew_deadline: String,
    /// How often a turn is renewed or asked for: less than five sixths of the renew deadline.
    #[arg(long, env = "CONCLAVE_RETRY_PERIOD", default_value = "2s")]
    retry_period: String,
    /// Where metrics and probes are served.
    #[arg(long, env = "CONCLAVE_METRICS_ADDRESS", default_value = "[::]:8080")]
    metrics_address: String,
    /// Where certificates are issued and pods are reviewed.
    #[arg(long, env = "CONCLAVE_AUTHORITY_ADDRESS", default_value = "[::]:8443")]
    authority_address: String,
    /// The Service in the operator's own namespace by which that address is reached.
    #[arg(long, env = "CONCLAVE_SERVICE_NAME", default_value = "conclave-operator")]
    service_name: String,
    /// The webhook configuration that is to trust the authority; none, if it is empty.
    #[arg(long, env = "CONCLAVE_WEBHOOK_NAME", default_value = "")]
    webhook_name: String,
    /// A directory with `tls.crt` and `tls.key`, which are shown to the API server when it calls the
    /// webhook, and are read anew when they change; none, if it is empty. Then somebody else tells the
    /// API server whom to trust, and the name of the webhook must be empty.
    #[arg(long, env = "CONCLAVE_WEBHOOK_CERTIFICATE_PATH", default_value = "")]
    webhook_certificate_path: String,
    /// How long a certificate of the authority is valid: at least six times overlap and lifetime of
    /// other certificates together.
    #[arg(long, env = "CONCLAVE_AUTHORITY_LIFETIME", default_value = "87600h")]
    authority_lifetime: String,
    /// How long everybody has to learn of another authority before it signs.
    #[arg(long, env = "CONCLAVE_AUTHORITY_OVERLAP", default_value = "1h")]
    authority_overlap: String,
    /// How long a certificate of a member is valid.
    #[arg(long, env = "CONCLAVE_CERTIFICATE_LIFETIME", default_value = "24h")]
    certificate_lifetime: String,
    /// The image of the sidecars, where the annotation of a pod names no other.
    #[arg(long, env = "CONCLAVE_SIDECAR_IMAGE", default_value = DEFAULT_IMAGE)]
    sidecar_image: String,
    /// What sidecars ask for and may use.
    #[command(flatten)]
    sidecar_resources: Resources,
    /// How logs are written.
    #[arg(long, env = "CONCLAVE_LOG_FORMAT", value_enum, default_value = "json")]
    log_format: LogFormat,
    /// What is logged, such as `info` or `conclave_operator=debug,kube=warn`.
    #[arg(long, env = "CONCLAVE_LOG", default_value = "info")]
    log: String,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object for each line.
    Json,
    /// For people.
    Text,
}

/// The settings, checked.
#[derive(Debug)]
pub struct Config {
    /// The namespaces to look after; all, if there is none.
    pub namespaces: Vec<String>,
    /// The Lease by which the replicas agree who acts.
    pub lease_name: String,
    /// Its namespace, if it was given.
    pub lease_namespace: Option<String>,
    /// The name of this replica.
    pub replica: String,
    /// How long turns last.
    pub terms: Terms,
    /// Where metrics and probes are served.
    pub metrics_address: SocketAddr,
    /// Where certificates are issued and pods are reviewed.
    pub authority_address: SocketAddr,
    /// The Service by which that address is reached.
    pub service_name: String,
    /// The configuration of the webhook, if there is one.
    pub webhook_name: Option<String>,
    /// Where the certificate of the webhook is, if the authority does not make it.
    pub webhook_certificate_path: Option<PathBuf>,
    /// How long certificates are valid.
    pub lifetimes: Lifetimes,
    /// The image of the sidecars.
    pub sidecar_image: String,
    /// What they ask for and may use.
    pub sidecar_resources: Resources,
    /// How logs are written.
    pub log_format: LogFormat,
    /// What is logged.
    pub log: Targets,
}

/// How long a turn lasts, with the relations that make it safe.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Terms {
    /// How long the others wait for a replica that is silent.
    pub duration: Duration,
    /// How long a replica that cannot renew goes on.
    pub deadline: Duration,
    /// How often it renews.
    pub retry: Duration,
}

/// Everything that is wrong with the configuration.
#[derive(Debug, Eq, PartialEq, thiserror::Error)]
#[error("{} settings are wrong: {}", .0.len(), .0.join("; "))]
pub struct ConfigError(Vec<String>);

impl TryFrom<Flags> for Config {
    type Error = ConfigError;

    fn try_from(flags: Flags) -> Result<Self, ConfigError> {
        let mut wrong = Vec::new();
        let terms = terms(&flags, &mut wrong);
        let lifetimes = lifetimes(&flags, &mut wrong);
        let metrics_address = address("metrics-address", &flags.metrics_address, &mut wrong);
        let authority_address = address("authority-address", &flags.authority_address, &mut wrong);
        let log = conclave_kubernetes::filter(&flags.log).parse::<Targets>();
        if let Err(error) = &log {
            wrong.push(format!("`log` is no filter: {error}"));
        }
        wrong.extend(flags.sidecar_resources.check().err());
        if flags.lease_name.is_empty() {
            wrong.push("`lease-name` may not be empty".to_owned());
        }
        let webhook_name = Some(flags.webhook_name).filter(|name| !name.is_empty());
        let path = Some(flags.webhook_certificate_path).filter(|path| !path.is_empty());
        let webhook_certificate_path = path.map(PathBuf::from);
        if webhook_name.is_some() && webhook_certificate_path.is_some() {
            wrong.push(
                "`webhook-name` must be empty with `webhook-certificate-path`: the one that makes the \
                 certificate tells the API server whom to trust"
                    .to_owned(),
            );
        }
        match (terms, lifetimes, metrics_address, authority_address, log) {
            (
                Some(terms),
                Some(lifetimes),
                Some(metrics_address),
                Some(authority_address),
                Ok(log),
            ) if wrong.is_empty() => Ok(Self {
                namespaces: flags.namespaces.into_iter().filter(|name| !name.is_empty()).collect(),
                lease_name: flags.lease_name,
                lease_namespace: flags.lease_namespace.filter(|name| !name.is_empty()),
                replica: flags.replica,
                terms,
                metrics_address,
                authority_address,
                service_name: flags.service_name,
                webhook_name,
                webhook_certificate_path,
                lifetimes,
                sidecar_image: flags.sidecar_image,
                sidecar_resources: flags.sidecar_resources,
                log_format: flags.log_format,
                log,
            }),
            _ => Err(ConfigError(wrong)),
        }
    }
}

fn address(name: &str, text: &str, wrong: &mut Vec<String>) -> Option<SocketAddr> {
    let address = text.parse().ok();
    if address.is_none() {
        wrong.push(format!("`{name}` is no address: `{text}`"));
    }
    address
}

fn period(name: &str, text: &str, wrong: &mut Vec<String>) -> Option<Duration> {
    let duration = Period::new(text).duration();
    duration.map_err(|error| wrong.push(format!("`{name}`: {error}"))).ok()
}

fn lifetimes(flags: &Flags, wrong: &mut Vec<String>) -> Option<Lifetimes> {
    let authority = period("authority-lifetime", &flags.authority_lifetime, wrong);
    let overlap = period("authority-overlap", &flags.authority_overlap, wrong);
    let certificate = period("certificate-lifetime", &flags.certificate_lifetime, wrong);
    let lifetimes =
        Lifetimes { authority: authority?, overlap: overlap?, certificate: certificate? };
    // The last third of its life must be enough for a rotation, and for one that begins late.
    if lifetimes.authority < (lifetimes.overlap + lifetimes.certificate) * 6 {
        let [overlap, certificate, lifetime] =
            [&flags.authority_overlap, &flags.certificate_lifetime, &flags.authority_lifetime];
        let least = Period::from((lifetimes.overlap + lifetimes.certificate) * 6);
        wrong.push(format!(
            "`authority-lifetime` must be at least six times `authority-overlap` ({overlap}) and \
             `certificate-lifetime` ({certificate}) together, which is {least}, and is {lifetime}"
        ));
    }
    if lifetimes.certificate < CERTIFICATE_MIN || lifetimes.overlap.is_zero() {
        wrong.push(
            "`certificate-lifetime` must be at least 10s, and `authority-overlap` not 0".to_owned(),
        );
    }
    Some(lifetimes)
}

fn terms(flags: &Flags, wrong: &mut Vec<String>) -> Option<Terms> {
    let duration = period("lease-duration", &flags.lease_duration, wrong);
    let deadline = period("renew-deadline", &flags.renew_deadline, wrong);
    let retry = period("retry-period", &flags.retry_period, wrong);
    let terms = Terms { duration: duration?, deadline: deadline?, retry: retry? };
    if terms.duration <= terms.deadline {
        wrong.push("`lease-duration` must be longer than `renew-deadline`".to_owned());
    }
    // The deadline must leave room for a second try, as in client-go.
    if terms.deadline * 5 <= terms.retry * 6 || terms.retry.is_zero() {
        wrong.push("`renew-deadline` must be more than 1.2 times `retry-period`".to_owned());
    }
    Some(terms)
}

/// Shorter ones would be renewed all the time.
const CERTIFICATE_MIN: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn config(arguments: &[&str]) -> Result<Config, String> {
        let arguments = ["conclave-operator"].iter().chain(arguments);
        let flags = Flags::try_parse_from(arguments).expect("known flags");
        Config::try_from(flags).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults_are_those_of_client_go() {
        let config = config(&[]).expect("a configuration");
        let seconds = |seconds| Duration::from_secs(seconds);
        let terms = Terms { duration: seconds(15), deadline: seconds(10), retry: seconds(2) };
        assert_eq!(config.terms, terms);
        assert!(config.namespaces.is_empty());
        assert_eq!(config.log_format, LogFormat::Json);
    }

    #[test]
    fn namespaces_are_separated_by_commas() {
        let config = config(&["--namespaces", "shop,till"]).expect("a configuration");
        assert_eq!(config.namespaces, ["shop", "till"]);
    }

    #[test]
    fn an_authority_lives_long_enough_for_a_rotation() {
        let error = config(&["--authority-lifetime", "149h"]).expect_err("too short");
        let rule = "at least six times `authority-overlap` (1h) and `certificate-lifetime` (24h) \
                    together, which is 150h, and is 149h";
        assert!(error.contains(rule), "{error}");
        config(&["--authority-lifetime", "150h"]).expect("just long enough");
        let error = config(&["--certificate-lifetime", "9s"]).expect_err("too short");
        assert!(error.contains("`certificate-lifetime`"), "{error}");
    }

    #[test]
    fn one_alone_says_whom_the_webhook_is_trusted_by() {
        assert_eq!(config(&[]).expect("a configuration").webhook_certificate_path, None);
        let mounted = ["--webhook-certificate-path", "/etc/conclave/webhook"];
        let known = config(&mounted).expect("a configuration").webhook_certificate_path;
        assert_eq!(known, Some(PathBuf::from("/etc/conclave/webhook")));
        let both = [&mounted[..], &["--webhook-name", "conclave-operator"]].concat();
        let error = config(&both).expect_err("both");
        assert!(error.contains("`webhook-name` must be empty"), "{error}");
    }

    #[test]
    fn a_sidecar_asks_for_no_more_than_it_may_use() {
        let with = |flags: &[&str]| config(flags).map(|config| config.sidecar_resources);
        assert_eq!(with(&[]), Ok(Resources::default()));
        assert!(with(&["--sidecar-cpu-limit", "50m"]).is_ok());
        let error = with(&["--sidecar-cpu-limit", "50m", "--sidecar-cpu-request", "60m"]);
        let expected =
            "`sidecar-cpu-request` must be at most `sidecar-cpu-limit`, which is 50m, and is 60m";
        assert!(error.as_ref().is_err_and(|error| error.contains(expected)), "{error:?}");
        let error = with(&["--sidecar-memory-request", "129Mi"]);
        assert!(
            error.as_ref().is_err_and(|error| error.contains("is 128Mi, and is 129Mi")),
            "{error:?}"
        );
        for (flag, wrong) in [("cpu-limit", "49m"), ("memory-limit", "64"), ("cpu-request", "17")] {
            let flag = format!("--sidecar-{flag}");
            let error =
                Flags::try_parse_from(["conclave-operator", &flag, wrong]).expect_err(wrong);
            assert!(error.to_string().contains("must be between"), "{error}");
        }
    }

    #[test]
    fn all_complaints_come_at_once() {
        let error = config(&[
            "--metrics-address",
            "8080",
            "--lease-duration",
            "10s",
            "--retry-period",
            "9s",
            "--log",
            "operator=loud",
        ])
        .expect_err("four wrong settings");
        assert!(error.starts_with("4 settings are wrong: "), "{error}");
        for name in ["metrics-address", "lease-duration", "renew-deadline", "`log`"] {
            assert!(error.contains(name), "{name} is missing in {error}");
        }
    }
}
