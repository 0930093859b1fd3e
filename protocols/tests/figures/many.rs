//! Ten thousand members whose locks are spread over superpeers, in the simulator: what each coordinator has to do, and
//! what happens to the locks of one that dies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use conclave_protocols::election::superpeers::{Key, Superpeers as Selection};
use conclave_protocols::mutex::central::Message;
use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::random::Random;
use conclave_protocols::sim::Simulator;
use conclave_protocols::{
    Effect, Epoch, Input, LocalTime, MemberId, Named, Outbox, Protocol, View, cost,
};

use crate::measure::{SECTION, T};
use crate::sent::Mean;

/// The number of a lock.
type Lock = u32;

/// Members who each ask for some locks, at random times.
pub(crate) struct Load {
    pub(crate) members: u32,
    pub(crate) share_percent: u8,
    pub(crate) coordinators: usize,
    pub(crate) entries: u64,
    /// All that were sent, but for `queued`.
    pub(crate) messages: u64,
    /// Messages that a coordinator received as such, on average and at most.
    pub(crate) mean: Mean,
    pub(crate) most: u64,
}

/// What became of the locks of a coordinator that died while they were wanted.
pub(crate) struct Recovery {
    pub(crate) members: u32,
    pub(crate) coordinators: usize,
    pub(crate) prefixes_moved: usize,
    pub(crate) names_moved: usize,
    pub(crate) names: u32,
    /// Locks that were held or waited for, and of these, those that it coordinated.
    pub(crate) in_use: usize,
    pub(crate) of_it: usize,
    /// Members that waited, all of which entered.
    pub(crate) waited: usize,
}

/// How many locks a member asks for, and how many names there are for each member.
const EACH: u32 = 2;

/// Loads of all sizes and shares; a share of zero is the one coordinator of `Central`.
pub(crate) fn loads() -> Vec<Load> {
    let sizes = [100, 1_000, 10_000].into_iter();
    sizes.flat_map(|members| [0, 1, 10].map(|share| load(members, share))).collect()
}

fn load(members: u32, share_percent: u8) -> Load {
    let group = Group::new(ids(members), share_percent);
    let mut run = Run::new(&group, &BTreeMap::new());
    run.ask(u64::from(members));
    run.until_all_have_left();
    let entries = u64::from(members * EACH);
    assert_eq!(run.entries, entries);
    let coordinators = group.coordinators();
    let of = |member: MemberId| run.sim.node(member).expect("it lives");
    // Entries of another than the coordinator: each is one request, and one release.
    let heard: Vec<u64> = coordinators.iter().map(|one| of(*one).heard).collect();
    let by_others = run.sim.sent("request");
    let messages = run.sim.sent_in_all() - run.sim.sent("queued");
    assert_eq!(messages, cost::central(by_others));
    assert_eq!(heard.iter().sum::<u64>(), 2 * by_others);
    let others = (0..members).map(MemberId).filter(|one| !coordinators.contains(one));
    assert!(others.into_iter().all(|other| of(other).heard == 0), "nobody else coordinates");
    Load {
        members,
        share_percent,
        coordinators: coordinators.len(),
        entries,
        messages,
        mean: Mean { sum: 2 * by_others, count: heard.len() as u64 },
        most: heard.into_iter().max().unwrap_or(0),
    }
}

/// One coordinator dies in the midst of that, and the view goes on without it.
pub(crate) fn recovery(members: u32, share_percent: u8) -> Recovery {
    let group = Group::new(ids(members), share_percent);
    let mut run = Run::new(&group, &BTreeMap::new());
    run.ask(7);
    run.go_on(SPAN / 2);
    let dead = group.selection.all()[0];
    run.sim.crash(dead);
    run.go_on(T * 3);
    let (states, waited) = run.states(dead);
    let left: Vec<Key> = group.ids.iter().copied().filter(|id| *id != group.id(dead)).collect();
    let next = Group::new(left, share_percent);
    assert_eq!(next.selection.all().len(), group.selection.all().len());
    let both = || group.selection.all().iter().zip(next.selection.all());
    let prefixes_moved = both().filter(|(was, is)| group.id(**was) != next.id(**is)).count();
    let moved =
        |lock: &Lock| group.id(group.coordinator(*lock)) != next.id(next.coordinator(*lock));
    let names = members * EACH;
    let names_moved = (0..names).filter(moved).count();
    let of_it = states.keys().filter(|lock| group.coordinator(**lock) == dead).count();
    // Ranks above the dead one's move down by one.
    let rank = |member: MemberId| MemberId(member.0 - u32::from(member.0 > dead.0));
    let carried: BTreeMap<Lock, Carried> = states
        .into_iter()
        .map(|(lock, state)| {
            let waiting = state.waiting.into_iter().map(rank).collect();
            (lock, Carried { holder: state.holder.map(rank), waiting })
        })
        .collect();
    let mut after = Run::new(&next, &carried);
    after.until_all_have_left();
    assert_eq!(after.entries, waited as u64, "all that waited have entered, once");
    Recovery {
        members,
        coordinators: next.selection.all().len(),
        prefixes_moved,
        names_moved,
        names,
        in_use: carried.len(),
        of_it,
        waited,
    }
}

