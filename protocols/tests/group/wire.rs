//! What the real members send about a lock, message by message, and what they count: the same two
//! stories for each algorithm that a policy can name.
//!
//! Members go by rank here; the highest leads.

#[path = "../stories/mod.rs"]
mod stories;

use std::time::Duration;

use conclave_protocols::election::superpeers::Key;
use conclave_protocols::locks::superpeers_of;
use conclave_protocols::member::message::{AboutLock, Message, PeerMessage, ServiceMessage};
use conclave_protocols::member::{LockEvent, Node};
use conclave_protocols::mutex::PaidBy;
use conclave_protocols::mutex::maekawa::Quorums;
use conclave_protocols::policy::{Caching, LockAlgorithm, LockPolicy, Policy, SuperpeersPolicy};
use conclave_protocols::{MemberId, cost};

use self::stories::{STORIES, Sent, Story, coordinator, script, ways};
use crate::bench::{Bench, SECOND};

#[test]
fn real_members_say_of_a_lock_what_the_source_of_its_algorithm_says() {
    for algorithm in LockAlgorithm::ALL {
        for story in STORIES {
            assert_eq!(
                tell(algorithm, story),
                script(algorithm, story),
                "{algorithm:?}, {story:?}"
            );
        }
    }
}

/// The lists distinguish the algorithms even by sender and receiver.
#[test]
fn no_algorithm_of_a_group_passes_for_another() {
    for one in LockAlgorithm::ALL {
        for story in STORIES {
            let sent = ways(&tell(one, story));
            for other in LockAlgorithm::ALL.into_iter().filter(|other| *other != one) {
                assert_ne!(sent, ways(script(other, story)), "{one:?} for {other:?}, {story:?}");
            }
        }
    }
}

/// Carvalho and Roucairol's permissions, and a grant of the coordinator that its member keeps.
#[test]
fn a_member_that_keeps_its_permission_enters_again_without_a_message() {
    let granted: &[Sent] = &[(0, 2, "request"), (2, 0, "grant")];
    let by_another: &[Sent] = &[(0, 1, "request"), (1, 0, "grant")];
    let permitted: &[Sent] =
        &[(0, 1, "request"), (0, 2, "request"), (1, 0, "reply"), (2, 0, "reply")];
    for (algorithm, first) in [
        (LockAlgorithm::Central, granted),
        (LockAlgorithm::RicartAgrawala, permitted),
        (LockAlgorithm::Superpeers, by_another),
    ] {
        let mut table = Table::set(3, algorithm, Caching::Enabled);
        for expected in [first, &[]] {
            let before = table.sent().len();
            table.enter(0);
            assert!(table.holds(0));
            table.exit(0);
            assert_eq!(&table.sent()[before..], expected, "{algorithm:?}");
        }
        assert_eq!(table.costs(0), [first.len() as u64, 0], "{algorithm:?}");
    }
    assert_eq!(cost::central_kept(1, 0), granted.len() as u64);
}

#[test]
fn an_entry_that_nobody_else_wants_costs_what_the_textbook_says() {
    const SIZE: u32 = 6;
    for algorithm in LockAlgorithm::ALL {
        for member in 0..SIZE {
            let mut table = Table::set(SIZE, algorithm, Caching::Disabled);
            table.enter(member);
            assert!(table.holds(member));
            table.exit(member);
            let formula = alone(algorithm, SIZE, MemberId(member));
            assert_eq!(table.paid(|_| true), formula, "{algorithm:?}, {member}");
            // What others send on the way of a token is sent for this member, but not known to it.
            let known = match algorithm {
                LockAlgorithm::TokenRing => formula.min(cost::token_ring(1)),
                LockAlgorithm::Raymond => formula.min(cost::raymond(1)),
                LockAlgorithm::Central
                | LockAlgorithm::Lamport
                | LockAlgorithm::RicartAgrawala
                | LockAlgorithm::Maekawa
                | LockAlgorithm::Voting
                | LockAlgorithm::Superpeers => formula - table.paid(|by| by == PaidBy::Leaver),
            };
            assert_eq!(table.costs(member), [known], "{algorithm:?}, {member}");
            let left = table.paid(|by| by == PaidBy::Leaver);
            assert_eq!(table.costs_in_all(member), [known + left], "{algorithm:?}, {member}");
        }
    }
}

