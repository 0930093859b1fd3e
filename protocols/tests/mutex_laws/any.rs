//! The laws of mutual exclusion for any lock, whatever its members send to each other.
//!
//! A [`Lock`] states how a member is made, and what the algorithm promises beyond what every lock
//! does. It is searched over all interleavings of three members, and run in a simulator. In a file of
//! its own beside this one:
//!
//! ```ignore
//! fn lock() -> Lock<Lamport> {
//!     Lock::new(Lamport::new).in_order(|in_section, waiting| in_section.stamp() < waiting.stamp())
//! }
//!
//! laws_of!(lock());
//! ```
//!
//! A lock whose timers go off though nobody wants anything states that with [`Lock::idling`]. Runs of it have
//! no end; but none of them may go on for ever while somebody waits and nobody is in the critical section.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use conclave_protocols::mutex::{Carried, Command, Mutex, Phase};
use conclave_protocols::{MemberId, View};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::ledger::{Ledger, Since};
use crate::support::Subject;
use crate::support::endless::assert_runs_go_round_only_where;
use crate::support::world::{Fact, Group, Laws, World};

/// A lock, and what it promises.
pub(crate) struct Lock<P: Subject + Mutex> {
    make: Make<P>,
    pub(crate) promises: Promises<P>,
}

/// Makes one member.
type Make<P> = Box<dyn Fn(MemberId, View, &Carried) -> P>;

/// What an algorithm promises beyond what every lock does.
pub(crate) struct Promises<P: Subject> {
    /// Whether this one, which is in the critical section, may be there while the other waits.
    pub(crate) precedes: Option<fn(&P, &P) -> bool>,
    /// Whether those that wait stand in line as they should, in this group.
    line: Option<fn(&[&P]) -> bool>,
    pub(crate) overtaking: Option<Overtaking>,
    /// Whether a timer may be set though nobody wants anything.
    is_idle: fn(P::Timer) -> bool,
}

/// How often others may be admitted before a member that waits.
#[derive(Clone, Copy)]
pub(crate) struct Overtaking {
    since: Since,
    /// Each of them.
    each: u32,
    /// All of them together, in a group of this size, where that is less.
    in_all: Option<fn(u32) -> u32>,
}

impl<P: Subject + Mutex> Lock<P> {
    /// A lock that promises what every lock does, and no more.
    pub(crate) fn new(make: impl Fn(MemberId, View, &Carried) -> P + 'static) -> Self {
        let promises =
            Promises { precedes: None, line: None, overtaking: None, is_idle: |_| false };
        Self { make: Box::new(make), promises }
    }

    /// Members are admitted in an order: whether the first, which is in the critical section, comes before
    /// the second, which waits.
    pub(crate) fn in_order(mut self, precedes: fn(&P, &P) -> bool) -> Self {
        self.promises.precedes = Some(precedes);
        self
    }

    /// Members wait in an order: whether all of a group, by rank, stand in line as they should.
    pub(crate) fn lined_up(mut self, is_in_line: fn(&[&P]) -> bool) -> Self {
        self.promises.line = Some(is_in_line);
        self
    }

    /// Each other is admitted so often before a member that waits, and no more.
    pub(crate) fn overtaken(mut self, since: Since, each: u32) -> Self {
        self.promises.overtaking = Some(Overtaking { since, each, in_all: None });
        self
    }

    /// Besides, all others together are admitted no more often than this, in a group of a size.
    pub(crate) fn overtaken_in_all(mut self, in_all: fn(u32) -> u32) -> Self {
        let overtaking = self.promises.overtaking.as_mut().expect("it is said of each first");
        overtaking.in_all = Some(in_all);
        self
    }

    /// These timers go off though nobody wants anything.
    pub(crate) fn idling(mut self, is_idle: fn(P::Timer) -> bool) -> Self {
        self.promises.is_idle = is_idle;
        self
    }

    /// One member's part.
    pub(crate) fn member(&self, me: MemberId, view: View, carried: &Carried) -> P {
        (self.make)(me, view, carried)
    }

