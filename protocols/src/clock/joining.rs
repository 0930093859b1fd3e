//! How a course is slewed to another.

use super::course::{Course, Line};
use super::link::Slope;

/// A course that keeps to a line until `switch`, is slewed from then on, for `least_ns` or longer, and arrives at a
/// target.
pub(super) fn joined(
    first: Line,
    switch: u64,
    least_ns: u64,
    slew: Slope,
    target: &Course,
) -> Course {
    let begins_ns = first.at(switch);
    let apart = i128::from(target.at(switch)) - i128::from(begins_ns);
    let takes = slew.takes(apart.unsigned_abs());
    if takes > HORIZON_NS {
        return never_joined(first, switch, if apart < 0 { slew.negative() } else { slew }, target);
    }
    let meets = switch.saturating_add(if apart == 0 { 0 } else { takes.max(least_ns) });
    // A turn of the target that comes soon after is where they meet.
    let turns = [target.then.raw, target.last.raw];
    let turn =
        turns.into_iter().find(|turn| (meets..=meets.saturating_add(SOON_NS)).contains(turn));
    let meets = turn.unwrap_or(meets);
    let line = target.line(meets).from(meets);
    let Some(span) = meets.checked_sub(switch).filter(|span| *span > 0) else {
        // Nothing to slew, or no clock shows such a reading.
        let last = Line { ns: line.ns.max(begins_ns), ..line };
        return Course { first, then: last, last };
    };
    let gains = i128::from(line.ns) - i128::from(begins_ns) - i128::from(span);
    let then = Line { raw: switch, ns: begins_ns, rate: Slope::of_gain(gains, span) };
    let last = Line { ns: line.ns.max(then.at(meets)), ..line };
    Course { first, then, last }
}

/// The same where the target is too far away to be reached: it is approached for as long as anything is planned.
fn never_joined(first: Line, switch: u64, slew: Slope, target: &Course) -> Course {
    let rate = target.line(switch).rate;
    let then = Line { raw: switch, ns: first.at(switch), rate: rate.plus(slew) };
    let ends = switch.saturating_add(HORIZON_NS);
    Course { first, then, last: Line { raw: ends, ns: then.at(ends), rate } }
}

/// So soon a turn of a target is taken into a plan.
const SOON_NS: u64 = 1_000_000_000;
/// Nothing is planned for longer than a year: clocks and times are far from the largest numbers then.
const HORIZON_NS: u64 = 31_536_000_000_000_000;
