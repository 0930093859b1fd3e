//! Holds runs of the model against the rules that the members' traces are held against
//! (`conclave_protocols::trace`): the two are one protocol if what the one does the other allows.
//!
//! A tick is a second, all clocks are the same, and a hold is as long as its wait. What the model has in one
//! step the rules have as a few events of one moment. A crash takes the application along, and so what it was
//! notified of. Where a search has no E, a member that promises has just read the register. Evidence of
//! death, which the model counts a little earlier than members do, is left out.

use std::time::Duration;

use conclave_protocols::policy::Timing as Waits;
use conclave_protocols::random::Random;
use conclave_protocols::trace::{Breach, Clocks, Content, Event, Rules, TraceEntry};
use conclave_protocols::{Epoch, FencingToken, Incarnation, LockName, PodUid};
use stateright::Model;

use super::budget::Budget;
use super::model::{Action, LeaderModel};
use super::peers::{LOCK, PeerAction, Way};
use super::rules;
use super::scope::Scope;
use super::state::{
    Ask, Fate, LOCKS, LockId, Members, NOBODY, Node, NodeId, Record, State, TOKEN_BITS, Ticks,
    Token, View, epoch_of,
};

/// A run of the model under way.
pub(crate) struct Replay<'a> {
    model: &'a LeaderModel,
    rules: Rules,
    ticks: u64,
    /// How often a lock was held.
    holds: u64,
    /// Until when each node leads, as it was notified, and in which view.
    led: [Option<(View, u64)>; 4],
}

/// Whether runs of these bounds can be expressed as events.
pub(crate) fn covers(model: &LeaderModel) -> bool {
    !model.scope.evidence
}

/// Holds a whole run against the rules. Returns how many events it was.
pub(crate) fn replay(model: &LeaderModel, run: &[(State, Option<Action>)]) -> Result<u64, Breach> {
    let Some((first, _)) = run.first() else { return Ok(0) };
    let mut replay = Replay::new(model, first)?;
    for pair in run.windows(2) {
        if let Some(action) = pair[0].1 {
            replay.step(&pair[0].0, action, &pair[1].0)?;
        }
    }
    Ok(replay.rules.steps())
}

impl<'a> Replay<'a> {
    /// The first view: its leader wrote it, and everybody has just promised.
    pub(crate) fn new(model: &'a LeaderModel, first: &State) -> Result<Self, Breach> {
        let second = Duration::from_secs(1);
        let rules = Rules::new(Clocks::Ticking(second));
        let mut replay = Self { model, rules, ticks: 0, holds: 0, led: [None; 4] };
        for id in model.everybody().iter() {
            replay.tell(id, Event::Started(0))?;
        }
        let content = replay.content(&first.register);
        replay.tell(0, Event::Wrote { compared: true, content: content.clone() })?;
        for id in model.scope.founders.iter() {
            replay.tell(id, Event::Entered(Epoch(1)))?;
            replay.tell(id, Event::Read(content.clone()))?;
            replay.tell(id, Event::Promised(Epoch(1)))?;
        }
        replay.leader_leases(first)?;
        for id in model.scope.founders.iter().filter(|id| *id != 0) {
            replay.acknowledged(0, id, 1, first.nodes[id].lease, first)?;
        }
        Ok(replay)
    }

    /// One step of the model.
    pub(crate) fn step(
        &mut self,
        before: &State,
        action: Action,
        after: &State,
    ) -> Result<(), Breach> {
        if matches!(action, Action::Tick) {
            self.ticks += 1;
        }
        if let Action::Crash(id) = action {
            self.crash(before, id)?;
        }
        self.resignations(after)?;
        self.writes(before, action, after)?;
        self.members(before, action, after)?;
        self.leader_leases(after)?;
        self.locks(before, action, after)
    }

    fn tell(&mut self, who: NodeId, event: Event<Duration>) -> Result<(), Breach> {
        self.check(Some(name(who)), event)
    }

    fn check(&mut self, who: Option<Incarnation>, event: Event<Duration>) -> Result<(), Breach> {
        self.rules.step(Duration::from_secs(self.ticks), &TraceEntry { who, event })
    }

    fn after(&self, left: Ticks) -> Duration {
        Duration::from_secs(self.ticks + u64::from(left))
    }

