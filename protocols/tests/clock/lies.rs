//! How a member lies about its clock.

use conclave_protocols::clock::{AnyMessage, Known, berkeley, cristian, ntp};
use conclave_protocols::random::Random;

use crate::world::between;

/// How a member lies about its clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lie {
    /// By a little or by a lot, and with whatever bound.
    Anything,
    /// By an hour, with a bound of two and a root distance of nothing: the interval covers everybody's.
    Widely,
    /// In every message: that it is ahead of the leader's clock by so many nanoseconds, and with this bound.
    Ahead(i64, u64),
    /// The same, but in each round of Berkeley's algorithm the next one of these, over and over.
    Cycle(&'static [i64], u64),
    /// The same, but the first of these in the rounds in which the leader's clock takes a correction, the second in the rest.
    Turning([i64; 2], u64),
}

impl Lie {
    /// Changes what a message states of the clock of its sender, which is so far behind that of the leader; and
    /// whether that takes a correction now.
    pub(crate) fn distort(
        self,
        random: &mut Random,
        (behind_ns, turns): (i64, bool),
        message: &mut AnyMessage,
    ) {
        let most = [1_000_000, 19_000_000, 10_000_000_000][choice(random, 3)];
        let bounds = [Some(0), Some(1_000_000), Some(15_000_000), Some(u64::MAX), None];
        let (off, bound, stratum) = match self {
            Self::Anything => {
                let bound = bounds[choice(random, bounds.len())];
                (between(random, -most, most), bound, choice(random, 17))
            }
            Self::Widely => (HOUR_NS, Some(2 * HOUR_NS.unsigned_abs()), 2),
            Self::Ahead(off, bound) => (behind_ns.saturating_add(off), Some(bound), 2),
            Self::Turning(off, bound) => {
                let off = if turns { off[0] } else { off[1] };
                (behind_ns.saturating_add(off), Some(bound), 2)
            }
            Self::Cycle(offs, bound) => {
                let off = offs[usize::try_from(round_of(message)).expect("few") % offs.len()];
                (behind_ns.saturating_add(off), Some(bound), 2)
            }
        };
        let mut root = || match self {
            Self::Anything => random.up_to(1_000_000),
            Self::Widely | Self::Ahead(..) | Self::Cycle(..) | Self::Turning(..) => 0,
        };
        match message {
            AnyMessage::Berkeley(berkeley::Message::Answer {
                reading_ns: time_ns,
                error_ns,
                ..
            })
            | AnyMessage::Cristian(cristian::Message::Reply { time_ns, error_ns, .. }) => {
                *time_ns = time_ns.saturating_add(off);
                *error_ns = bound;
            }
            AnyMessage::Ntp(ntp::Message::Server(reply, known)) => {
                if let Some(known) = known {
                    shift(known, off, bound);
                }
                reply.receive_ns = reply.receive_ns.saturating_add(off);
                let root_ns = [root(), root(), root()];
                reply.transmit_ns = reply.receive_ns.saturating_add_unsigned(root_ns[0]);
                reply.error_ns = bound;
                reply.system.stratum = u8::try_from(stratum).expect("small");
                (reply.system.root_delay_ns, reply.system.root_dispersion_ns) =
                    (root_ns[1], root_ns[2]);
            }
            AnyMessage::Berkeley(_) | AnyMessage::Cristian(_) | AnyMessage::Ntp(_) => {}
        }
    }
}

/// That of an answer of Berkeley's algorithm.
fn round_of(message: &AnyMessage) -> u64 {
    match message {
        AnyMessage::Berkeley(berkeley::Message::Answer { round, .. }) => *round,
        AnyMessage::Berkeley(_) | AnyMessage::Cristian(_) | AnyMessage::Ntp(_) => 0,
    }
}

fn shift(known: &mut Known, off: i64, bound: Option<u64>) {
    for line in [&mut known.path.first, &mut known.path.then, &mut known.path.last] {
        line.ns = line.ns.saturating_add(off);
    }
    known.bound.error_ns = bound.unwrap_or(0);
}

pub(crate) fn choice(random: &mut Random, of: usize) -> usize {
    usize::try_from(random.up_to(of as u64)).expect("a small number")
}

const HOUR_NS: i64 = 3_600_000_000_000;
