//! What the group task lets the rest of the sidecar see.

use std::time::Duration;

use conclave_protocols::elections::DEFAULT;
use conclave_protocols::member::{self, Member, Profile};
use conclave_protocols::policy::{Arbiter, Policy};
use conclave_protocols::record::Record;
use conclave_protocols::time::hold;
use conclave_protocols::version;
use conclave_protocols::{Incarnation, LocalTime};
use tokio::sync::watch;

use super::costs::nomination_cost;
use super::node::requests::NO_VIEW;
use super::{Election, LastElection, Leader, Leadership, MemberStatus, Status};

/// The channels by which the group is seen.
pub(super) struct Publisher {
    me: watch::Sender<Option<Incarnation>>,
    pub(super) status: watch::Sender<Status>,
    pub(super) election: watch::Sender<Election>,
}

impl Publisher {
    /// Nothing is known yet but this member's own name.
    pub(super) fn new(group: &str, pod: &str) -> Self {
        let policy = Policy::default();
        let status = Status {
            group: group.to_owned(),
            pod: pod.to_owned(),
            missing: Some(NO_VIEW.to_owned()),
            epoch: conclave_protocols::Epoch::default(),
            arbiter: policy.arbiter,
            evidence: policy.evidence,
            policy_generation: policy.generation,
            clock: policy.clock,
            speaks: version::FIRST,
            grants: None,
            grace_until: None,
            members: Vec::new(),
            tolerates: 0,
            outage_survived: None,
            confirmed: None,
            draining: false,
            view_changes: 0,
            index: 1,
        };
        let election = Election::new(DEFAULT, &policy);
        Self {
            me: watch::Sender::new(None),
            status: watch::Sender::new(status),
            election: watch::Sender::new(election),
        }
    }

    /// A process of this member begins.
    pub(super) fn begins(&self, me: Incarnation, policy: &Policy) {
        self.me.send_replace(Some(me));
        self.out(NO_VIEW);
        self.status.send_modify(|status| {
            status.arbiter = policy.arbiter;
            status.evidence = policy.evidence;
            status.policy_generation = policy.generation;
            status.clock = policy.clock;
            status.draining = false;
        });
    }

    /// A view began.
    pub(super) fn installed(
        &self,
        now: LocalTime,
        record: &Record,
        is_open: impl Fn(Incarnation) -> bool,
        is_suspected: impl Fn(Incarnation) -> bool,
    ) {
        self.status.send_modify(|status| {
            status.missing = None;
            status.epoch = record.epoch;
            status.arbiter = record.policy.arbiter;
            status.evidence = record.policy.evidence;
            status.policy_generation = record.policy.generation;
            status.clock = record.policy.clock;
            status.speaks = record.speaks();
            status.members = members(record, *self.me.borrow(), is_open, is_suspected);
            status.tolerates = tolerated(record);
            status.outage_survived = survived(record);
            status.view_changes += 1;
            status.index += 1;
        });
        self.election.send_if_modified(|election| {
            election.algorithm = record.policy.election;
            election.arbiter = record.policy.arbiter;
            let new_epoch = election.epoch != record.epoch;
            election.epoch = record.epoch;
            election.candidates = u32::try_from(record.members.len()).unwrap_or(u32::MAX);
            election.expected = Some(nomination_cost(record));
            let changed = new_epoch | election.set_leader(leader(now, record));
            election.index += u64::from(changed);
            changed
        });
    }

    /// The member goes by that arbiter.
    pub(super) fn goes_by(&self, arbiter: Arbiter) {
        self.status.send_if_modified(|status| {
            let changed = status.arbiter != arbiter;
            status.arbiter = arbiter;
            status.index += u64::from(changed);
            changed
        });
        self.election.send_if_modified(|election| {
            let changed = election.arbiter != arbiter;
            election.arbiter = arbiter;
            election.index += u64::from(changed);
            changed
        });
    }

    /// How this member stands now.
    pub(super) fn stands(&self, now: LocalTime, member: &Member, leadership: member::Leadership) {
        let draining = self.status.borrow().draining;
        let changed = self.election.send_if_modified(|election| {
            let (is, until) = match leadership {
                member::Leadership::Leading(until) => (Leadership::Leading, Some(until)),
                member::Leadership::HandingOver => (Leadership::HandingOver, None),
                member::Leadership::Following(..) => (Leadership::Following, None),
                member::Leadership::Electing if draining => (Leadership::HandingOver, None),
                member::Leadership::Electing => (Leadership::Electing, None),
                member::Leadership::Isolated => (Leadership::Isolated, None),
            };
            let extended = election.safe_until != until;
            election.safe_until = until;
            let known = match is {
                Leadership::Leading | Leadership::Following => {
                    member.record().and_then(|record| leader(now, record))
                }
                Leadership::Electing | Leadership::HandingOver | Leadership::Isolated => None,
            };
            let moved = election.leadership != is;
            election.leadership = is;
            let news = moved | election.set_leader(known);
            election.index += u64::from(news);
            news || extended
        });
        // The status names the leader as well, and says whether the group is ready.
        self.status.send_if_modified(|status| {
            status.index += u64::from(changed);
            changed
        });
    }

