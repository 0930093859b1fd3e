//! Who is in the group, where no register says so: the arbiter `None`.
//!
//! Discovery has two halves. Somebody knows the *endpoints*: pods, and where their peer ports are
//! ([`crate::kubernetes`] reads them from EndpointSlices). An endpoint is a hint: the pod may be
//! gone, or have another process by now. So each sidecar *introduces* itself to every endpoint, and
//! learns who answers. One that did so is a peer for as long as its endpoint is there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use conclave_protocols::PodUid;
use conclave_protocols::policy::Arbiter;
use conclave_protocols::record::MemberInfo;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior};

use crate::group::Status;
use crate::links::{Local, introduce};

/// A pod of the group, and where its peer port is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoint {
    /// The UID of the pod.
    pub pod: PodUid,
    /// Addresses of its peer port, of both families if it has both.
    pub addresses: Vec<SocketAddr>,
}

/// All endpoints of a group; nothing until they were read for the first time.
pub type Endpoints = watch::Receiver<Option<Vec<Endpoint>>>;

/// How often those are asked that have not answered yet.
const ROUND: Duration = Duration::from_millis(500);

/// How often the others are asked again. A new process introduces itself, so this finds only what
/// was lost on the way.
const AGAIN: Duration = Duration::from_secs(10);

/// Those that introduced themselves and have no endpoint yet: more come from nobody who is one.
const STRANGERS: usize = 512;

/// Finds the peers, and keeps them up to date.
pub(crate) struct Discovery {
    pub(crate) local: Local,
    pub(crate) endpoints: Endpoints,
    /// Who introduced itself here.
    pub(crate) introduced: mpsc::Receiver<MemberInfo>,
    /// Tells whether discovery is wanted: only where nothing arbitrates.
    pub(crate) status: watch::Receiver<Status>,
    /// Whom it found; nothing until it has asked everybody once.
    pub(crate) found: watch::Sender<Option<Vec<MemberInfo>>>,
}

#[derive(Default)]
struct Known {
    peers: BTreeMap<PodUid, (MemberInfo, Instant)>,
}

impl Discovery {
    /// Runs until the sidecar ends.
    pub(crate) async fn run(mut self) {
        loop {
            let mut status = self.status.clone();
            if status.wait_for(|status| status.arbiter == Arbiter::None).await.is_err() {
                return;
            }
            tokio::select! {
                over = status.wait_for(|status| status.arbiter != Arbiter::None) => {
                    if over.is_err() {
                        return;
                    }
                }
                () = self.discover() => return,
            }
            self.found.send_replace(None);
        }
    }

    async fn discover(&mut self) {
        let mut known = Known::default();
        let mut rounds = tokio::time::interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                changed = self.endpoints.changed() => if changed.is_err() {
                    return;
                },
                Some(info) = self.introduced.recv() => {
                    known.note(info);
                    while let Ok(info) = self.introduced.try_recv() {
                        known.note(info);
                    }
                }
                _ = rounds.tick() => {}
            }
            let Some(endpoints) = self.endpoints.borrow_and_update().clone() else { continue };
            let others: Vec<Endpoint> = endpoints
                .into_iter()
                .filter(|e| e.pod != self.local.info.incarnation.pod)
                .collect();
            known.forget(&others);
            self.ask(&mut known, &others).await;
            self.tell(&known, &others);
        }
    }

    /// Asks those that nothing was heard of lately, all at once.
    async fn ask(&self, known: &mut Known, others: &[Endpoint]) {
        let asked = others.iter().filter(|endpoint| !known.is_fresh(endpoint.pod));
        let mut answers: FuturesUnordered<_> = asked
            .map(|endpoint| introduce(&self.local, endpoint.pod, &endpoint.addresses))
            .collect();
        while let Some(answer) = answers.next().await {
            if let Some(info) = answer {
                known.note(info);
            }
        }
    }

    fn tell(&self, known: &Known, others: &[Endpoint]) {
        let peers = others.iter().filter_map(|endpoint| known.peers.get(&endpoint.pod));
        let peers: Vec<MemberInfo> = peers.map(|(info, _)| info.clone()).collect();
        self.found.send_if_modified(|found| {
            let changed = found.as_ref() != Some(&peers);
            if changed {
                *found = Some(peers);
            }
            changed
        });
    }
}

impl Known {
    fn note(&mut self, info: MemberInfo) {
        let pod = info.incarnation.pod;
        if self.peers.len() < STRANGERS || self.peers.contains_key(&pod) {
            self.peers.insert(pod, (info, Instant::now()));
        }
    }

    /// Pods come and go. A pod without an endpoint may be about to get one, but not for long.
    fn forget(&mut self, endpoints: &[Endpoint]) {
        self.peers.retain(|pod, (_, at)| {
            at.elapsed() < AGAIN || endpoints.iter().any(|endpoint| endpoint.pod == *pod)
        });
    }