    /// Three members, or as many as ask.
    pub(crate) fn world(&self, sections: Sections) -> World<P, AnyLock<P>> {
        let size = u32::try_from(sections.each.len()).expect("a small group");
        let carried = sections.carried.clone();
        let member = |me| self.member(me, crate::view(size), &carried);
        World::new(size, member, AnyLock { sections, promises: self.promises.clone() })
    }
}

impl<P: Subject> Clone for Promises<P> {
    fn clone(&self) -> Self {
        let Self { precedes, line, overtaking, is_idle } = *self;
        Self { precedes, line, overtaking, is_idle }
    }
}

impl<P: Subject> Promises<P> {
    pub(crate) fn since(&self) -> Option<Since> {
        self.overtaking.map(|overtaking| overtaking.since)
    }

    /// Whether nobody is in the critical section before its turn, or stands in line before it.
    pub(crate) fn keeps_order<'a>(&self, members: impl Iterator<Item = &'a P> + Clone) -> bool
    where
        P: Mutex,
    {
        let stands =
            |is_in_line: fn(&[&P]) -> bool| is_in_line(&members.clone().collect::<Vec<_>>());
        if !self.line.is_none_or(stands) {
            return false;
        }
        let Some(precedes) = self.precedes else { return true };
        let waiting = members.clone().filter(|member| member.phase() == Phase::Waiting);
        let mut in_section = members.filter(|member| member.phase() == Phase::InSection);
        in_section.all(|in_section| waiting.clone().all(|waiting| precedes(in_section, waiting)))
    }

    /// Whether nobody was overtaken too often.
    pub(crate) fn keeps_bound(&self, ledger: &Ledger, size: u32) -> bool {
        let Some(Overtaking { each, in_all, .. }) = self.overtaking else { return true };
        ledger.most_overtaken() <= each
            && in_all.is_none_or(|at_most| ledger.most_overtaken_in_all() <= at_most(size))
    }
}

/// Members that enter and leave.
#[derive(Clone, Debug)]
pub(crate) struct Sections {
    /// How often each asks, by rank.
    each: Vec<u8>,
    /// How often in all somebody gives up while it waits.
    withdrawals: u32,
    carried: Carried,
}

impl Sections {
    /// Each member asks so often.
    pub(crate) fn of(each: impl Into<Vec<u8>>) -> Self {
        Self { each: each.into(), withdrawals: 0, carried: Carried::default() }
    }

    /// So often somebody gives up while it waits.
    pub(crate) fn with_withdrawals(self, withdrawals: u32) -> Self {
        Self { withdrawals, ..self }
    }

    /// Somebody was in the critical section in the view before, or waited.
    pub(crate) fn carrying(self, holder: Option<u32>, waiting: &[u32]) -> Self {
        let waiting = waiting.iter().copied().map(MemberId).collect();
        Self { carried: Carried { holder: holder.map(MemberId), waiting }, ..self }
    }
}

/// The laws of a lock, with what its members do.
pub(crate) struct AnyLock<P: Subject> {
    sections: Sections,
    promises: Promises<P>,
}

#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(crate) struct Memory {
    asked: BTreeMap<MemberId, u8>,
    /// Nothing until anything happens.
    ledger: Option<Ledger>,
}

type State<P> = Group<P, Memory>;
type Law<P> = Property<World<P, AnyLock<P>>>;

impl<P: Subject> AnyLock<P> {
    fn opening(&self) -> Ledger {
        Ledger::new(&self.sections.carried, self.promises.since())
    }

    fn may_ask(&self, group: &State<P>, member: MemberId) -> bool {
        let asked = group.memory.asked.get(&member).copied().unwrap_or_default();
        self.sections.each.get(member.0 as usize).is_some_and(|each| asked < *each)
    }
}

impl<P: Subject + Mutex> Laws<P> for AnyLock<P> {
    type Memory = Memory;

    fn commands(&self, group: &State<P>, member: MemberId) -> Vec<Command> {
        let given_up = group.memory.ledger.as_ref().map_or(0, Ledger::given_up);
        match group.members[member.0 as usize].protocol.phase() {
            Phase::Idle if self.may_ask(group, member) => vec![Command::Enter],
            Phase::Waiting if given_up < self.sections.withdrawals => vec![Command::Exit],
            Phase::InSection => vec![Command::Exit],
            Phase::Idle | Phase::Waiting => vec![],
        }
    }

