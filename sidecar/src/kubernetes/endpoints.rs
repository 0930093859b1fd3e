//! The pods of a group, as the EndpointSlices of its headless Service have them.
//!
//! Every endpoint counts, ready or not; it is known by the UID of its pod. A pod with addresses of
//! both families stands in two slices.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};

use conclave_crds::{PEER_PORT, PEER_PORT_NAME, object_name};
use conclave_protocols::PodUid;
use conclave_protocols::policy::Arbiter;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use tokio::sync::watch;
use tracing::debug;

use super::Place;
use crate::discovery::Endpoint;
use crate::group::Status;

/// The label that names a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Place {
    /// Follows the endpoints while nothing but discovery says who the members are.
    pub async fn discover(
        self,
        mut status: watch::Receiver<Status>,
        found: watch::Sender<Option<Vec<Endpoint>>>,
    ) {
        loop {
            if status.wait_for(|status| status.arbiter == Arbiter::None).await.is_err() {
                return;
            }
            tokio::select! {
                over = status.wait_for(|status| status.arbiter != Arbiter::None) => {
                    if over.is_err() {
                        return;
                    }
                }
                () = self.watch_endpoints(&found) => {}
            }
            found.send_replace(None);
        }
    }

    async fn watch_endpoints(&self, found: &watch::Sender<Option<Vec<Endpoint>>>) {
        let slices: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &self.namespace);
        let label = format!("{SERVICE_NAME}={}", object_name(&self.name));
        let config = watcher::Config::default().labels(&label);
        let mut events = watcher(slices, config).default_backoff().boxed();
        let mut known: BTreeMap<String, EndpointSlice> = BTreeMap::new();
        let mut listed: BTreeMap<String, EndpointSlice> = BTreeMap::new();
        let mut listing = true;
        loop {
            match events.try_next().await {
                Ok(Some(Event::Init)) => {
                    listed.clear();
                    listing = true;
                }
                Ok(Some(Event::InitApply(slice))) => {
                    listed.insert(slice.name_any(), slice);
                }
                Ok(Some(Event::InitDone)) => {
                    known = std::mem::take(&mut listed);
                    listing = false;
                }
                Ok(Some(Event::Apply(slice))) => {
                    known.insert(slice.name_any(), slice);
                }
                Ok(Some(Event::Delete(slice))) => {
                    known.remove(&slice.name_any());
                }
                Ok(None) => return,
                Err(error) => debug!(error = &error as &dyn Error, "watch the endpoints"),
            }
            if !listing {
                found.send_if_modified(|found| {
                    let now = Some(merged(known.values()));
                    let changed = *found != now;
                    *found = now;
                    changed
                });
            }
        }
    }
}

/// The pods that stand in any of the slices, each with all its addresses.
fn merged<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> Vec<Endpoint> {
    let mut pods: BTreeMap<PodUid, Vec<SocketAddr>> = BTreeMap::new();
    for slice in slices {
        let ours = slice.ports.iter().flatten();
        let mut ours = ours.filter(|port| port.name.as_deref() == Some(PEER_PORT_NAME));
        let port = ours.find_map(|port| u16::try_from(port.port?).ok());
        for endpoint in &slice.endpoints {
            let uid = endpoint.target_ref.as_ref().and_then(|target| target.uid.as_deref());
            let Some(pod) = uid.and_then(|uid| uid.parse::<PodUid>().ok()) else { continue };
            let addresses = pods.entry(pod).or_default();
            for address in &endpoint.addresses {
                let Ok(ip) = address.parse::<IpAddr>() else { continue };
                let address = SocketAddr::from((ip, port.unwrap_or(PEER_PORT)));
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
    }
    pods.into_iter().map(|(pod, addresses)| Endpoint { pod, addresses }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(family: &str, endpoints: &serde_json::Value) -> EndpointSlice {
        serde_json::from_value(serde_json::json!({
            "addressType": family,
            "metadata": {"name": family.to_lowercase()},
            "ports": [{"name": "other", "port": 9}, {"name": PEER_PORT_NAME, "port": 7171}],
            "endpoints": endpoints,
        }))
        .expect("a slice")
    }

    fn uid(last: u32) -> String {
        format!("00000000-0000-4000-8000-{last:012}")
    }

    #[test]
    fn a_pod_of_two_families_is_one_endpoint_whether_ready_or_not() {
        let four = slice(
            "IPv4",
            &serde_json::json!([
                {"addresses": ["10.0.0.1"], "conditions": {"ready": false}, "targetRef": {"uid": uid(1)}},
                {"addresses": ["10.0.0.2"], "targetRef": {"uid": uid(2)}},
                {"addresses": ["10.0.0.3"]},
            ]),
        );
        let six = slice(
            "IPv6",
            &serde_json::json!([{"addresses": ["fd00::1"], "targetRef": {"uid": uid(1)}}]),
        );
        let found = merged([&four, &six].into_iter());
        let addresses: Vec<Vec<String>> = found
            .iter()
            .map(|endpoint| endpoint.addresses.iter().map(ToString::to_string).collect())
            .collect();
        assert_eq!(addresses, [vec!["10.0.0.1:7171", "[fd00::1]:7171"], vec!["10.0.0.2:7171"]]);
        assert_eq!(found[0].pod.to_string(), uid(1));
    }
}
