//! One algorithm in place of another on a living group: who holds and who waits is carried over.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::election::superpeers::Key;
use conclave_protocols::locks::superpeers_of;
use conclave_protocols::member::message::Message;
use conclave_protocols::member::{Command, Node};
use conclave_protocols::policy::{Caching, LockAlgorithm, LockPolicy, Policy, SuperpeersPolicy};
use conclave_protocols::sim::circuit;

use crate::bench::{Bench, Link, SECOND};
use crate::peer_rules::{among_members, policy, until_held};
use crate::storm::all_belong;
use crate::weather::BRIEF;
use crate::world::{Claim, World, name};

/// The lock that is held across each change, while others wait for it.
const WATCHED: &str = "watched";

/// What all members take and give back all the time.
const BUSY: [&str; 3] = ["a", "b", "c"];

const MEMBERS: usize = 5;

/// A living group under load, of which the algorithm is changed again and again.
struct Walk {
    world: World,
    /// The tokens of the watched lock, in the order of its holders.
    tokens: Vec<u64>,
}

/// Who holds the watched lock when the algorithm is changed, and who waits for it, in the order of
/// asking.
struct Cast {
    holder: usize,
    line: Vec<usize>,
}

impl Walk {
    fn begin(seed: u64, first: LockAlgorithm) -> Self {
        let world = World::new(seed, MEMBERS, Policy { timing: BRIEF, ..policy(first) });
        let mut walk = Self { world, tokens: Vec::new() };
        all_belong(&mut walk.world);
        walk
    }

    /// Puts another algorithm in the place of the present one, while somebody holds and others wait.
    fn change(&mut self, from: LockAlgorithm, to: LockAlgorithm) {
        let what = format!("seed {}: {from:?} to {to:?}", self.world.seed);
        assert_eq!(self.world.record().policy.algorithm(WATCHED), from, "{what}");
        let cast = self.take_places();
        let claims: Vec<Claim> = cast.line.iter().map(|member| self.claim(*member)).collect();
        let held = self.claim(cast.holder);
        self.world.write(cast.holder, WATCHED);

        self.put_in_force(to);
        self.live(BRIEF.member_lease * 2);
        assert_eq!(self.world.holders(WATCHED), [cast.holder], "{what}: the holder goes on");
        assert_eq!(self.claim(cast.holder), held, "{what}: with its token");

        self.leave(cast.holder);
        let mut line = Vec::new();
        for _ in &cast.line {
            line.push(self.await_holder(&what));
            self.leave(line[line.len() - 1]);
        }
        assert_eq!(set(&line), set(&cast.line), "{what}: each that waited gets in, once");
        if keeps_line(to) {
            assert_eq!(line, cast.line, "{what}: in their order");
        }
        for (member, claim) in cast.line.iter().zip(claims) {
            assert_eq!(self.claim(*member).number, claim.number, "{what}: without asking anew");
        }
    }

    /// Somebody takes the watched lock, and two others or more line up for it.
    fn take_places(&mut self) -> Cast {
        let mut members: Vec<usize> = (0..MEMBERS).collect();
        for place in (1..MEMBERS).rev() {
            let other = self.any(place + 1);
            members.swap(place, other);
        }
        let waiting = 2 + self.any(MEMBERS - 2);
        let (holder, line) = (members[0], members[1..=waiting].to_vec());
        self.world.enter(holder, WATCHED);
        assert_eq!(self.await_holder("it is free"), holder);
        for member in &line {
            self.world.enter(*member, WATCHED);
            // The leader learns from heartbeats who waits for a peer lock, and since when.
            self.live(BRIEF.heartbeat * 3);
        }
        assert!(line.iter().all(|member| self.world.wants(*member, WATCHED)));
        Cast { holder, line }
    }

    /// The resource is edited, and every member enters a view that goes by it.
    fn put_in_force(&mut self, algorithm: LockAlgorithm) {
        let generation = self.world.policy.generation + 1;
        let changed = Policy { generation, timing: BRIEF, ..policy(algorithm) };
        self.world.set_policy(&changed);
        let end = self.world.sim.now() + BRIEF.leader_lease * 10;
        while !self.goes_by(generation) {
            assert!(self.world.sim.now() < end, "{algorithm:?} never came into force");
            self.live(Duration::from_millis(1));
        }
    }

    fn goes_by(&self, generation: i64) -> bool {
        (0..MEMBERS).all(|index| {
            let record = self.world.member(index).and_then(|member| member.record());
            record.is_some_and(|record| record.policy.generation == generation)
        })
    }

    /// Goes on until somebody holds the watched lock.
    fn await_holder(&mut self, what: &str) -> usize {
        let end = self.world.sim.now() + BRIEF.member_lease * 5;
        loop {
            if let Some(holder) = self.world.holder(WATCHED) {
                let token = self.claim(holder).token.expect("an arbiter is there");
                self.tokens.push(token.get());
                return holder;
            }
            assert!(self.world.sim.now() < end, "{what}: nobody gets in");
            self.live(Duration::from_millis(1));
        }
    }

