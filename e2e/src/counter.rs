//! A counter that clients read, raise and write back: what they lose if two do so at once.

use std::thread;

use anyhow::{Context, Result};
use conclave_testbed::cluster::Pod;
use conclave_testbed::wait;

use crate::product::{APPLICATION, Group, SOON};

/// A number in a Redis beside a group.
#[derive(Debug)]
pub struct Counter<'a> {
    group: &'a Group<'a>,
    address: String,
}

/// How a client counts: the rest of a script for `bash`, of which the second argument is how often.
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
        self.set(&pods[0], 0)?;
        let (script, each) = (format!("{CALLS}{script}"), each.to_string());
        thread::scope(|scope| {
            let clients: Vec<_> = pods
                .iter()
                .flat_map(|pod| [pod, pod])
                .map(|pod| {
                    let command = ["bash", "-c", &script, "count", &self.address, &each];
                    scope.spawn(move || self.group.namespace.exec(&pod.name, APPLICATION, &command))
                })
                .collect();
            for client in clients {
                client.join().expect("it does not panic").context("a client failed")?;
            }
            Ok::<_, anyhow::Error>(())
        })?;
        self.shows(&pods[0])
    }

    /// Sets it from this pod.
    pub fn set(&self, pod: &Pod, n: u64) -> Result<()> {
        self.redis(pod, &["set", "n", &n.to_string()]).map(drop)
    }

    /// What it shows to this pod.
    pub fn shows(&self, pod: &Pod) -> Result<u64> {
        Ok(self.redis(pod, &["get", "n"])?.trim().parse()?)
    }

    fn redis(&self, pod: &Pod, command: &[&str]) -> Result<String> {
        let client = ["timeout", "3", "redis-cli", "-h", &self.address];
        self.group.namespace.exec(&pod.name, APPLICATION, &[&client[..], command].concat())
    }
}

/// How scripts speak to the counter and to the sidecar, in `bash` alone: to begin a program for each call costs far more than
/// the call. `call METHOD PATH` leaves the `location` and the `deadline` of the answer, and `get` the number `n`.
const CALLS: &str = r#"
set -e
exec 4<>"/dev/tcp/$1/6379"
answered() { read -r -t 60 -u 4 answer; answer=${answer%$'\r'}; }
get() { printf 'get n\r\n' >&4; answered; answered; n=$answer; }
set_to() { printf 'set n %s\r\n' "$1" >&4; answered; [ "$answer" = +OK ]; }
call() {
  location= deadline=
  {
    printf '%s %s HTTP/1.1\r\nHost: localhost:7070\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' "$1" "$2" >&3
    while read -r -t 90 -u 3 name value; do
      case ${name,,} in
        location:) location=${value%$'\r'} ;;
        conclave-safe-until-boottime-ns:) deadline=${value%$'\r'} ;;
        $'\r') break ;;
      esac
    done
  } 3<>/dev/tcp/localhost/7070
}
"#;

/// Under the lock `counter`, and only until its deadline: what has not been written by then is begun anew.
/// A claim that cannot be had or given back since its sidecar is away is asked for again, or gone with the
/// sidecar. `/proc/uptime` has `CLOCK_BOOTTIME` in hundredths of a second, rounded down; a writer
/// leaves itself a tenth of a second.
pub const LOCKED: Script = r#"
for i in $(seq "$2"); do
  written=
  until [ -n "$written" ]; do
    call POST '/v1/locks/counter?wait=60s' || true
    [ -n "$deadline" ] || { sleep 0.1; continue; }
    get
    read -r uptime _ < /proc/uptime
    if [ $((${uptime/./}0000000 + 100000000)) -lt "$deadline" ]; then
      set_to $((n + 1))
      written=yes
    fi
    call DELETE "$location" || true
  done
done
"#;

/// Without a lock.
pub const FREELY: Script = r#"
for i in $(seq "$2"); do
  get
  set_to $((n + 1))
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
