//! What the packets of one direction say: a ceiling for the offset, or for its negative.

use std::collections::VecDeque;

use super::estimate::Line;
use super::slope::{Fine, Slope, finely, round_up};

/// The offset is at most `most` when our clock reads `at`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Point {
    pub(super) at: u64,
    pub(super) most: i64,
}

/// The points of one direction, a sixteenth of the window in each block.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Side {
    blocks: VecDeque<Block>,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Block {
    index: u64,
    /// In the order of time. All of them, as long as the block is young.
    points: Vec<Point>,
    /// The slowest that the offset may leave a point of this block for a younger one of the other
    /// direction: `fall` for the ceiling, `rise` for the floor.
    limit: Slope,
    heard: u32,
    is_pruned: bool,
}

/// What a new point means for the points of the other direction.
pub(super) enum Meeting {
    /// The offset may leave it at this rate.
    At(Slope),
    /// A point of the other direction at the same moment forbids it.
    Apart,
}

impl Side {
    /// Compares a new point of the other direction with all of this one.
    pub(super) fn meet(&mut self, point: Point, drift: Slope) -> Meeting {
        let mut onward = drift;
        for block in &mut self.blocks {
            for own in &block.points {
                let room = i128::from(own.most) + i128::from(point.most);
                let limit = match own.at.cmp(&point.at) {
                    std::cmp::Ordering::Less => &mut block.limit,
                    std::cmp::Ordering::Greater => &mut onward,
                    std::cmp::Ordering::Equal if room < 0 => return Meeting::Apart,
                    std::cmp::Ordering::Equal => continue,
                };
                let span = own.at.abs_diff(point.at);
                if limit.is_above(room, span) {
                    *limit = Slope::of_change(room, span);
                }
            }
        }
        Meeting::At(onward)
    }

    /// Adds a point, which the offset may leave at the rate `limit`; not if it is known.
    pub(super) fn add(&mut self, point: Point, length: u64, limit: Slope, newest: u64) -> bool {
        let index = point.at / length;
        let place = self.blocks.partition_point(|block| block.index < index);
        if self.blocks.get(place).is_none_or(|block| block.index != index) {
            self.blocks.insert(place, Block::new(index, limit));
        }
        let is_new = self.blocks[place].add(point, limit);
        for block in &mut self.blocks {
            let is_old = block.index + YOUNG <= newest / length;
            if block.points.len() > POINTS_MAX || (is_old && !block.is_pruned) {
                block.prune(newest);
            }
        }
        is_new
    }

    pub(super) fn forget(&mut self, before: u64) {
        while self.blocks.front().is_some_and(|block| block.index < before) {
            self.blocks.pop_front();
        }
    }

    /// How many samples count.
    pub(super) fn heard(&self, first: u64) -> u32 {
        self.since(first).map(|block| block.heard).fold(0, u32::saturating_add)
    }

    /// The slowest that the offset may leave any point; if there is none, nothing slows it.
    pub(super) fn limit(&self, first: u64) -> Slope {
        let limits = self.since(first).map(|block| block.limit);
        limits.min().unwrap_or(Slope::MAX)
    }

    /// The least that the points allow at a moment, if the offset climbs at `slope` from each.
    pub(super) fn bound(&self, first: u64, at: u64, slope: Slope) -> i128 {
        let points = self.since(first).flat_map(|block| &block.points);
        let bounds =
            points.map(|point| finely(point.most) + slope.fine(at.saturating_sub(point.at)));
        bounds.min().map_or(i128::MAX, round_up)
    }

    /// The lines of the estimate: each point, as a function of the rate.
    pub(super) fn lines(&self, first: u64, at: u64) -> Vec<Line> {
        let points = self.since(first).flat_map(|block| &block.points);
        points.map(|point| Line { base: softened(*point, at), age: at - point.at }).collect()
    }

    fn since(&self, first: u64) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.index >= first)
    }
}

