//! A group of members, as the model checker sees it.
//!
//! A step of the world is one of these, in every order that the settings allow: the application of
//! a member asks for something, a message arrives, a timer goes off, a member crashes. What the
//! applications ask for and what must hold is stated by [`Laws`].
//!
//! ```ignore
//! World::new(4, |me| Bully::new(Place::new(me, view), timing), Elects::by([0, 1]))
//!     .with_dead(3)
//!     .with_crashes(1)
//!     .checker().threads(2).spawn_bfs().join().assert_properties();
//! ```
//!
//! To every protocol it is always the same moment: what depends on `now` is not searched.

use std::collections::VecDeque;
use std::time::Duration;

use conclave_protocols::protocol::InputOf;
use conclave_protocols::{Effect, Input, LocalTime, MemberId, Outbox};
use litemap::LiteMap;
use stateright::{Model, Property};

use super::{Part, Subject};

/// What applications ask for, and what must hold whatever happens.
pub trait Laws<P: Subject>: Sized + Send + Sync + 'static {
    /// What the laws remember of a run beyond the state of the group. Every bit of it multiplies the
    /// states to be searched.
    type Memory: Part + Default;

    /// What the application of a living member may ask for now. It may always do so later instead;
    /// for the search to end it must not do so for ever.
    fn commands(&self, group: &Group<P, Self::Memory>, member: MemberId) -> Vec<P::Command>;

    /// Takes note of something that happened to a member or that it did.
    fn remember(&self, _memory: &mut Self::Memory, _member: MemberId, _fact: Fact<'_, P>) {}

    /// What must always hold, and what must happen in some run.
    fn properties(&self) -> Vec<Property<World<P, Self>>>;
}

/// Something worth remembering.
pub enum Fact<'a, P: Subject> {
    /// Its application asked for this.
    Asked(&'a P::Command),
    /// It sent a message, which may yet be lost with it.
    Sent { to: MemberId, message: &'a P::Message },
    /// It notified its application.
    Notified(&'a P::Event),
    /// It crashed, for good.
    Crashed,
}

/// When timers go off.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Timers {
    /// The synchronous system of the textbook: messages take no time, so that a timer goes off only
    /// when none is in flight, the earliest first.
    InTime,
    /// No bound on messages is known: any timer may go off at any time. At most so many do in one
    /// run, which keeps the search finite.
    AtAnyTime(u8),
}

/// The order in which the messages of one member to another arrive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Order {
    /// As they were sent.
    Fifo,
    /// Any.
    Any,
}

/// The members at the beginning, and what may happen to them.
pub struct World<P: Subject, L> {
    /// What must hold.
    pub laws: L,
    members: Vec<Member<P>>,
    order: Order,
    timers: Timers,
    crashes: u8,
}

/// One state of the world.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Group<P: Subject, M> {
    /// All members, by rank.
    pub members: Vec<Member<P>>,
    /// Messages in flight, by sender and receiver; no link is empty.
    pub links: LiteMap<(MemberId, MemberId), VecDeque<P::Message>>,
    /// What the laws remember.
    pub memory: M,
    crashes_left: u8,
    timers_left: u8,
}

/// One member.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Member<P: Subject> {
    /// Its state.
    pub protocol: P,
    /// Whether it has not crashed.
    pub lives: bool,
    /// Its timers, and how long until they go off.
    pub timers: LiteMap<P::Timer, Duration>,
}

/// One step.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Step<P: Subject> {
    /// An application asks.
    Ask(MemberId, P::Command),
    /// A message arrives: the one that has so many before it on its link.
    Deliver { from: MemberId, to: MemberId, place: usize },
    /// A timer goes off.
    Timer(MemberId, P::Timer),
    /// A member crashes. What it sent and is in flight arrives, or all of it is lost.
    Crash { member: MemberId, loses: bool },
}

impl<P: Subject, L: Laws<P>> World<P, L> {
    /// So many members, all of which live and never crash, with FIFO links and timers in time.
    pub fn new(size: u32, member: impl Fn(MemberId) -> P, laws: L) -> Self {
        let member =
            |id| Member { protocol: member(MemberId(id)), lives: true, timers: LiteMap::new() };
        let members = (0..size).map(member).collect();
        Self { laws, members, order: Order::Fifo, timers: Timers::InTime, crashes: 0 }
    }

    /// This member is dead from the beginning.
    pub fn with_dead(mut self, member: u32) -> Self {
        self.members[member as usize].lives = false;
        self
    }

    /// At most so many members crash, any of them, at any time.
    pub fn with_crashes(mut self, crashes: u8) -> Self {
        self.crashes = crashes;
        self
    }

    /// Messages arrive so.
    pub fn with_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Timers go off so.
    pub fn with_timers(mut self, timers: Timers) -> Self {
        self.timers = timers;
        self
    }

    /// Whether nothing more happens unless somebody crashes.
    pub fn is_at_rest(&self, group: &Group<P, L::Memory>) -> bool {
        group.links.is_empty()
            && group.living().all(|(id, member)| {
                member.timers.is_empty() && self.laws.commands(group, id).is_empty()
            })
    }

    fn deliveries(&self, group: &Group<P, L::Memory>, steps: &mut Vec<Step<P>>) {
        for ((from, to), link) in &group.links {
            let places = match self.order {
                Order::Fifo => 1,
                Order::Any => link.len(),
            };
            let first_of_its_kind =
                |place: &usize| !link.iter().take(*place).any(|earlier| *earlier == link[*place]);
            let step = |place| Step::Deliver { from: *from, to: *to, place };
            steps.extend((0..places).filter(first_of_its_kind).map(step));
        }
    }

