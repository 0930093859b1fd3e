//! The laws of logical clocks, over all short histories of three processes, and over random ones of more, whose messages
//! are lost, repeated and overtaken.
//!
//! What happened before an event is kept as a set of events beside the clocks, by the definition alone; the stamps are
//! held against it.

use conclave_protocols::logical::hybrid::{self, HybridTime, PhysicalTime};
use conclave_protocols::logical::{Count, Order, ProcessId, lamport, vector};
use conclave_protocols::random::Random;

/// Histories that are looked at.
const HISTORIES: u64 = 200;

/// Events of a history: a set of them fits 128 bits.
const EVENTS: usize = 120;

/// How far a physical clock may be from the true time, in units.
const BOUND: u64 = 12;

/// One event, its stamps, and the events that happened before it.
struct Event {
    process: usize,
    before: u128,
    pt: u64,
    lamport: lamport::Stamp,
    vector: vector::Stamp,
    hybrid: hybrid::Stamp,
}

struct Process {
    lamport: lamport::Clock,
    vector: vector::Clock,
    hybrid: hybrid::Clock,
    pt: u64,
    latest: Option<usize>,
}

struct World {
    _seed: Seed,
    random: Random,
    now: u64,
    processes: Vec<Process>,
    events: Vec<Event>,
    /// The events that sent what is under way.
    under_way: Vec<usize>,
}

/// The number that a history was drawn from. If its test fails, it is printed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

impl World {
    fn run(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let count = 2 + random.up_to(4);
        let mut world = Self::new(seed, random, count);
        while world.events.len() < EVENTS {
            world.step();
        }
        world
    }

    fn new(seed: u64, random: Random, processes: u64) -> Self {
        Self {
            _seed: Seed(seed),
            random,
            now: 1_000_000,
            processes: (0..processes).map(process).collect(),
            events: Vec::new(),
            under_way: Vec::new(),
        }
    }

    /// One of all histories of so many events of three processes: each event of each process is one of its own, or receives
    /// what any earlier one sent, an event of its own process, and one that was received before.
    fn short(number: u64, events: u64) -> Self {
        let mut world = Self::new(number, Random::new(number), 3);
        let mut left = number;
        for earlier in 0..events {
            let choices = 3 * (1 + earlier);
            let choice = usize::try_from(left % choices).expect("few");
            left /= choices;
            world.now += world.random.up_to(3);
            world.event(choice % 3, (choice / 3).checked_sub(1));
        }
        world
    }

    fn step(&mut self) {
        // Many events fall on one unit, and now and then nothing happens for long.
        self.now += if self.random.once_in(20) { 200 } else { self.random.up_to(3) };
        let mine = self.pick(self.processes.len());
        let received = match self.random.up_to(3) {
            0 => None,
            _ if self.under_way.is_empty() => None,
            _ => {
                let place = self.pick(self.under_way.len());
                let sent = self.under_way[place];
                // One in four is repeated; what is never picked is lost.
                if !self.random.once_in(4) {
                    self.under_way.swap_remove(place);
                }
                Some(sent)
            }
        };
        self.event(mine, received);
        if !self.random.once_in(3) {
            self.under_way.push(self.events.len() - 1);
        }
    }

    /// An event of one process, which receives what another event sent, or nothing.
    fn event(&mut self, mine: usize, received: Option<usize>) {
        let shown = self.now - BOUND + self.random.up_to(2 * BOUND + 1);
        let process = &mut self.processes[mine];
        // A physical clock moves between two events, as the source has it.
        process.pt = shown.max(process.pt + 1).min(self.now + BOUND);
        let (pt, latest) = (physical(process.pt), physical(self.now + BOUND));
        let sent = received.map(|event| &self.events[event]);
        let (lamport, vector, hybrid) = match sent {
            None => (
                process.lamport.tick(),
                process.vector.tick().map_err(Into::into),
                process.hybrid.tick(pt).map_err(Into::into),
            ),
            Some(sent) => (
                process.lamport.receive(&sent.lamport),
                process.vector.receive(&sent.vector),
                process.hybrid.receive(pt, latest, &sent.hybrid),
            ),
        };
        let causes = [process.latest, received].into_iter().flatten();
        let before = causes.fold(0, |all, cause| all | self.events[cause].before | (1 << cause));
        process.latest = Some(self.events.len());
        self.events.push(Event {
            process: mine,
            before,
            pt: process.pt,
            lamport: lamport.expect("few events"),
            vector: vector.expect("few processes"),
            hybrid: hybrid.expect("within the bound"),
        });
    }

