//! Two members of a group, a program of client-go, and an API server, in simulated time: messages that are late or
//! lost, crashes, pauses, clocks that drift, and somebody who edits the Lease besides.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::beliefs::Belief;
use super::client_go::{Asks, ClientGo, Config, Stamps};
use super::clocks::Clock;
use super::*;

/// Time as nobody's clock shows it, in nanoseconds.
pub(super) type True = u64;

pub(super) const SECOND: True = 1_000_000_000;

/// The members are 0 and 1.
const PROGRAM: usize = 2;

/// For how long the hold of a member that vanished keeps others out.
const HOLD: True = 1_500_000_000;

/// What the world may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    pub(super) stamps: Stamps,
    pub(super) config: Config,
    /// How much faster than true time the fastest clock runs, in parts per million; the slowest is as much slower.
    pub(super) drift_ppm: u64,
    /// The group has an arbiter: grants have tokens, and exclude one another.
    pub(super) arbiter: bool,
}

#[derive(Clone, Debug)]
enum Happens {
    /// Somebody's timer, for a life of it.
    Wakes(usize, u64),
    Arrives(usize, u64, u64, Asks),
    Answered(usize, u64, u64, Outcome),
    Granted(usize, u64),
    /// The hold of that grant is over, in that way.
    Ends(usize, u64, End),
    Born(usize),
    Resumes(usize, u64),
    Edited,
    /// What is sent and answered is lost for a while.
    Cut(usize),
    ProgramEnds(u64),
}

#[derive(Clone, Copy, Debug)]
enum End {
    Resigned,
    Lost,
    Crashed,
    Paused,
}

struct Member {
    turn: Turn,
    clock: Clock,
    life: u64,
    alive: bool,
    paused: Option<True>,
    /// From when on its application does not believe any more, of which it learns when it goes on.
    gives_back: Option<LocalTime>,
    /// When its timer goes off: what was set before counts no more.
    wakes: True,
    /// What waits for it to go on.
    late: Vec<Happens>,
    /// The hold that it has, and until when it has it at most.
    hold: Option<(u64, True)>,
    believes: Option<(True, True)>,
}

pub(super) struct World {
    weather: Weather,
    random: Random,
    now: True,
    queue: BinaryHeap<Reverse<(True, u64)>>,
    events: BTreeMap<u64, Happens>,
    number: u64,
    server: Lease,
    members: Vec<Member>,
    program: ClientGo,
    program_clock: Clock,
    program_life: u64,
    program_wakes: True,
    program_believes: Option<True>,
    token: u64,
    cuts: [True; 3],
    pub(super) beliefs: Vec<Belief>,
    /// How many calls each made.
    pub(super) calls: [u64; 3],
}

impl World {
    pub(super) fn new(seed: u64, weather: Weather) -> Self {
        let mut random = Random::new(seed);
        let members = (0..2).map(|_| Member {
            turn: turn(0, 0),
            clock: Clock::draw(&mut random, weather.drift_ppm),
            life: 0,
            alive: false,
            paused: None,
            gives_back: None,
            wakes: 0,
            late: Vec::new(),
            hold: None,
            believes: None,
        });
        let members = members.collect();
        let program_clock = Clock::draw(&mut random, weather.drift_ppm);
        let source = Random::new(random.draw());
        let program = ClientGo::new("", weather.config, weather.stamps, source);
        let mut world = Self {
            weather,
            random,
            now: 0,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            number: 0,
            server: new_lease(),
            members,
            program,
            program_clock,
            program_life: 0,
            program_wakes: 0,
            program_believes: None,
            token: 0,
            cuts: [0; 3],
            beliefs: Vec::new(),
            calls: [0; 3],
        };
        for who in 0..3 {
            let after = world.up_to(2 * SECOND);
            world.later(after, Happens::Born(who));
        }
        let after = world.up_to(3 * SECOND);
        world.grant_after(after);
        world.later(5 * SECOND, Happens::Edited);
        world
    }

    fn up_to(&mut self, limit: u64) -> u64 {
        self.random.up_to(limit)
    }

