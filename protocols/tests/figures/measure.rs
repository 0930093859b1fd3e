//! Runs of a lock in the simulator, in which messages are counted and times taken.

use std::collections::BTreeMap;
use std::time::Duration;

use conclave_protocols::mutex::{Command, Event, Mutex};
use conclave_protocols::sim::Simulator;
use conclave_protocols::{Epoch, MemberId, View};

/// How long a message takes: T. Sixty-three of them, the longest way here, are shorter than the 50 ms
/// for which a token pauses: a `wake` finds it where it began.
pub(crate) const T: Duration = Duration::from_nanos(UNIT);

/// How long a critical section lasts: E.
pub(crate) const SECTION: Duration = Duration::from_nanos(UNIT * SECTION_IN_T);

/// T in nanoseconds, and E in T.
pub(crate) const UNIT: u64 = 500_000;
pub(crate) const SECTION_IN_T: u64 = 10;

/// How often each member enters if all want to enter.
pub(crate) const EACH: u32 = 5;

/// A group of this size, of which the highest leads.
pub(crate) fn view(size: u32) -> View {
    View { epoch: Epoch(1), size, leader: MemberId(size - 1) }
}

/// Between which times a message takes.
#[derive(Clone, Copy)]
pub(crate) struct Delay {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Delay {
    /// Each message takes T.
    pub(crate) const FIXED: Self = Self { least: T, most: T };

    /// T on average, and up to a half more or less.
    pub(crate) const RANDOM: Self =
        Self { least: Duration::from_micros(250), most: Duration::from_micros(750) };
}

/// What one member's entry and exit cost while nobody else wants to enter.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Alone {
    /// Messages that the sources count.
    pub(crate) messages: u64,
    /// Messages that come on top.
    pub(crate) on_top: u64,
    /// From asking to entering.
    pub(crate) client_delay: Duration,
}

/// What happened while all wanted in.
pub(crate) struct Busy {
    pub(crate) view: View,
    /// In order.
    pub(crate) sections: Vec<Section>,
    /// Messages that the sources count, by the end of the run.
    pub(crate) messages: u64,
    /// Messages that come on top.
    pub(crate) on_top: u64,
    /// Requests for a vote, of algorithms that try again.
    pub(crate) requests: u64,
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) who: MemberId,
    pub(crate) asked: Duration,
    pub(crate) entered: Duration,
    pub(crate) left: Duration,
    /// Whether all asked at once, and not each when it had left.
    pub(crate) is_first: bool,
}

impl Section {
    /// From asking to entering.
    pub(crate) fn response(&self) -> Duration {
        self.entered.saturating_sub(self.asked)
    }

    /// From asking to leaving.
    pub(crate) fn turnaround(&self) -> Duration {
        self.left.saturating_sub(self.asked)
    }
}

impl Busy {
    /// The requests that were made by a member that had just left.
    pub(crate) fn asked_again(&self) -> impl Iterator<Item = &Section> {
        self.sections.iter().filter(|section| !section.is_first)
    }

    /// The entries of all rounds but the last, and the one after them: so that as many delays are
    /// between them as there are entries in these rounds.
    pub(crate) fn whole_rounds(&self) -> &[Section] {
        &self.sections[..=self.sections.len() - self.view.size as usize]
    }
}

/// A group of one algorithm in the simulator, and how its messages are counted.
pub(crate) struct Run<P: Mutex> {
    sim: Simulator<P>,
    view: View,
    on_top: &'static [&'static str],
}

impl<P: Mutex> Run<P> {
    /// A group whose members begin.
    pub(crate) fn new(
        view: View,
        make: impl Fn(MemberId) -> P,
        on_top: &'static [&'static str],
        delay: Delay,
        seed: u64,
    ) -> Self {
        let mut sim = Simulator::new(seed);
        sim.set_delay(delay.least, delay.most);
        for me in view.members() {
            sim.add(me, make(me));
        }
        Self { sim, view, on_top }
    }

    /// A member enters and leaves while nobody else wants to enter.
    pub(crate) fn alone(&mut self, member: MemberId) -> Alone {
        let (messages, on_top) = self.count();
        let asked = self.sim.now();
        self.sim.command(member, Command::Enter);
        let (who, entered) = self.next_entry();
        assert_eq!(who, member);
        self.section(member);
        self.settle();
        let (messages_after, on_top_after) = self.count();
        Alone {
            messages: messages_after - messages,
            on_top: on_top_after - on_top,
            client_delay: entered.saturating_sub(asked),
        }
    }

    /// All ask at once, and each again as soon as it has left, until each has entered so often.
    pub(crate) fn busy(mut self, each: u32) -> Busy {
        let mut asked: BTreeMap<MemberId, (u32, Duration)> = BTreeMap::new();
        for member in self.view.members() {
            asked.insert(member, (1, self.sim.now()));
            self.sim.command(member, Command::Enter);
        }
        let mut sections = vec![];
        for _ in 0..u64::from(self.view.size) * u64::from(each) {
            let (who, entered) = self.next_entry();
            self.section(who);
            let left = self.sim.now();
            let (times, since) = asked[&who];
            sections.push(Section { who, asked: since, entered, left, is_first: times == 1 });
            if times < each {
                asked.insert(who, (times + 1, left));
                self.sim.command(who, Command::Enter);
            }
        }
        self.settle();
        let (messages, on_top) = self.count();
        let requests = self.sim.sent("request");
        Busy { view: self.view, sections, messages, on_top, requests }
    }

    /// Somebody enters. The simulator is asked for one thing after the other, so that nothing that
    /// happens after it has happened yet.
    fn next_entry(&mut self) -> (MemberId, Duration) {
        let end = self.sim.now() + PATIENCE;
        loop {
            let entered =
                self.sim.take_notified().into_iter().find(|notified| notified.2 == Event::Entered);
            if let Some((at, who, _)) = entered {
                return (who, at);
            }
            assert!(self.sim.step_until(end), "nobody gets in");
        }
    }

    /// The member in the critical section stays for as long as one lasts, and leaves. Nobody else enters meanwhile.
    fn section(&mut self, member: MemberId) {
        self.sim.run_for(SECTION);
        let others = self.sim.take_notified();
        assert!(
            others.iter().all(|notified| notified.2 != Event::Entered),
            "{member} is not alone"
        );
        self.sim.command(member, Command::Exit);
    }

    /// What was sent arrives, and what follows from it.
    fn settle(&mut self) {
        self.sim.run_for(T * 20);
    }

    /// Messages that the sources count, and those on top.
    fn count(&self) -> (u64, u64) {
        let on_top = self.on_top.iter().map(|name| self.sim.sent(name)).sum();
        (self.sim.sent_in_all() - on_top, on_top)
    }
}

const PATIENCE: Duration = Duration::from_mins(10);