    fn is_fresh(&self, pod: PodUid) -> bool {
        self.peers.get(&pod).is_some_and(|(_, at)| at.elapsed() < AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use conclave_protocols::Incarnation;
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;
    use tokio_util::task::TaskTracker;

    use super::*;
    use crate::links::{Cuts, Links, Roads, Warnings};
    use crate::metrics::Metrics;

    /// A process of a pod, with its links and its discovery.
    struct Process {
        info: MemberInfo,
        endpoints: watch::Sender<Option<Vec<Endpoint>>>,
        found: watch::Receiver<Option<Vec<MemberInfo>>>,
        end: CancellationToken,
        _kept: (watch::Sender<Status>, mpsc::Receiver<(Incarnation, crate::wire::Payload)>),
    }

    async fn process(group: u128, pod: u128, run: u64) -> Process {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let info = MemberInfo {
            incarnation: Incarnation { pod: PodUid(pod), run },
            name: format!("pod-{pod}"),
            addresses: vec![address],
            priority: 0,
            capacity: 0,
            zone: None,
            seniority: 0,
            protocol: crate::wire::VERSIONS,
        };
        let (introduced, introductions) = mpsc::channel(8);
        let local = Local {
            group,
            info: info.clone(),
            held: crate::identity::tests::held(group, info.incarnation.pod),
            warnings: Warnings::default(),
            introduced,
            metrics: Metrics::new("orders"),
            keys: crate::probes::Keyring::default(),
            cuts: Cuts::none(),
            roads: Roads::default(),
            tracker: TaskTracker::new(),
            end: CancellationToken::new(),
        };
        let (inbox, heard) = mpsc::channel(8);
        let end = local.end.clone();
        Links::new(local.clone(), vec![listener], &inbox);
        let (endpoints, listed) = watch::channel(None);
        let (found, is_found) = watch::channel(None);
        let mut status = crate::http::tests::double::status();
        status.arbiter = Arbiter::None;
        let (stands, status) = watch::channel(status);
        let discovery =
            Discovery { local, endpoints: listed, introduced: introductions, status, found };
        let until = end.clone();
        tokio::spawn(async move { until.run_until_cancelled(discovery.run()).await });
        Process { info, endpoints, found: is_found, end, _kept: (stands, heard) }
    }

    impl Process {
        fn endpoint(&self) -> Endpoint {
            let info = &self.info;
            Endpoint { pod: info.incarnation.pod, addresses: info.addresses.clone() }
        }

        fn knows(&self, endpoints: &[&Self]) {
            self.endpoints.send_replace(Some(endpoints.iter().map(|p| p.endpoint()).collect()));
        }

        async fn finds(&mut self, peers: &[&Self]) {
            let expected: Vec<MemberInfo> = peers.iter().map(|peer| peer.info.clone()).collect();
            let is = |found: &Option<Vec<MemberInfo>>| found.as_ref() == Some(&expected);
            let found = tokio::time::timeout(Duration::from_secs(20), self.found.wait_for(is));
            assert!(found.await.is_ok(), "expected {expected:?}, found {:?}", self.found.borrow());
        }
    }

    #[tokio::test]
    async fn a_pod_that_answers_at_an_endpoint_is_a_peer() {
        let (mut one, mut two) = (process(1, 1, 11).await, process(1, 2, 12).await);
        one.knows(&[&one, &two]);
        two.knows(&[&one, &two]);
        one.finds(&[&two]).await;
        two.finds(&[&one]).await;
    }

    #[tokio::test]
    async fn a_new_process_of_a_pod_takes_the_place_of_the_old_one() {
        let (mut one, two) = (process(1, 1, 11).await, process(1, 2, 12).await);
        one.knows(&[&two]);
        one.finds(&[&two]).await;
        two.end.cancel();
        let anew = process(1, 2, 22).await;
        anew.knows(&[&one]);
        // The pod has the same address in a cluster; here its endpoint has moved.
        one.knows(&[&anew]);
        one.finds(&[&anew]).await;
    }

    #[tokio::test]
    async fn nobody_is_a_peer_who_is_of_another_group_or_another_pod_or_has_no_endpoint() {
        let (mut one, foreign) = (process(1, 1, 11).await, process(2, 2, 12).await);
        let moved = process(1, 4, 14).await;
        let elsewhere = Endpoint { pod: PodUid(3), ..moved.endpoint() };
        let stranger = process(1, 5, 15).await;
        stranger.knows(&[&one]);
        one.endpoints.send_replace(Some(vec![foreign.endpoint(), elsewhere]));
        one.finds(&[]).await;
        let friend = process(1, 6, 16).await;
        one.endpoints.send_replace(Some(vec![foreign.endpoint(), friend.endpoint()]));
        one.finds(&[&friend]).await;
    }
}
