//! Faults of the network of one pod.
//!
//! The rules stand in the pod's own network namespace, where every packet of the pod passes,
//! whether its peer is on the same node or not; and they vanish with the pod.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;

use anyhow::{Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::node::Node;
use super::{Cluster, Pod};
use crate::command;

/// Which packets of a pod are lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cut {
    /// Those to it and those from it.
    Both,
    /// Those to it: it can still speak, but does not hear.
    Incoming,
    /// Those from it: it can still hear, but nobody hears it.
    Outgoing,
}

impl Cluster {
    /// Cuts a pod off from everybody: peers, API server, Services.
    ///
    /// Its own loopback still works, and so do the probes of its kubelet, which is on the same
    /// machine as the pod and so on the same side of any real partition.
    pub fn cut(&self, pod: &Pod, cut: Cut) -> Result<()> {
        self.set_rules(pod, cut, "drop", &[])
    }

    /// Cuts a pod off from these addresses only.
    pub fn cut_from(&self, pod: &Pod, cut: Cut, others: &[IpAddr]) -> Result<()> {
        ensure!(!others.is_empty(), "a pod that is cut off from nobody is not cut off");
        self.set_rules(pod, cut, "drop", others)
    }

    /// Loses this share of the pod's packets, chosen at random: 1 to 99 in a hundred.
    pub fn lose(&self, pod: &Pod, cut: Cut, percent: u8) -> Result<()> {
        ensure!((1..100).contains(&percent), "{percent} % is nothing, or a cut");
        self.set_rules(pod, cut, &format!("numgen random mod 100 < {percent} drop"), &[])
    }

    /// Undoes any of the above.
    pub fn heal(&self, pod: &Pod) -> Result<()> {
        self.nft(pod, REMOVED)
    }

    /// The network of a pod, for clients that stand where its application stands.
    pub fn network_of(&self, pod: &Pod) -> Result<PodNetwork> {
        let path = format!("/proc/{}/ns/net", self.sandbox(pod)?.pid());
        Ok(PodNetwork(File::open(path)?))
    }

    /// The same, of one of its containers, which runs: as the pod was known to have it, or as it was started again since.
    pub fn network_of_container(&self, pod: &Pod, container: &str) -> Result<PodNetwork> {
        let process = self.process(pod, container).or_else(|_| self.running(pod, container))?;
        let path = format!("/proc/{}/ns/net", process.pid());
        Ok(PodNetwork(File::open(path)?))
    }

    fn set_rules(&self, pod: &Pod, cut: Cut, verdict: &str, others: &[IpAddr]) -> Result<()> {
        self.nft(pod, &rules(Node::named(&pod.node)?, cut, verdict, others))
    }

    fn nft(&self, pod: &Pod, script: &str) -> Result<()> {
        let network = format!("--net=/proc/{}/ns/net", self.sandbox(pod)?.pid());
        let mut nft = Command::new("nsenter");
        nft.arg(network).args(["--", "nft", "--file", "-"]);
        command::output_of_input(&mut nft, script).map(drop)
    }
}

/// The network namespace of a pod. It outlives the pod for as long as this is kept.
#[derive(Debug)]
pub struct PodNetwork(File);

impl PodNetwork {
    /// From now on the calling thread makes its connections in there.
    pub fn enter(&self) -> Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// A program that runs in there, for as long as it likes, and is a process of this machine otherwise.
    pub fn command(&self, program: &str) -> Command {
        let network = format!("--net=/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd());
        let mut command = Command::new("nsenter");
        command.arg(network).arg("--").arg(program);
        command
    }
}

/// The script that puts the rules in place of earlier ones, in one transaction.
fn rules(node: Node, cut: Cut, verdict: &str, others: &[IpAddr]) -> String {
    let mut chains = Vec::new();
    if cut != Cut::Outgoing {
        chains.push(chain(node, ["input", "iif", "saddr"], verdict, others));
    }
    if cut != Cut::Incoming {
        chains.push(chain(node, ["output", "oif", "daddr"], verdict, others));
    }
    format!("{REMOVED}table inet conclave_fault {{\n{}}}\n", chains.concat())
}

/// The rules of one way: its hook, what names the interface, and which address is the peer's.
fn chain(
    node: Node,
    [hook, interface, peer]: [&str; 3],
    verdict: &str,
    others: &[IpAddr],
) -> String {
    let mut lines = vec![
        format!("chain {hook} {{"),
        format!("type filter hook {hook} priority -300"),
        format!("{interface} lo accept"),
        format!("ip {peer} {} accept", node.pod_gateway()),
    ];
    if others.is_empty() {
        lines.push(verdict.to_owned());
    }
    for other in others {
        let family = if other.is_ipv4() { "ip" } else { "ip6" };
        lines.push(format!("{family} {peer} {other} {verdict}"));
    }
    lines.push("}\n".to_owned());
    lines.join("\n")
}

/// Adding a table that is there does nothing, so that deleting it always works.
const REMOVED: &str = "add table inet conclave_fault\ndelete table inet conclave_fault\n";

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Node = Node::ALL[1];

    #[test]
    fn a_one_way_cut_has_rules_for_one_way_only() {
        let incoming = rules(NODE, Cut::Incoming, "drop", &[]);
        assert!(incoming.contains("hook input") && !incoming.contains("hook output"));
        let outgoing = rules(NODE, Cut::Outgoing, "drop", &[]);
        assert!(outgoing.contains("hook output") && !outgoing.contains("hook input"));
    }

    #[test]
    fn a_cut_from_somebody_names_them_and_drops_nobody_else() {
        let others = ["198.19.1.7".parse().unwrap(), "fd00::7".parse().unwrap()];
        let script = rules(NODE, Cut::Both, "drop", &others);
        assert!(script.contains("ip saddr 198.19.1.7 drop"));
        assert!(script.contains("ip6 daddr fd00::7 drop"));
        assert!(!script.lines().any(|line| line == "drop"));
    }

    #[test]
    fn the_kubelet_keeps_reaching_its_pods() {
        assert!(rules(NODE, Cut::Both, "drop", &[]).contains("ip saddr 198.19.2.1 accept"));
    }
}
