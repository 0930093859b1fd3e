//! The actions of the model. Each has a guard, `may_...`, and an effect, in the file of its role.

use stateright::{Model, Property};

use super::budget::Budget;
use super::peers::PeerAction;
use super::properties;
use super::rules::Rules;
use super::scope::Scope;
use super::state::{
    BEATS, Event, LOCKS, Lead, List, LockId, Members, Node, NodeId, PerNode, Record, State, Ticks,
    Timing,
};

/// One search: the rules in force, and its bounds.
#[derive(Clone, Debug)]
pub(crate) struct LeaderModel {
    pub(crate) rules: Rules,
    pub(crate) scope: Scope,
    /// The `sometimes` properties that this search must reach.
    pub(crate) reaches: &'static [&'static str],
    pub(crate) budget: Budget,
}

/// One step. Any of them may be delayed for ever, which is how a slow or cut-off process, a pause
/// between a check and a send, and a late message appear in the model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Action {
    /// Time passes for everybody.
    Tick,
    Crash(NodeId),
    /// Only where a restart keeps its identity: the process forgets everything.
    Restart(NodeId),
    /// A member reads the register.
    Confirm(NodeId),
    /// A heartbeat and its promise, in one step.
    Beat {
        leader: NodeId,
        member: NodeId,
    },
    SendBeat {
        leader: NodeId,
        member: NodeId,
    },
    TakeBeat {
        member: NodeId,
        slot: usize,
    },
    TakePromise {
        leader: NodeId,
        member: NodeId,
        slot: usize,
    },
    /// The leader resigns in favour of another, or of itself.
    HandOver {
        leader: NodeId,
        successor: NodeId,
    },
    Ask {
        member: NodeId,
        lock: LockId,
    },
    GiveUp {
        member: NodeId,
        lock: LockId,
    },
    Grant {
        leader: NodeId,
        member: NodeId,
        lock: LockId,
    },
    TakeGrant {
        member: NodeId,
        lock: LockId,
    },
    /// A grant for a request that was given up meets a later one.
    TakeLate {
        member: NodeId,
        lock: LockId,
    },
    /// Only where the clock is read twice: the leader has a request and looks at its leader lease.
    Look {
        leader: NodeId,
        member: NodeId,
    },
    /// A leader whose leader lease has lapsed leads no longer.
    StepDown(NodeId),
    /// A member answers a heartbeat and lists its holds.
    List(NodeId),
    Extend {
        leader: NodeId,
        member: NodeId,
    },
    TakeExtension(NodeId),
    RenewOwn {
        leader: NodeId,
        lock: LockId,
    },
    Release {
        member: NodeId,
        lock: LockId,
    },
    TakeRelease {
        leader: NodeId,
        member: NodeId,
        lock: LockId,
    },
    Forget {
        leader: NodeId,
        lock: LockId,
    },
    RaiseCeiling(NodeId),
    /// A candidate reads the register and seals the base itself.
    Start(NodeId),
    Seal {
        candidate: NodeId,
        member: NodeId,
    },
    Evidence {
        candidate: NodeId,
        member: NodeId,
    },
    /// A candidate writes the closing mark.
    Close(NodeId),
    /// Only where a mark does not stay: the leader takes it back.
    TakeMarkBack(NodeId),
    /// A candidate writes its view.
    Activate(NodeId),
    /// The leader resigns and writes a view that names nobody.
    Leave(NodeId),
    /// Somebody deletes the record.
    LoseRecord,
    /// A member reads that the record was lost.
    Sight(NodeId),
    /// A leader reads that, and is to replace it by its next view.
    Replace(NodeId),
    /// The register deals with a write.
    Apply(NodeId),
    /// The writer has the answer that its write was applied.
    Reply(NodeId),
    /// The writer has a refusal, or no answer, and reads the register.
    ReadBack(NodeId),
    DropCandidacy(NodeId),
    /// A former candidate reads the register and sees that its older write was applied.
    FindOlderWrite(NodeId),
    /// What concerns a lock whose state sits in the members.
    Peer(PeerAction),
}

