//! What the reply of a time server states about group time.

use super::exchange::{Exchange, Offset, saturate};
use super::rates::share;
use crate::time::LocalTime;

/// Group time at a reading of the raw clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Estimate {
    /// The raw reading.
    pub(super) raw: LocalTime,
    /// Group time then.
    pub(super) ns: i64,
    /// How far group time may have been from that.
    pub(super) error_ns: u64,
}

/// Four stamps: two by this member's raw clock, two by the server's virtual clock.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Stamps {
    /// T1: the request leaves, by the raw clock.
    pub(super) sent: LocalTime,
    /// T2: the server has it, by its clock.
    pub(super) asked_ns: i64,
    /// T3: the reply leaves, by the server's clock.
    pub(super) answered_ns: i64,
    /// T4: the reply is here, by the raw clock.
    pub(super) received: LocalTime,
}

impl Stamps {
    /// The server's clock less this raw clock.
    pub(super) fn offset(self) -> Offset {
        let [sent, received] = [self.sent, self.received].map(raw_ns);
        Exchange { sent, asked: self.asked_ns, answered: self.answered_ns, received }.offset()
    }

    /// Group time, from a server that is within `claimed_ns` of it. It is right from T4 on, with what
    /// the error grows by from T1 on: the [module](super) has the argument.
    pub(super) fn estimate(self, claimed_ns: u64) -> Estimate {
        let offset = self.offset();
        Estimate {
            raw: self.sent,
            ns: raw_ns(self.sent).saturating_add(offset.ns),
            error_ns: offset.error_ns.saturating_add(claimed_ns),
        }
    }
}

impl Estimate {
    /// The same at a later reading, where the bound of what is known grows by so many parts per billion.
    pub(super) fn aged(self, raw: LocalTime, growth_ppb: u64) -> Self {
        let age = i128::from(raw.0) - i128::from(self.raw.0);
        let growth = share(raw.0.saturating_sub(self.raw.0), growth_ppb);
        Self {
            raw,
            ns: saturate(i128::from(self.ns) + age),
            error_ns: self.error_ns.saturating_add(growth),
        }
    }
}

/// A raw reading as the clocks' arithmetic has it.
pub(super) fn raw_ns(raw: LocalTime) -> i64 {
    i64::try_from(raw.0).unwrap_or(i64::MAX)
}