    fn remember(&self, memory: &mut Memory, member: MemberId, fact: Fact<'_, P>) {
        let since = self.promises.since();
        let ledger = memory.ledger.get_or_insert_with(|| self.opening());
        match fact {
            Fact::Asked(command) => {
                if *command == Command::Enter {
                    *memory.asked.entry(member).or_default() += 1;
                }
                ledger.asks(member, *command, since);
            }
            Fact::Notified(event) => ledger.hears(member, *event, since),
            Fact::Sent { .. } | Fact::Crashed => {}
        }
    }

    fn properties(&self) -> Vec<Law<P>> {
        let mut laws = vec![
            Property::always("at most one is in the critical section", |_, group: &State<P>| {
                count(group, Phase::InSection) <= 1
            }),
            Property::always("a member that waits enters", |_, group: &State<P>| {
                !is_over(group) || count(group, Phase::Waiting) == 0
            }),
            Property::always(
                "applications are told what is so",
                |world: &World<P, Self>, group: &State<P>| {
                    let phases = group.living().map(|(id, member)| (id, member.protocol.phase()));
                    match &group.memory.ledger {
                        Some(ledger) => ledger.is_so(phases),
                        None => world.laws.opening().is_so(phases),
                    }
                },
            ),
            Property::sometimes(
                "somebody waits while another is in the critical section",
                |_, group: &State<P>| {
                    count(group, Phase::InSection) == 1 && count(group, Phase::Waiting) > 0
                },
            ),
            Property::sometimes(
                "everybody got in as often as it asked",
                |world: &World<P, Self>, group: &State<P>| {
                    let mut members = group.living();
                    members.all(|(id, member)| {
                        member.protocol.phase() == Phase::Idle
                            && !world.laws.may_ask(group, id)
                            && member
                                .timers
                                .keys()
                                .all(|timer| (world.laws.promises.is_idle)(*timer))
                    })
                },
            ),
        ];
        laws.extend(self.promised());
        if self.sections.withdrawals > 0 {
            laws.push(Property::sometimes(
                "all that give up have",
                |world: &World<P, Self>, group: &State<P>| {
                    let ledger = group.memory.ledger.as_ref();
                    ledger
                        .is_some_and(|ledger| ledger.given_up() == world.laws.sections.withdrawals)
                },
            ));
        }
        laws
    }
}

impl<P: Subject + Mutex> AnyLock<P> {
    /// The laws of this algorithm alone.
    fn promised(&self) -> Vec<Law<P>> {
        let mut laws = vec![];
        if self.promises.precedes.is_some() || self.promises.line.is_some() {
            laws.push(Property::always(
                "everybody gets in in its turn",
                |world: &World<P, Self>, group: &State<P>| {
                    let members = group.members.iter().map(|member| &member.protocol);
                    world.laws.promises.keeps_order(members)
                },
            ));
        }
        if self.promises.overtaking.is_some() {
            laws.push(Property::always(
                "nobody is overtaken too often",
                |world: &World<P, Self>, group: &State<P>| {
                    let size = u32::try_from(group.members.len()).expect("a small group");
                    let ledger = group.memory.ledger.as_ref();
                    ledger.is_none_or(|ledger| world.laws.promises.keeps_bound(ledger, size))
                },
            ));
        }
        laws
    }
}