#[test]
fn when_all_want_in_the_entries_cost_what_the_textbook_says() {
    const SIZE: u32 = 6;
    let n = u64::from(SIZE);
    for algorithm in LockAlgorithm::ALL {
        let mut table = Table::set(SIZE, algorithm, Caching::Disabled);
        let all: Vec<u32> = (0..SIZE).collect();
        table.at_once(&all);
        let order = table.leave_in_turn(all);
        let spent = table.paid(|_| true);
        let known = (0..SIZE).map(|member| table.costs(member).iter().sum::<u64>()).sum::<u64>();
        let left = table.paid(|by| by == PaidBy::Leaver);
        match algorithm {
            LockAlgorithm::Central | LockAlgorithm::Superpeers => {
                assert_eq!((spent, known + left), (cost::central(n - 1), spent));
                let queued = table.sent().iter().filter(|sent| sent.2 == "queued").count();
                assert_eq!(queued as u64, cost::central_queued(n - 1));
            }
            LockAlgorithm::TokenRing => {
                assert_eq!((spent, known), (cost::token_ring_busy(n), spent));
            }
            LockAlgorithm::Raymond => {
                let last = order.last().map(|last| depth(MemberId(*last))).expect("somebody");
                assert_eq!(spent, cost::raymond_busy(n, last));
            }
            // To the first in line the others' requests state as much as their acknowledgments,
            // which come when it is in the critical section.
            LockAlgorithm::Lamport => {
                let others = cost::lamport(n, n - 1);
                assert_eq!(spent, cost::lamport(n, n));
                assert_eq!(known + left, others + cost::lamport_least(n));
            }
            LockAlgorithm::RicartAgrawala => {
                assert_eq!((spent, known), (cost::ricart_agrawala(n, n), spent));
            }
            LockAlgorithm::Maekawa => {
                let quorum = |member| Quorums::grid(SIZE).of(MemberId(member)).len() as u64;
                let sum = |of: fn(u64) -> u64| (0..SIZE).map(|member| of(quorum(member))).sum();
                let (least, most): (u64, u64) = (sum(cost::maekawa), sum(cost::maekawa_most));
                assert!(least < spent && spent <= most, "{least} < {spent} <= {most}");
                assert!(known + left <= spent && known + left > least, "{known} and {left}");
            }
            LockAlgorithm::Voting => assert_eq!(known + left, spent + table.given_back(SIZE)),
        }
    }
}

/// Of three members each needs its own vote and that of the next. While 1 has those of 1 and 2, each
/// attempt of 2 gets the vote of 0 for nothing and gives it back: that is all that k attempts can cost.
/// One of 0 gets nothing from others: that is the least.
#[test]
fn votes_that_are_given_back_after_an_attempt_that_failed_are_paid_for() {
    type Formula = fn(u64, u64) -> u64;
    let extremes: [(u32, Formula); 2] = [(2, cost::voting_most), (0, cost::voting_least)];
    for (member, formula) in extremes {
        let mut table = Table::set(3, LockAlgorithm::Voting, Caching::Disabled);
        table.enter(1);
        table.enter(member);
        table.bench.wait(MILLI * 100);
        table.exit(1);
        table.until_held(member);
        table.exit(member);
        let requests = |sent: &&Sent| sent.0 == member && sent.2 == "request";
        let attempts = table.sent().iter().filter(requests).count() as u64;
        assert!(attempts > 2, "{attempts} attempts");
        let last_release = 1;
        assert_eq!(table.costs(member), [formula(1, attempts) - last_release], "{member}");
    }
}

/// A group on the bench, by rank, and what was sent and reported about one lock.
struct Table {
    bench: Bench,
    lock: String,
}