    fn timers(&self, group: &Group<P, L::Memory>, steps: &mut Vec<Step<P>>) {
        let all = group.living().flat_map(|(id, member)| {
            member.timers.iter().map(move |(timer, left)| (id, *timer, *left))
        });
        let next = all.clone().map(|(_, _, left)| left).min();
        let may_go_off = |left| match self.timers {
            Timers::InTime => group.links.is_empty() && Some(left) == next,
            Timers::AtAnyTime(_) => group.timers_left > 0,
        };
        steps.extend(
            all.filter(|(_, _, left)| may_go_off(*left))
                .map(|(id, timer, _)| Step::Timer(id, timer)),
        );
    }

    fn handle(&self, group: &mut Group<P, L::Memory>, id: MemberId, input: InputOf<P>) {
        let mut out = Outbox::default();
        group.members[id.0 as usize].protocol.handle(NOW, input, &mut out);
        self.carry_out(group, id, out);
    }

    fn carry_out(
        &self,
        group: &mut Group<P, L::Memory>,
        id: MemberId,
        mut out: Outbox<MemberId, P::Message, P::Timer, P::Event>,
    ) {
        for effect in out.drain() {
            let timers = &mut group.members[id.0 as usize].timers;
            match effect {
                Effect::Send { to, message } => {
                    self.laws.remember(&mut group.memory, id, Fact::Sent { to, message: &message });
                    if group.lives(to) {
                        group.links.entry((id, to)).or_default().push_back(message);
                    }
                }
                Effect::Arm { timer, after } => {
                    let after = match self.timers {
                        Timers::InTime => after,
                        Timers::AtAnyTime(_) => Duration::ZERO,
                    };
                    timers.insert(timer, after);
                }
                Effect::Disarm(timer) => {
                    timers.remove(&timer);
                }
                Effect::Tell(event) => {
                    self.laws.remember(&mut group.memory, id, Fact::Notified(&event));
                }
            }
        }
    }
}

impl<P: Subject, M> Group<P, M> {
    /// All members that live, by rank.
    pub fn living(&self) -> impl Iterator<Item = (MemberId, &Member<P>)> + Clone {
        (0..).map(MemberId).zip(&self.members).filter(|(_, member)| member.lives)
    }

    /// Whether a member has not crashed.
    pub fn lives(&self, member: MemberId) -> bool {
        self.members[member.0 as usize].lives
    }

    fn take(&mut self, from: MemberId, to: MemberId, place: usize) -> Option<P::Message> {
        let link = self.links.get_mut(&(from, to))?;
        let message = link.remove(place);
        if link.is_empty() {
            self.links.remove(&(from, to));
        }
        message
    }

    fn pass_time(&mut self, elapsed: Duration) {
        for member in &mut self.members {
            for (_, left) in member.timers.iter_mut() {
                *left -= elapsed;
            }
        }
    }

    fn crash(&mut self, id: MemberId, loses: bool) {
        self.crashes_left -= 1;
        let member = &mut self.members[id.0 as usize];
        member.lives = false;
        member.timers.clear();
        self.links.retain(|(from, to), _| *to != id && !(loses && *from == id));
    }
}

impl<P: Subject, L: Laws<P>> Model for World<P, L> {
    type State = Group<P, L::Memory>;
    type Action = Step<P>;

    fn init_states(&self) -> Vec<Self::State> {
        let mut group = Group {
            members: self.members.clone(),
            links: LiteMap::new(),
            memory: L::Memory::default(),
            crashes_left: self.crashes,
            timers_left: match self.timers {
                Timers::InTime => 0,
                Timers::AtAnyTime(at_most) => at_most,
            },
        };
        for id in (0..).map(MemberId).take(self.members.len()).filter(|id| self.lives(*id)) {
            let mut out = Outbox::default();
            group.members[id.0 as usize].protocol.start(NOW, &mut out);
            self.carry_out(&mut group, id, out);
        }
        vec![group]
    }

    fn actions(&self, group: &Self::State, steps: &mut Vec<Self::Action>) {
        for (id, _) in group.living() {
            let commands = self.laws.commands(group, id);
            steps.extend(commands.into_iter().map(|command| Step::Ask(id, command)));
        }
        self.deliveries(group, steps);
        self.timers(group, steps);
        if group.crashes_left > 0 && group.living().count() > 1 {
            for (member, _) in group.living() {
                steps.push(Step::Crash { member, loses: false });
                if group.links.keys().any(|(from, _)| *from == member) {
                    steps.push(Step::Crash { member, loses: true });
                }
            }
        }
    }

    fn next_state(&self, group: &Self::State, step: Self::Action) -> Option<Self::State> {
        let mut group = group.clone();
        match step {
            Step::Ask(id, command) => {
                self.laws.remember(&mut group.memory, id, Fact::Asked(&command));
                self.handle(&mut group, id, Input::Command(command));
            }
            Step::Deliver { from, to, place } => {
                let message = group.take(from, to, place)?;
                self.handle(&mut group, to, Input::Message { from, message });
            }
            Step::Timer(id, timer) => {
                let elapsed = group.members[id.0 as usize].timers.remove(&timer)?;
                group.pass_time(elapsed);
                group.timers_left = group.timers_left.saturating_sub(1);
                self.handle(&mut group, id, Input::Timer(timer));
            }
            Step::Crash { member, loses } => {
                group.crash(member, loses);
                self.laws.remember(&mut group.memory, member, Fact::Crashed);
            }
        }
        Some(group)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        self.laws.properties()
    }
}

impl<P: Subject, L> World<P, L> {
    fn lives(&self, member: MemberId) -> bool {
        self.members[member.0 as usize].lives
    }
}

const NOW: LocalTime = LocalTime(0);