/// Asserts that the laws hold in every state.
pub(crate) fn check<P: Subject + Mutex>(world: World<P, AnyLock<P>>) {
    let checker = world.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// Asserts that a law is broken in some state.
pub(crate) fn assert_breaks<P: Subject + Mutex>(world: World<P, AnyLock<P>>, law: &'static str) {
    let finish = HasDiscoveries::AnyOf([law].into());
    let found = world.checker().threads(2).finish_when(finish).spawn_bfs().join();
    assert!(found.discovery(law).is_some(), "`{law}` holds");
}

/// Asserts that no run goes on for ever while somebody waits and nobody is in the critical section. Where members
/// stand does not change on a cycle: it is remembered how often each asked.
pub(crate) fn assert_every_wait_ends<P: Subject + Mutex>(world: &World<P, AnyLock<P>>) {
    assert_runs_go_round_only_where(world, |group| {
        count(group, Phase::Waiting) == 0 || count(group, Phase::InSection) > 0
    });
}

/// Shows every state of a world, with those that may come next, and returns how many there are.
/// States are distinguished by a hash of 64 bits.
pub(crate) fn for_each_state<P: Subject + Mutex>(
    world: &World<P, AnyLock<P>>,
    mut look: impl FnMut(&State<P>, &[State<P>]),
) -> usize {
    let mut seen = BTreeSet::new();
    let mut open = world.init_states();
    while let Some(group) = open.pop() {
        let mut hasher = DefaultHasher::new();
        group.hash(&mut hasher);
        if seen.insert(hasher.finish()) {
            let next = world.next_states(&group);
            look(&group, &next);
            open.extend(next);
        }
    }
    seen.len()
}

/// How many stand there.
pub(crate) fn count<P: Subject + Mutex>(group: &State<P>, phase: Phase) -> usize {
    group.living().filter(|(_, member)| member.protocol.phase() == phase).count()
}

/// Whether nothing happens any more unless an application asks for something that it need not. An
/// timer that is set will go off: what a wait for it leads to is judged by
/// [`assert_every_wait_ends`].
fn is_over<P: Subject + Mutex>(group: &State<P>) -> bool {
    group.links.is_empty()
        && count(group, Phase::InSection) == 0
        && group.living().all(|(_, member)| member.timers.is_empty())
}

/// What is searched: two critical sections of one member are the least in which it overtakes another.
pub(crate) struct Search {
    pub(crate) sections: Sections,
    pub(crate) giving_up: Sections,
    pub(crate) carrying: Sections,
}

impl Search {
    /// Members that ask so often each, two of whom give up, and the usual critical sections after a view.
    pub(crate) fn asking(each: [u8; 3]) -> Self {
        let sections = Sections::of(each);
        Self {
            giving_up: sections.clone().with_withdrawals(2),
            sections,
            carrying: Sections::of([1, 1, 1]).with_withdrawals(1),
        }
    }

    /// For a lock with many messages, or with clocks in them.
    pub(crate) fn small() -> Self {
        Self {
            sections: Sections::of([1, 1, 1]),
            giving_up: Sections::of([2, 1, 0]).with_withdrawals(1),
            carrying: Sections::of([0, 1, 0]).with_withdrawals(1),
        }
    }
}

/// The tests that every lock has to pass.
macro_rules! laws_of {
    ($lock:expr) => {
        $crate::any::laws_of!($lock, asks: [2, 1, 1]);
    };
    ($lock:expr, asks: $asks:expr) => {
        $crate::any::laws_of!($lock, $crate::any::Search::asking($asks));
    };
    ($lock:expr, $search:expr) => {
        #[test]
        fn one_at_a_time_everybody_enters_as_often_as_it_asks() {
            $crate::any::check($lock.world($search.sections));
        }

        #[test]
        fn the_same_holds_if_members_give_up_while_they_wait() {
            $crate::any::check($lock.world($search.giving_up));
        }

        #[test]
        fn the_same_holds_if_somebody_was_in_section_or_waited_in_the_view_before() {
            let carried: [(Option<u32>, &[u32]); 4] =
                [(Some(0), &[2, 1]), (Some(2), &[1, 0]), (None, &[1, 2]), (None, &[0])];
            for (holder, waiting) in carried {
                $crate::any::check($lock.world($search.carrying.carrying(holder, waiting)));
            }
        }

        #[test]
        fn no_wait_goes_on_for_ever() {
            $crate::any::assert_every_wait_ends(&$lock.world($search.giving_up));
        }

        #[test]
        fn a_thousand_runs_of_up_to_eight_members_keep_the_laws() {
            $crate::storm::blow(&$lock);
        }
    };
}

pub(crate) use laws_of;
