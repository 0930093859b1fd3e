//! A counter that clients read, raise and write back: what they lose if two do so at once.

use std::thread;

use anyhow::{Context, Result};

use crate::cluster::Pod;
use crate::product::{APPLICATION, Group, SOON};
use crate::wait;

/// A number in a Redis beside a group.
#[derive(Debug)]
pub struct Counter<'a> {
    group: &'a Group<'a>,
    address: String,
}

/// How a client counts: a script for `bash`, of which the first argument is the address of the counter
/// and the second how often.
pub type Script = &'static str;

impl<'a> Counter<'a> {
    /// Deploys it into the namespace of a group.
    pub fn deploy(group: &'a Group<'a>) -> Result<Self> {
        let namespace = group.namespace;
        namespace.apply(&REDIS.replace("IMAGE", &namespace.cluster().images().client))?;
        namespace.await_deployment("redis")?;
        let service = ["get", "service/redis", "-o", "jsonpath={.spec.clusterIP}"];
        let counter = Self { group, address: namespace.kubectl(&service)? };
        let pods = group.pods()?;
        wait::until("redis", SOON, || counter.redis(&pods[0], &["ping"]).map(drop))?;
        Ok(counter)
    }

    /// Lets two clients in each of these pods count, each so often, from zero. What the counter shows
    /// in the end.
    pub fn count(&self, pods: &[Pod], script: Script, each: u64) -> Result<u64> {
        self.redis(&pods[0], &["set", "n", "0"])?;
        let each = each.to_string();
        thread::scope(|scope| {
            let clients: Vec<_> = pods
                .iter()
                .flat_map(|pod| [pod, pod])
                .map(|pod| {
                    let command = ["bash", "-c", script, "count", &self.address, &each];
                    scope.spawn(move || self.group.namespace.exec(&pod.name, APPLICATION, &command))
                })
                .collect();
            for client in clients {
                client.join().expect("it does not panic").context("a client failed")?;
            }
            Ok::<_, anyhow::Error>(())
        })?;
        Ok(self.redis(&pods[0], &["get", "n"])?.trim().parse()?)
    }

    fn redis(&self, pod: &Pod, command: &[&str]) -> Result<String> {
        let client = ["timeout", "3", "redis-cli", "-h", &self.address];
        self.group.namespace.exec(&pod.name, APPLICATION, &[&client[..], command].concat())
    }
}

/// Under the lock `counter`, and only until its deadline: what has not been written by then is begun anew.
/// A claim that cannot be had or given back since its sidecar is away is asked for again, or gone with the
/// sidecar. `/proc/uptime` has `CLOCK_BOOTTIME` in hundredths of a second, rounded down; a writer
/// leaves itself a tenth of a second.
pub const LOCKED: Script = r#"
set -e
for i in $(seq "$2"); do
  written=
  until [ -n "$written" ]; do
    grant=$(curl -fsS -o /dev/null -D - -X POST 'http://localhost:7070/v1/locks/counter?wait=60s' |
      tr -d '\r') || true
    location=$(sed -n 's/^location: //Ip' <<< "$grant")
    deadline=$(sed -n 's/^conclave-safe-until-boottime-ns: //Ip' <<< "$grant")
    [ -n "$location" ] || { sleep 0.1; continue; }
    n=$(redis-cli -h "$1" get n)
    read -r uptime _ < /proc/uptime
    if [ $((${uptime/./}0000000 + 100000000)) -lt "$deadline" ]; then
      redis-cli -h "$1" set n $((n + 1)) > /dev/null
      written=yes
    fi
    curl -fsS -X DELETE "http://localhost:7070$location" || true
  done
done
"#;

/// Without a lock.
pub const FREELY: Script = r#"
set -e
for i in $(seq "$2"); do
  n=$(redis-cli -h "$1" get n)
  redis-cli -h "$1" set n $((n + 1)) > /dev/null
done
"#;

const REDIS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: redis}
spec:
  selector: {matchLabels: {app: redis}}
  template:
    metadata: {labels: {app: redis}}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: redis
        image: IMAGE
        imagePullPolicy: IfNotPresent
        command: [redis-server, --protected-mode, "no", --save, ""]
---
apiVersion: v1
kind: Service
metadata: {name: redis}
spec:
  selector: {app: redis}
  ports: [{port: 6379}]
"#;