    fn pick(&mut self, from: usize) -> usize {
        usize::try_from(self.random.up_to(from as u64)).expect("it is smaller")
    }

    fn happened_before(&self, one: usize, other: usize) -> bool {
        (self.events[other].before >> one) & 1 == 1
    }

    /// What is so by the definition.
    fn order(&self, one: usize, other: usize) -> Order {
        match (self.happened_before(one, other), self.happened_before(other, one)) {
            _ if one == other => Order::Equal,
            (true, _) => Order::Before,
            (_, true) => Order::After,
            (false, false) => Order::Concurrent,
        }
    }
}

fn process(number: u64) -> Process {
    let name = ProcessId::try_from(format!("p{number}")).expect("a name");
    Process {
        lamport: lamport::Clock::new(name.clone()),
        vector: vector::Clock::new(name.clone()),
        hybrid: hybrid::Clock::new(name),
        pt: 0,
        latest: None,
    }
}

fn physical(units: u64) -> PhysicalTime {
    // A unit is 15,258.789 ns, so this is rounded up to exactly that many.
    let ns = (u128::from(units) * 1_000_000_000) >> 16;
    let time = PhysicalTime::of_nanos(i64::try_from(ns).expect("near 1970"));
    assert_eq!(time.units(), units);
    time
}

/// All laws on the order of stamps.
fn keeps_the_laws(world: &World) {
    for one in 0..world.events.len() {
        for other in 0..world.events.len() {
            let (a, b) = (&world.events[one], &world.events[other]);
            let order = world.order(one, other);
            assert_eq!(a.vector.compare(&b.vector), order, "{one} {other}");
            for total in [a.lamport.compare(&b.lamport), a.hybrid.compare(&b.hybrid)] {
                assert_ne!(total, Order::Concurrent, "{one} {other}");
                assert_eq!(total == Order::Equal, one == other, "{one} {other}");
                assert!(order == Order::Concurrent || total == order, "{one} {other}");
            }
        }
    }
}

#[test]
fn all_histories_of_five_events_of_three_processes_keep_the_laws() {
    let all: u64 = (0..5).map(|earlier| 3 * (1 + earlier)).product();
    assert_eq!(all, 29_160);
    for number in 0..all {
        keeps_the_laws(&World::short(number, 5));
    }
}

/// Looks at each pair of events of each history.
fn of_each_pair(law: impl Fn(&World, usize, usize, Order)) {
    for seed in 0..HISTORIES {
        let world = World::run(seed);
        for one in 0..EVENTS {
            for other in 0..EVENTS {
                law(&world, one, other, world.order(one, other));
            }
        }
    }
}

#[test]
fn the_histories_have_what_the_laws_are_about() {
    let mut counts = [0_usize; 3];
    of_each_pair(|_, one, other, order| assert_eq!(one == other, order == Order::Equal));
    for seed in 0..HISTORIES {
        let world = World::run(seed);
        for event in &world.events {
            counts[0] += usize::from(event.hybrid.time.c() > 0);
            counts[1] += usize::from(event.hybrid.time.l().units() > event.pt);
        }
        counts[2] += (0..EVENTS)
            .filter(|event| world.order(EVENTS / 2, *event) == Order::Concurrent)
            .count();
    }
    assert!(counts.iter().all(|count| *count > 1_000), "{counts:?}");
}