    fn later(&mut self, after: True, what: Happens) {
        self.number += 1;
        self.queue.push(Reverse((self.now + after, self.number)));
        self.events.insert(self.number, what);
    }

    /// Some messages are quick, some are late, and some are as late as can be.
    fn delay(&mut self) -> True {
        match self.up_to(20) {
            0 => self.up_to(6 * SECOND),
            1 | 2 => self.up_to(SECOND),
            _ => 1_000_000 + self.up_to(20_000_000),
        }
    }

    fn grant_after(&mut self, after: True) {
        self.token += 1;
        let who = usize::try_from(self.random.up_to(2)).expect("small");
        let token = self.token;
        self.later(after, Happens::Granted(who, token));
    }

    pub(super) fn run(&mut self, seconds: u64) {
        let end = seconds * SECOND;
        while let Some(Reverse((at, number))) = self.queue.pop() {
            if at > end {
                break;
            }
            self.now = at;
            let what = self.events.remove(&number).expect("it was set");
            self.happen(what);
        }
        self.now = end;
        for who in 0..2 {
            self.stops(who, end);
        }
        if let Some(from) = self.program_believes.take() {
            self.believed(PROGRAM, from, end);
        }
    }

    fn happen(&mut self, what: Happens) {
        match what {
            Happens::Arrives(who, ..) | Happens::Answered(who, ..) if self.now < self.cuts[who] => {
            }
            Happens::Born(PROGRAM) => self.program_begins(),
            Happens::Born(who) => {
                let run = self.random.draw() % 1_000_000;
                let member = &mut self.members[who];
                member.turn = turn(who, run);
                (member.alive, member.life) = (true, member.life + 1);
                member.gives_back = None;
            }
            Happens::Wakes(PROGRAM, life)
                if (life, self.program_wakes) == (self.program_life, self.now) =>
            {
                let (now, wall) = self.program_now();
                let asks = self.program.tick(now, wall);
                self.program_did(asks);
            }
            Happens::Answered(PROGRAM, life, id, outcome) if life == self.program_life => {
                let (now, wall) = self.program_now();
                let answer = match outcome {
                    Outcome::Is(record) => Some(*record.0),
                    Outcome::Conflict | Outcome::Absent | Outcome::Refused | Outcome::Unknown => {
                        None
                    }
                };
                let asks = self.program.answer(now, wall, id, answer);
                self.program_did(asks);
            }
            Happens::Wakes(PROGRAM, _) | Happens::Answered(PROGRAM, ..) => {}
            Happens::Arrives(who, life, id, asks) => self.serve(who, life, id, asks),
            Happens::Granted(who, token) => self.grant(who, token),
            Happens::Ends(who, token, end) => self.end_hold(who, token, end),
            Happens::Edited => {
                self.bump();
                let after = SECOND + self.up_to(20 * SECOND);
                self.later(after, Happens::Edited);
            }
            Happens::Cut(who) => self.cuts[who] = self.now + 5 * SECOND + self.up_to(30 * SECOND),
            Happens::ProgramEnds(life) => self.program_ends(life),
            Happens::Wakes(who, life)
            | Happens::Answered(who, life, ..)
            | Happens::Resumes(who, life)
                if self.members[who].life != life || !self.members[who].alive => {}
            Happens::Wakes(who, _) if self.members[who].wakes != self.now => {}
            Happens::Resumes(who, _) => {
                let member = &mut self.members[who];
                if member.paused.is_some_and(|until| until > self.now) {
                    return;
                }
                member.paused = None;
                let gives_back = member.gives_back.take();
                // Its node may look at the Lease before it sees that the hold is over.
                if self.up_to(2) == 0 {
                    self.member_did(who);
                }
                if let Some(from) = gives_back {
                    self.members[who].turn.give_back(from);
                }
                self.member_did(who);
                for what in std::mem::take(&mut self.members[who].late) {
                    self.happen(what);
                }
            }
            Happens::Wakes(who, _) | Happens::Answered(who, ..)
                if self.members[who].paused.is_some() =>
            {
                self.members[who].late.push(what);
            }
            Happens::Wakes(who, _) => self.member_did(who),
            Happens::Answered(who, _, id, outcome) => {
                let now = self.members[who].clock.read(self.now);
                self.members[who].turn.answer(now, id, outcome);
                self.member_did(who);
            }
        }
    }

