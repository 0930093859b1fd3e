//! Seeded runs of a lock: members enter and leave at random, give up, and messages take their time.
//!
//! After every single thing that happens the laws are looked at. In the end everybody asks once
//! more, nobody gives up, and all must enter.

use std::collections::BTreeSet;
use std::time::Duration;

use conclave_protocols::mutex::{Carried, Command, Event, Mutex, Phase};
use conclave_protocols::random::Random;
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Epoch, MemberId, View};

use crate::any::Lock;
use crate::ledger::Ledger;
use crate::support::Subject;

/// What a seed showed to be broken.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Broken {
    /// Several are in the critical section.
    SeveralInSection,
    /// An application was notified of what is not so, or not notified of what is.
    Misled,
    /// Somebody is in the critical section before its turn.
    OutOfTurn,
    /// Somebody was overtaken more often than promised.
    OvertakenTooOften,
    /// These did not enter.
    Waits(BTreeSet<MemberId>),
}

/// What happened.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Tally {
    pub(crate) entries: u64,
    /// Entries while another waited.
    pub(crate) contended: u64,
    pub(crate) given_up: u64,
}

/// Runs a thousand seeds, and sees to it that something happened in them.
pub(crate) fn blow<P: Subject + Mutex>(lock: &Lock<P>) {
    blow_at_least(lock, Tally { entries: 10, contended: 5, given_up: 1 });
}

/// The same for a lock that admits fewer: more than this must happen in a run, on average.
pub(crate) fn blow_at_least<P: Subject + Mutex>(lock: &Lock<P>, least: Tally) {
    if let Some(seed) = wanted() {
        return assert_eq!(run(lock, seed).err(), None, "seed {seed}");
    }
    let mut all = Tally::default();
    for seed in 0..SEEDS {
        match run(lock, seed) {
            Ok(seen) => {
                all.entries += seen.entries;
                all.contended += seen.contended;
                all.given_up += seen.given_up;
            }
            Err(broken) => panic!("seed {seed}: {broken:?}; CONCLAVE_SEED={seed} runs it alone"),
        }
    }
    let enough = all.entries > least.entries * SEEDS
        && all.contended > least.contended * SEEDS
        && all.given_up > least.given_up * SEEDS;
    assert!(enough, "too little happened: {all:?}");
}

/// One seed.
pub(crate) fn run<P: Subject + Mutex>(lock: &Lock<P>, seed: u64) -> Result<Tally, Broken> {
    let mut run = Run::new(lock, seed);
    run.look()?;
    for _ in 0..ACTS {
        run.pass()?;
        run.act();
        run.look()?;
    }
    run.let_everybody_in()?;
    Ok(Tally { given_up: run.ledger.given_up().into(), ..run.tally })
}

struct Run<'a, P: Subject + Mutex> {
    lock: &'a Lock<P>,
    view: View,
    random: Random,
    sim: Simulator<P>,
    /// Between two acts, at most.
    pace: Duration,
    ledger: Ledger,
    tally: Tally,
}

impl<'a, P: Subject + Mutex> Run<'a, P> {
    fn new(lock: &'a Lock<P>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let size = 2 + u32::try_from(random.up_to(7)).expect("below seven");
        let view = View { epoch: Epoch(1), size, leader: MemberId(size - 1) };
        let carried = carried(&mut random, view);
        let mut sim = Simulator::new(seed);
        let most = SHORTEST + random.below(LONGEST);
        sim.set_delay(SHORTEST, most);
        for _ in 0..2 {
            let [from, to] = [(); 2].map(|()| any_member(&mut random, view));
            sim.slow(from, to, SHORTEST, most * 8);
        }
        let pace = most * [1, 4][usize::from(random.once_in(2))];
        for me in view.members() {
            sim.add(me, lock.member(me, view, &carried));
        }
        let ledger = Ledger::new(&carried, lock.promises.since());
        Self { lock, view, random, sim, pace, ledger, tally: Tally::default() }
    }