impl Table {
    fn set(size: u32, algorithm: LockAlgorithm, caching: Caching) -> Self {
        Self::coordinated_by(COORDINATOR, size, algorithm, caching)
    }

    /// The same, with a lock that this member coordinates where one of several does.
    fn coordinated_by(
        coordinator: MemberId,
        size: u32,
        algorithm: LockAlgorithm,
        caching: Caching,
    ) -> Self {
        let locks = vec![LockPolicy { algorithm, caching, ..LockPolicy::default() }];
        let superpeers = SuperpeersPolicy { share_percent: 100 };
        let policy = Policy { locks, superpeers, ..Policy::default() };
        let mut bench = Bench::group(size as usize, policy);
        // By now the leader has heard from all, and has notified them that locks are granted.
        bench.wait(SECOND * 2);
        bench.forget();
        let record = bench.record();
        let superpeers = superpeers_of(&record.policy, &record.members);
        let fits = |name: &String| {
            let responsible = superpeers.responsible(Key::of(name));
            responsible.is_none_or(|responsible| responsible == coordinator)
        };
        let lock = (0..100).map(|number| format!("lock-{number}")).find(fits);
        Self { bench, lock: lock.expect("it is a superpeer") }
    }

    /// Whose place on the bench a rank is.
    fn place(&self, rank: u32) -> usize {
        let of = |place: &usize| self.rank(self.bench.node(*place)) == rank;
        (0..self.bench.members.len()).find(of).expect("a member")
    }

    fn rank(&self, node: Node) -> u32 {
        let Node::Member(member) = node else { panic!("the register has no rank") };
        self.bench.record().rank(member).expect("in the view").0
    }

    fn enter(&mut self, member: u32) {
        self.bench.enter(self.place(member), &self.lock);
    }

    /// None of them hears of another's request before it has asked itself.
    fn at_once(&mut self, members: &[u32]) {
        let places: Vec<usize> = members.iter().map(|member| self.place(*member)).collect();
        self.bench.enter_at_once(&places, &self.lock);
    }

    fn exit(&mut self, member: u32) {
        self.bench.exit(self.place(member), &self.lock);
    }

    fn holds(&self, member: u32) -> bool {
        self.bench.holds(self.place(member), &self.lock)
    }

    fn until_held(&mut self, member: u32) {
        let end = self.bench.now.after(SECOND * 5);
        while !self.holds(member) {
            assert!(self.bench.now < end, "{member} never got in");
            self.bench.wait(MILLI);
        }
    }

    /// The member in the critical section leaves, until all have been in it. Returns in which order.
    fn leave_in_turn(&mut self, mut waiting: Vec<u32>) -> Vec<u32> {
        let mut order = Vec::new();
        let end = self.bench.now.after(SECOND * 20);
        while !waiting.is_empty() {
            let in_section: Vec<u32> =
                waiting.iter().copied().filter(|one| self.holds(*one)).collect();
            assert!(in_section.len() <= 1, "{in_section:?} are in the critical section");
            if let [member] = in_section[..] {
                self.exit(member);
                waiting.retain(|one| *one != member);
                order.push(member);
            } else {
                assert!(self.bench.now < end, "{waiting:?} never got in");
                self.bench.wait(MILLI);
            }
        }
        order
    }

    fn about_locks(&self) -> impl Iterator<Item = (Node, Node, AboutLock<'_>)> {
        self.bench.sent.iter().filter_map(|(from, to, message)| match message {
            Message::Peer(message) => Some((*from, *to, message.of_lock()?)),
            Message::Register(_) => None,
        })
    }

    /// All messages about locks, in the order in which they were sent.
    fn sent(&self) -> Vec<Sent> {
        self.about_locks()
            .map(|(from, to, about)| (self.rank(from), self.rank(to), about.name))
            .collect()
    }

