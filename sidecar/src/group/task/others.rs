//! What a node hears of now and then: its register, its resource, discovery, the kubelet, its application, and the end.

use std::time::Duration;

use conclave_protocols::detection::Stated;
use conclave_protocols::member::{Command, StatusEpoch};
use conclave_protocols::policy::Policy;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Incarnation, register};
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::application::Application;
use crate::group::believers::Notified;
use crate::group::node::Arrival;
use crate::lease::News;
use crate::probes::{PeerFigures, Probed};
use crate::register::Sight;

/// The sources of it.
pub(super) struct Others {
    pub(super) answered: mpsc::Receiver<register::Message>,
    pub(super) of_leases: mpsc::Receiver<News>,
    pub(super) policies: watch::Receiver<Option<Policy>>,
    pub(super) detection: watch::Receiver<Stated>,
    pub(super) status: watch::Receiver<StatusEpoch>,
    pub(super) found: watch::Receiver<Option<Vec<MemberInfo>>>,
    pub(super) sight: watch::Receiver<Sight>,
    pub(super) dead: mpsc::Receiver<Incarnation>,
    pub(super) application: watch::Receiver<Application>,
    pub(super) believers: watch::Receiver<Notified>,
    pub(super) probed: watch::Receiver<Probed>,
    /// When it is shown to which members links are open.
    pub(super) ticks: Interval,
    pub(super) end: CancellationToken,
    /// The end was heard of.
    pub(super) ends: bool,
}

/// What happened.
pub(super) enum Happened {
    /// Something for the node.
    Arrival(Box<Arrival>),
    /// Discovery found these, or is over.
    Found(Option<Vec<MemberInfo>>),
    /// Links are to be shown.
    Tick,
}

impl Others {
    /// Waits for what happens next, and returns the sources with it.
    pub(super) async fn next(mut self) -> (Self, Happened) {
        let arrival = tokio::select! {
            () = self.end.cancelled(), if !self.ends => {
                self.ends = true;
                Arrival::End
            }
            _ = self.ticks.tick() => return (self, Happened::Tick),
            Some(answer) = self.answered.recv() => Arrival::Register(answer),
            Some(news) = self.of_leases.recv() => Arrival::Lease(news),
            Ok(()) = self.policies.changed() => {
                let policy = self.policies.borrow_and_update().clone();
                if let Some(policy) = policy {
                    Arrival::Command(Command::Policy(Box::new(policy)))
                } else {
                    warn!("the Conclave of this group was deleted: the group is dissolved");
                    Arrival::End
                }
            }
            Ok(()) = self.detection.changed() => {
                Arrival::Command(Command::Detection(*self.detection.borrow_and_update()))
            }
            Ok(()) = self.status.changed() => {
                Arrival::Command(Command::Status(*self.status.borrow_and_update()))
            }
            Ok(()) = self.found.changed() => {
                let found = self.found.borrow_and_update().clone();
                return (self, Happened::Found(found));
            }
            Ok(()) = self.sight.changed() => Arrival::Command(Command::Look),
            Ok(()) = self.believers.changed() => Arrival::Notified,
            Ok(()) = self.application.changed() => {
                Arrival::Application(*self.application.borrow_and_update())
            }
            Ok(()) = self.probed.changed() => {
                let of = |one: &PeerFigures| (one.peer.incarnation, one.relation);
                Arrival::Relations(self.probed.borrow_and_update().peers.iter().map(of).collect())
            }
            Some(dead) = self.dead.recv() => Arrival::Command(Command::Evidence(dead)),
        };
        (self, Happened::Arrival(Box::new(arrival)))
    }
}

/// How often it is shown to which members links are open.
pub(super) fn ticks() -> Interval {
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
