//! What an algorithm's own messages say about group time. No clock probe has a part in it.

use super::exchange::saturate;
use super::rates::share;

/// Group time as the algorithm had it last: what Cristian's client takes the server's clock for, the mean of the servers
/// that NTP follows, or the average of Berkeley's round, to which each member is corrected.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct ByMessages {
    /// The raw reading that it is of.
    pub(super) raw: u64,
    /// What group time was then.
    pub(super) ns: i64,
    /// By how much the algorithm's clock is corrected by it.
    pub(super) correction_ns: i64,
    /// How far group time may have been from `ns`.
    pub(super) error_ns: u64,
    /// What that grows by, in parts per billion.
    pub(super) growth_ppb: u64,
    /// How wrong `ns` may be by the formula of the algorithm's source.
    pub(super) textbook_ns: u64,
    /// What that grows by, in parts per billion.
    pub(super) textbook_growth_ppb: u64,
}

/// The same at a later raw reading.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct MessageReading {
    /// Nanoseconds since 1970.
    pub now_ns: i64,
    /// How far group time is from that at most.
    pub error_ns: u64,
    /// How far that is wrong at most by the formula of the algorithm's source, which takes less into account.
    pub textbook_ns: u64,
    /// By how much the algorithm's clock was corrected.
    pub correction_ns: i64,
    /// How long ago the clocks were compared.
    pub age_ns: u64,
}

impl ByMessages {
    /// At a reading of the raw clock.
    pub(super) fn reading(&self, raw: u64) -> MessageReading {
        let age_ns = raw.saturating_sub(self.raw);
        let passed = i128::from(raw) - i128::from(self.raw);
        MessageReading {
            now_ns: saturate(i128::from(self.ns) + passed),
            error_ns: self
                .error_ns
                .saturating_add(share(age_ns, self.growth_ppb))
                .saturating_add(1),
            textbook_ns: self.textbook_ns.saturating_add(share(age_ns, self.textbook_growth_ppb)),
            correction_ns: self.correction_ns,
            age_ns,
        }
    }
}