fn ids(members: u32) -> Vec<Key> {
    (0..members).map(|member| Key::of(&format!("peer-{member}"))).collect()
}

/// The members of a view.
struct Group {
    ids: Vec<Key>,
    view: View,
    selection: Selection,
    is_one: bool,
}

impl Group {
    fn new(ids: Vec<Key>, share_percent: u8) -> Self {
        let size = u32::try_from(ids.len()).expect("a small number");
        let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
        let selection = Selection::among(&ids, share_percent);
        Self { ids, view, selection, is_one: share_percent == 0 }
    }

    fn id(&self, member: MemberId) -> Key {
        self.ids[member.0 as usize]
    }

    fn coordinator(&self, lock: Lock) -> MemberId {
        if self.is_one {
            return self.view.leader;
        }
        self.selection.responsible(Key::of(&format!("lock-{lock}"))).expect("somebody")
    }

    fn coordinators(&self) -> BTreeSet<MemberId> {
        let all = self.selection.all().iter().copied();
        if self.is_one { [self.view.leader].into() } else { all.collect() }
    }
}

/// Members that ask, each entry of which is checked to be the only one.
struct Run {
    sim: Simulator<Peer>,
    members: u32,
    names: u32,
    held: BTreeMap<Lock, MemberId>,
    asked: Vec<(std::time::Duration, MemberId, Lock)>,
    entries: u64,
}

impl Run {
    fn new(group: &Group, carried: &BTreeMap<Lock, Carried>) -> Self {
        let names = group.view.size * EACH;
        let coordinators: Arc<[MemberId]> = (0..names
            .max(carried.keys().max().map_or(0, |most| most + 1)))
            .map(|lock| group.coordinator(lock))
            .collect();
        let mut of_member: BTreeMap<MemberId, Vec<Lock>> = BTreeMap::new();
        let mut held = BTreeMap::new();
        for (lock, state) in carried {
            held.extend(state.holder.map(|holder| (*lock, holder)));
            let coordinator = coordinators[*lock as usize];
            let all = state.holder.iter().chain(&state.waiting).copied().chain([coordinator]);
            for member in all.collect::<BTreeSet<_>>() {
                of_member.entry(member).or_default().push(*lock);
            }
        }
        let mut sim = Simulator::new(1);
        sim.set_delay(T, T);
        for me in group.view.members() {
            let mut peer =
                Peer { me, view: group.view, coordinators: coordinators.clone(), ..Peer::nobody() };
            for lock in of_member.remove(&me).unwrap_or_default() {
                peer.locks.insert(lock, peer.part(lock, &carried[&lock]));
            }
            sim.add(me, peer);
        }
        Self { sim, members: group.view.size, names, held, asked: vec![], entries: 0 }
    }

    /// Each member will ask for some locks, at random times within a span.
    fn ask(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        for member in 0..self.members {
            let mut locks = BTreeSet::new();
            while locks.len() < EACH as usize {
                let lock = u32::try_from(random.up_to(self.names.into())).expect("small");
                if locks.insert(lock) {
                    self.asked.push((random.below(SPAN), MemberId(member), lock));
                }
            }
        }
        self.asked.sort_unstable();
        self.asked.reverse();
    }

    fn go_on(&mut self, span: std::time::Duration) {
        let end = self.sim.now() + span;
        while let Some((at, member, lock)) = self.asked.pop_if(|next| next.0 <= end) {
            self.run_until(at);
            if self.sim.node(member).is_some() {
                self.sim.command(member, lock);
            }
        }
        self.run_until(end);
    }

