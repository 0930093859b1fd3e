//! An NTP member whose servers are played by the test.

use conclave_protocols::clock::ntp::{Message, Ntp, Reply, System, Timer};
use conclave_protocols::clock::{Event, GroupClock, Verdict, VirtualClock};
use conclave_protocols::protocol::OutboxOf;
use conclave_protocols::{Effect, Epoch, Input, LocalTime, MemberId, Outbox, Protocol, View};

use crate::still::{MS, params};

pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const LEADER: MemberId = MemberId(0);
/// How long an exchange takes, as a rule.
pub(crate) const TRIP: u64 = 200_000;

/// A server as a member finds it: its stratum, its clock less the true one, and its bound.
#[derive(Clone, Copy)]
pub(crate) struct Server {
    pub(crate) stratum: u8,
    pub(crate) off_ns: i64,
    pub(crate) error_ns: u64,
    pub(crate) follows: Option<MemberId>,
}

pub(crate) const GOOD: Server =
    Server { stratum: 2, off_ns: 0, error_ns: 100_000, follows: Some(LEADER) };
/// Its interval covers everybody's, and it says that it is as near to stratum 1 as can be.
pub(crate) const WIDE: Server =
    Server { off_ns: 3_600_000 * MS, error_ns: 7_200_000_000_000, ..GOOD };
pub(crate) const FIRST: Server = Server { stratum: 1, off_ns: 0, error_ns: 1_000, follows: None };
/// It follows nobody, and has a time.
pub(crate) const HOLDS_OVER: Server =
    Server { stratum: 16, error_ns: 9_000_000, follows: None, ..GOOD };
/// It was just started.
pub(crate) const NEW: Server = Server { stratum: 16, error_ns: u64::MAX, ..HOLDS_OVER };

/// A member whose servers are played by the test. The true time is the raw clock.
pub(crate) struct Member {
    pub(crate) ntp: Ntp,
    pub(crate) now: u64,
    /// How long an exchange takes.
    pub(crate) trip: u64,
    /// How long a server takes to reply beside that: T3 - T2.
    pub(crate) takes: u64,
    pub(crate) polled: Vec<MemberId>,
    pub(crate) verdicts: Vec<(u32, Verdict)>,
    /// Who contradicted it, each time.
    pub(crate) contradicted: Vec<u32>,
}

impl Member {
    pub(crate) fn new(me: u32, size: u32, clock: VirtualClock) -> Self {
        let view = View { epoch: Epoch(1), size, leader: LEADER };
        let ntp = Ntp::new(MemberId(me), view, params(), clock);
        Self {
            ntp,
            now: 0,
            trip: TRIP,
            takes: 0,
            polled: Vec::new(),
            verdicts: Vec::new(),
            contradicted: Vec::new(),
        }
    }

    pub(crate) fn does(
        &mut self,
        what: impl FnOnce(&mut Ntp, &mut OutboxOf<Ntp>),
    ) -> Vec<(MemberId, Message)> {
        let mut out = Outbox::default();
        what(&mut self.ntp, &mut out);
        let mut sent = Vec::new();
        for effect in out.drain() {
            match effect {
                Effect::Send { to, message } => sent.push((to, message)),
                Effect::Tell(Event::Compared(sources)) => {
                    self.verdicts = sources.iter().map(|(id, one)| (id.0, one.verdict)).collect();
                    let contradict = sources.iter().filter(|(_, one)| one.contradicts);
                    self.contradicted.extend(contradict.map(|(id, _)| id.0));
                }
                Effect::Tell(Event::Adjusted | Event::Stated(_))
                | Effect::Arm { .. }
                | Effect::Disarm(_) => {}
            }
        }
        sent
    }

    /// A poll a second, which servers answer that are there; by rank.
    pub(crate) fn poll(&mut self, servers: &[(u32, Server)]) {
        let now = LocalTime(self.now);
        let sent = if self.polled.is_empty() {
            self.does(|ntp, out| ntp.start(now, out))
        } else {
            self.does(|ntp, out| ntp.handle(now, Input::Timer(Timer::Poll), out))
        };
        self.polled = sent.iter().map(|(to, _)| *to).collect();
        for (rank, server) in servers {
            if self.polled.contains(&MemberId(*rank)) {
                self.answer(*rank, *server);
            }
        }
        let late = LocalTime(self.now + SECOND / 4);
        self.does(|ntp, out| ntp.handle(late, Input::Timer(Timer::Replies), out));
        self.now += SECOND;
    }

    pub(crate) fn answer(&mut self, rank: u32, server: Server) {
        let read_ns = i64::try_from(self.now + self.trip / 2).expect("small") + server.off_ns;
        let reply = Reply {
            origin: LocalTime(self.now),
            receive_ns: read_ns,
            transmit_ns: read_ns.saturating_add_unsigned(self.takes),
            stamp: LocalTime(5),
            system: System {
                stratum: server.stratum,
                reference: server.follows,
                root_delay_ns: 0,
                root_dispersion_ns: 0,
            },
            error_ns: Some(server.error_ns).filter(|error_ns| *error_ns < u64::MAX),
        };
        let (at, from) = (LocalTime(self.now + self.trip + self.takes), MemberId(rank));
        let message = Message::Server(reply, None);
        self.does(|ntp, out| ntp.handle(at, Input::Message { from, message }, out));
    }

    pub(crate) fn polls(&mut self, times: usize, servers: &[(u32, Server)]) {
        for _ in 0..times {
            self.poll(servers);
        }
    }

    /// Its clock less the true one, when all slewing is done.
    pub(crate) fn off_ns(&self) -> i64 {
        let reading = self.ntp.clock().map().reading(self.now);
        reading.now_ns + reading.slewing_ns - i64::try_from(self.now).expect("small")
    }

    pub(crate) fn stratum(&self) -> u8 {
        self.ntp.system().stratum
    }
}