#[test]
fn what_happened_before_has_the_smaller_stamp_by_every_clock() {
    of_each_pair(|world, one, other, order| {
        if order == Order::Before {
            let (a, b) = (&world.events[one], &world.events[other]);
            assert!(a.lamport.counter < b.lamport.counter, "{one} {other}");
            assert_eq!(a.vector.compare(&b.vector), Order::Before, "{one} {other}");
            assert!(a.hybrid.time < b.hybrid.time, "{one} {other}");
        }
    });
}

#[test]
fn vectors_show_exactly_what_happened_before_and_what_is_concurrent() {
    of_each_pair(|world, one, other, order| {
        let compared = world.events[one].vector.compare(&world.events[other].vector);
        assert_eq!(compared, order, "{one} {other}");
    });
}

#[test]
fn lamport_and_hybrid_stamps_are_a_total_order_of_different_stamps() {
    of_each_pair(|world, one, other, _| {
        let (a, b) = (&world.events[one], &world.events[other]);
        let is_same = one == other;
        for order in [a.lamport.compare(&b.lamport), a.hybrid.compare(&b.hybrid)] {
            assert_eq!(order == Order::Equal, is_same, "{one} {other}");
            assert_ne!(order, Order::Concurrent);
        }
    });
}

/// The converse does not hold: such pairs are found.
#[test]
fn concurrent_events_have_ordered_stamps_by_the_clocks_that_do_not_see_it() {
    let found = std::cell::Cell::new([0; 2]);
    of_each_pair(|world, one, other, order| {
        let (a, b) = (&world.events[one], &world.events[other]);
        let mut counts = found.get();
        counts[0] +=
            usize::from(order == Order::Concurrent && a.lamport.counter < b.lamport.counter);
        counts[1] += usize::from(order == Order::Concurrent && a.hybrid.time < b.hybrid.time);
        found.set(counts);
    });
    assert!(found.get().iter().all(|count| *count > 10_000), "{:?}", found.get());
}

/// Theorems 2 and 3 of the source: l is the physical clock of an event that this one knows of, so it is no earlier than
/// its own, and no later than two clocks can differ.
#[test]
fn the_time_of_a_hybrid_stamp_is_near_that_of_its_physical_clock() {
    for seed in 0..HISTORIES {
        let world = World::run(seed);
        for (number, event) in world.events.iter().enumerate() {
            let l = event.hybrid.time.l().units();
            let known = |one: &usize| *one == number || world.happened_before(*one, number);
            let latest = (0..EVENTS).filter(known).map(|one| world.events[one].pt).max();
            assert_eq!(Some(l), latest, "seed {seed}, event {number}");
            assert!((event.pt..=event.pt + 2 * BOUND).contains(&l), "seed {seed}, event {number}");
        }
    }
}

/// Theorem 4 and its corollary: c counts events that happened before at the same l, and a process has at most one for
/// each unit by which clocks can differ.
#[test]
fn the_count_of_a_hybrid_stamp_is_bounded_by_the_events_at_its_time() {
    for seed in 0..HISTORIES {
        let world = World::run(seed);
        for (number, event) in world.events.iter().enumerate() {
            let (l, c) = (event.hybrid.time.l(), event.hybrid.time.c());
            let at_the_same = |one: &usize| {
                world.happened_before(*one, number) && world.events[*one].hybrid.time.l() == l
            };
            let events = (0..EVENTS).filter(at_the_same).count() as u64;
            assert!(c <= events, "seed {seed}, event {number}: {c} > {events}");
            let bound = world.processes.len() as u64 * (2 * BOUND + 1);
            assert!(c <= bound, "seed {seed}, event {number}: {c}");
        }
    }
}

#[test]
fn each_process_knows_the_most_of_its_own_events() {
    for seed in 0..HISTORIES {
        let world = World::run(seed);
        let mut counted = vec![0; world.processes.len()];
        for event in &world.events {
            counted[event.process] += 1;
            for (number, count) in counted.iter().enumerate() {
                let name = ProcessId::try_from(format!("p{number}")).expect("a name");
                let known = event.vector.of(&name).get();
                let is_own = number == event.process;
                assert!(if is_own { known == *count } else { known <= *count }, "seed {seed}");
            }
        }
    }
}

