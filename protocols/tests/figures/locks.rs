//! Every lock, measured in the simulator beside what is stated about it.

use std::time::Duration;

use conclave_protocols::mutex::central::Central;
use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::maekawa::{Maekawa, Quorums};
use conclave_protocols::mutex::raymond::Raymond;
use conclave_protocols::mutex::ricart_agrawala::RicartAgrawala;
use conclave_protocols::mutex::superpeers::Superpeers;
use conclave_protocols::mutex::token_ring::TokenRing;
use conclave_protocols::mutex::voting::Voting;
use conclave_protocols::mutex::{Carried, Mutex};
use conclave_protocols::policy::LockAlgorithm;
use conclave_protocols::{MemberId, View, cost};

use crate::measure::{Alone, Busy, Delay, EACH, Run, SECTION_IN_T, Section, UNIT, view};
use crate::sent::{Mean, Sent, Spread, nanos};
use crate::textbooks::{self, Book};

/// One lock, in groups of all sizes.
pub(crate) struct Lock {
    pub(crate) book: &'static Book,
    pub(crate) rows: Vec<Row>,
    /// In one group, if messages take random times: a run for each seed.
    pub(crate) weather: Vec<Weather>,
}

/// One lock, in a group of one size.
pub(crate) struct Row {
    pub(crate) size: u32,
    pub(crate) alone: Pair<Uncontended>,
    pub(crate) busy: Line,
}

/// What was measured, and what is stated about it.
pub(crate) struct Pair<T> {
    pub(crate) measured: T,
    pub(crate) sent: T,
}

/// The entries of each member while nobody else wants to enter.
pub(crate) struct Uncontended {
    pub(crate) messages: Spread,
    pub(crate) on_top: Spread,
    pub(crate) client_delay: Spread,
}

/// One run in which all want to enter: each number with what is stated about it.
pub(crate) struct Line {
    pub(crate) entries: u64,
    pub(crate) counts: Counts,
    /// Between two members, and the sum for each member that enters once, in T.
    pub(crate) sync_delay: (Spread, Sent),
    /// Until a member that asks again when it leaves has entered; in T, as all that follows.
    pub(crate) response: (Spread, Sent),
    /// The same until it has left again.
    pub(crate) turnaround: (Spread, Sent),
    /// The longest response of all, those among them that asked at first.
    pub(crate) longest: (Mean, Sent),
    /// Entries in a thousand T, and a hundred times that.
    pub(crate) throughput: (Mean, Sent),
    /// How often a member tried to enter, for each entry, of an algorithm that tries again.
    pub(crate) attempts: Mean,
}

impl Line {
    /// Those that the source counts.
    pub(crate) fn messages_of_an_entry(&self) -> Mean {
        Mean { sum: self.counts.messages.0, count: self.entries }
    }
}

/// Messages of a run, with what is stated about them.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) messages: (u64, Sent),
    pub(crate) on_top: (u64, Sent),
}

/// One run in which all want to enter, and messages take random times.
pub(crate) struct Weather {
    pub(crate) entries: u64,
    pub(crate) counts: Counts,
    pub(crate) sync_delay: Spread,
}

/// The sizes of the groups.
pub(crate) const SIZES: [u32; 8] = [2, 3, 4, 5, 8, 16, 32, 64];

/// The size of the group in which messages take random times, and the seeds.
pub(crate) const WEATHER: (u32, u64) = (16, 10);

/// All of them.
pub(crate) fn all() -> Vec<Lock> {
    let measure = |algorithm| {
        let book = textbooks::of(algorithm);
        match algorithm {
            LockAlgorithm::Central => measure(book, plainly::<Central>),
            LockAlgorithm::TokenRing => measure(book, plainly::<TokenRing>),
            LockAlgorithm::Raymond => measure(book, plainly::<Raymond>),
            LockAlgorithm::Lamport => measure(book, plainly::<Lamport>),
            LockAlgorithm::RicartAgrawala => measure(book, plainly::<RicartAgrawala>),
            LockAlgorithm::Maekawa => measure(book, in_grid),
            LockAlgorithm::Voting => measure(book, plainly::<Voting>),
            LockAlgorithm::Superpeers => measure(book, plainly::<Superpeers>),
        }
    };
    LockAlgorithm::ALL.map(measure).into()
}

/// How members of a view are made.
fn plainly<P: Mutex>(view: View) -> impl Fn(MemberId) -> P {
    move |me| P::new(me, view, &Carried::default())
}

/// The same, with a grid that is computed once.
fn in_grid(view: View) -> impl Fn(MemberId) -> Maekawa {
    let quorums = Quorums::grid(view.size);
    move |me| Maekawa::with_quorums(me, view, &Carried::default(), &quorums)
}

