//! Ten thousand members whose locks are spread over superpeers, in the simulator: what each coordinator has to do, and
//! what happens to the locks of some that die.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::election::superpeers::{BITS, Key, Superpeers as Selection};
use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::mutex::{Carried, Mutex, Phase};
use conclave_protocols::protocol::InputOf;
use conclave_protocols::random::Random;
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Epoch, LocalTime, MemberId, Outbox, Protocol, View, cost};

use crate::bins;
use crate::elections::hold;
use crate::measure::{SECTION, SECTION_IN_T, T, UNIT};
use crate::peer::{Changed, Lock, Peer};
use crate::sent::{Mean, Sent, nanos};

/// Members who each ask for some locks, at random times.
pub(crate) struct Load {
    pub(crate) members: u32,
    pub(crate) share_percent: u8,
    pub(crate) coordinators: u64,
    pub(crate) entries: u64,
    /// All that were sent, but for `queued`.
    pub(crate) messages: u64,
    /// Messages that a coordinator received as such, on average; and at most, with a bound of that.
    pub(crate) mean: Mean,
    pub(crate) most: (u64, Sent),
    /// Names that fall to a coordinator, likewise.
    pub(crate) names: Mean,
    pub(crate) names_most: (u64, Sent),
    /// Inputs that the parts of the busiest coordinator in locks handled.
    pub(crate) handled: u64,
}

/// What became of the locks of coordinators that died while they were wanted.
pub(crate) struct Recovery {
    pub(crate) members: u32,
    pub(crate) coordinators: usize,
    pub(crate) died: usize,
    pub(crate) prefixes_moved: usize,
    pub(crate) names_moved: usize,
    pub(crate) names: u32,
    /// Locks that were held or waited for, and of these, those that the dead coordinated.
    pub(crate) in_use: usize,
    pub(crate) of_them: usize,
    /// Members that waited, all of which entered.
    pub(crate) waited: usize,
    /// From the beginning of the next view until the last of them entered, in T.
    pub(crate) took: (Mean, Sent),
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
    // Each message is an input, and so is that an application enters, and leaves.
    let handled: u64 = run.sim.nodes().map(|(_, peer)| peer.handled).sum();
    assert_eq!(handled, run.sim.sent_in_all() + 2 * entries);
    let busiest = coordinators.iter().map(|one| of(*one).handled).max().unwrap_or(0);
    group.assert_prefixes_are_even();
    let (names, bins) = (entries, coordinators.len() as u64);
    let names_most = (names_of(&group).into_values().max().unwrap_or(0), bins::balls(names, bins));
    let most = (heard.into_iter().max().unwrap_or(0), 2 * bins::throws_at_balls(names, bins));
    Load {
        members,
        share_percent,
        coordinators: bins,
        entries,
        messages,
        mean: Mean { sum: 2 * by_others, count: bins },
        most: hold(most.0, Sent::AtMost(most.1)),
        names: Mean { sum: names, count: bins },
        names_most: hold(names_most.0, Sent::AtMost(names_most.1)),
        handled: busiest,
    }
}

/// How many names fall to each coordinator.
fn names_of(group: &Group) -> BTreeMap<MemberId, u64> {
    let mut names_of: BTreeMap<MemberId, u64> = BTreeMap::new();
    for lock in 0..group.view.size * EACH {
        *names_of.entry(group.coordinator(lock)).or_default() += 1;
    }
    names_of
}

/// The busiest coordinators die in the midst of that, and the view goes on without them.
pub(crate) fn recovery(members: u32, share_percent: u8, dying: usize) -> Recovery {
    let group = Group::new(ids(members), share_percent);
    let mut run = Run::new(&group, &BTreeMap::new());
    run.ask(7);
    run.go_on(SPAN / 2);
    let dead = busiest(&group, &run, dying);
    for one in &dead {
        run.sim.crash(*one);
    }
    run.go_on(T * 3);
    let (states, waited) = run.states();
    let is_of_them = |lock: &&Lock| dead.contains(&group.coordinator(**lock));
    let of_them: BTreeSet<MemberId> =
        states.keys().filter(is_of_them).map(|lock| group.coordinator(*lock)).collect();
    assert_eq!(of_them, dead, "each of them had a lock that is in use");
    let of_them = states.keys().filter(is_of_them).count();
    let left: Vec<Key> = (0..members)
        .map(MemberId)
        .filter(|one| !dead.contains(one))
        .map(|one| group.id(one))
        .collect();
    let next = Group::new(left, share_percent);
    assert_eq!(next.selection.all().len(), group.selection.all().len());
    let both = || group.selection.all().iter().zip(next.selection.all());
    let prefixes_moved = both().filter(|(was, is)| group.id(**was) != next.id(**is)).count();
    let moved =
        |lock: &Lock| group.id(group.coordinator(*lock)) != next.id(next.coordinator(*lock));
    let names = members * EACH;
    let names_moved = (0..names).filter(moved).count();
    // Ranks above those of the dead move down.
    let rank = |member: MemberId| {
        MemberId(member.0 - u32::try_from(dead.range(..member).count()).expect("few"))
    };
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
    // Each of a line waits for a section, a release and a grant.
    let longest = carried.values().map(|state| state.waiting.len()).max().unwrap_or(0) as u64;
    let bound = Sent::AtMost(longest * (SECTION_IN_T + 2));
    let took = hold(nanos(after.last_entered), bound.map(|times| times * UNIT));
    Recovery {
        members,
        coordinators: next.selection.all().len(),
        died: dead.len(),
        prefixes_moved,
        names_moved,
        names,
        in_use: carried.len(),
        of_them,
        waited,
        took: (Mean { sum: took.0, count: UNIT }, bound),
    }
}

