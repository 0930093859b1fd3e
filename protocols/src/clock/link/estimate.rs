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

/// Searches between two rates. The gap is concave in the rate, and its slope is the difference of the
/// ages of the two points that are touched: halving finds the top.
pub(super) fn widest(ceiling: &[Line], floor: &[Line], least: Slope, most: Slope) -> Best {
    let (mut low, mut high) = (least.units(), most.units());
    loop {
        let rate = low.midpoint(high);
        let up = lowest(ceiling, Slope::of_units(rate));
        let down = lowest(floor, Slope::of_units(rate).negative());
        if high - low <= 1 || up.age == down.age {
            return Best {
                offset: (up.base - down.base) >> (BITS + 1),
                rate: Slope::of_units(rate),
                gap: (up.base + down.base) >> BITS,
            };
        }
        if up.age > down.age {
            low = rate;
        } else {
            high = rate;
        }
    }
}

/// The line that is lowest at a rate, and how low.
fn lowest(lines: &[Line], rate: Slope) -> Line {
    let mut lowest = Line { base: Fine::MAX, age: 0 };
    for line in lines {
        let base = line.base + rate.fine(line.age);
        if base < lowest.base {
            lowest = Line { base, age: line.age };
        }
    }
    lowest
}
