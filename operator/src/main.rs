//! The operator's program.

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser;
use conclave_operator::authority::issuing::Issuing;
use conclave_operator::authority::keeper::{Keeper, Settings};
use conclave_operator::authority::mounted::Mounted;
use conclave_operator::authority::serving::{self, Certificate};
use conclave_operator::config::{Config, Flags};
use conclave_operator::controller::{self, Context};
use conclave_operator::injector::Injector;
use conclave_operator::injector::groups::Groups;
use conclave_operator::injector::refusals::Telling;
use conclave_operator::leadership::{Candidate, Turn};
use conclave_operator::metrics::Metrics;
use conclave_operator::server::{self, Readiness};
use conclave_operator::telemetry;
use kube::{Api, Client};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

fn main() -> ExitCode {
    let config = match Flags::try_parse() {
        Ok(flags) => Config::try_from(flags).map_err(|error| error.to_string()),
        Err(error) if error.use_stderr() => Err(error.to_string()),
        Err(help) => {
            println!("{help}");
            return ExitCode::SUCCESS;
        }
    };
    let config = match config {
        Ok(config) => config,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(EX_USAGE);
        }
    };
    match start(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(error = telemetry::chain(error.as_ref()), "the operator stops");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(config: Config) -> anyhow::Result<()> {
    let (metrics, readiness, stop) =
        (Metrics::new()?, Readiness::default(), CancellationToken::new());
    cancel_on_signal(stop.clone())?;
    let listener = server::bind(config.metrics_address)
        .await
        .with_context(|| format!("{} cannot be opened", config.metrics_address))?;
    let router = server::router(metrics.clone(), readiness.clone());
    let serving = tokio::spawn(server::serve(listener, router));
    let result = tokio::select! {
        result = serving => result.context("the server of metrics and probes panicked"),
        result = act(config, &metrics, &readiness, &stop) => result,
    };
    result
}

/// Waits for this replica's turn, and reconciles while it lasts.
async fn act(
    config: Config,
    metrics: &Metrics,
    readiness: &Readiness,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let Config { log_format, log, .. } = &config;
    telemetry::init(*log_format, log.clone());
    info!(version = env!("CARGO_PKG_VERSION"), replica = config.replica, "starting");
    let client = conclave_kubernetes::client("conclave-operator").await;
    let client = client.context("no way to the API server is known")?;
    let default = || client.default_namespace().to_owned();
    let namespace = config.lease_namespace.clone().unwrap_or_else(default);
    let keeper = keeper(&client, &config, &namespace, metrics.clone());
    let authority = keeper.status();
    let (acts, acting) = watch::channel(false);
    serve(&client, &config, &namespace, &keeper, metrics).await?;
    let looked = readiness.clone();
    tokio::spawn(keeper.run(acting, move || looked.set_looked()));
    let candidate = Candidate::new(
        Api::namespaced(client.clone(), &namespace),
        &config.lease_name,
        identity(&config.replica)?,
        config.terms,
    );
    metrics.leads(&config.lease_name, false);
    let mut turn: Turn = tokio::select! {
        turn = candidate.acquire(|| readiness.set_answered()) => turn,
        () = stop.cancelled() => return Ok(()),
    };
    metrics.leads(&config.lease_name, true);
    acts.send_replace(true);
    let context = Context::new(client, metrics.clone(), &config.replica, authority);
    tokio::select! {
        () = controller::run(context, &config.namespaces, stop) => {
            turn.release().await;
            Ok(())
        }
        // The process ends, and with it whatever is under way.
        ended = turn.keep() => Err(ended.into()),
    }
}

fn keeper(client: &Client, config: &Config, namespace: &str, metrics: Metrics) -> Keeper {
    let settings = Settings {
        namespace: namespace.to_owned(),
        namespaces: config.namespaces.clone(),
        service: config.service_name.clone(),
        webhook: config.webhook_name.clone(),
        lifetimes: config.lifetimes,
    };
    Keeper::new(client, settings, metrics)
}

/// Issues certificates and reviews pods, whether or not this replica acts.
async fn serve(
    client: &Client,
    config: &Config,
    namespace: &str,
    keeper: &Keeper,
    metrics: &Metrics,
) -> anyhow::Result<()> {
    let lifetime = config.lifetimes.certificate;
    let name = format!("{}.{namespace}.svc", config.service_name);
    let certificate = Certificate::new(keeper.authority(), [name], lifetime);
    let path = config.webhook_certificate_path.clone();
    let mounted = path.map(|path| Mounted::new(path, metrics.clone()));
    let tls = certificate.config(mounted.as_ref()).context("TLS cannot be set up")?;
    let (telling, teller) = Telling::new(client.clone(), &config.replica);
    let listener = server::bind(config.authority_address)
        .await
        .with_context(|| format!("{} cannot be opened", config.authority_address))?;
    let injector = Injector::new(config.sidecar_image.clone())
        .with_resources(config.sidecar_resources.clone())
        .telling(teller)
        .knowing(Groups::new(client.clone()));
    let issuing = Issuing::new(client.clone(), keeper.authority(), lifetime);
    let router = issuing.router().merge(injector.router());
    tokio::spawn(telling.run());
    tokio::spawn(certificate.renew());
    if let Some(mounted) = mounted {
        tokio::spawn(mounted.watch());
    }
    tokio::spawn(serving::serve(listener, tls, router));
    Ok(())
}

/// No two processes have the same.
fn identity(replica: &str) -> anyhow::Result<String> {
    let draw = getrandom::u64().context("no randomness")?;
    Ok(format!("{replica}_{draw:016x}"))
}

fn cancel_on_signal(stop: CancellationToken) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        info!("asked to stop");
        stop.cancel();
    });
    Ok(())
}

/// "The command was used incorrectly", as in BSD's `sysexits.h`.
const EX_USAGE: u8 = 64;