    fn leave(&mut self, member: usize) {
        self.world.write(member, WATCHED);
        self.world.exit(member, WATCHED);
    }

    /// The latest request of a member for the watched lock.
    fn claim(&self, member: usize) -> Claim {
        self.world.claims[&(member, name(WATCHED))]
    }

    /// All members take and give back the busy locks meanwhile.
    fn live(&mut self, span: Duration) {
        let end = self.world.sim.now() + span;
        while self.world.sim.now() < end {
            let (member, lock) = (self.any(MEMBERS), BUSY[self.any(BUSY.len())]);
            if self.world.holders(lock).contains(&member) {
                self.world.write(member, lock);
                self.world.exit(member, lock);
            } else if !self.world.wants(member, lock) {
                self.world.enter(member, lock);
            }
            let pause = self.world.sim.random().below(BRIEF.heartbeat / 10);
            self.world.run_for(pause.min(end.saturating_sub(self.world.sim.now())));
        }
    }

    fn any(&mut self, count: usize) -> usize {
        usize::try_from(self.world.sim.random().up_to(count as u64)).expect("small")
    }
}

fn set(members: &[usize]) -> BTreeSet<usize> {
    members.iter().copied().collect()
}

/// Whether those who waited across a change enter in the order of their asking. A token passes by
/// where it goes, and votes are for the member that asks at the right moment.
fn keeps_line(algorithm: LockAlgorithm) -> bool {
    match algorithm {
        LockAlgorithm::Central
        | LockAlgorithm::Lamport
        | LockAlgorithm::RicartAgrawala
        | LockAlgorithm::Maekawa
        | LockAlgorithm::Superpeers => true,
        LockAlgorithm::TokenRing | LockAlgorithm::Raymond | LockAlgorithm::Voting => false,
    }
}

/// Every change of one algorithm into another, one after the other; and each into itself, as when
/// something else of the policy is changed.
fn changes() -> Vec<(LockAlgorithm, LockAlgorithm)> {
    let mut seen = BTreeSet::new();
    let mut changes = Vec::new();
    for (from, to) in circuit(LockAlgorithm::ALL.len()) {
        let (from, to) = (LockAlgorithm::ALL[from], LockAlgorithm::ALL[to]);
        if seen.insert(from) {
            changes.push((from, from));
        }
        changes.push((from, to));
    }
    changes
}

fn until(bench: &mut Bench, is_so: impl Fn(&Bench) -> bool) {
    let end = bench.now.after(SECOND * 3);
    while !is_so(bench) {
        assert!(bench.now < end, "it did not come to that");
        bench.wait(Duration::from_millis(1));
    }
}

#[test]
fn a_member_that_holds_goes_on_and_the_member_that_waits_enters_whatever_takes_the_place_of_what() {
    let changes = changes();
    assert_eq!(changes.len(), LockAlgorithm::ALL.len().pow(2));
    for mut walk in (0..3).map(|seed| Walk::begin(seed, changes[0].0)) {
        for (from, to) in &changes {
            walk.change(*from, *to);
        }
        let (seed, notified) = (walk.world.seed, &walk.world.seen);
        println!("seed {seed}: {:?}, {:?}", walk.world.sim.now(), notified.algorithms);
        assert!(walk.tokens.is_sorted_by(|a, b| a < b), "seed {seed}: {:?}", walk.tokens);
        assert_eq!(
            (notified.losses, notified.refused),
            (0, 0),
            "seed {seed}: lost, or written too late"
        );
        let busy = LockAlgorithm::ALL.iter().all(|one| notified.algorithms.get(one) > Some(&1_000));
        assert!(busy, "seed {seed}: too little was granted: {:?}", notified.algorithms);
        walk.world.check_history();
    }
}

/// The view begins as if all had asked already, and had been notified that they wait. With votes a member
/// that waits tries again and again.
#[test]
fn a_member_that_waits_across_a_change_says_nothing_of_it() {
    for from in LockAlgorithm::ALL {
        for to in LockAlgorithm::ALL.into_iter().filter(|to| *to != LockAlgorithm::Voting) {
            let mut bench = Bench::group(3, policy(from));
            bench.enter(1, "a");
            until_held(&mut bench, 1, "a", SECOND * 5);
            bench.enter(2, "a");
            bench.enter(0, "a");
            bench.wait(SECOND);
            let changed = Policy { generation: 1, ..policy(to) };
            bench.command(0, Command::Policy(Box::new(changed)));
            bench.wait(SECOND * 3);
            let epoch = bench.record().epoch;
            assert_eq!(bench.record().policy.algorithm("a"), to);
            let messages = bench.sent.iter().filter_map(|(_, _, message)| match message {
                Message::Peer(message) => message.of_lock().filter(|about| about.epoch == epoch),
                Message::Register(_) => None,
            });
            assert_eq!(messages.count(), 0, "{from:?} to {to:?}");
            assert!(bench.holds(1, "a"), "{from:?} to {to:?}");
        }
    }
}

