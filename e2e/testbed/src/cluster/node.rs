//! The nodes: everything about one follows from its number.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};

/// A node of the test cluster.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Node(u8);

impl Node {
    /// All of them.
    pub const ALL: [Self; 3] = [Self(1), Self(2), Self(3)];

    /// The node of that name.
    pub fn named(name: &str) -> Result<Self> {
        let node = Self::ALL.into_iter().find(|node| node.name() == name);
        node.with_context(|| format!("there is no node `{name}`"))
    }

    /// Its name in the Kubernetes API.
    pub fn name(self) -> String {
        format!("node-{}", self.0)
    }

    /// Its network namespace, and its cgroup in every hierarchy.
    pub fn namespace(self) -> String {
        format!("conclave-{}", self.name())
    }

    /// The host's end of the pair that connects it to the bridge.
    pub fn link(self) -> String {
        format!("ccv-{}", self.name())
    }

    /// Its own address.
    pub fn address(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, 10 + self.0)
    }

    /// The addresses of its pods.
    pub fn pod_subnet(self) -> String {
        format!("198.19.{}.0/24", self.0)
    }

    /// Its address among its pods, from which the kubelet probes them.
    pub fn pod_gateway(self) -> Ipv4Addr {
        Ipv4Addr::new(198, 19, self.0, 1)
    }
}

/// The host's address on the bridge, where the API server listens.
///
/// RFC 2544 sets 198.18.0.0/15 aside for tests of network devices, so that it is no one's real
/// network.
pub(super) const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);

/// The bridge that connects the nodes.
pub(super) const BRIDGE: &str = "ccv0";

/// The addresses of all pods.
pub(super) const PODS: &str = "198.19.0.0/16";

/// The addresses of Services, which exist only as rules of the nodes' proxies.
pub(super) const SERVICES: &str = "10.96.0.0/16";

/// The address of the API server's own Service.
pub(super) const API_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
