//! The network of the cluster: a bridge, and a network namespace for each node.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::daemon::network_of;
use super::node::{BRIDGE, HOST, Node};
use crate::command;

/// Makes bridge, namespaces, links and routes.
pub(super) fn create() -> Result<()> {
    let route = command::output(Command::new("ip").args(["-4", "route", "list", "root", RANGE]))?;
    ensure!(
        route.trim().is_empty(),
        "this machine already has a route to {RANGE}, which the test cluster uses: {route}"
    );
    batch(&mut Command::new("ip"), &host_lines()?)?;
    for node in Node::ALL {
        batch(Command::new("ip").args(["-n", &node.namespace()]), &node_lines(node)?)?;
        let forward = "echo 1 >/proc/sys/net/ipv4/ip_forward";
        command::output(
            Command::new("nsenter").arg(network_of(node)).args(["--", "sh", "-c", forward]),
        )?;
    }
    Ok(())
}

/// Removes all of it that exists.
pub(super) fn remove() -> Result<()> {
    for node in Node::ALL {
        remove_link(&node.link())?;
        if Path::new("/run/netns").join(node.namespace()).exists() {
            command::output(Command::new("ip").args(["netns", "delete", &node.namespace()]))?;
        }
    }
    remove_link(BRIDGE)
}

/// Removes what Cilium has put into the network of a node; what it has put beside a pod goes with that.
pub(super) fn remove_programs(node: Node) -> Result<()> {
    let namespace = node.namespace();
    let links = command::output(Command::new("ip").args(["-n", &namespace, "-o", "link"]))?;
    if links.contains("cilium_host") {
        let delete = ["-n", &namespace, "link", "delete", "cilium_host"];
        command::output(Command::new("ip").args(delete))?;
    }
    let list = ["-n", &namespace, "qdisc", "show", "dev", "eth0"];
    if command::output(Command::new("tc").args(list))?.contains("clsact") {
        let delete = ["-n", &namespace, "qdisc", "delete", "dev", "eth0", "clsact"];
        command::output(Command::new("tc").args(delete))?;
    }
    Ok(())
}

fn remove_link(name: &str) -> Result<()> {
    if Path::new("/sys/class/net").join(name).exists() {
        command::output(Command::new("ip").args(["link", "delete", name]))?;
    }
    Ok(())
}

/// What the host does: the routes to the pods are for the API server, which calls webhooks, and
/// for tests that ask a pod directly.
fn host_lines() -> Result<String> {
    let mut lines = String::new();
    writeln!(lines, "link add {BRIDGE} type bridge")?;
    writeln!(lines, "address add {HOST}/24 dev {BRIDGE}")?;
    writeln!(lines, "link set {BRIDGE} up")?;
    for node in Node::ALL {
        let (link, namespace) = (node.link(), node.namespace());
        writeln!(lines, "netns add {namespace}")?;
        writeln!(lines, "link add {link} type veth peer name eth0 netns {namespace}")?;
        writeln!(lines, "link set {link} master {BRIDGE} up")?;
    }
    for node in Node::ALL {
        writeln!(lines, "route add {} via {}", node.pod_subnet(), node.address())?;
    }
    Ok(lines)
}

/// What a node does, in its own namespace.
fn node_lines(node: Node) -> Result<String> {
    let mut lines = String::new();
    writeln!(lines, "link set lo up")?;
    writeln!(lines, "address add {}/24 dev eth0", node.address())?;
    writeln!(lines, "link set eth0 up")?;
    writeln!(lines, "route add default via {HOST}")?;
    for other in Node::ALL.into_iter().filter(|other| *other != node) {
        writeln!(lines, "route add {} via {}", other.pod_subnet(), other.address())?;
    }
    Ok(lines)
}

fn batch(ip: &mut Command, lines: &str) -> Result<()> {
    command::output_of_input(ip.args(["-batch", "-"]), lines)?;
    Ok(())
}

/// The range of nodes and pods.
const RANGE: &str = "198.18.0.0/15";
