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
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use conclave_pods::health::HealthCheck;
use conclave_protocols::detection::Stated;
use conclave_protocols::policy::Policy;

use self::member::Members;
use crate::clock_page::ClockPage;
use crate::http::{Limits, Listeners, serve_router};
use crate::os_clock::{ClockFault, OsClock};

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
    /// Where each member keeps its clock page, if it does.
    pub clock_pages: Option<PathBuf>,
    /// Whether the members report to the page what they send.
    pub observed: bool,
}

impl Settings {
    /// What moves the ports, for whom one of them is taken.
    fn ports(&self) -> String {
        format!("--base-port (CONCLAVE_BASE_PORT) is {}", self.base_port)
    }

    /// The clock page of a member.
    fn clock_page(&self, number: u16, clock: OsClock) -> anyhow::Result<Option<ClockPage>> {
        let open = |folder: &PathBuf| {
            let path = folder.join(number.to_string());
            ClockPage::open(&path, clock).with_context(|| {
                format!("--clock-pages, and member {number} needs {}", path.display())
            })
        };
        self.clock_pages.as_ref().map(open).transpose()
    }
}

/// What is wrong with the clock of a member: each is off by some tens of milliseconds, and drifts.
pub fn clock_fault(number: u16) -> ClockFault {
    let spread = i64::from(number % 5) - 2;
    let drift = i32::from(number % 7) - 3;
    ClockFault { offset_ns: spread * 37_000_000, drift_ppm: drift * 12, wander_ppb: 0 }
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
