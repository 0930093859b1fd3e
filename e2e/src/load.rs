//! Applications under load, and what they saw.
//!
//! Each client is a thread in the network of a pod, where the pod's application stands. It speaks
//! with the sidecar by HTTP and writes down what it asked and what it was answered, by the clock of
//! this machine by which their deadlines are stated. What all of them wrote is a [`History`], which is
//! checked at the end: so every operation of a run counts, not only those that a test looks at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use conclave_protocols::history::{History, Operation};
use conclave_testbed::cluster::{Cluster, Pod, PodNetwork};
use conclave_testbed::http::{Http, Reply};
use serde_json::Value;

use crate::boottime::Boottime;
use crate::product::API;
use crate::second_opinion;

/// What a client waits after something went wrong.
const PAUSE: Duration = Duration::from_millis(20);

/// After so many failures in a row a client does not try more rarely still.
const FAILURES: u32 = 200;

/// Running clients.
#[derive(Debug)]
pub struct Load {
    begun: Boottime,
    stop: Arc<AtomicBool>,
    claims: Arc<AtomicU64>,
    hand_overs: HandOvers,
    clients: Vec<JoinHandle<Diary>>,
}

/// Whether leaders hand over during a load. The deadline of an election says until when nobody else
/// can take the leader lease; its leader itself may give it away earlier, and an application that only
/// polls learns of that a moment later.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HandOvers {
    /// No: an application that was notified that it leads believes it until the deadline that it was sent.
    None,
    /// Yes: an application that was notified that it leads believes it in that moment.
    Some,
}

/// What a client does.
#[derive(Clone, Debug)]
pub enum Habit {
    /// Takes a lock that others want too, keeps it for so long, and looks at its claim meanwhile.
    Takes(String, Duration),
    /// Asks again and again whether its pod leads in the election of that name.
    Watches(String),
}

/// What one client saw, or all of them.
#[derive(Debug, Default)]
pub struct Diary {
    history: History,
    grants: Vec<Grant>,
    leads: Vec<(Duration, String, u64)>,
}

/// A lock that was granted.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The pod whose application holds.
    pub pod: String,
    /// The lock.
    pub lock: String,
    /// When it was asked for.
    pub asked: Duration,
    /// When the answer was there.
    pub at: Duration,
    /// The view that granted it.
    pub epoch: u64,
    /// The fencing token.
    pub token: Option<u64>,
}

impl Load {
    /// Nobody yet.
    pub fn new(hand_overs: HandOvers) -> Self {
        Self {
            begun: Boottime::now(),
            stop: Arc::new(AtomicBool::new(false)),
            claims: Arc::new(AtomicU64::new(0)),
            hand_overs,
            clients: Vec::new(),
        }
    }

    /// Clients in these pods: each has one that watches whether it leads, one that takes a lock of
    /// its own, and two that take locks that all want, for a moment and for long.
    pub fn start(cluster: &Cluster, pods: &[Pod], hand_overs: HandOvers) -> Result<Self> {
        let mut load = Self::new(hand_overs);
        for pod in pods {
            let habits = [
                Habit::Watches("default".to_owned()),
                Habit::Takes(format!("of-{}", pod.name), Duration::from_millis(5)),
                Habit::Takes("shared".to_owned(), Duration::from_millis(30)),
                Habit::Takes("kept".to_owned(), Duration::from_millis(1_500)),
            ];
            load.add(cluster, pod, &habits)?;
        }
        Ok(load)
    }

    /// A client for each habit in a pod.
    pub fn add(&mut self, cluster: &Cluster, pod: &Pod, habits: &[Habit]) -> Result<()> {
        for habit in habits {
            let habit = habit.clone();
            let client = Client {
                pod: pod.name.clone(),
                network: cluster.network_of(pod)?,
                begun: self.begun,
                stop: Arc::clone(&self.stop),
                claims: Arc::clone(&self.claims),
                hand_overs: self.hand_overs,
                diary: Diary::default(),
            };
            self.clients.push(thread::spawn(move || client.run(&habit)));
        }
        Ok(())
    }

    /// The time since the load began: the axis of what is written down.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Ends the clients and puts together what they saw.
    pub fn end(self) -> Result<Diary> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Diary::default();
        for client in self.clients {
            let Ok(diary) = client.join() else { bail!("a client panicked") };
            all.history.extend(diary.history);
            all.grants.extend(diary.grants);
            all.leads.extend(diary.leads);
        }
        all.grants.sort_by_key(|grant| grant.at);
        all.leads.sort_by_key(|(at, ..)| *at);
        Ok(all)
    }
}

impl Diary {
    /// Fails if what the clients saw breaks any of the promises, or is too little to show anything.
    pub fn check(&self) -> Result<()> {
        self.check_leads()?;
        ensure!(self.grants.len() > 50, "only {} grants: this shows nothing", self.grants.len());
        Ok(())
    }

    /// The same, of clients that take no lock.
    pub fn check_leads(&self) -> Result<()> {
        let sent = second_opinion::check(&self.history)?;
        println!(
            "{} operations, {} grants, {} leads: no law is broken; {sent}",
            self.history.len(),
            self.grants.len(),
            self.leads.len()
        );
        ensure!(!self.leads.is_empty() || !self.grants.is_empty(), "nothing: this shows nothing");
        Ok(())
    }

