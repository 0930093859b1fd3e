//! The line with the widest margin between the stamps of the two directions.

use super::slope::{BITS, Fine, Slope};

/// A point's value now, as a function of the rate: `base` + rate x `age`.
#[derive(Clone, Copy)]
pub(super) struct Line {
    pub(super) base: Fine,
    pub(super) age: u64,
}

/// The middle of the widest gap.
pub(super) struct Best {
    pub(super) offset: i128,
    pub(super) rate: Slope,
    pub(super) gap: i128,
}

/// Searches between two rates. The gap is concave in the rate, and each rate gives the line that it
/// touches there: the top is not above the crossing of a line that climbs and of one that falls. Every
/// second step halves, lest many lines be nearly the same.
pub(super) fn widest(ceiling: &[Line], floor: &[Line], least: Slope, most: Slope) -> Best {
    let touch = |rate: i64| Touch::new(ceiling, floor, rate);
    let (mut left, mut right) = (touch(least.units()), touch(most.units()));
    if left.slope() <= 0 {
        return left.best();
    }
    if right.slope() >= 0 {
        return right.best();
    }
    loop {
        let here = touch(left.crossing(&right));
        if here.slope() == 0 || here.is_on_line_of(&left) || here.is_on_line_of(&right) {
            return here.best();
        }
        here.replace(&mut left, &mut right);
        if right.rate - left.rate <= 1 {
            return left.best();
        }
        touch(left.rate.midpoint(right.rate)).replace(&mut left, &mut right);
    }
}

/// What holds the gap open at a rate: the lowest line of the ceiling and the highest of the floor.
#[derive(Clone, Copy)]
struct Touch {
    rate: i64,
    up: Line,
    down: Line,
}

impl Touch {
    fn new(ceiling: &[Line], floor: &[Line], rate: i64) -> Self {
        let up = lowest(ceiling, Slope::of_units(rate));
        Self { rate, up, down: lowest(floor, Slope::of_units(rate).negative()) }
    }

    fn slope(&self) -> i128 {
        i128::from(self.up.age) - i128::from(self.down.age)
    }

    /// How wide the gap would be at the rate 0.
    fn intercept(&self) -> Fine {
        self.up.base + self.down.base
    }

    fn crossing(&self, other: &Self) -> i64 {
        let rate = (other.intercept() - self.intercept()).div_euclid(self.slope() - other.slope());
        let rate = i64::try_from(rate).unwrap_or(self.rate);
        rate.clamp(self.rate, other.rate)
    }

    fn is_on_line_of(&self, other: &Self) -> bool {
        self.slope() == other.slope() && self.intercept() == other.intercept()
    }

    fn replace(self, left: &mut Self, right: &mut Self) {
        *(if self.slope() > 0 { left } else { right }) = self;
    }

    fn best(&self) -> Best {
        let rate = Slope::of_units(self.rate);
        let high = self.up.base + rate.fine(self.up.age);
        let negative_low = self.down.base - rate.fine(self.down.age);
        Best {
            offset: (high - negative_low) >> (BITS + 1),
            rate,
            gap: (high + negative_low) >> BITS,
        }
    }
}

/// The line that is lowest at a rate.
fn lowest(lines: &[Line], rate: Slope) -> Line {
    let mut lowest = (Fine::MAX, Line { base: 0, age: 0 });
    for line in lines {
        let height = line.base + rate.fine(line.age);
        if height < lowest.0 {
            lowest = (height, *line);
        }
    }
    lowest.1
}
