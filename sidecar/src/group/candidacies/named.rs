//! One election, as this pod sees it.

use conclave_protocols::member::{self, Candidacy, Profile, Term};
use conclave_protocols::policy::{Arbiter, Handoff, Policy};
use conclave_protocols::record::{MemberInfo, Record};
use conclave_protocols::{Epoch, FencingToken, Incarnation, LocalTime};
use tokio::sync::watch;

use super::turns::Leased;
use crate::group::costs::ballot_cost;
use crate::group::{Connection, Election, Keepalive, Leader, Leadership, Stands};

/// One election.
pub(super) struct Named {
    pub(super) state: watch::Sender<Election>,
    /// The policy has it.
    pub(super) listed: bool,
    /// When the next begins to lead if this member is to give the lead to another.
    pub(super) handoff: Handoff,
    /// The Lease that its leader must have besides the hold, by the policy.
    pub(super) lease: Option<String>,
    /// What this lead needs of that.
    pub(super) leased: Option<Leased>,
    /// How the application stands.
    pub(super) stands: Option<Stands>,
    /// When it last stated so.
    pub(super) since: LocalTime,
    /// When this member's last lead began.
    pub(super) began: LocalTime,
    /// How it stands by the pod's annotation.
    pub(super) annotated: Option<Stands>,
    /// If it has to state that again, until then.
    pub(super) alive_until: Option<LocalTime>,
    /// Until then it is no candidate, because it resigned.
    pub(super) rests: Option<LocalTime>,
    /// As what the member was let know that it stands.
    pub(super) announced: Option<Candidacy>,
    /// The member is to take the lead, and not to leave it.
    pub(super) asked: bool,
    /// For how long it leads, if it does.
    pub(super) term: Option<Term>,
    /// It leads no longer than that: it gives the lead to another, or the policy has no such election any more.
    pub(super) last: Option<LocalTime>,
    /// Who leads, as the leader of the group last stated, in which view.
    pub(super) known: (Epoch, Option<Leader>),
    /// Who stands.
    pub(super) candidates: Vec<Incarnation>,
}

impl Named {
    pub(super) fn new(name: &str, policy: &Policy, arbiter: Arbiter) -> Self {
        let state = watch::Sender::new(Election { arbiter, ..Election::new(name, policy) });
        Self {
            state,
            listed: false,
            handoff: Handoff::default(),
            lease: None,
            leased: None,
            stands: None,
            since: LocalTime(0),
            began: LocalTime(0),
            annotated: None,
            alive_until: None,
            rests: None,
            announced: None,
            asked: false,
            term: None,
            last: None,
            known: (Epoch(0), None),
            candidates: Vec::new(),
        }
    }

    /// The application stands from now on. Whether it did not before.
    pub(super) fn stand(&mut self, now: LocalTime, stands: Stands) -> bool {
        self.since = now;
        self.alive_until = match stands.keepalive {
            Keepalive::Client(ttl) => Some(now.after(ttl)),
            Keepalive::Sidecar | Keepalive::Annotation | Keepalive::Connection(_) => None,
        };
        let repeats = self.stands.as_ref().is_some_and(|before| before.is_repeated_by(&stands));
        if !repeats {
            self.rests = None;
        }
        let created = self.stands.replace(stands).is_none();
        self.show_deadline();
        if self.term.is_some() {
            let profile = self.profile();
            self.change(|election| {
                let leader = election.leader.clone();
                election.set_leader(leader.map(|leader| Leader { profile, ..leader }))
            });
        }
        created
    }

    pub(super) fn profile(&self) -> Profile {
        let stands = self.stands.as_ref();
        stands.map(|stands| stands.candidacy.profile.clone()).unwrap_or_default()
    }

    pub(super) fn stands_by(&self, connection: &Connection) -> bool {
        let keepalive = self.stands.as_ref().map(|stands| &stands.keepalive);
        matches!(keepalive, Some(Keepalive::Connection(own)) if own.is(connection))
    }

    /// The candidate whose pod has that name or UID.
    pub(super) fn candidate(&self, pod: &str, record: Option<&Record>) -> Option<Incarnation> {
        let is_it = |candidate: &&Incarnation| {
            let info = record.and_then(|record| record.member(record.rank(**candidate)?));
            info.is_some_and(|info| is_of_pod(info, pod))
        };
        self.candidates.iter().find(is_it).copied()
    }

