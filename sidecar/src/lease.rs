//! Leases that Conclave shares with programs of client-go: the members of a group and those programs take turns.
//!
//! [`Turn`] decides, and does no I/O; [`Leases`] carries out what it asks for. Nothing here is the group's register:
//! that Lease is nobody else's.

mod kubernetes;
mod memory;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::{Incarnation, PodUid};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::ResourceExt;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

pub use self::kubernetes::KubernetesLeases;
pub use self::memory::MemoryLeases;
pub(crate) use self::turn::Turn;

/// For how long a Lease excludes others after a write: client-go's default, so that programs with its defaults wait for
/// as long as they do among themselves.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// The annotation of a Lease in which a leader of Conclave's says who it is: a [`Mark`].
pub(crate) const MARK_ANNOTATION: &str = "conclave.dev/lead";

/// The duration that client-go writes when it gives a Lease back: zero is not allowed.
const RELEASED: i32 = 1;

/// Who has a Lease, in the words of the group that it leads in.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mark {
    /// The UID of the group's resource.
    pub(crate) group: PodUid,
    /// The election.
    pub(crate) election: String,
    /// The fencing token of the lead; nothing without an arbiter.
    pub(crate) token: Option<u64>,
    /// The `holderIdentity` that stands beside it: with another one, this is not the holder's statement.
    pub(crate) holder: String,
}

/// A Lease as it was read, or written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record(Box<Lease>);

impl Record {
    pub(crate) fn new(lease: Lease) -> Self {
        Self(Box::new(lease))
    }

    fn spec(&self) -> Option<&LeaseSpec> {
        self.0.spec.as_ref()
    }

    /// Two with one version are the same.
    pub(crate) fn version(&self) -> (Option<String>, Option<String>) {
        (self.0.uid(), self.0.resource_version())
    }

    /// Who has it; nobody, if it was given back or never taken.
    pub(crate) fn holder(&self) -> Option<&str> {
        let holder = self.spec()?.holder_identity.as_deref();
        holder.filter(|holder| !holder.is_empty())
    }

    /// For how long its holder keeps others out. One that does not say so is waited for as for one of ours.
    pub(crate) fn duration(&self) -> Duration {
        let seconds = self.spec().and_then(|spec| spec.lease_duration_seconds);
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|seconds| *seconds > 0).map_or(LEASE, Duration::from_secs)
    }

    /// What its holder says of itself, if that is a leader of Conclave's. client-go keeps the annotations that it finds,
    /// so that one counts only beside the name of its own holder.
    pub(crate) fn mark(&self) -> Option<Mark> {
        let text = self.0.annotations().get(MARK_ANNOTATION)?;
        let mark: Mark = serde_json::from_str(text).ok()?;
        (self.holder() == Some(&mark.holder)).then_some(mark)
    }

    /// The Lease with this written to it at `now`, by the wall clock, and with everything else that it has.
    pub(crate) fn with(&self, write: &Write, now: Timestamp) -> Lease {
        let mut lease = (*self.0).clone();
        lease.metadata.managed_fields = None;
        let before = self.spec().cloned().unwrap_or_default();
        let time = MicroTime(later(now, before.renew_time.as_ref()));
        let spec = LeaseSpec { renew_time: Some(time.clone()), ..before };
        lease.spec = Some(match write {
            Write::Take(mark) => {
                let goes_on = self.holder() == Some(&mark.holder);
                let transitions = spec.lease_transitions.unwrap_or(0).max(0);
                // A struct of texts and numbers always has a JSON form.
                let text = serde_json::to_string(mark).unwrap_or_default();
                lease.annotations_mut().insert(MARK_ANNOTATION.to_owned(), text);
                LeaseSpec {
                    holder_identity: Some(mark.holder.clone()),
                    lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
                    acquire_time: spec.acquire_time.filter(|_| goes_on).or(Some(time)),
                    lease_transitions: Some(transitions.saturating_add(i32::from(!goes_on))),
                    ..spec
                }
            }
            Write::Release => {
                lease.annotations_mut().remove(MARK_ANNOTATION);
                LeaseSpec {
                    holder_identity: Some(String::new()),
                    lease_duration_seconds: Some(RELEASED),
                    acquire_time: Some(time),
                    ..spec
                }
            }
        });
        lease
    }
}