    fn content(&self, record: &Record) -> Content {
        let seconds = |ticks: Ticks| Duration::from_secs(u64::from(ticks));
        let timing = record.timing;
        Content {
            epoch: Epoch(u64::from(record.view)),
            ceiling: Epoch(u64::from(record.ceiling)),
            members: record.members.iter().map(name).collect(),
            leader: (record.leader != NOBODY && !record.lost).then(|| name(record.leader)),
            closing: record.closing,
            base_unknown: record.lost,
            base: None,
            timing: Waits {
                leader_lease: seconds(timing.promise()),
                heartbeat: Duration::ZERO,
                member_lease: seconds(timing.member_lease()),
                api_outage: seconds(timing.confirmation().max(u8::from(!self.model.confirms()))),
            },
            lease: seconds(timing.lease()),
            lead_lease: seconds(timing.promise()),
            believes_evidence: false,
            is_advisory: false,
        }
    }

    fn crash(&mut self, before: &State, id: NodeId) -> Result<(), Breach> {
        for lock in live(&before.nodes[id]) {
            self.tell(id, Event::Released(lock_name(lock)))?;
        }
        self.tell(id, Event::Ended)
    }

    /// Who led and does not, though its leader lease would have lasted.
    fn resignations(&mut self, after: &State) -> Result<(), Breach> {
        for id in self.model.everybody().iter() {
            if self.led[usize::from(id)].is_some() && self.model.leader_lease_left(after, id) == 0 {
                self.led[usize::from(id)] = None;
                self.tell(id, Event::LeadsNot)?;
            }
        }
        Ok(())
    }

    fn writes(&mut self, before: &State, action: Action, after: &State) -> Result<(), Breach> {
        let content = self.content(&after.register);
        if let Action::Apply(id) = action
            && before.register != after.register
        {
            let Node { write, stale, .. } = &before.nodes[id];
            let on_its_way = |write: &&super::state::Write| write.fate == Fate::OnItsWay;
            let write = stale.iter().chain(write).find(on_its_way);
            let compared = write.is_some_and(|write| write.expected == before.register);
            self.tell(id, Event::Wrote { compared, content })
        } else if let Action::TakeMarkBack(id) = action {
            self.tell(id, Event::Wrote { compared: true, content })
        } else if let Action::LoseRecord = action {
            self.check(None, Event::Replaced(Some(content)))
        } else if let Action::Confirm(id) = action {
            self.tell(id, Event::Read(content))
        } else {
            Ok(())
        }
    }

    fn members(&mut self, before: &State, action: Action, after: &State) -> Result<(), Breach> {
        if let Action::HandOver { leader, .. } = action
            && let Some(lead) = &after.nodes[leader].lead
        {
            self.tell(leader, Event::GaveTable(epoch(lead.record.view)))?;
        }
        if let Action::Seal { candidate, member } = action
            && let Some(bid) = &after.nodes[candidate].bid
        {
            self.tell(member, Event::Sealed(epoch(bid.record.view)))?;
        }
        for id in self.model.everybody().iter() {
            let (old, new) = (&before.nodes[id], &after.nodes[id]);
            if new.alive && new.floor() > old.floor() {
                self.tell(id, Event::Refused(epoch(new.floor())))?;
            }
            if new.alive && new.cur > old.cur && !new.sealed {
                self.tell(id, Event::Entered(epoch(new.cur)))?;
            }
        }
        let promised = if let Action::Beat { leader, member } = action {
            before.nodes[leader].lead.map(|lead| (member, lead.record.view))
        } else if let Action::TakeBeat { member, slot } = action {
            Some((member, before.nodes[member].beats[slot].view))
        } else {
            None
        };
        let Some((member, view)) = promised else { return Ok(()) };
        if !self.model.confirms() {
            let content =
                Content { epoch: epoch(view), closing: false, ..self.content(&after.register) };
            let content = Content { base_unknown: false, ..content };
            self.tell(member, Event::Read(content))?;
        }
        self.tell(member, Event::Promised(epoch(view)))
    }

    fn leader_leases(&mut self, after: &State) -> Result<(), Breach> {
        for id in self.model.everybody().iter() {
            let left = self.model.leader_lease_left(after, id);
            let Some(lead) = after.nodes[id].lead.filter(|_| left > 0) else { continue };
            let notified = Some((lead.record.view, self.ticks + u64::from(left)));
            if self.led[usize::from(id)] != notified {
                self.led[usize::from(id)] = notified;
                self.tell(id, Event::Leads(epoch(lead.record.view), self.after(left)))?;
            }
        }
        Ok(())
    }

