//! A whole group in one process: real links over loopback, real HTTP, a register in memory.
//!
//! Every member has a thread and a runtime of its own, so that it can be killed and paused as a
//! process can. Their clocks are off and drift, so that there is something to synchronise.

mod chronicle;
mod elections;
mod member;
mod page;
mod watch;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use conclave_pods::health::HealthCheck;
use conclave_protocols::detection::Stated;
use conclave_protocols::policy::Policy;

use self::member::Members;
use crate::http::{Limits, Listeners, serve_router};

/// What a group is made from.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many members it begins with.
    pub members: u16,
    /// Its name.
    pub group: String,
    /// Its policies.
    pub policy: Policy,
    /// How its members guess which of them have crashed.
    pub detection: Stated,
    /// The port of the first member's API.
    pub base_port: u16,
    /// How the health of the first member's application is asked; that of the others at the next ports.
    pub health: Option<HealthCheck>,
}

impl Settings {
    /// What moves the ports, for whom one of them is taken.
    fn ports(&self) -> String {
        format!("--base-port (CONCLAVE_BASE_PORT) is {}", self.base_port)
    }
}

/// From the first member's API to the first member's peer port, admin port, and to the page.
const PEERS: u16 = 100;
const ADMIN: u16 = 200;
pub(crate) const PAGE: u16 = 300;

/// Runs until Ctrl-C.
pub async fn run(settings: Settings) -> anyhow::Result<()> {
    let base = settings.base_port;
    let page = Listeners::on(SocketAddr::from(([127, 0, 0, 1], base + PAGE)))
        .with_context(|| settings.ports())?;
    let members = Arc::new(Members::start(settings).await?);
    announce(base, members.count());
    let end = tokio_util::sync::CancellationToken::new();
    let router = page::router(Arc::clone(&members));
    let serving = tokio::spawn(serve_router(page, router, Limits::default(), end.clone()));
    tokio::signal::ctrl_c().await.context("wait for Ctrl-C")?;
    end.cancel();
    members.end().await;
    serving.await.context("end the page")?;
    Ok(())
}

fn announce(base: u16, members: u16) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let last = base + members - 1;
    // A closed standard output is no reason to stop.
    let _ = writeln!(
        out,
        "A group of {members}. Look at http://127.0.0.1:{}\n\n  \
         take a lock      curl -fsS -X POST http://127.0.0.1:{base}/v1/locks/orders\n  \
         another waits    curl -fsS -X POST 'http://127.0.0.1:{}/v1/locks/orders?wait=30s'\n  \
         who leads        curl -fsS http://127.0.0.1:{base}/v1/elections/default\n  \
         what time is it  curl -fsS http://127.0.0.1:{base}/v1/time\n\n\
         APIs of the members: ports {base} to {last}. Ctrl-C ends it.",
        base + PAGE,
        (base + 1).min(last),
    );
}