fn measure<P, M>(book: &'static Book, members: impl Fn(View) -> M) -> Lock
where
    P: Mutex,
    M: Fn(MemberId) -> P,
{
    let row = |size| {
        let make = members(view(size));
        let run = || Run::new(view(size), &make, book.on_top, Delay::FIXED, 0);
        let alone = view(size).members().map(|who| (who, run().alone(who)));
        let alone = uncontended(book, view(size), alone);
        Row { size, alone, busy: line(book, &run().busy(EACH)) }
    };
    let (size, seeds) = WEATHER;
    let make = members(view(size));
    let weather = |seed| {
        let run = Run::new(view(size), &make, book.on_top, Delay::RANDOM, seed).busy(EACH);
        let sync_delay = changes(book, &run, run.whole_rounds(), Sent::within_a_half);
        Weather { entries: run.sections.len() as u64, counts: counts(book, &run), sync_delay }
    };
    Lock { book, rows: SIZES.map(row).into(), weather: (0..seeds).map(weather).collect() }
}

/// Maekawa's lock in a square, where nobody else wants to enter, and where all ask once.
pub(crate) struct Square {
    pub(crate) side: u32,
    pub(crate) alone: Spread,
    pub(crate) busy: (u64, Sent),
    pub(crate) sync_delay: Spread,
}

/// Squares of up to 1,024 members.
pub(crate) fn squares() -> Vec<Square> {
    let measure = |side: u32| {
        let (book, view) = (&textbooks::MAEKAWA, view(side * side));
        let make = in_grid(view);
        let mut group = Run::new(view, &make, book.on_top, Delay::FIXED, 0);
        let alone = Spread::of(view.members().map(|who| group.alone(who).messages), 1);
        let sent = Mean { sum: cost::maekawa_grid(side.into()), count: 1 };
        for seen in [alone.least, alone.most] {
            assert_eq!(seen.hundredths(), sent.hundredths(), "{side} squared");
        }
        let run = Run::new(view, &make, book.on_top, Delay::FIXED, 0).busy(1);
        let busy = counts(book, &run).messages;
        Square { side, alone, busy, sync_delay: changes(book, &run, &run.sections, |sent| sent) }
    };
    SIDES.map(measure).into()
}

const SIDES: [u32; 9] = [2, 3, 4, 5, 6, 8, 16, 24, 32];

/// Every entry costs exactly what is stated.
fn uncontended(
    book: &Book,
    view: View,
    alone: impl Iterator<Item = (MemberId, Alone)>,
) -> Pair<Uncontended> {
    let (mut measured, mut sent) = (vec![], vec![]);
    for (who, costs) in alone {
        assert_eq!(costs, (book.alone)(view, who), "{}, {who} of {}", book.name, view.size);
        measured.push(costs);
        sent.push((book.alone)(view, who));
    }
    let spread = |of: &[Alone]| Uncontended {
        messages: Spread::of(of.iter().map(|costs| costs.messages), 1),
        on_top: Spread::of(of.iter().map(|costs| costs.on_top), 1),
        client_delay: Spread::in_t(of.iter().map(|costs| costs.client_delay)),
    };
    Pair { measured: spread(&measured), sent: spread(&sent) }
}

/// What a run shows in which messages take T each.
fn line(book: &Book, run: &Busy) -> Line {
    let (n, rounds) = (u64::from(run.view.size), run.whole_rounds());
    let sent = book.times_stated(run.view, SECTION_IN_T);
    let in_turns = rounds.windows(2).map(|pair| gap(&pair[0], &pair[1]));
    let turns = rounds.len() as u64 - 1;
    hold(book, run, "sum of delays", in_turns.sum(), sent.round.map(|sum| turns / n * sum * UNIT));
    let sum =
        |of: fn(&Section) -> Duration| run.asked_again().map(|section| nanos(of(section))).sum();
    let again = run.asked_again().count() as u64;
    hold(
        book,
        run,
        "responses",
        sum(Section::response),
        sent.response.map(|one| again * one * UNIT),
    );
    let turnarounds = sent.turnaround.map(|one| again * one * UNIT);
    hold(book, run, "turnarounds", sum(Section::turnaround), turnarounds);
    let longest = run.sections.iter().map(|section| nanos(section.response())).max().unwrap_or(0);
    hold(book, run, "longest", longest, sent.longest.map(|one| one * UNIT));
    let span = nanos(rounds[rounds.len() - 1].entered.saturating_sub(rounds[0].entered));
    let throughput = Mean { sum: turns * 1_000 * UNIT, count: span };
    hold(book, run, "throughput", throughput.hundredths(), sent.throughput);
    let spread = |of: fn(&Section) -> Duration| Spread::in_t(run.asked_again().map(of));
    Line {
        entries: run.sections.len() as u64,
        counts: counts(book, run),
        sync_delay: (changes(book, run, rounds, |sent| sent), sent.round),
        response: (spread(Section::response), sent.response),
        turnaround: (spread(Section::turnaround), sent.turnaround),
        longest: (Mean { sum: longest, count: UNIT }, sent.longest),
        throughput: (throughput, sent.throughput),
        attempts: Mean {
            sum: run.requests,
            count: textbooks::asked(run.view) * run.sections.len() as u64,
        },
    }
}

/// The messages of a run.
fn counts(book: &Book, run: &Busy) -> Counts {
    Counts {
        messages: hold(book, run, "messages", run.messages, (book.messages)(run)),
        on_top: hold(book, run, "messages on top", run.on_top, (book.extras)(run)),
    }
}

/// The delays between an exit and the entry of another, in these critical sections. Each delay of the run is
/// as stated, given how long messages take.
fn changes(book: &Book, run: &Busy, sections: &[Section], widened: fn(Sent) -> Sent) -> Spread {
    for pair in run.sections.windows(2) {
        let sent = (book.sync_delay)(run.view, pair[0].who, pair[1].who);
        let sent = widened(sent.map(|times| times * UNIT));
        hold(book, run, "delay", gap(&pair[0], &pair[1]), sent);
    }
    let changes = sections.windows(2).filter(|pair| pair[0].who != pair[1].who);
    Spread::of(changes.map(|pair| gap(&pair[0], &pair[1])), UNIT)
}

/// From an exit to the next entry.
fn gap(one: &Section, next: &Section) -> u64 {
    nanos(next.entered.saturating_sub(one.left))
}

/// A number is as stated.
#[track_caller]
fn hold(book: &Book, run: &Busy, what: &str, measured: u64, sent: Sent) -> (u64, Sent) {
    let context = format!("{}, n = {}, {what}: {measured}", book.name, run.view.size);
    assert!(sent.admits(measured), "{context} is not {sent:?}");
    (measured, sent)
}