    fn locks(&mut self, before: &State, action: Action, after: &State) -> Result<(), Breach> {
        if let Action::Grant { leader, member, lock } = action
            && leader != member
            && let Ask::Sent { view } = before.nodes[member].asks[lock]
        {
            self.tell(leader, Event::Granted(epoch(view)))?;
        }
        if let Action::Extend { leader, member } = action {
            let stamp = before.nodes[member].stamp;
            self.acknowledged(leader, member, stamp.view, stamp.left, after)?;
        }
        if let Action::Release { member, lock } = action {
            self.tell(member, Event::Released(lock_name(lock)))?;
        }
        if self.model.has_peers() {
            self.peer_locks(before, action, after)?;
        }
        let aged = u8::from(matches!(action, Action::Tick));
        for id in self.model.everybody().iter() {
            for lock in 0..LOCKS {
                let (old, new) = (before.nodes[id].holds[lock], after.nodes[id].holds[lock]);
                let (name, until) = (lock_name(lock), self.after(new.left));
                if new.left == 0 || !after.nodes[id].alive {
                    continue;
                }
                if old.token != new.token {
                    let (token, epoch) = (token(new.token), epoch(after.nodes[id].cur));
                    self.holds += 1;
                    self.tell(id, Event::Held { lock: name, token, epoch, until })?;
                } else if old.left.saturating_sub(aged) != new.left {
                    self.tell(id, Event::Extended { lock: name, until })?;
                }
            }
        }
        Ok(())
    }

    /// A member that grants among members counts on a lease of the view, of which its leader notifies it.
    fn peer_locks(&mut self, before: &State, action: Action, after: &State) -> Result<(), Breach> {
        if let Action::Peer(PeerAction::Exit(id)) = action {
            self.tell(id, Event::Released(lock_name(LOCK)))?;
        }
        let notified = if let Action::Peer(PeerAction::SendAdmission { leader, member }) = action {
            let beat = after.nodes[member].peer.beat;
            beat.acknowledges.then_some((leader, member, beat.left))
        } else if let Action::Beat { leader, member } = action {
            let (old, new) = (before.nodes[member].lease, after.nodes[member].lease);
            (new > old).then_some((leader, member, new))
        } else {
            None
        };
        let Some((leader, member, left)) = notified else { return Ok(()) };
        self.acknowledged(leader, member, after.nodes[member].cur, left, after)
    }

    /// A member may count from when it sent what is worth so much yet.
    fn acknowledged(
        &mut self,
        leader: NodeId,
        member: NodeId,
        view: View,
        left: Ticks,
        after: &State,
    ) -> Result<(), Breach> {
        let node = &after.nodes[member];
        let lease = self.model.waits_known_to(member, node.timing).lease();
        let stamp = self.after(left).saturating_sub(Duration::from_secs(u64::from(lease)));
        let (epoch, member) = (epoch(view), name(member));
        self.tell(leader, Event::Acknowledged { epoch, member, stamp })
    }
}

fn live(node: &Node) -> impl Iterator<Item = LockId> + '_ {
    (0..LOCKS).filter(|lock| node.holds[*lock].is_live())
}

fn name(id: NodeId) -> Incarnation {
    Incarnation { pod: PodUid(u128::from(id) + 1), run: 0 }
}

fn epoch(view: View) -> Epoch {
    Epoch(u64::from(view))
}

fn lock_name(lock: LockId) -> LockName {
    LockName::try_from(format!("lock-{lock}")).expect("a good name")
}

/// The first token of an epoch is the one after what comes before them.
fn token(token: Token) -> FencingToken {
    let number = token & ((1 << TOKEN_BITS) - 1);
    let mut like = FencingToken::before(epoch(epoch_of(token)));
    for _ in 0..=number {
        like = like.successor(Epoch(u64::MAX)).expect("below any ceiling");
    }
    like
}

/// What a group without faults does.
fn is_work(action: &Action) -> bool {
    matches!(
        action,
        Action::Confirm(_)
            | Action::Beat { .. }
            | Action::SendBeat { .. }
            | Action::TakeBeat { .. }
            | Action::TakePromise { .. }
            | Action::Ask { .. }
            | Action::Grant { .. }
            | Action::TakeGrant { .. }
            | Action::List(_)
            | Action::Extend { .. }
            | Action::TakeExtension(_)
            | Action::Peer(
                PeerAction::Want(_)
                    | PeerAction::Give { .. }
                    | PeerAction::Enter(_)
                    | PeerAction::SendAdmission { .. }
                    | PeerAction::TakeAdmission(_)
                    | PeerAction::TakeAnswer { .. }
            )
    )
}