/// The holder leaves when the new view is written already, which names it, and nobody has heard of
/// that view: nobody is left out.
#[test]
fn a_lock_that_comes_free_as_the_view_changes_goes_to_the_member_that_waits() {
    for from in LockAlgorithm::ALL {
        for to in LockAlgorithm::ALL {
            let mut bench = Bench::group(3, policy(from));
            bench.enter(2, "a");
            until_held(&mut bench, 2, "a", SECOND * 5);
            bench.enter(1, "a");
            bench.wait(SECOND);
            let (leader, reads) = (bench.node(0), bench.calls(0, "read"));
            bench.way(Node::Register, leader, Link::Held);
            let changed = Policy { generation: 1, ..policy(to) };
            bench.command(0, Command::Policy(Box::new(changed)));
            until(&mut bench, |bench| bench.calls(0, "read") > reads);
            bench.let_one_pass(Node::Register, leader);
            until(&mut bench, |bench| bench.record().policy.generation == 1);
            assert!(bench.holds(2, "a") && !bench.holds(1, "a"), "{from:?} to {to:?}");
            bench.exit(2, "a");
            assert!(!bench.holds(1, "a"), "{from:?} to {to:?}: the view before is over");
            bench.free(Node::Register, leader);
            until_held(&mut bench, 1, "a", SECOND);
        }
    }
}

/// The first in line enters by what all members carry into a view, and needs no message for it. Votes are not carried:
/// a member that cannot reach one that votes asks the others, and may find too few of them.
#[test]
fn two_that_cannot_reach_each_other_both_enter_although_one_of_them_coordinates() {
    for algorithm in among_members().filter(|algorithm| *algorithm != LockAlgorithm::Voting) {
        let superpeers = SuperpeersPolicy { share_percent: 100 };
        let mut bench = Bench::group(4, Policy { superpeers, ..policy(algorithm) });
        bench.wait(SECOND * 2);
        let (lock, coordinator) = coordinated_by_a_follower(&bench);
        let mut others = (1..4).filter(|member| *member != coordinator);
        let (cut_off, third) = (others.next().expect("one"), others.next().expect("another"));
        bench.link(bench.node(coordinator), bench.node(cut_off), Link::Cut);
        let mut waiting = vec![cut_off, coordinator, third];
        for member in &waiting {
            bench.enter(*member, &lock);
        }
        let end = bench.now.after(SECOND * 60);
        while !waiting.is_empty() {
            if let Some(place) = waiting.iter().position(|member| bench.holds(*member, &lock)) {
                bench.exit(waiting.remove(place), &lock);
            }
            assert!(bench.now < end, "{algorithm:?}: {waiting:?} never entered");
            bench.wait(Duration::from_millis(10));
        }
    }
}

/// The same, where grants are kept: one that was carried to the front asks again and again after each exit, which the
/// coordinator does not hear. It keeps nothing, since it knows who is behind it.
#[test]
fn one_that_cannot_reach_the_coordinator_keeps_nobody_out_by_entering_again() {
    let mut policy = policy(LockAlgorithm::Superpeers);
    policy.superpeers = SuperpeersPolicy { share_percent: 100 };
    policy.locks[0].caching = Caching::Enabled;
    let mut bench = Bench::group(4, policy);
    bench.wait(SECOND * 2);
    let (lock, coordinator) = coordinated_by_a_follower(&bench);
    let mut others = (1..4).filter(|member| *member != coordinator);
    let (cut_off, third) = (others.next().expect("one"), others.next().expect("another"));
    for member in [cut_off, third] {
        bench.link(bench.node(coordinator), bench.node(member), Link::Cut);
        bench.enter(member, &lock);
        bench.wait(Duration::from_millis(100));
    }
    until_held(&mut bench, cut_off, &lock, SECOND * 10);
    bench.free(bench.node(coordinator), bench.node(third));
    let end = bench.now.after(SECOND * 60);
    while !bench.holds(third, &lock) {
        assert!(bench.now < end, "it never entered");
        if bench.holds(cut_off, &lock) {
            bench.exit(cut_off, &lock);
            bench.enter(cut_off, &lock);
        }
        bench.wait(Duration::from_millis(10));
    }
}

/// A lock, and the member that would coordinate it among superpeers.
fn coordinated_by_a_follower(bench: &Bench) -> (String, usize) {
    let record = bench.record();
    let superpeers = [LockPolicy { algorithm: LockAlgorithm::Superpeers, ..LockPolicy::default() }];
    let policy = Policy { locks: superpeers.to_vec(), ..record.policy.clone() };
    let superpeers = superpeers_of(&policy, &record.members);
    let coordinator = |lock: &str| {
        let rank = superpeers.responsible(Key::of(lock)).expect("there are members");
        bench
            .members
            .iter()
            .position(|member| member.me() == record.members[rank.0 as usize].incarnation)
    };
    let locks = (0..100).map(|number| format!("lock-{number}"));
    let mut of_followers = locks.filter_map(|lock| {
        let coordinator = coordinator(&lock).filter(|member| Some(*member) != bench.leader())?;
        Some((lock, coordinator))
    });
    of_followers.next().expect("followers are superpeers")
}