    /// All grants, in the order of time.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// The first grant by a view above `epoch`, after `at`: how long that took.
    pub fn next_grant(&self, at: Duration, epoch: u64) -> Result<Duration> {
        let next = self.grants.iter().find(|grant| grant.at > at && grant.epoch > epoch);
        next.map(|grant| grant.at.saturating_sub(at)).context("nothing was granted after it")
    }

    /// The first time after `at` that somebody was notified that it leads a view above `epoch`, in a named election with a
    /// token above it.
    pub fn next_leader(&self, at: Duration, epoch: u64) -> Result<Duration> {
        let next = self.leads.iter().find(|(when, _, led)| *when > at && *led > epoch);
        next.map(|(when, ..)| when.saturating_sub(at)).context("nobody led after it")
    }

    /// The longest time between two grants within a span.
    pub fn longest_pause(&self, from: Duration, to: Duration) -> Duration {
        let within = self.grants.iter().map(|grant| grant.at).filter(|at| (from..to).contains(at));
        let mut last = from;
        let mut longest = Duration::ZERO;
        for at in within.chain([to]) {
            longest = longest.max(at.saturating_sub(last));
            last = at;
        }
        longest
    }
}

struct Client {
    pod: String,
    network: PodNetwork,
    begun: Boottime,
    stop: Arc<AtomicBool>,
    claims: Arc<AtomicU64>,
    hand_overs: HandOvers,
    diary: Diary,
}

impl Client {
    fn run(mut self, habit: &Habit) -> Diary {
        self.network.enter().expect("the network of a pod that was there just now");
        let mut failures = 0;
        while !self.is_over() {
            let Ok(mut api) = Http::connect(API) else {
                // The sidecar is being started again, or the pod is gone for good.
                failures = (failures + 1).min(FAILURES);
                thread::sleep(PAUSE * (1 + failures / 10));
                continue;
            };
            failures = 0;
            while !self.is_over() {
                let done = match habit {
                    Habit::Takes(lock, keep) => self.take(&mut api, lock, *keep),
                    Habit::Watches(election) => self.watch(&mut api, election),
                };
                if done.is_err() {
                    // The sidecar is away, or does not answer: another connection will show.
                    thread::sleep(PAUSE);
                    break;
                }
            }
        }
        self.diary
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn note(&mut self, at: Duration, operation: Operation) {
        self.diary.history.record(at, operation);
    }

    /// Takes a lock and gives it back.
    fn take(&mut self, api: &mut Http, lock: &str, keep: Duration) -> Result<()> {
        let claim = self.claims.fetch_add(1, Ordering::Relaxed);
        let asked = self.now();
        self.note(asked, Operation::Asked { claim, lock: lock.to_owned() });
        let reply = api.call("POST", &format!("/v1/locks/{lock}?wait=5s"))?;
        let at = self.now();
        if reply.status != 201 {
            thread::sleep(PAUSE);
            return Ok(());
        }
        let body = reply.json();
        let (token, epoch) = (body["token"].as_u64(), number(&body, "epoch")?);
        let mut until = self.begun.until_safe(&body)?;
        let view = Some(epoch);
        self.note(at, Operation::Granted { claim, token, view, until });
        let (pod, lock) = (self.pod.clone(), lock.to_owned());
        self.diary.grants.push(Grant { pod, lock, asked, at, epoch, token });
        let path = reply.location.context("a grant has a location")?;
        while self.now() < at + keep {
            thread::sleep(keep.min(Duration::from_millis(100)));
            if keep > Duration::from_millis(100) {
                let seen = api.call("GET", &path)?;
                if !self.still_holds(claim, &seen, &mut until)? {
                    return Ok(());
                }
            }
        }
        self.note(self.now(), Operation::Released { claim });
        api.call("DELETE", &path).map(drop)
    }

    /// What a look at a claim shows.
    fn still_holds(&mut self, claim: u64, seen: &Reply, until: &mut Duration) -> Result<bool> {
        let (at, body) = (self.now(), seen.json());
        if body["state"] != "held" {
            self.note(at, Operation::Lost { claim });
            return Ok(false);
        }
        // An earlier one too: the history says that it must not be.
        let notified = self.begun.until_safe(&body)?;
        if notified != *until {
            *until = notified;
            self.note(at, Operation::Extended { claim, until: notified });
        }
        Ok(true)
    }

    /// Asks whether the pod leads. What rises from lead to lead is the view, in a named election the token.
    fn watch(&mut self, api: &mut Http, election: &str) -> Result<()> {
        let reply = api.call("GET", &format!("/v1/elections/{election}/self"))?;
        let (at, who) = (self.now(), self.pod.clone());
        if reply.status == 200 {
            let body = reply.json();
            let epoch = number(&body, "token").or_else(|_| number(&body, "epoch"))?;
            let until = match self.hand_overs {
                HandOvers::None => self.begun.until_safe(&body)?,
                HandOvers::Some => at,
            };
            self.diary.leads.push((at, who.clone(), epoch));
            self.note(at, Operation::Leads { who, epoch, until });
        }
        thread::sleep(Duration::from_millis(10));
        Ok(())
    }
}

fn number(body: &Value, field: &str) -> Result<u64> {
    body[field].as_u64().with_context(|| format!("no number `{field}` in {body}"))
}