/// Random runs of a scope, each of so many steps: all of them are runs of the rules.
pub(crate) fn walks(scope: Scope, walks: u64, steps: usize) {
    let model =
        LeaderModel { rules: rules::Rules::ALL, scope, reaches: &[], budget: Budget::default() };
    let (mut events, mut holds) = (0, 0);
    for seed in 0..walks {
        let mut random = Random::new(seed);
        let mut state = model.init_states().remove(0);
        let mut replay = Replay::new(&model, &state).expect("it begins as the rules have it");
        let mut taken = Vec::new();
        for _ in 0..steps {
            let mut actions = Vec::new();
            model.actions(&state, &mut actions);
            // Most of what may happen ends something: half of the steps go on with the work instead.
            let work: Vec<Action> = actions.iter().copied().filter(is_work).collect();
            let works = !work.is_empty() && random.once_in(2);
            let actions = if works { work } else { actions };
            let place = usize::try_from(random.up_to(actions.len() as u64)).expect("small");
            let action = actions[place];
            let next = model.next_state(&state, action).expect("every action leads somewhere");
            taken.push(action);
            if let Err(breach) = replay.step(&state, action, &next) {
                panic!("seed {seed}: {breach}: {taken:#?}");
            }
            state = next;
        }
        events += replay.rules.steps();
        holds += replay.holds;
    }
    println!("{walks} walks, {events} events, {holds} holds");
    assert!(events > walks * 10 && holds > walks / 20, "too little happened");
}

const ALL_THREE: Members = Members::of(&[0, 1, 2]);
const JOINER: Members = Members::of(&[3]);

/// What may happen to three members and a joiner.
const EVERYTHING: Scope = Scope {
    joiners: JOINER,
    candidates: Members::of(&[1, 2, 3]),
    successors: ALL_THREE,
    admitted: JOINER,
    askers: ALL_THREE,
    mortal: ALL_THREE,
    crashes: 1,
    lease: 2,
    views: 4,
    grants: 6,
    releases: true,
    drops: true,
    steps_down: true,
    unknown: true,
    restarts_candidacy: true,
    ..Scope::THREE
};

#[test]
fn runs_of_three_members_and_a_joiner_are_runs_of_the_rules() {
    walks(EVERYTHING, 3_000, 120);
}

#[test]
fn runs_with_heartbeats_that_travel_are_runs_of_the_rules() {
    let scope =
        Scope { beats_travel: true, overtakes: true, duplicates: true, promise: 2, ..EVERYTHING };
    walks(Scope { lease: 3, ..scope }, 3_000, 160);
}

#[test]
fn runs_with_a_register_that_must_confirm_and_is_lost_are_runs_of_the_rules() {
    let scope = Scope { confirmation: 2, losses: 1, leaves: true, ..EVERYTHING };
    walks(scope, 3_000, 160);
}

#[test]
fn runs_of_two_members_with_two_locks_and_ceilings_are_runs_of_the_rules() {
    let scope = Scope { locks: 2, raises: 2, forgets: true, grants: 8, ..Scope::TWO };
    let scope =
        Scope { candidates: Members::of(&[0, 1]), releases: true, lease: 2, views: 4, ..scope };
    walks(scope, 3_000, 120);
}

/// The same with the lock of the members.
const fn among_members(scope: Scope, way: Way) -> Scope {
    Scope { way, grants: 6, ..scope }
}

#[test]
fn runs_of_members_that_permit_each_other_are_runs_of_the_rules() {
    walks(among_members(EVERYTHING, Way::Permission), 3_000, 160);
}

#[test]
fn runs_of_members_that_pass_a_token_are_runs_of_the_rules() {
    walks(among_members(EVERYTHING, Way::Token), 3_000, 160);
}

#[test]
fn runs_in_which_acknowledgements_travel_are_runs_of_the_rules() {
    let scope = Scope { admissions_travel: true, confirmation: 2, leaves: true, ..EVERYTHING };
    walks(among_members(Scope { lease: 3, ..scope }, Way::Token), 3_000, 200);
    walks(among_members(Scope { raises: 2, ..scope }, Way::Permission), 3_000, 200);
}