    /// Those that stand now may be elected next, but for the one that leads.
    pub(super) fn expect(&mut self, record: Option<&Record>) {
        let leader = self.known.1.as_ref().map(|leader| leader.uid.as_str());
        let expected = record.map(|record| {
            let others = record.members.iter().filter(|info| {
                let leads = Some(info.incarnation.pod.to_string().as_str()) == leader;
                !leads && self.candidates.contains(&info.incarnation)
            });
            let others = others.map(|info| info.incarnation).collect();
            ballot_cost(self.state.borrow().algorithm, record, &others)
        });
        // Nobody waits for that.
        self.state.send_if_modified(|election| {
            election.expected = expected;
            false
        });
    }

    /// Until when it leads, if it does.
    pub(super) fn until(&self) -> Option<LocalTime> {
        let term = self.term.as_ref().map(Term::until)?;
        let lease = match &self.leased {
            Some(leased) => Some(leased.until?),
            None => None,
        };
        Some([self.last, self.alive_until, lease].into_iter().flatten().fold(term, LocalTime::min))
    }

    /// When something is over.
    pub(super) fn next_due(&self) -> Option<LocalTime> {
        [self.last, self.alive_until, self.rests].into_iter().flatten().min()
    }

    /// It leads no longer than its application was notified of.
    pub(super) fn end_by_its_deadline(&mut self) {
        if self.last.is_none() && self.leads() {
            self.last = self.until();
            self.change(|election| election.set(Leadership::HandingOver));
        }
    }

    /// Shows what is known, unless this member leads: nobody knows of a leader who follows nobody.
    pub(super) fn show(&mut self, stands: member::Leadership) {
        if self.leads() {
            return;
        }
        let (known, otherwise) = match stands {
            member::Leadership::Leading(_)
            | member::Leadership::HandingOver
            | member::Leadership::Following(..) => (self.known.1.clone(), Leadership::Electing),
            member::Leadership::Electing => (None, Leadership::Electing),
            member::Leadership::Isolated => (None, Leadership::Isolated),
        };
        let is_named =
            |leader: &Leader| self.leased.as_ref().is_none_or(|leased| leased.names(leader));
        let known = known.filter(is_named);
        let stands = if known.is_some() { Leadership::Following } else { otherwise };
        self.change(|election| election.set(stands) | election.set_leader(known));
    }

    /// Changes what is shown, and says so if it did.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Election) -> bool) {
        self.state.send_if_modified(|election| {
            let changed = change(election);
            election.index += u64::from(changed);
            changed
        });
    }

    /// The term moves on; that alone is no news.
    pub(super) fn extend(&mut self, extend: impl FnOnce(&mut Term)) {
        if let Some(term) = &mut self.term {
            extend(term);
            self.show_deadline();
        }
    }

    /// It leads from now on, as that is shown.
    pub(super) fn begin(&mut self, token: Option<FencingToken>, me: Option<Leader>) {
        let until = self.until();
        self.change(|election| {
            election.token = token;
            election.safe_until = until;
            election.set(Leadership::Leading) | election.set_leader(me) | true
        });
    }

    pub(super) fn show_deadline(&mut self) {
        let Some(until) = self.until() else { return };
        self.state.send_if_modified(|election| election.safe_until.replace(until) != Some(until));
    }

    /// This member leads no longer, if it did.
    pub(super) fn ended(&mut self, then: Leadership) {
        self.last = None;
        if let Some(leased) = &mut self.leased {
            leased.until = None;
        }
        if self.term.take().is_some() {
            self.known.1 = None;
            self.change(|election| {
                (election.token, election.safe_until) = (None, None);
                election.set(then) | election.set_leader(None) | true
            });
        }
    }
}

impl Election {
    /// Whether that is another leadership than before.
    pub(super) fn set(&mut self, leadership: Leadership) -> bool {
        std::mem::replace(&mut self.leadership, leadership) != leadership
    }
}

/// Whether a member's pod has that name or UID.
pub(in crate::group) fn is_of_pod(info: &MemberInfo, pod: &str) -> bool {
    info.name == pod || info.incarnation.pod.to_string() == pod
}