/// The time for `renewTime`: a later *second* than before, whatever the clock says. client-go compares records by the
/// second, so a program of its own sees no renewal that is less than that after the one before, and would count from
/// the earlier one.
fn later(now: Timestamp, before: Option<&MicroTime>) -> Timestamp {
    let next = before.and_then(|before| before.0.checked_add(SignedDuration::from_secs(1)).ok());
    next.map_or(now, |next| next.max(now))
}

/// What is written to a Lease.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Write {
    /// This leader has it from now on, or has it still.
    Take(Mark),
    /// Nobody has it.
    Release,
}

/// What is to be done with a Lease.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Do {
    /// Read it as it is: not from a cache.
    Read,
    /// Write to it, unless anybody has since it was as in this record.
    Write(Record, Write),
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// The name of the Lease.
    pub(crate) lease: String,
    /// Which call of its turn.
    pub(crate) id: u64,
    pub(crate) what: Do,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// It was read, or written: it is this now.
    Is(Record),
    /// There is none.
    Absent,
    /// Somebody else has written to it: nothing was done.
    Conflict,
    /// The API server refused: nothing was done.
    Refused,
    /// Nobody knows what became of the call.
    Unknown,
}

/// What the group task hears of Leases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    /// An answer to the call of that number.
    Answer { lease: String, id: u64, outcome: Outcome },
    /// A watch has seen the Lease, or that there is none. It may lag: nothing is decided by it.
    Seen { lease: String, record: Option<Record> },
}

/// What a node wants of Leases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    /// Follow these, and no others.
    Follow(BTreeSet<String>),
    /// Make a call.
    Call(Call),
}

/// A way to Leases. Calls never wait; each answer comes by the channel, or never.
#[derive(Clone, Debug)]
pub enum Leases {
    /// Those of the API server.
    Kubernetes(KubernetesLeases),
    /// Those within this process.
    Memory(MemoryLeases),
}

/// A way to Leases, and those that are followed.
pub(crate) struct LeaseWays {
    leases: Leases,
    news: mpsc::Sender<News>,
    followed: BTreeMap<String, AbortOnDropHandle<()>>,
}

impl LeaseWays {
    pub(crate) fn new(leases: Leases, news: mpsc::Sender<News>) -> Self {
        Self { leases, news, followed: BTreeMap::new() }
    }

    pub(crate) fn carry_out(&mut self, order: Order) {
        match order {
            Order::Call(call) => match &self.leases {
                Leases::Kubernetes(leases) => leases.call(call, self.news.clone()),
                Leases::Memory(leases) => leases.call(call, &self.news),
            },
            Order::Follow(names) => {
                self.followed.retain(|name, _| names.contains(name));
                for name in names {
                    let (leases, news) = (&self.leases, self.news.clone());
                    let follow = |name: &String| {
                        let task = match leases {
                            Leases::Kubernetes(leases) => {
                                tokio::spawn(leases.clone().follow(name.clone(), news))
                            }
                            Leases::Memory(leases) => {
                                tokio::spawn(leases.clone().follow(name.clone(), news))
                            }
                        };
                        AbortOnDropHandle::new(task)
                    };
                    self.followed.entry(name).or_insert_with_key(follow);
                }
            }
        }
    }

    /// Returns once no call is under way: what a leader gave back last is on its way before the process ends.
    pub(crate) async fn settled(&self) {
        match &self.leases {
            Leases::Kubernetes(leases) => leases.settled().await,
            Leases::Memory(_) => {}
        }
    }
}

/// The `holderIdentity` of a process: pod, its UID, and the process' own number, so that no two have one.
pub(crate) fn identity(pod: &str, me: Incarnation) -> String {
    format!("{pod}_{}_{:x}", me.pod, me.run)
}

/// The UID of the pod in an [`identity`].
pub(crate) fn pod_of(identity: &str) -> Option<PodUid> {
    identity.split('_').nth(1)?.parse().ok()
}
