//! Superpeers in a plane: how far each member is from the nearest, by prefixes and by tokens that repel one another.
//!
//! Source: Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.5.3, the second method. Nodes have places in a
//! space of delays. N tokens begin at random nodes. Each exerts a force on those near it that pushes them away; a token
//! whose forces do not cancel out moves to another node in their direction, here only if they are smaller there, or two
//! tokens could chase each other for ever; a node that has held a token for long is a superpeer.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "places, and figures that are printed with two places"
)]

use std::collections::BTreeSet;
use std::f64::consts::FRAC_1_SQRT_2;

use conclave_protocols::election::superpeers::{Key, Superpeers};
use conclave_protocols::random::Random;

/// Where a node is: in a square of side 1 whose opposite sides are one, so that no place is at a border.
#[derive(Clone, Copy)]
struct Place {
    x: f64,
    y: f64,
}

/// How superpeers lie among members.
pub(crate) struct Spread {
    pub(crate) members: u32,
    pub(crate) superpeers: usize,
    /// In hundredths of how far the nearest of as many in a perfect grid would be on average.
    pub(crate) mean: u64,
    pub(crate) most: u64,
    /// Of how many members a superpeer is the nearest, at most, in hundredths of the average.
    pub(crate) load: u64,
}

/// Both methods among the same members.
pub(crate) struct Compared {
    pub(crate) by_prefix: Spread,
    pub(crate) by_tokens: Spread,
    /// How often tokens looked about, and how often one moved.
    pub(crate) rounds: u32,
    pub(crate) moves: u32,
}

/// Ten thousand members, and these shares of superpeers.
pub(crate) fn all() -> Vec<Compared> {
    [1, 10].map(|share| compare(10_000, share)).into()
}

fn compare(members: u32, share_percent: u8) -> Compared {
    let mut random = Random::new(u64::from(share_percent));
    let places: Vec<Place> =
        (0..members).map(|_| Place { x: unit(&mut random), y: unit(&mut random) }).collect();
    let ids: Vec<Key> = (0..members).map(|member| Key::of(&format!("peer-{member}"))).collect();
    let selected = Superpeers::among(&ids, share_percent);
    let by_prefix: Vec<usize> = selected.all().iter().map(|one| one.0 as usize).collect();
    let mut tokens = Tokens::new(&places, by_prefix.len(), &mut random);
    let rounds = tokens.settle();
    let by_tokens: Vec<usize> = tokens.holders.iter().copied().collect();
    assert_eq!(by_tokens.len(), by_prefix.len(), "no token is lost, and none is made");
    let (by_prefix, by_tokens) = (spread(&places, &by_prefix), spread(&places, &by_tokens));
    assert!(by_tokens.mean < by_prefix.mean, "tokens bring superpeers nearer on average");
    assert!(by_tokens.most < by_prefix.most, "and nearer to the member that is farthest away");
    assert!(by_tokens.load < by_prefix.load, "and share the members out more evenly");
    assert!(by_prefix.load <= LOAD_BY_PREFIX, "{}", by_prefix.load);
    assert!(by_tokens.load <= LOAD_BY_TOKENS, "{}", by_tokens.load);
    Compared { by_prefix, by_tokens, rounds, moves: tokens.moves }
}

/// Tokens, each at a node of its own.
struct Tokens<'a> {
    places: &'a [Place],
    holders: BTreeSet<usize>,
    moves: u32,
    /// How far tokens would be from one another in a perfect grid.
    apart: f64,
    /// The nodes of each square of a grid whose sides are no shorter than that, row by row.
    squares: Vec<Vec<usize>>,
    side: usize,
}

impl<'a> Tokens<'a> {
    fn new(places: &'a [Place], count: usize, random: &mut Random) -> Self {
        let mut holders = BTreeSet::new();
        while holders.len() < count {
            holders.insert(usize::try_from(random.up_to(places.len() as u64)).expect("small"));
        }
        let side = count.isqrt();
        let mut squares = vec![vec![]; side * side];
        for (node, place) in places.iter().enumerate() {
            let (column, row) = square(*place, side);
            squares[row * side + column].push(node);
        }
        let apart = (count as f64).sqrt().recip();
        Self { places, holders, moves: 0, apart, squares, side }
    }

    /// The nodes of the square of a place and of those around it.
    fn near(&self, place: Place) -> impl Iterator<Item = usize> {
        let (column, row) = square(place, self.side);
        let around = |at: usize| [at + self.side - 1, at, at + 1].map(|at| at % self.side);
        let all = around(row).into_iter().flat_map(move |row| {
            around(column).into_iter().map(move |column| row * self.side + column)
        });
        all.flat_map(|square| self.squares[square].iter().copied())
    }