    /// An election has ended.
    pub(super) fn elected(&self, messages: u64, duration: Duration) {
        self.election.send_if_modified(|election| {
            election.last = Some(LastElection { messages, duration });
            false
        });
    }

    /// Whether locks are granted in the group, if that is known.
    pub(super) fn grants(&self, grants: Option<bool>) {
        self.status.send_modify(|status| {
            status.grants = grants;
            status.index += 1;
        });
    }

    /// Until when nothing is newly granted, if this member knows of such a wait.
    pub(super) fn grace(&self, until: Option<LocalTime>) {
        self.status.send_modify(|status| {
            status.grace_until = until;
            status.index += 1;
        });
    }

    /// The register confirmed the view.
    pub(super) fn confirmed(&self, at: LocalTime) {
        self.status.send_if_modified(|status| {
            status.confirmed = status.confirmed.max(Some(at));
            false
        });
    }

    /// This member has left its group: nothing is to be confirmed any more.
    pub(super) fn ended(&self) {
        self.status.send_modify(|status| {
            status.confirmed = None;
            status.outage_survived = None;
        });
    }

    /// The pod is about to end.
    pub(super) fn draining(&self) {
        self.status.send_modify(|status| {
            status.draining = true;
            status.index += 1;
        });
    }

    /// This member is out of its group, and says why.
    pub(super) fn out(&self, why: &str) {
        self.status.send_modify(|status| {
            status.missing = Some(why.to_owned());
            status.index += 1;
        });
    }

    /// Whether this member guesses that another has crashed.
    pub(super) fn suspects(&self, peer: Incarnation, suspected: bool) {
        self.status.send_if_modified(|status| {
            let mut members = status.members.iter_mut();
            let member = members.find(|member| incarnation(member) == peer);
            let member = member.filter(|member| member.suspected != suspected);
            let changed = member.map(|member| member.suspected = suspected).is_some();
            status.index += u64::from(changed);
            changed
        });
    }

    /// To whom links are open.
    pub(super) fn connected(&self, is_open: impl Fn(Incarnation) -> bool) {
        self.status.send_if_modified(|status| {
            let mut changed = false;
            for member in &mut status.members {
                let open = member.me || is_open(incarnation(member));
                changed |= member.connected != open;
                member.connected = open;
            }
            status.index += u64::from(changed);
            changed
        });
    }
}

fn leader(now: LocalTime, record: &Record) -> Option<Leader> {
    leader_info(now, record, record.leader?)
}

/// What is shown of a member that leads from now on.
pub(super) fn leader_info(now: LocalTime, record: &Record, member: Incarnation) -> Option<Leader> {
    let info = record.member(record.rank(member)?)?;
    Some(Leader {
        pod: info.name.clone(),
        uid: info.incarnation.pod.to_string(),
        ip: info.addresses.first().map(|address| address.ip().to_string()).unwrap_or_default(),
        profile: Profile::default(),
        since: now,
    })
}

fn members(
    record: &Record,
    me: Option<Incarnation>,
    is_open: impl Fn(Incarnation) -> bool,
    is_suspected: impl Fn(Incarnation) -> bool,
) -> Vec<MemberStatus> {
    let status = |(rank, info): (usize, &conclave_protocols::record::MemberInfo)| MemberStatus {
        pod: info.name.clone(),
        uid: info.incarnation.pod.to_string(),
        run: info.incarnation.run,
        addresses: info.addresses.iter().map(ToString::to_string).collect(),
        rank: u32::try_from(rank).unwrap_or(u32::MAX),
        leader: record.leader == Some(info.incarnation),
        me: Some(info.incarnation) == me,
        connected: Some(info.incarnation) == me || is_open(info.incarnation),
        suspected: is_suspected(info.incarnation),
    };
    record.members.iter().enumerate().map(status).collect()
}

fn incarnation(member: &MemberStatus) -> Incarnation {
    let pod = member.uid.parse().unwrap_or(conclave_protocols::PodUid(0));
    Incarnation { pod, run: member.run }
}

/// How many members may be lost at once so that the rest can still promise a leader lease.
fn tolerated(record: &Record) -> u32 {
    u32::try_from(record.members.len() - record.promises_needed()).unwrap_or(u32::MAX)
}

/// How long an outage of the API server is surely survived: the promise to confirm, less the time
/// between two confirmations. Without an arbiter nobody asks it.
fn survived(record: &Record) -> Option<Duration> {
    if record.policy.arbiter == Arbiter::None {
        return None;
    }
    let outage = record.timing.api_outage;
    Some(hold(outage).saturating_sub((outage / 6).min(Duration::from_secs(10))))
}
