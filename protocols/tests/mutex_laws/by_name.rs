//! What each algorithm says, message by message, in the same two stories: no algorithm is another
//! one underneath.
//!
//! The lists are written down from the figures and rules of the sources, and not from runs. In all of
//! them a message takes one unit of time, so that there is one order in which they are sent.

use std::time::Duration;

use conclave_protocols::mutex::central::Central;
use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::maekawa::Maekawa;
use conclave_protocols::mutex::raymond::Raymond;
use conclave_protocols::mutex::ricart_agrawala::RicartAgrawala;
use conclave_protocols::mutex::token_ring::TokenRing;
use conclave_protocols::mutex::voting::Voting;
use conclave_protocols::mutex::{Carried, Command, Event, Mutex};
use conclave_protocols::protocol::{InputOf, OutboxOf};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Effect, LocalTime, MemberId, Named, Outbox, Protocol};

/// From whom, to whom, and what.
type Said = (u32, u32, &'static str);

/// Two members ask, and leave one after the other.
#[derive(Clone, Copy, Debug)]
struct Story {
    size: u32,
    /// Who asks, in this order, and how long after the beginning.
    asks: [(u32, Duration); 2],
}

/// The figure of the central algorithm in Tanenbaum and van Steen: of the processes 0 to 3, the last
/// of which coordinates, 1 asks and is let in; 2 asks, and is let in once 1 has left.
const IN_TURN: Story = Story { size: 4, asks: [(1, Duration::ZERO), (2, UNIT.saturating_mul(3))] };

/// Their figure of Ricart and Agrawala's algorithm: of the processes 0 to 2 the first and the last
/// ask at the same moment.
const AT_ONCE: Story = Story { size: 3, asks: [(0, Duration::ZERO), (2, Duration::ZERO)] };

/// An algorithm, and what it is to say.
struct Script {
    name: &'static str,
    tell: fn(Story) -> Vec<Said>,
    in_turn: &'static [Said],
    at_once: &'static [Said],
}

const ALL: [Script; 7] = [CENTRAL, TOKEN_RING, RAYMOND, LAMPORT, RICART_AGRAWALA, MAEKAWA, VOTING];

/// In the figure whoever must wait hears nothing. Here it is told so. The second story has its
/// coordinator among those that ask: it lets itself in without a word.
const CENTRAL: Script = Script {
    name: "Central",
    tell: said::<Central>,
    in_turn: &[
        (1, 3, "request"),
        (3, 1, "grant"),
        (2, 3, "request"),
        (3, 2, "queued"),
        (1, 3, "release"),
        (3, 2, "grant"),
        (2, 3, "release"),
    ],
    at_once: &[(0, 2, "request"), (2, 0, "queued"), (2, 0, "grant"), (0, 2, "release")],
};

/// The token begins at 0 and goes up. The books' token does not pause, so nobody has to wake it; each
/// `wake` goes the other way.
const TOKEN_RING: Script = Script {
    name: "TokenRing",
    tell: said::<TokenRing>,
    in_turn: &[(1, 0, "wake"), (0, 1, "token"), (2, 1, "wake"), (1, 2, "token")],
    at_once: &[(2, 1, "wake"), (1, 0, "wake"), (0, 1, "token"), (1, 2, "token")],
};

/// The privilege begins at 0, the root, whose children are 1 and 2.
const RAYMOND: Script = Script {
    name: "Raymond",
    tell: said::<Raymond>,
    in_turn: &[
        (1, 0, "request"),
        (0, 1, "privilege"),
        (2, 0, "request"),
        (0, 1, "request"),
        (1, 0, "privilege"),
        (0, 2, "privilege"),
    ],
    at_once: &[(2, 0, "request"), (0, 2, "privilege")],
};

/// Rules 1 to 5: each speaks to all others, and all answer.
const LAMPORT: Script = Script {
    name: "Lamport",
    tell: said::<Lamport>,
    in_turn: &[
        (1, 0, "request"),
        (1, 2, "request"),
        (1, 3, "request"),
        (0, 1, "acknowledgment"),
        (2, 1, "acknowledgment"),
        (3, 1, "acknowledgment"),
        (2, 0, "request"),
        (2, 1, "request"),
        (2, 3, "request"),
        (0, 2, "acknowledgment"),
        (1, 2, "acknowledgment"),
        (3, 2, "acknowledgment"),
        (1, 0, "release"),
        (1, 2, "release"),
        (1, 3, "release"),
        (2, 0, "release"),
        (2, 1, "release"),
        (2, 3, "release"),
    ],
    at_once: &[
        (0, 1, "request"),
        (0, 2, "request"),
        (2, 0, "request"),
        (2, 1, "request"),
        (1, 0, "acknowledgment"),
        (2, 0, "acknowledgment"),
        (0, 2, "acknowledgment"),
        (1, 2, "acknowledgment"),
        (0, 1, "release"),
        (0, 2, "release"),
        (2, 0, "release"),
        (2, 1, "release"),
    ],
};

/// Whoever is inside or comes first replies when it leaves. The second story is the figure: 1 replies
/// to both, 2 to 0, and 0 to 2 only when it leaves.
const RICART_AGRAWALA: Script = Script {
    name: "RicartAgrawala",
    tell: said::<RicartAgrawala>,
    in_turn: &[
        (1, 0, "request"),
        (1, 2, "request"),
        (1, 3, "request"),
        (0, 1, "reply"),
        (2, 1, "reply"),
        (3, 1, "reply"),
        (2, 0, "request"),
        (2, 1, "request"),
        (2, 3, "request"),
        (0, 2, "reply"),
        (3, 2, "reply"),
        (1, 2, "reply"),
    ],
    at_once: &[
        (0, 1, "request"),
        (0, 2, "request"),
        (2, 0, "request"),
        (2, 1, "request"),
        (1, 0, "reply"),
        (2, 0, "reply"),
        (1, 2, "reply"),
        (0, 2, "reply"),
    ],
};

/// In the square of four, 1 needs the votes of 0 and 3 beside its own, and 2 those of 0 and 3 too. Of
/// three, 0 needs that of 1, and 2 that of 0.
const MAEKAWA: Script = Script {
    name: "Maekawa",
    tell: said::<Maekawa>,
    in_turn: &[
        (1, 0, "request"),
        (1, 3, "request"),
        (0, 1, "locked"),
        (3, 1, "locked"),
        (2, 0, "request"),
        (2, 3, "request"),
        (0, 2, "failed"),
        (3, 2, "failed"),
        (1, 0, "release"),
        (1, 3, "release"),
        (0, 2, "locked"),
        (3, 2, "locked"),
        (2, 0, "release"),
        (2, 3, "release"),
    ],
    at_once: &[
        (0, 1, "request"),
        (2, 0, "request"),
        (1, 0, "locked"),
        (0, 2, "failed"),
        (0, 2, "locked"),
        (0, 1, "release"),
        (2, 0, "release"),
    ],
};

/// Three votes of four: of oneself and the two that follow. 2 has voted for 1, as has 3, and gives
/// back what it got from 0; then it tries once more. Two of three: 0 has its own vote and denies it.
const VOTING: Script = Script {
    name: "Voting",
    tell: said::<Voting>,
    in_turn: &[
        (1, 2, "request"),
        (1, 3, "request"),
        (2, 1, "grant"),
        (3, 1, "grant"),
        (2, 3, "request"),
        (2, 0, "request"),
        (3, 2, "deny"),
        (0, 2, "grant"),
        (2, 0, "release"),
        (1, 2, "release"),
        (1, 3, "release"),
        (2, 3, "request"),
        (2, 0, "request"),
        (3, 2, "grant"),
        (0, 2, "grant"),
        (2, 3, "release"),
        (2, 0, "release"),
    ],
    at_once: &[
        (0, 1, "request"),
        (2, 0, "request"),
        (1, 0, "grant"),
        (0, 2, "deny"),
        (0, 1, "release"),
        (2, 0, "request"),
        (0, 2, "grant"),
        (2, 0, "release"),
    ],
};

#[test]
fn each_algorithm_says_what_its_source_has_it_say() {
    for script in ALL {
        assert_eq!((script.tell)(IN_TURN), script.in_turn, "{}, one after the other", script.name);
        assert_eq!((script.tell)(AT_ONCE), script.at_once, "{}, at once", script.name);
    }
}

/// The lists tell algorithms apart, by name and even by who speaks to whom.
#[test]
fn no_algorithm_passes_for_another() {
    let ways = |said: &[Said]| said.iter().map(|(from, to, _)| (*from, *to)).collect::<Vec<_>>();
    for one in ALL {
        let [in_turn, at_once] = [IN_TURN, AT_ONCE].map(one.tell);
        for other in ALL.iter().filter(|other| other.name != one.name) {
            let both = format!("{} for {}", one.name, other.name);
            assert_ne!(in_turn, other.in_turn, "{both}");
            assert_ne!(at_once, other.at_once, "{both}");
            assert_ne!(ways(&in_turn), ways(other.in_turn), "{both}");
        }
    }
}

/// All that is said in a story, in the order in which it is sent.
fn said<P: Mutex>(story: Story) -> Vec<Said> {
    let mut sim = Simulator::new(1);
    sim.set_delay(UNIT, UNIT);
    let view = crate::view(story.size);
    for me in view.members() {
        sim.add(me, Tapped(P::new(me, view, &Carried::default())));
    }
    for (member, at) in story.asks {
        sim.run_for(at.saturating_sub(sim.now()));
        sim.command(MemberId(member), Command::Enter);
    }
    // By now the first is in, and the second has heard whatever there is to hear.
    sim.run_for(UNIT * 5 / 2);
    let (mut said, mut inside) = (vec![], vec![]);
    for end in [UNIT * 20, UNIT * 40] {
        listen(&mut sim, &mut said, &mut inside);
        let [member] = inside[..] else { panic!("{inside:?} are inside") };
        sim.command(member, Command::Exit);
        inside.clear();
        sim.run_for(end.saturating_sub(sim.now()));
    }
    listen(&mut sim, &mut said, &mut inside);
    assert_eq!(inside, [], "everybody is out again");
    said
}

fn listen<P: Mutex>(
    sim: &mut Simulator<Tapped<P>>,
    said: &mut Vec<Said>,
    inside: &mut Vec<MemberId>,
) {
    for (_, member, heard) in sim.take_told() {
        match heard {
            Heard::Said { to, name } => said.push((member.0, to.0, name)),
            Heard::Told(Event::Entered) => inside.push(member),
            Heard::Told(Event::Queued) => {}
        }
    }
}

/// A member whose messages are listened to.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Tapped<P>(P);

#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Heard {
    Said { to: MemberId, name: &'static str },
    Told(Event),
}

impl<P: Mutex> Tapped<P> {
    fn pass(mut said: OutboxOf<P>, out: &mut OutboxOf<Self>) {
        for effect in said.drain() {
            match effect {
                Effect::Send { to, message } => {
                    out.tell(Heard::Said { to, name: message.name() });
                    out.send(to, message);
                }
                Effect::Arm { timer, after } => out.arm(timer, after),
                Effect::Disarm(timer) => out.disarm(timer),
                Effect::Tell(event) => out.tell(Heard::Told(event)),
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
        let mut said = Outbox::default();
        self.0.start(now, &mut said);
        Self::pass(said, out);
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        let mut said = Outbox::default();
        self.0.handle(now, input, &mut said);
        Self::pass(said, out);
    }
}

/// Much less than a token pauses, so that it is woken.
const UNIT: Duration = Duration::from_millis(1);