    /// Some member enters or leaves, or gives up, or goes on with what it does.
    fn act(&mut self) {
        let member = any_member(&mut self.random, self.view);
        match self.ledger.phase(member) {
            Phase::Idle => self.ask(member, Command::Enter),
            Phase::Waiting if self.random.once_in(4) => self.ask(member, Command::Exit),
            Phase::InSection => self.ask(member, Command::Exit),
            Phase::Waiting => {}
        }
    }

    fn ask(&mut self, member: MemberId, command: Command) {
        self.ledger.asks(member, command, self.lock.promises.since());
        self.sim.command(member, command);
    }

    /// Time passes.
    fn pass(&mut self) -> Result<(), Broken> {
        let end = self.sim.now() + self.random.below(self.pace);
        while self.sim.step_until(end) {
            self.look()?;
        }
        self.sim.run_for(end.saturating_sub(self.sim.now()));
        Ok(())
    }

    /// Everybody asks once more, and leaves when it is in the critical section.
    fn let_everybody_in(&mut self) -> Result<(), Broken> {
        let mut wanting: BTreeSet<MemberId> = self.view.members().collect();
        let end = self.sim.now() + PATIENCE;
        while !wanting.is_empty() && self.sim.now() < end {
            for member in self.view.members() {
                match self.ledger.phase(member) {
                    Phase::Idle if wanting.contains(&member) => self.ask(member, Command::Enter),
                    Phase::InSection => {
                        wanting.remove(&member);
                        self.ask(member, Command::Exit);
                    }
                    Phase::Idle | Phase::Waiting => {}
                }
                self.look()?;
            }
            self.pass()?;
        }
        if wanting.is_empty() { Ok(()) } else { Err(Broken::Waits(wanting)) }
    }

    /// The laws.
    fn look(&mut self) -> Result<(), Broken> {
        for (_, member, event) in self.sim.take_notified() {
            self.ledger.hears(member, event, self.lock.promises.since());
            if event == Event::Entered {
                let mut members = self.view.members();
                self.tally.entries += 1;
                let contended = members.any(|other| self.ledger.phase(other) == Phase::Waiting);
                self.tally.contended += u64::from(contended);
            }
        }
        let members: Vec<(MemberId, &P)> = self.sim.nodes().collect();
        let in_section = members.iter().filter(|(_, member)| member.phase() == Phase::InSection);
        if in_section.count() > 1 {
            Err(Broken::SeveralInSection)
        } else if !self.ledger.is_so(members.iter().map(|(id, member)| (*id, member.phase()))) {
            Err(Broken::Misled)
        } else if !self.lock.promises.keeps_order(members.iter().map(|(_, member)| *member)) {
            Err(Broken::OutOfTurn)
        } else if !self.lock.promises.keeps_bound(&self.ledger, self.view.size) {
            Err(Broken::OvertakenTooOften)
        } else {
            Ok(())
        }
    }
}

fn any_member(random: &mut Random, view: View) -> MemberId {
    MemberId(u32::try_from(random.up_to(view.size.into())).expect("a rank"))
}

/// Holder and waiters of the view before: nobody, or any of them in any order.
fn carried(random: &mut Random, view: View) -> Carried {
    if random.once_in(2) {
        return Carried::default();
    }
    let mut order: Vec<MemberId> = view.members().collect();
    for place in 1..order.len() {
        let other = random.up_to(place as u64 + 1);
        order.swap(place, usize::try_from(other).expect("a place"));
    }
    let holder = if random.once_in(3) { None } else { order.pop() };
    let waiting = random.up_to(order.len() as u64 + 1);
    order.truncate(usize::try_from(waiting).expect("a place"));
    Carried { holder, waiting: order }
}

/// One seed that somebody wants to see.
#[expect(clippy::disallowed_methods, reason = "a test may be told what to show")]
fn wanted() -> Option<u64> {
    std::env::var("CONCLAVE_SEED").ok().and_then(|seed| seed.parse().ok())
}

const SEEDS: u64 = 1_000;

const ACTS: usize = 60;

const SHORTEST: Duration = Duration::from_millis(1);

const LONGEST: Duration = Duration::from_millis(100);

/// How long it may take until all that ask at the same time have entered.
const PATIENCE: Duration = Duration::from_secs(600);