    /// Rounds until every token has stayed for long.
    fn settle(&mut self) -> u32 {
        let mut still = 0;
        for round in 1..=ROUNDS_MAX {
            let count = self.holders.len();
            still = if self.round() == 0 { still + 1 } else { 0 };
            assert_eq!(self.holders.len(), count, "no token is lost, and none is made");
            if still == STAYS {
                return round;
            }
        }
        panic!("after {ROUNDS_MAX} rounds tokens still move")
    }

    /// Each token looks about, one after the other. Returns how many moved.
    fn round(&mut self) -> u32 {
        let before = self.moves;
        for holder in self.holders.iter().copied().collect::<Vec<_>>() {
            let (x, y) = self.force(holder, holder);
            let size = x.hypot(y);
            if size <= THRESHOLD {
                continue;
            }
            let next = self.next(holder, (x / size, y / size));
            let less = |next: &usize| {
                let (x, y) = self.force(holder, *next);
                x.hypot(y) < size
            };
            if let Some(next) = next.filter(less) {
                self.holders.remove(&holder);
                self.holders.insert(next);
                self.moves += 1;
            }
        }
        self.moves - before
    }

    /// The sum of the forces on the token of a node, if it were at another.
    fn force(&self, holder: usize, at: usize) -> (f64, f64) {
        let mut force = (0.0, 0.0);
        for other in self.holders.iter().filter(|other| **other != holder) {
            let (dx, dy) = between(self.places[*other], self.places[at]);
            let far = dx.hypot(dy) / self.apart;
            if far < REACH {
                // It falls with the distance to nothing, and is 1 if two are at one place.
                let push = (1.0 - far / REACH).powi(2) / far.max(f64::EPSILON) / self.apart;
                force = (force.0 + dx * push, force.1 + dy * push);
            }
        }
        force
    }

    /// The nearest node in a direction that has no token.
    fn next(&self, holder: usize, (x, y): (f64, f64)) -> Option<usize> {
        let nearest = |node: &usize| {
            let (dx, dy) = between(self.places[holder], self.places[*node]);
            let far = dx.hypot(dy);
            let is_there = far > 0.0 && (dx * x + dy * y) / far >= FRAC_1_SQRT_2;
            (is_there && far < self.apart).then_some(far)
        };
        let there = self.near(self.places[holder]).filter_map(|node| Some((nearest(&node)?, node)));
        let there = there.filter(|(_, node)| !self.holders.contains(node));
        there.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, node)| node)
    }
}

/// In which column and row of a grid of so many a place is.
fn square(place: Place, side: usize) -> (usize, usize) {
    let of = |at: f64| ((at * side as f64) as usize).min(side - 1);
    (of(place.x), of(place.y))
}

fn spread(places: &[Place], superpeers: &[usize]) -> Spread {
    let mut load = vec![0_u64; superpeers.len()];
    let (mut sum, mut most) = (0.0_f64, 0.0_f64);
    for place in places {
        let far = |superpeer: &usize| {
            let (x, y) = between(*place, places[*superpeer]);
            x.hypot(y)
        };
        let distances = superpeers.iter().map(far).enumerate();
        let (nearest, far) =
            distances.min_by(|one, other| one.1.total_cmp(&other.1)).expect("somebody");
        load[nearest] += 1;
        sum += far;
        most = most.max(far);
    }
    // In a grid of squares of side s: the mean distance to the middle of a square of side 1 is 0.38260.
    let ideal = (superpeers.len() as f64).sqrt().recip() * TO_THE_MIDDLE;
    let hundredths = |value: f64| (value * 100.0).round() as u64;
    let members = places.len() as f64;
    let heaviest = load.into_iter().max().unwrap_or(0);
    Spread {
        members: u32::try_from(places.len()).expect("small"),
        superpeers: superpeers.len(),
        mean: hundredths(sum / members / ideal),
        most: hundredths(most / ideal),
        load: hundredths(heaviest as f64 * superpeers.len() as f64 / members),
    }
}

/// The way from one place to another, the shorter way round.
fn between(from: Place, to: Place) -> (f64, f64) {
    let shorter = |way: f64| way - way.round();
    (shorter(to.x - from.x), shorter(to.y - from.y))
}

/// A number from 0 to 1.
fn unit(random: &mut Random) -> f64 {
    (random.draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The most members that have one superpeer as the nearest, in hundredths of the mean, as the page states it.
pub(crate) const LOAD_BY_PREFIX: u64 = 400;
pub(crate) const LOAD_BY_TOKENS: u64 = 250;
/// How far a force reaches, in distances of a grid.
const REACH: f64 = 2.0;
/// A force that is no larger moves no token.
const THRESHOLD: f64 = 0.3;
/// So many rounds without a move are long.
const STAYS: u32 = 3;
const ROUNDS_MAX: u32 = 100;
/// ∫∫ √(x² + y²) over a square of side 1 around the origin: (√2 + ln(1 + √2)) / 6.
const TO_THE_MIDDLE: f64 = 0.382_597_858_232_106;