/// The coordinators with most locks in use.
fn busiest(group: &Group, run: &Run, count: usize) -> BTreeSet<MemberId> {
    let mut in_use: BTreeMap<MemberId, usize> = BTreeMap::new();
    for lock in run.states().0.keys() {
        *in_use.entry(group.coordinator(*lock)).or_default() += 1;
    }
    let mut all: Vec<(usize, MemberId)> =
        in_use.into_iter().map(|(of, locks)| (locks, of)).collect();
    all.sort_unstable();
    all.into_iter().rev().take(count).map(|(_, coordinator)| coordinator).collect()
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

    /// Each superpeer has one prefix, which is as large a part of all keys as any other.
    fn assert_prefixes_are_even(&self) {
        let all = self.selection.all();
        let (k, each) = (all.len().ilog2(), all.iter().copied().collect::<BTreeSet<_>>());
        assert_eq!((1 << k, each.len()), (all.len(), all.len()), "nobody has two");
        for (slot, superpeer) in (0_u64..).zip(all) {
            let first = slot.checked_shl(BITS - k).unwrap_or(0);
            let last = first | u64::MAX.checked_shr(k).unwrap_or(0);
            for key in [first, last] {
                assert_eq!(self.selection.responsible(Key(key)), Some(*superpeer));
            }
        }
    }
}

/// Members that ask, each entry of which is checked to be the only one.
struct Run {
    sim: Simulator<Peer>,
    members: u32,
    names: u32,
    held: BTreeMap<Lock, MemberId>,
    asked: Vec<(Duration, MemberId, Lock)>,
    entries: u64,
    last_entered: Duration,
}

impl Run {
    fn new(group: &Group, carried: &BTreeMap<Lock, Carried>) -> Self {
        Self::logging(group, carried, &BTreeSet::new())
    }

    /// The same, in which some log what they handle.
    fn logging(group: &Group, carried: &BTreeMap<Lock, Carried>, log: &BTreeSet<MemberId>) -> Self {
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
            let mut peer = Peer::new(me, group.view, coordinators.clone());
            peer.log = log.contains(&me).then(Vec::new);
            for lock in of_member.remove(&me).unwrap_or_default() {
                peer.locks.insert(lock, peer.part(lock, &carried[&lock]));
            }
            sim.add(me, peer);
        }
        let (members, last_entered) = (group.view.size, Duration::ZERO);
        Self { sim, members, names, held, asked: vec![], entries: 0, last_entered }
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

    fn go_on(&mut self, span: Duration) {
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
        // The last release arrives.
        self.go_on(T);
        assert_eq!(self.held, BTreeMap::new());
    }

    fn run_until(&mut self, at: Duration) {
        self.sim.run_for(at.saturating_sub(self.sim.now()));
        for (at, member, Changed { lock, entered }) in self.sim.take_notified() {
            if entered {
                (self.entries, self.last_entered) = (self.entries + 1, at);
                let other = self.held.insert(lock, member);
                assert_eq!(other, None, "{member} entered {lock} too");
            } else {
                assert_eq!(self.held.remove(&lock), Some(member));
            }
        }
    }

    /// Which locks are held or waited for by those that live, and how many wait.
    fn states(&self) -> (BTreeMap<Lock, Carried>, usize) {
        let mut states: BTreeMap<Lock, Carried> = BTreeMap::new();
        let mut waited = 0;
        for (member, peer) in self.sim.nodes() {
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

/// Within which time all members ask: some ask for a lock that another has.
const SPAN: Duration = Duration::from_millis(100);

/// Not an assertion about time: how long the handlers take is printed. What a coordinator's parts in its locks handled is
/// handed once more to parts that are new, by themselves, with nothing around them.
#[test]
#[expect(clippy::disallowed_types, reason = "it is printed how long handlers take")]
fn the_parts_of_the_busiest_coordinator_handle_the_same_again_and_their_time_is_printed() {
    for share_percent in [0, 1, 10] {
        let (handled, parts) = busiest_coordinator(10_000, share_percent);
        let least = (0..20).map(|_| {
            let mut fresh = parts.clone();
            let begin = std::time::Instant::now();
            for (part, inputs) in &mut fresh {
                for (now, input) in inputs.drain(..) {
                    let mut out = Outbox::default();
                    part.handle(now, input, &mut out);
                    std::hint::black_box(out);
                }
            }
            let took = begin.elapsed();
            assert!(fresh.iter().all(|(part, _)| part.phase() == Phase::Idle));
            took
        });
        let least = least.min().unwrap_or_default();
        println!("{share_percent} %: {handled} inputs in {least:?}");
    }
}

/// A part in a lock, and what it handled.
type Handling = (Superpeers, Vec<(LocalTime, InputOf<Superpeers>)>);

/// How many inputs the busiest coordinator handled, and those of each of its parts in locks.
fn busiest_coordinator(members: u32, share_percent: u8) -> (u64, Vec<Handling>) {
    let group = Group::new(ids(members), share_percent);
    let coordinators = group.coordinators();
    let mut run = Run::logging(&group, &BTreeMap::new(), &coordinators);
    run.ask(u64::from(members));
    run.until_all_have_left();
    let all = coordinators.iter().filter_map(|one| run.sim.node(*one));
    let busiest = all.max_by_key(|peer| peer.handled).expect("there is one");
    let mut parts: BTreeMap<Lock, Handling> = BTreeMap::new();
    for (now, lock, input) in busiest.log.iter().flatten() {
        let fresh = || (busiest.part(*lock, &Carried::default()), vec![]);
        parts.entry(*lock).or_insert_with(fresh).1.push((*now, input.clone()));
    }
    (busiest.handled, parts.into_values().collect())
}
