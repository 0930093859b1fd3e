//! What applications do in the election that has a name, and what they see of it. A lead is a hold, by its laws too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conclave_protocols::history::Operation;
use conclave_protocols::sim::Clock;

use super::pod::{Call, Lead, Number};
use super::run::Run;
use super::world::World;

/// The name of the election.
pub(super) const ELECTION: &str = "reports";

/// The number of the first lead, above those of all claims.
const FIRST: Number = 1 << 32;

/// Leads, by the pods of their applications.
#[derive(Default)]
pub(super) struct Leads {
    open: BTreeMap<usize, Open>,
    /// Who may lead next, since when its lead before was over.
    next: BTreeMap<usize, Number>,
    count: Number,
    /// Whose applications stand, as far as they know.
    stand: BTreeSet<usize>,
    /// The last token that each application had.
    tokens: BTreeMap<usize, u64>,
    /// Those that were shown as advisory, of which nothing is promised any more.
    advisory: BTreeSet<(usize, u64)>,
    /// What each application was shown last, safe or not, by its token.
    shown: BTreeMap<usize, Shown>,
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    token: Option<u64>,
    /// Its sidecar answered that it gave the lead up.
    is_given_up: bool,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    number: Number,
    token: Option<u64>,
    until: Duration,
    /// Its application has stopped leading, whatever it is shown.
    has_stopped: bool,
}

impl World {
    /// An application stands, or states once more that it does.
    fn stand(&mut self, pod: usize) {
        self.may_lead(pod);
        let ttl = self.policy.timing.leader_lease * 8;
        let ttl = Some(ttl).filter(|_| !pod.is_multiple_of(2));
        self.call(pod, Call::Stand(ELECTION, i32::from(pod % 3 == 1), ttl));
    }

    fn may_lead(&mut self, pod: usize) {
        if self.leads.next.contains_key(&pod) {
            return;
        }
        let claim = FIRST + self.leads.count;
        self.leads.count += 1;
        self.leads.next.insert(pod, claim);
        self.record(Operation::Asked { claim, lock: ELECTION.to_owned() });
    }

    /// An application stops leading, if it does lead. Whether it did.
    pub(super) fn stops(&mut self, pod: usize) -> bool {
        let Some(open) = self.leads.open.get_mut(&pod).filter(|open| !open.has_stopped) else {
            return false;
        };
        open.has_stopped = true;
        let claim = open.number;
        self.record(Operation::Released { claim });
        true
    }

    /// What its application asked for is done. It may have got another lead meanwhile, which is given up with that.
    pub(super) fn is_done(&mut self, pod: usize, what: &str) {
        if what == "stand" {
            self.leads.stand.insert(pod);
        }
        if what == "withdraw" {
            self.leads.stand.remove(&pod);
        }
        if matches!(what, "withdraw" | "resign a lead") {
            self.stops(pod);
            if let Some(shown) = self.leads.shown.get_mut(&pod) {
                shown.is_given_up = true;
            }
        }
    }

    /// What was given up is shown no more.
    pub(super) fn check_leads(&self) {
        let given_up = self.leads.shown.iter().find(|(_, shown)| shown.is_given_up);
        assert!(given_up.is_none(), "seed {}: {given_up:?}", self.seed);
    }

    /// An application writes what only a leader may, though it may lead no more.
    fn write_as_leader(&mut self, pod: usize) {
        if let Some(token) = self.leads.tokens.get(&pod) {
            self.store(ELECTION.to_owned(), *token);
        }
    }

    pub(super) fn lead_shows(&mut self, pod: usize, lead: Option<Lead>, clock: Clock) {
        let goes_on =
            |open: &Open| lead.is_some_and(|lead| lead.is_safe && lead.token == open.token);
        if let Some(open) = self.leads.open.get(&pod).copied().filter(|open| !goes_on(open)) {
            self.count("lead ended");
            if !open.has_stopped {
                self.record(Operation::Lost { claim: open.number });
            }
            self.leads.open.remove(&pod);
            self.may_lead(pod);
        }
        if self.leads.shown.get(&pod).map(|shown| Some(shown.token)) != Some(lead.map(|l| l.token))
        {
            self.leads.shown.remove(&pod);
        }
        let Some(Lead { token, until, is_safe }) = lead else { return };
        let seed = self.seed;
        self.leads.shown.entry(pod).or_insert(Shown { token, is_given_up: false });
        let stands = self.leads.stand.contains(&pod);
        assert!(stands, "seed {seed}: pod {pod} leads, and does not stand");
        let has_arbiter = self.has_arbiter(pod);
        assert_eq!(is_safe, has_arbiter, "seed {seed}: the lead of pod {pod}");
        if !is_safe {
            self.leads.advisory.extend(token.map(|token| (pod, token)));
            return self.count("advisory lead");
        }
        assert!(token.is_some(), "seed {seed}: pod {pod} leads without a token");
        let was_advisory = token.is_some_and(|token| self.leads.advisory.contains(&(pod, token)));
        assert!(!was_advisory, "seed {seed}: pod {pod} leads by {token:?}, which was advisory");
        let until = clock.true_time(until);
        match self.leads.open.get_mut(&pod) {
            Some(open) if open.has_stopped => {}
            Some(open) => {
                open.until = until;
                let claim = open.number;
                self.count("lead extended");
                self.record(Operation::Extended { claim, until });
            }
            None => {
                let number = self.leads.next.remove(&pod).expect("it was to stand first");
                let open = Open { number, token, until, has_stopped: false };
                self.leads.open.insert(pod, open);
                self.leads.tokens.extend(token.map(|token| (pod, token)));
                self.count("led");
                self.record(Operation::Granted { claim: number, token, view: None, until });
            }
        }
    }
}

impl Run {
    /// An application does something about the election.
    pub(super) fn campaign(&mut self) {
        let pod = self.world.any(self.world.pods.len());
        if self.world.pod(pod).is_none() {
            return;
        }
        match self.world.any(10) {
            0..=4 => self.world.stand(pod),
            5 => {
                self.world.stops(pod);
                self.world.call(pod, Call::Withdraw(ELECTION));
            }
            6 => {
                if self.world.stops(pod) {
                    let longest = self.world.policy.timing.leader_lease * 8;
                    let cooldown = self.world.sim.random().below(longest);
                    self.world.call(pod, Call::Resign(ELECTION, None, cooldown));
                }
            }
            7 | 8 => self.world.write_as_leader(pod),
            _ => {
                let to = self.world.any(self.world.pods.len());
                self.world.call(pod, Call::Transfer(ELECTION, format!("pod-{to}")));
            }
        }
    }

    /// All stand, also one that was never asked to drain, and one leads before long.
    pub(super) fn somebody_leads(&mut self, patience: Duration) {
        self.world.join();
        self.all_belong();
        let living = self.world.living();
        self.list_election(&living);
        let end = self.world.sim.now() + patience;
        let before = self.world.leads.open.values().map(|open| open.until).max();
        let leads = |world: &World| {
            let lives = |pod| world.pod(pod).is_some();
            let is_new = |open: &Open| !open.has_stopped && Some(open.until) > before;
            world.leads.open.iter().any(|(pod, open)| lives(*pod) && is_new(open))
        };
        while !leads(&self.world) {
            let seed = self.world.seed;
            assert!(self.world.sim.now() < end, "seed {seed}: nobody leads within {patience:?}");
            for pod in &living {
                self.world.stand(*pod);
            }
            self.world.run_for(self.world.policy.timing.leader_lease);
        }
    }
}
