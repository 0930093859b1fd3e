//! What each algorithm sends, message by message, in the same two stories: no algorithm is another
//! one underneath.
//!
//! A message takes one unit of time, so that there is one order in which they are sent.

#[path = "../stories/mod.rs"]
mod stories;

use std::time::Duration;

use conclave_protocols::mutex::central::Central;
use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::maekawa::Maekawa;
use conclave_protocols::mutex::raymond::Raymond;
use conclave_protocols::mutex::ricart_agrawala::RicartAgrawala;
use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::mutex::token_ring::TokenRing;
use conclave_protocols::mutex::voting::Voting;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex};
use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Effect, LocalTime, MemberId, Named, Outbox, Protocol, View};

use crate::withheld::Silent;

use self::stories::{STORIES, Sent, Story, coordinator, script, ways};

#[test]
fn each_algorithm_says_what_its_source_has_it_say() {
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

/// The lists distinguish algorithms even by sender and receiver.
#[test]
fn no_algorithm_passes_for_another() {
    for one in LockAlgorithm::ALL {
        for story in STORIES {
            let sent = ways(&tell(one, story));
            for other in LockAlgorithm::ALL.into_iter().filter(|other| *other != one) {
                let others = ways(script(other, story));
                assert_ne!(sent, others, "{one:?} for {other:?}, {story:?}");
            }
        }
    }
}

/// What stays is their figure.
#[test]
fn without_its_notices_the_lock_of_ricart_and_agrawala_sends_all_else_as_before() {
    for story in STORIES {
        let script = script(LockAlgorithm::RicartAgrawala, story).iter().copied();
        let in_silence: Vec<Sent> = script.filter(|(.., name)| *name != "queued").collect();
        assert_eq!(sent::<Silent>(story), in_silence, "{story:?}");
    }
}

fn tell(algorithm: LockAlgorithm, story: Story) -> Vec<Sent> {
    match algorithm {
        LockAlgorithm::Central => sent::<Central>(story),
        LockAlgorithm::TokenRing => sent::<TokenRing>(story),
        LockAlgorithm::Raymond => sent::<Raymond>(story),
        LockAlgorithm::Lamport => sent::<Lamport>(story),
        LockAlgorithm::RicartAgrawala => sent::<RicartAgrawala>(story),
        LockAlgorithm::Maekawa => sent::<Maekawa>(story),
        LockAlgorithm::Voting => sent::<Voting>(story),
        LockAlgorithm::Superpeers => sent_by(story, |me, view, carried| {
            Superpeers::of(MemberId(coordinator(story)), me, view, carried)
        }),
    }
}

/// All messages of a story, in the order in which they are sent.
fn sent<P: Mutex>(story: Story) -> Vec<Sent> {
    sent_by(story, P::new)
}

fn sent_by<P: Mutex>(story: Story, make: impl Fn(MemberId, View, &Carried) -> P) -> Vec<Sent> {
    // Who asks, and how long after the beginning.
    let (size, asks) = match story {
        Story::InTurn => (4, [(1, Duration::ZERO), (2, UNIT * 3)]),
        Story::AtOnce => (3, [(0, Duration::ZERO), (2, Duration::ZERO)]),
    };
    let mut sim = Simulator::new(1);
    sim.set_delay(UNIT, UNIT);
    let view = crate::view(size);
    for me in view.members() {
        sim.add(me, Tapped(make(me, view, &Carried::default())));
    }
    for (member, at) in asks {
        sim.run_for(at.saturating_sub(sim.now()));
        sim.command(MemberId(member), Command::Enter);
    }
    // By now the first is in the critical section, and the second has heard whatever there is to hear.
    sim.run_for(UNIT * 5 / 2);
    let (mut sent, mut in_section) = (vec![], vec![]);
    for end in [UNIT * 20, UNIT * 40] {
        listen(&mut sim, &mut sent, &mut in_section);
        let [member] = in_section[..] else { panic!("{in_section:?} are in the critical section") };
        sim.command(member, Command::Exit);
        in_section.clear();
        sim.run_for(end.saturating_sub(sim.now()));
    }
    listen(&mut sim, &mut sent, &mut in_section);
    assert_eq!(in_section, [], "everybody is out again");
    sent
}

fn listen<P: Mutex>(
    sim: &mut Simulator<Tapped<P>>,
    sent: &mut Vec<Sent>,
    in_section: &mut Vec<MemberId>,
) {
    for (_, member, heard) in sim.take_notified() {
        match heard {
            Heard::Sent { to, name } => sent.push((member.0, to.0, name)),
            Heard::Notified(Event::Entered) => in_section.push(member),
            Heard::Notified(Event::Queued) => {}
        }
    }
}

/// A member whose messages are listened to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Tapped<P>(P);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Heard {
    Sent { to: MemberId, name: &'static str },
    Notified(Event),
}

impl<P: Mutex> Tapped<P> {
    fn pass(mut sent: OutboxOf<P>, out: &mut OutboxOf<Self>) {
        for effect in sent.drain() {
            match effect {
                Effect::Send { to, message } => {
                    out.tell(Heard::Sent { to, name: message.name() });
                    out.send(to, message);
                }
                Effect::Arm { timer, after } => out.arm(timer, after),
                Effect::Disarm(timer) => out.disarm(timer),
                Effect::Tell(event) => out.tell(Heard::Notified(event)),
            }
        }
    }
}

impl<P: Mutex> Protocol for Tapped<P> {
    type Peer = MemberId;
    type Command = Command;
    type Message = P::Message;
    type Timer = P::Timer;
    type Event = Heard;

    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        let mut sent = Outbox::default();
        self.0.start(now, &mut sent);
        Self::pass(sent, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let mut sent = Outbox::default();
        self.0.handle(now, input, &mut sent);
        Self::pass(sent, out);
    }
}

/// Much less than a token pauses, so that it is woken.
const UNIT: Duration = Duration::from_millis(1);