/// What came of the stamps of strangers.
#[derive(Default)]
struct Came {
    received: usize,
    refused: usize,
    ended: usize,
}

/// Whatever a stranger sends, a clock gives rising stamps or none, and one that it refuses leaves it as it was.
#[test]
fn no_foreign_stamp_makes_a_clock_panic_or_go_back() {
    let (mut lamports, mut hybrids) = (Came::default(), Came::default());
    for seed in 0..HISTORIES {
        let _named = Seed(seed);
        let mut random = Random::new(seed);
        let mut mine = process(0);
        let mut now = 1_000_000;
        for _ in 0..50 {
            let counter = foreign_count(&mut random);
            a_foreign_count(&mut mine, counter, &mut lamports);
            now += random.up_to(3);
            // Wild times are refused, and so are those that are just too late.
            let l =
                if random.once_in(3) { random.draw() >> 16 } else { now - 20 + random.up_to(50) };
            let c = if random.once_in(4) { 0xffff - random.up_to(2) } else { random.up_to(9) };
            let pt = physical(now - BOUND + random.up_to(2 * BOUND));
            a_foreign_time(
                &mut mine,
                pt,
                physical(now + BOUND),
                HybridTime((l << 16) | c),
                &mut hybrids,
            );
        }
    }
    let Came { received, ended, .. } = lamports;
    assert!(received > 8_000 && ended > 100, "{received} {ended}");
    let Came { received, refused, .. } = hybrids;
    assert!(received > 3_000 && refused > 3_000, "{received} {refused}");
}

/// Now and then one that is at the end, or nearly.
fn foreign_count(random: &mut Random) -> Count {
    let number = match random.up_to(200) {
        0 => Count::MAX.get() - random.up_to(3),
        1..100 => random.up_to(1_000),
        _ => (random.draw() >> 12) >> random.up_to(52),
    };
    Count::new(number).expect("52 bits")
}

fn stranger() -> ProcessId {
    ProcessId::try_from("stranger".to_owned()).expect("a name")
}

/// A Lamport and a vector clock receive that count, and step.
fn a_foreign_count(mine: &mut Process, counter: Count, came: &mut Came) {
    let (lamport, vector) = (mine.lamport.now(), mine.vector.now());
    let sent = lamport::Stamp { counter, process: stranger() };
    if let Ok(next) = mine.lamport.receive(&sent) {
        assert_eq!(next.counter.get(), counter.max(lamport.counter).get() + 1);
        came.received += 1;
    } else {
        assert!(counter.max(lamport.counter) == Count::MAX);
        assert_eq!(mine.lamport.now(), lamport);
        came.ended += 1;
    }
    let lamport = mine.lamport.now();
    match mine.lamport.tick() {
        Ok(next) => assert!(next > lamport),
        Err(_) => assert_eq!(mine.lamport.now(), lamport),
    }
    let sent = vector::Stamp::new([(stranger(), counter)]).expect("one");
    let next = mine.vector.receive(&sent).expect("it counts events of its own");
    assert_eq!(vector.compare(&next), Order::Before);
    assert_eq!(next.of(&stranger()), counter.max(vector.of(&stranger())));
}

/// A hybrid clock receives that time, and steps.
fn a_foreign_time(
    mine: &mut Process,
    pt: PhysicalTime,
    latest: PhysicalTime,
    time: HybridTime,
    came: &mut Came,
) {
    let before = mine.hybrid.now();
    let sent = hybrid::Stamp { time, process: stranger() };
    match mine.hybrid.receive(pt, latest, &sent) {
        Ok(next) => {
            assert!(time.l() <= latest);
            assert!(next.time > before.time && next.time > time && next.time.l() >= pt);
            came.received += 1;
        }
        Err(error) => {
            let units = time.l().units().checked_sub(latest.units()).expect("it is later");
            assert_eq!(error, hybrid::Ahead { units }.into());
            assert_eq!(mine.hybrid.now(), before);
            came.refused += 1;
        }
    }
    let before = mine.hybrid.now();
    assert!(mine.hybrid.tick(pt).expect("the end is far") > before);
}
