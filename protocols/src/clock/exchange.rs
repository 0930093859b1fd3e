//! Reading another clock across a network, by Cristian's method.
//!
//! Source: Cristian, *Probabilistic Clock Synchronization*, Distributed Computing 3, 1989; the form
//! with four stamps is that of Mills' NTP (RFC 5905, section 8).

/// Four stamps of one exchange: two by the asker's clock, two by the other's. Any unit.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Exchange {
    /// T1: the asker sends, by its own clock.
    pub sent: i64,
    /// T2: the other gets the question, by the other's clock.
    pub asked: i64,
    /// T3: the other answers, by the other's clock.
    pub answered: i64,
    /// T4: the asker has the answer, by its own clock.
    pub received: i64,
}

/// How far another clock is ahead, and how wrong that may be.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Offset {
    /// The other's clock less the asker's.
    pub ns: i64,
    /// Half the round trip: the offset is within this of the truth, however the delay was split.
    pub error_ns: u64,
}

impl Exchange {
    /// An exchange in which the other reads its clock once, when it answers: T2 = T3.
    pub fn of_one_reading(sent: i64, reading: i64, received: i64) -> Self {
        Self { sent, asked: reading, answered: reading, received }
    }

    /// θ = ((T2 - T1) + (T3 - T4)) / 2, with the error δ = ((T4 - T1) - (T3 - T2)) / 2.
    ///
    /// Some lecture notes print (T4 - T3) in θ, which makes it the same as δ: never negative, and
    /// not the offset.
    pub fn offset(self) -> Offset {
        let [t1, t2, t3, t4] =
            [self.sent, self.asked, self.answered, self.received].map(i128::from);
        let twice = (t2 - t1) + (t3 - t4);
        let round_trip = (t4 - t1) - (t3 - t2);
        let error = (round_trip + 1).div_euclid(2);
        Offset {
            ns: saturate(twice.div_euclid(2)),
            error_ns: u64::try_from(error.max(0)).unwrap_or(u64::MAX),
        }
    }
}

/// To the nearest value that fits.
pub(super) fn saturate(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_within_the_error() {
        let offset = Exchange::of_one_reading(0, 10, 3).offset();
        assert_eq!(offset, Offset { ns: 8, error_ns: 2 });
    }

    #[test]
    fn nonsense_saturates() {
        let offset = Exchange::of_one_reading(i64::MAX, i64::MIN, i64::MAX).offset();
        assert_eq!(offset, Offset { ns: i64::MIN, error_ns: 0 });
        let swapped = Exchange::of_one_reading(5, 0, 1).offset();
        assert_eq!(swapped.error_ns, 0);
    }
}