    // ----- the API server

    fn bump(&mut self) {
        let version: u64 =
            self.server.resource_version().expect("it has one").parse().expect("one");
        self.server.metadata.resource_version = Some((version + 1).to_string());
    }

    fn serve(&mut self, who: usize, life: u64, id: u64, asks: Asks) {
        let outcome = match asks {
            Asks::Get => Outcome::Is(Record::new(self.server.clone())),
            Asks::Update(lease) if lease.resource_version() == self.server.resource_version() => {
                self.server = *lease;
                self.bump();
                Outcome::Is(Record::new(self.server.clone()))
            }
            Asks::Update(_) => Outcome::Conflict,
        };
        if self.up_to(25) > 0 {
            let delay = self.delay();
            self.later(delay, Happens::Answered(who, life, id, outcome));
            // A late answer is often the last one for a while.
            if delay > 4 * SECOND && self.up_to(2) == 0 {
                self.later(delay, Happens::Cut(who));
            }
        }
    }

    fn send(&mut self, who: usize, life: u64, id: u64, asks: Asks) {
        self.calls[who] += 1;
        if self.up_to(25) > 0 {
            let delay = self.delay();
            self.later(delay, Happens::Arrives(who, life, id, asks));
        }
    }

    // ----- the members

    /// Its node has looked at what is due: as `Candidacies` does.
    fn member_did(&mut self, who: usize) {
        let (at, member) = (self.now, &mut self.members[who]);
        let call = member.turn.tick(member.clock.read(at));
        let life = member.life;
        if let Some(Call { id, what, .. }) = call {
            let asks = match what {
                Do::Read => Asks::Get,
                Do::Write(record, write) => {
                    Asks::Update(Box::new(record.with(&write, member.clock.wall(at))))
                }
            };
            self.send(who, life, id, asks);
        }
        self.look(who);
        let member = &self.members[who];
        if let Some((token, _)) = member.hold
            && member.turn.is_out_of_reach(member.clock.read(self.now))
        {
            return self.end_hold(who, token, End::Resigned);
        }
        if let Some(due) = member.turn.next_due() {
            let after = member.clock.when(due).saturating_sub(self.now).max(1);
            self.members[who].wakes = self.now + after;
            self.later(after, Happens::Wakes(who, life));
        }
    }

    /// What its application is notified of.
    fn look(&mut self, who: usize) {
        let (now, member) = (self.now, &mut self.members[who]);
        let until = member.turn.until().map(|until| member.clock.when(until));
        match (until, &mut member.believes) {
            (Some(until), Some(believes)) => believes.1 = until,
            (Some(until), None) if member.hold.is_some() => member.believes = Some((now, until)),
            (Some(_), None) => {}
            (None, _) => self.stops(who, now),
        }
    }

    /// It believes no longer than that.
    fn stops(&mut self, who: usize, at: True) {
        if let Some((from, until)) = self.members[who].believes.take() {
            self.believed(who, from, until.min(at));
        }
    }

    fn believed(&mut self, who: usize, from: True, to: True) {
        let program = who == PROGRAM;
        let who = if program { format!("program {}", self.program_life) } else { name(who) };
        self.beliefs.push(Belief { who, program, from, to });
    }

    fn grant(&mut self, who: usize, token: u64) {
        let arbiter = self.weather.arbiter;
        let member = &mut self.members[who];
        if !member.alive || member.paused.is_some() || member.hold.is_some() {
            let after = SECOND / 5 + self.up_to(SECOND);
            return self.grant_after(after);
        }
        member.hold = Some((token, True::MAX));
        let now = member.clock.read(self.now);
        member.turn.want(now, arbiter.then_some(token));
        self.member_did(who);
        let end = match self.up_to(6) {
            0 | 1 => End::Resigned,
            2 => End::Lost,
            3 => End::Crashed,
            _ => End::Paused,
        };
        let most = if self.up_to(3) == 0 { 4 } else { 60 };
        let after = self.up_to(most * SECOND);
        self.later(after, Happens::Ends(who, token, end));
        if !arbiter {
            // Holds exclude nobody then.
            let after = self.up_to(20 * SECOND);
            self.grant_after(after);
        }
    }