    /// How many of the messages that the textbook counts are paid for in such a way.
    fn paid(&self, is_such: impl Fn(PaidBy) -> bool) -> u64 {
        let paid_by = |(.., message): &(Node, Node, Message)| match message {
            Message::Peer(PeerMessage::Service(envelope)) => match &envelope.body {
                ServiceMessage::Lock(message) => message.message.paid_by(),
                ServiceMessage::Election(_) => PaidBy::Nobody,
            },
            Message::Peer(_) | Message::Register(_) => PaidBy::Nobody,
        };
        let counted = |by: &PaidBy| *by != PaidBy::Nobody && is_such(*by);
        self.bench.sent.iter().map(paid_by).filter(counted).count() as u64
    }

    /// What each entry of a member cost, by its own count.
    fn costs(&self, member: u32) -> Vec<u64> {
        let cost = |event: &LockEvent| match event {
            LockEvent::Entered { messages, .. } => Some(*messages),
            LockEvent::Queued(_)
            | LockEvent::Extended { .. }
            | LockEvent::Left { .. }
            | LockEvent::Renewed { .. }
            | LockEvent::Lost(_) => None,
        };
        self.bench.lock_events(self.place(member), &self.lock).filter_map(cost).collect()
    }

    /// The same of entry and exit.
    fn costs_in_all(&self, member: u32) -> Vec<u64> {
        let cost = |event: &LockEvent| match event {
            LockEvent::Left { messages, .. } => Some(*messages),
            LockEvent::Queued(_)
            | LockEvent::Entered { .. }
            | LockEvent::Extended { .. }
            | LockEvent::Renewed { .. }
            | LockEvent::Lost(_) => None,
        };
        self.bench.lock_events(self.place(member), &self.lock).filter_map(cost).collect()
    }

    /// How many votes of others went back after attempts that failed, if all of so many members have
    /// been in the critical section once: each then gave back what admitted it.
    fn given_back(&self, size: u32) -> u64 {
        let others = u64::from(size / 2);
        self.paid(|by| by == PaidBy::Leaver) - others * u64::from(size)
    }
}

/// All that real members send in a story.
fn tell(algorithm: LockAlgorithm, story: Story) -> Vec<Sent> {
    let by = MemberId(coordinator(story));
    match story {
        Story::InTurn => {
            let mut table = Table::coordinated_by(by, 4, algorithm, Caching::Disabled);
            table.enter(1);
            table.enter(2);
            assert!(table.holds(1));
            assert_eq!(table.leave_in_turn(vec![1, 2]), [1, 2], "{algorithm:?}");
            table.sent()
        }
        Story::AtOnce => {
            let mut table = Table::coordinated_by(by, 3, algorithm, Caching::Disabled);
            table.at_once(&[0, 2]);
            table.leave_in_turn(vec![0, 2]);
            table.sent()
        }
    }
}

/// What an entry and its exit cost if nobody else wants to enter.
fn alone(algorithm: LockAlgorithm, size: u32, member: MemberId) -> u64 {
    let n = u64::from(size);
    match algorithm {
        LockAlgorithm::Central => cost::central(u64::from(member.0 + 1 != size)),
        LockAlgorithm::TokenRing => cost::token_ring(u64::from(member.0)),
        LockAlgorithm::Raymond => cost::raymond(depth(member)),
        LockAlgorithm::Lamport => cost::lamport(n, 1),
        LockAlgorithm::RicartAgrawala => cost::ricart_agrawala(n, 1),
        LockAlgorithm::Maekawa => cost::maekawa(Quorums::grid(size).of(member).len() as u64),
        LockAlgorithm::Voting => cost::voting_least(n / 2, 1),
        LockAlgorithm::Superpeers => cost::central(u64::from(member != COORDINATOR)),
    }
}

/// How far a member is from the root of the tree, where an unused token is.
fn depth(member: MemberId) -> u64 {
    cost::raymond_distance(0, member.0.into())
}

/// Who coordinates the lock of a table where one of several does.
const COORDINATOR: MemberId = MemberId(1);
const MILLI: Duration = Duration::from_millis(1);