    fn until_all_have_left(&mut self) {
        self.go_on(SPAN);
        while self.sim.nodes().any(|(_, peer)| !peer.is_idle()) {
            self.go_on(SECTION);
        }
        assert_eq!(self.held, BTreeMap::new());
    }

    fn run_until(&mut self, at: std::time::Duration) {
        self.sim.run_for(at.saturating_sub(self.sim.now()));
        for (_, member, Changed { lock, entered }) in self.sim.take_notified() {
            if entered {
                self.entries += 1;
                let other = self.held.insert(lock, member);
                assert_eq!(other, None, "{member} entered {lock} too");
            } else {
                assert_eq!(self.held.remove(&lock), Some(member));
            }
        }
    }

    /// Which locks are held or waited for by those that live, and how many wait.
    fn states(&self, dead: MemberId) -> (BTreeMap<Lock, Carried>, usize) {
        let mut states: BTreeMap<Lock, Carried> = BTreeMap::new();
        let mut waited = 0;
        for (member, peer) in self.sim.nodes().filter(|(member, _)| *member != dead) {
            for (lock, part) in &peer.locks {
                match part.phase() {
                    Phase::Idle => {}
                    Phase::Waiting => {
                        states.entry(*lock).or_default().waiting.push(member);
                        waited += 1;
                    }
                    Phase::InSection => states.entry(*lock).or_default().holder = Some(member),
                }
            }
        }
        (states, waited)
    }
}

/// A member, with its part in each lock that it has to do with.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Peer {
    me: MemberId,
    view: View,
    coordinators: Arc<[MemberId]>,
    locks: BTreeMap<Lock, Superpeers>,
    /// Messages that it received as a coordinator.
    heard: u64,
}

/// It entered a lock, or left it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Changed {
    lock: Lock,
    entered: bool,
}

/// What is sent about a lock.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct About(Lock, Message);

impl Named for About {
    fn name(&self) -> &'static str {
        self.1.name()
    }
}

impl Peer {
    fn nobody() -> Self {
        let view = View { epoch: Epoch(1), size: 1, leader: MemberId(0) };
        let coordinators = Arc::new([]);
        Self { me: MemberId(0), view, coordinators, locks: BTreeMap::new(), heard: 0 }
    }

    fn part(&self, lock: Lock, carried: &Carried) -> Superpeers {
        Superpeers::of(self.coordinators[lock as usize], self.me, self.view, carried)
    }

    fn is_idle(&self) -> bool {
        self.locks.values().all(|part| part.phase() == Phase::Idle)
    }

    fn feed(
        &mut self,
        now: LocalTime,
        lock: Lock,
        input: InputOf<Superpeers>,
        out: &mut OutboxOf<Self>,
    ) {
        let fresh = self.part(lock, &Carried::default());
        let part = self.locks.entry(lock).or_insert(fresh);
        let mut effects = Outbox::default();
        part.handle(now, input, &mut effects);
        Self::pass(lock, effects, out);
    }

    fn pass(lock: Lock, mut effects: OutboxOf<Superpeers>, out: &mut OutboxOf<Self>) {
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => out.send(to, About(lock, message)),
                Effect::Tell(Event::Entered) => {
                    out.tell(Changed { lock, entered: true });
                    out.arm(lock, SECTION);
                }
                Effect::Tell(Event::Queued) | Effect::Arm { .. } | Effect::Disarm(_) => {}
            }
        }
    }
}

impl Protocol for Peer {
    type Peer = MemberId;
    type Command = Lock;
    type Message = About;
    /// It leaves that lock.
    type Timer = Lock;
    type Event = Changed;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        for (lock, part) in &mut self.locks {
            if part.phase() == Phase::InSection {
                out.arm(*lock, SECTION);
            }
            let mut effects = Outbox::default();
            part.start(now, &mut effects);
            Self::pass(*lock, effects, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        match input {
            Input::Command(lock) => self.feed(now, lock, Input::Command(Command::Enter), out),
            Input::Message { from, message: About(lock, message) } => {
                if matches!(message, Message::Request(_) | Message::Release(_)) {
                    self.heard += 1;
                }
                self.feed(now, lock, Input::Message { from, message }, out);
            }
            Input::Timer(lock) => {
                out.tell(Changed { lock, entered: false });
                self.feed(now, lock, Input::Command(Command::Exit), out);
            }
        }
    }
}

/// Within which time all members ask: some ask for a lock that another has.
const SPAN: std::time::Duration = std::time::Duration::from_millis(100);