    fn end_hold(&mut self, who: usize, token: u64, end: End) {
        let (now, member) = (self.now, &mut self.members[who]);
        if member.hold.map(|(known, _)| known) != Some(token) {
            return;
        }
        let life = member.life;
        member.hold = None;
        let over = now + HOLD;
        match end {
            End::Resigned => {
                member.turn.give_back(LocalTime::default());
                if member.believes.is_some() {
                    // It goes by no earlier lead either.
                    self.stops(who, now);
                    let own = self.beliefs.iter_mut().filter(|belief| belief.who == name(who));
                    own.for_each(|belief| belief.to = belief.to.min(now));
                }
                self.member_did(who);
            }
            End::Lost => {
                // Its application goes by the deadline that it was notified of.
                member.turn.give_back(member.clock.read(over));
                self.stops(who, over);
                self.member_did(who);
            }
            End::Crashed => {
                member.alive = false;
                self.stops(who, over);
                let after = SECOND + self.up_to(20 * SECOND);
                self.later(after, Happens::Born(who));
            }
            End::Paused => {
                let pause = HOLD + self.up_to(25 * SECOND);
                let member = &mut self.members[who];
                member.paused = Some(now + pause);
                // By the time that it goes on, it has lost the hold.
                let from = member.clock.read(over);
                self.stops(who, over);
                self.members[who].gives_back = Some(from);
                self.later(pause, Happens::Resumes(who, life));
            }
        }
        if self.weather.arbiter {
            let after = if matches!(end, End::Resigned) { self.up_to(SECOND) } else { HOLD };
            self.grant_after(after);
        }
    }

    // ----- the program

    fn program_now(&self) -> (LocalTime, Timestamp) {
        (self.program_clock.read(self.now), self.program_clock.wall(self.now))
    }

    fn program_begins(&mut self) {
        self.program_life += 1;
        let life = self.program_life;
        let Weather { config, stamps, .. } = self.weather;
        let random = Random::new(self.random.draw());
        self.program = ClientGo::new(&format!("program-{life}"), config, stamps, random);
        self.program.due = Some(self.program_now().0);
        let ends = SECOND + self.up_to(90 * SECOND);
        self.later(ends, Happens::ProgramEnds(life));
        self.program_wakes = self.now;
        self.later(0, Happens::Wakes(PROGRAM, life));
    }

    fn program_did(&mut self, asks: Option<(u64, Asks)>) {
        let life = self.program_life;
        if let Some((id, asks)) = asks {
            self.send(PROGRAM, life, id, asks);
        }
        match (self.program.leads(), self.program_believes) {
            (true, None) => self.program_believes = Some(self.now),
            (false, Some(from)) => {
                self.program_believes = None;
                self.believed(PROGRAM, from, self.now);
            }
            (true, Some(_)) | (false, None) => {}
        }
        if self.program.has_ended() {
            let after = self.up_to(10 * SECOND);
            self.program_life += 1;
            return self.later(after, Happens::Born(PROGRAM));
        }
        if let Some(due) = self.program.due {
            let after = self.program_clock.when(due).saturating_sub(self.now).max(1);
            self.program_wakes = self.now + after;
            self.later(after, Happens::Wakes(PROGRAM, life));
        }
    }

    fn program_ends(&mut self, life: u64) {
        if life != self.program_life {
            return;
        }
        if self.up_to(2) == 0 {
            let (now, _) = self.program_now();
            let asks = self.program.cancel(now);
            return self.program_did(asks);
        }
        if let Some(from) = self.program_believes.take() {
            self.believed(PROGRAM, from, self.now);
        }
        self.program_life += 1;
        let after = self.up_to(20 * SECOND);
        self.later(after, Happens::Born(PROGRAM));
    }
}

fn name(member: usize) -> String {
    format!("member {member}")
}