impl Model for LeaderModel {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let scope = &self.scope;
        let register = Record {
            view: 1,
            members: scope.founders,
            leader: 0,
            settled: true,
            closing: false,
            ceiling: 1,
            nonce: 0,
            lost: false,
            held: None,
            timing: scope.timing(),
            turn: 1,
        };
        let mut nodes = PerNode::<Node>::default();
        for id in scope.founders.and(scope.joiners).iter() {
            nodes[id].alive = true;
        }
        for id in scope.founders.iter() {
            nodes[id].cur = 1;
            nodes[id].promise = scope.promise;
            nodes[id].timing = scope.timing();
            nodes[id].lease = if id == 0 { 0 } else { scope.lease };
            nodes[id].settled_seen = true;
            if scope.lists && id != 0 {
                nodes[id].list = List { view: 1, ..List::default() };
            }
            nodes[id].confirmed = (1, self.longest().confirmation());
        }
        let mut lead = Lead::of(register);
        for id in scope.founders.iter() {
            lead.leader_lease[id] = scope.promise;
            if self.may_ever_resign() {
                lead.heard[id] = scope.lease;
            }
            if self.has_peers() {
                nodes[id].peer = self.founders_part(id);
            }
        }
        nodes[0].lead = Some(lead);
        vec![State {
            register,
            nodes,
            largest: [0; LOCKS],
            token_went_back: false,
            grants: 0,
            raises: 0,
            crashes: 0,
            losses: 0,
            event: Event::Nothing,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if self.budget.is_spent() {
            return;
        }
        actions.push(Action::Tick);
        if self.may_lose_record(state) {
            actions.push(Action::LoseRecord);
        }
        if self.has_peers() {
            self.peer_actions_of(state, actions);
        }
        for id in self.everybody().iter() {
            self.actions_of(state, id, actions);
            for lock in 0..self.scope.locks {
                self.lock_actions_of(state, id, lock, actions);
            }
            for other in self.everybody().iter() {
                self.actions_between(state, id, other, actions);
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = *before;
        state.event = Event::Nothing;
        let s = &mut state;
        match action {
            Action::Tick => self.tick(s),
            Action::Crash(id) => self.crash(s, id),
            Action::Restart(id) => Self::restart(s, id),
            Action::Confirm(id) => self.confirm(s, id),
            Action::Beat { leader, member } => self.beat(s, leader, member),
            Action::SendBeat { leader, member } => self.send_beat(s, leader, member),
            Action::TakeBeat { member, slot } => self.take_beat(s, member, slot),
            Action::TakePromise { leader, member, slot } => {
                self.take_promise(s, leader, member, slot);
            }
            Action::HandOver { leader, successor } => self.hand_over(s, leader, successor),
            Action::Ask { member, lock } => Self::ask(s, member, lock),
            Action::GiveUp { member, lock } => self.give_up(s, member, lock),
            Action::Grant { leader, member, lock } => self.grant(s, leader, member, lock),
            Action::TakeGrant { member, lock } => self.take_grant(s, member, lock),
            Action::TakeLate { member, lock } => self.take_late(s, member, lock),
            Action::Look { leader, member } => Self::look(s, leader, member),
            Action::StepDown(id) => self.step_down(s, id),
            Action::List(id) => self.list(s, id),
            Action::Extend { leader, member } => self.extend(s, leader, member),
            Action::TakeExtension(id) => self.take_extension(s, id),
            Action::RenewOwn { leader, lock } => self.renew_own(s, leader, lock),
            Action::Release { member, lock } => Self::release(s, member, lock),
            Action::TakeRelease { leader, member, lock } => {
                self.take_release(s, leader, member, lock);
            }
            Action::Forget { leader, lock } => self.forget(s, leader, lock),
            Action::RaiseCeiling(id) => Self::raise_ceiling(s, id),
            Action::Start(id) => self.start(s, id),
            Action::Seal { candidate, member } => self.seal(s, candidate, member),
            Action::Evidence { candidate, member } => self.evidence(s, candidate, member),
            Action::Close(id) => Self::close(s, id),
            Action::TakeMarkBack(_) => self.take_mark_back(s),
            Action::Activate(id) => self.activate(s, id),
            Action::Leave(id) => self.leave(s, id),
            Action::LoseRecord => self.lose_record(s),
            Action::Sight(id) => self.sight(s, id),
            Action::Replace(id) => self.replace(s, id),
            Action::Apply(id) => self.apply(s, id),
            Action::Reply(id) => self.reply(s, id),
            Action::ReadBack(id) => self.read_back(s, id),
            Action::DropCandidacy(id) => Self::drop_candidacy(s, id),
            Action::FindOlderWrite(id) => self.find_older_write(s, id),
            Action::Peer(action) => self.peer_step(s, action),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }

    fn within_boundary(&self, _state: &State) -> bool {
        !self.budget.is_spent()
    }
}

impl LeaderModel {
    pub(crate) fn everybody(&self) -> Members {
        self.scope.founders.and(self.scope.joiners)
    }

    fn actions_of(&self, s: &State, id: NodeId, actions: &mut Vec<Action>) {
        let mut offer = |may: bool, action: Action| {
            if may {
                actions.push(action);
            }
        };
        offer(Self::may_apply(s, id), Action::Apply(id));
        if !s.nodes[id].alive {
            offer(self.may_restart(s, id), Action::Restart(id));
            return;
        }
        offer(self.may_crash(s, id), Action::Crash(id));
        offer(self.may_confirm(s, id), Action::Confirm(id));
        offer(self.may_sight(s, id), Action::Sight(id));
        offer(self.may_replace(s, id), Action::Replace(id));
        for slot in 0..BEATS {
            offer(self.may_take_beat(s, id, slot), Action::TakeBeat { member: id, slot });
        }
        offer(self.may_step_down(s, id), Action::StepDown(id));
        offer(self.may_list(s, id), Action::List(id));
        offer(Self::may_take_extension(s, id), Action::TakeExtension(id));
        offer(self.may_raise_ceiling(s, id), Action::RaiseCeiling(id));
        offer(self.may_leave(s, id), Action::Leave(id));
        offer(self.may_start(s, id), Action::Start(id));
        offer(self.may_close(s, id), Action::Close(id));
        offer(self.may_take_mark_back(s, id), Action::TakeMarkBack(id));
        offer(self.may_activate(s, id), Action::Activate(id));
        offer(self.may_reply(s, id), Action::Reply(id));
        offer(self.may_read_back(s, id), Action::ReadBack(id));
        offer(self.may_drop_candidacy(s, id), Action::DropCandidacy(id));
        offer(Self::may_find_older_write(s, id), Action::FindOlderWrite(id));
    }

    fn lock_actions_of(&self, s: &State, id: NodeId, lock: LockId, actions: &mut Vec<Action>) {
        if !s.nodes[id].alive {
            return;
        }
        let mut offer = |may: bool, action: Action| {
            if may {
                actions.push(action);
            }
        };
        let (member, leader) = (id, id);
        offer(self.may_ask(s, id, lock), Action::Ask { member, lock });
        offer(self.may_give_up(s, id, lock), Action::GiveUp { member, lock });
        offer(self.may_take_grant(s, id, lock), Action::TakeGrant { member, lock });
        offer(Self::may_take_late(s, id, lock), Action::TakeLate { member, lock });
        offer(self.may_release(s, id, lock), Action::Release { member, lock });
        offer(self.may_renew_own(s, id, lock), Action::RenewOwn { leader, lock });
        offer(self.may_forget(s, id, lock), Action::Forget { leader, lock });
    }

    fn actions_between(&self, s: &State, one: NodeId, other: NodeId, actions: &mut Vec<Action>) {
        if !s.nodes[one].alive {
            return;
        }
        let mut offer = |may: bool, action: Action| {
            if may {
                actions.push(action);
            }
        };
        let (leader, candidate, member) = (one, one, other);
        offer(self.may_beat(s, leader, member), Action::Beat { leader, member });
        offer(self.may_send_beat(s, leader, member), Action::SendBeat { leader, member });
        for slot in 0..BEATS {
            let promise = Action::TakePromise { leader, member, slot };
            offer(Self::may_take_promise(s, leader, member, slot), promise);
        }
        offer(self.may_hand_over(s, leader, other), Action::HandOver { leader, successor: other });
        offer(self.may_extend(s, leader, member), Action::Extend { leader, member });
        offer(self.may_look(s, leader, member), Action::Look { leader, member });
        for lock in 0..self.scope.locks {
            let grant = Action::Grant { leader, member, lock };
            offer(self.may_grant(s, leader, member, lock), grant);
            let release = Action::TakeRelease { leader, member, lock };
            offer(self.may_take_release(s, leader, member, lock), release);
        }
        offer(self.may_seal(s, candidate, member), Action::Seal { candidate, member });
        offer(
            self.may_count_evidence(s, candidate, member),
            Action::Evidence { candidate, member },
        );
    }

    /// Rule 15 (c), the wait of the closing path: E and then P. A promise that is given in the last tick of E has
    /// the rest of that tick for its first, so in whole ticks it is one less than their sum.
    pub(crate) fn closing_wait(&self, id: NodeId, base: &Record) -> Ticks {
        let waits = self.waits_known_to(id, base.timing);
        waits.confirmation() + waits.promise() - if self.rules.waits_are_whole { 1 } else { 2 }
    }

    /// Does a promise need the register's confirmation?
    pub(crate) fn confirms(&self) -> bool {
        self.longest().confirmation() > 0
    }

    /// The waits that this node's own configuration has.
    pub(crate) fn policy_of(&self, id: NodeId) -> Timing {
        if self.scope.differ.has(id) { self.scope.policy } else { self.scope.timing() }
    }

    /// The longer of all waits.
    pub(crate) fn longest(&self) -> Timing {
        self.scope.timing().longest(self.scope.policy)
    }

    /// Rule 5: the waits of a view are those in its record, whatever a node's own configuration states.
    pub(crate) fn waits_known_to(&self, id: NodeId, record: Timing) -> Timing {
        if self.rules.waits_of_the_record { record } else { self.policy_of(id) }
    }
}