impl Block {
    fn new(index: u64, limit: Slope) -> Self {
        Self { index, points: Vec::new(), limit, heard: 0, is_pruned: false }
    }

    fn add(&mut self, point: Point, limit: Slope) -> bool {
        self.limit = self.limit.min(limit);
        let place = self.points.partition_point(|other| other.at < point.at);
        match self.points.get_mut(place) {
            Some(other) if other.at == point.at && other.most <= point.most => return false,
            Some(other) if other.at == point.at => *other = point,
            Some(_) | None => {
                self.points.insert(place, point);
                self.heard = self.heard.saturating_add(1);
            }
        }
        self.is_pruned = false;
        true
    }

    /// Drops what no line can touch, neither now nor later; the points that are left bound as tightly.
    fn prune(&mut self, now: u64) {
        let mut kept: Vec<Point> = Vec::with_capacity(self.points.len());
        for point in &self.points {
            while let [.., older, middle] = kept.as_slice()
                && is_hidden(*older, *middle, *point, now)
            {
                kept.pop();
            }
            kept.push(*point);
        }
        if kept.len() > POINTS_MAX {
            let mut is_odd = false;
            kept.retain(|_| {
                is_odd = !is_odd;
                is_odd
            });
        }
        self.points = kept;
        self.is_pruned = true;
    }
}

/// Whether the middle one of three points is above the line between the others, with and without
/// what is added for age. What is added bends less with age: what is hidden stays hidden. Points so
/// far apart that the numbers do not fit are kept.
fn is_hidden(older: Point, middle: Point, younger: Point, now: u64) -> bool {
    let spans = [middle.at - older.at, younger.at - middle.at].map(i128::from);
    let is_above = |[first, second, third]: [Fine; 3]| {
        let climb = (second - first).checked_mul(spans[1]);
        climb.zip((third - second).checked_mul(spans[0])).is_some_and(|(here, on)| here >= on)
    };
    let points = [older, middle, younger];
    is_above(points.map(|point| i128::from(point.most)))
        && is_above(points.map(|point| softened(point, now)))
}

/// A point, with what is added to it for its age: a D^1.5.
fn softened(point: Point, now: u64) -> Fine {
    let age = now.saturating_sub(point.at);
    finely(point.most) + i128::from(age) * i128::from(age.isqrt()) * SOFTNESS
}

/// In how many parts the window is.
pub(super) const BLOCKS: u64 = 16;

/// How many blocks, from the newest, keep all their points.
const YOUNG: u64 = 2;

const POINTS_MAX: usize = 64;

/// a: how much the margin grows, 3 x 10^-9 s^-0.5, in 2^-48 ns^-0.5. The rate of a quartz wanders by 1
/// to 10 ppb in a second.
const SOFTNESS: i128 = 27;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    const SECOND: u64 = 1_000_000_000;

    fn lowest(points: &[Point], rate: Slope, now: u64) -> Fine {
        let lines = points.iter().map(|point| softened(*point, now) + rate.fine(now - point.at));
        lines.min().expect("a point")
    }

    #[test]
    fn what_is_hidden_is_touched_by_no_line_now_or_later() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut block = Block::new(0, Slope::MAX);
            for _ in 0..50 {
                let most = random.up_to(1 + random.clone().up_to(1_000)).cast_signed();
                block.add(Point { at: random.up_to(4 * SECOND), most }, Slope::MAX);
            }
            let all = block.points.clone();
            block.prune(8 * SECOND);
            assert!(block.points.len() < 20, "seed {seed}: {} points", block.points.len());
            for now in [8, 9, 20, 64].map(|seconds| seconds * SECOND) {
                for rate in (-200..=200).map(|ppm| Slope::of_units(ppm * 281_474_977)) {
                    let higher = lowest(&block.points, rate, now) - lowest(&all, rate, now);
                    // The root is of whole numbers.
                    assert!(higher < finely(1) / 64, "seed {seed}, at {now}, {rate:?}");
                }
            }
        }
    }
}
