//! What a source states about a number, and numbers as the page prints them.

use std::fmt;
use std::time::Duration;

use crate::measure::T;

/// What is stated about a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sent {
    Exactly(u64),
    Between(u64, u64),
    AtLeast(u64),
    AtMost(u64),
    Nothing,
}

impl Sent {
    /// Whether a number is as stated.
    pub(crate) fn admits(self, measured: u64) -> bool {
        match self {
            Self::Exactly(value) => measured == value,
            Self::Between(least, most) => (least..=most).contains(&measured),
            Self::AtLeast(least) => measured >= least,
            Self::AtMost(most) => measured <= most,
            Self::Nothing => true,
        }
    }

    /// The same of another number, which grows with the first.
    pub(crate) fn map(self, of: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Exactly(value) => Self::Exactly(of(value)),
            Self::Between(least, most) => Self::Between(of(least), of(most)),
            Self::AtLeast(least) => Self::AtLeast(of(least)),
            Self::AtMost(most) => Self::AtMost(of(most)),
            Self::Nothing => Self::Nothing,
        }
    }

    /// The same of another number, which falls as the first grows.
    pub(crate) fn map_falling(self, of: impl Fn(u64) -> u64) -> Self {
        match self.map(of) {
            Self::Between(most, least) => Self::Between(least, most),
            Self::AtLeast(most) => Self::AtMost(most),
            Self::AtMost(least) => Self::AtLeast(least),
            same @ (Self::Exactly(_) | Self::Nothing) => same,
        }
    }

    /// The same of times in T, if messages take from a half of T to three halves.
    pub(crate) fn within_a_half(self) -> Self {
        let (halves, three_halves) = (|value| value / 2, |value| value * 3 / 2);
        match self {
            Self::Exactly(value) => Self::Between(halves(value), three_halves(value)),
            Self::Between(least, most) => Self::Between(halves(least), three_halves(most)),
            Self::AtLeast(least) => Self::AtLeast(halves(least)),
            Self::AtMost(most) => Self::AtMost(three_halves(most)),
            Self::Nothing => Self::Nothing,
        }
    }

    /// As the page prints it, of a sum over so many.
    pub(crate) fn per(self, count: u64) -> String {
        let mean = |sum| Mean { sum, count };
        match self {
            Self::Exactly(value) => mean(value).to_string(),
            Self::Between(least, most) => format!("{} to {}", mean(least), mean(most)),
            Self::AtLeast(least) => format!("≥ {}", mean(least)),
            Self::AtMost(most) => format!("≤ {}", mean(most)),
            Self::Nothing => "none".to_owned(),
        }
    }
}

/// A mean, to two places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mean {
    pub(crate) sum: u64,
    pub(crate) count: u64,
}

impl Mean {
    pub(crate) fn hundredths(self) -> u64 {
        (self.sum * 100 + self.count / 2) / self.count.max(1)
    }

    pub(crate) fn value(self) -> f64 {
        f64::from(u32::try_from(self.hundredths()).expect("a small number")) / 100.0
    }
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.hundredths() / 100, self.hundredths() % 100);
        match rest {
            0 => write!(f, "{}", grouped(whole)),
            rest if rest % 10 == 0 => write!(f, "{}.{}", grouped(whole), rest / 10),
            rest => write!(f, "{}.{rest:02}", grouped(whole)),
        }
    }
}

/// Several numbers that have the same unit: their mean, and the least and the most of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) least: Mean,
    pub(crate) mean: Mean,
    pub(crate) most: Mean,
}

impl Spread {
    /// Of numbers that are so many units each.
    pub(crate) fn of(numbers: impl IntoIterator<Item = u64>, unit: u64) -> Self {
        let numbers: Vec<u64> = numbers.into_iter().collect();
        let one = |sum: Option<&u64>| Mean { sum: sum.copied().unwrap_or(0), count: unit };
        let mean = Mean { sum: numbers.iter().sum(), count: unit * numbers.len() as u64 };
        Self { least: one(numbers.iter().min()), mean, most: one(numbers.iter().max()) }
    }

    /// Of times, in T.
    pub(crate) fn in_t(times: impl IntoIterator<Item = Duration>) -> Self {
        Self::of(times.into_iter().map(nanos), nanos(T))
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.least.hundredths() == self.most.hundredths() {
            write!(f, "{}", self.mean)
        } else {
            write!(f, "{} ({} to {})", self.mean, self.least, self.most)
        }
    }
}

/// A time in the unit in which all are compared.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a short time")
}

/// With a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_of_what_is_stated_is_not_accepted() {
        let sent = [
            Sent::Exactly(5),
            Sent::Between(4, 5),
            Sent::AtLeast(5),
            Sent::AtMost(5),
            Sent::Nothing,
        ];
        assert_eq!(sent.map(|sent| sent.admits(4)), [false, true, false, true, true]);
        assert_eq!(sent.map(|sent| sent.admits(5)), [true; 5]);
        assert_eq!(sent.map(|sent| sent.admits(6)), [false, false, true, false, true]);
    }

    #[test]
    fn a_bound_from_above_is_one_from_below_of_what_falls() {
        let falling = |sent: Sent| sent.map_falling(|value| 60 / value);
        assert_eq!(falling(Sent::Between(2, 3)), Sent::Between(20, 30));
        assert_eq!(falling(Sent::AtLeast(2)), Sent::AtMost(30));
        assert_eq!(falling(Sent::AtMost(2)), Sent::AtLeast(30));
    }

    #[test]
    fn a_mean_has_two_places_at_most_and_a_comma_for_thousands() {
        let print = |sum, count| Mean { sum, count }.to_string();
        let printed = [print(3, 1), print(5, 2), print(1, 3), print(2, 3), print(1_234_567, 1)];
        assert_eq!(printed, ["3", "2.5", "0.33", "0.67", "1,234,567"]);
        assert_eq!(print(101, 100), "1.01");
    }
}
