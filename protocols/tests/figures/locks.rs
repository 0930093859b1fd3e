//! Every lock, measured in the simulator beside what is said of it.

use std::time::Duration;

use conclave_protocols::mutex::central::Central;
use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::maekawa::{Maekawa, Quorums};
use conclave_protocols::mutex::raymond::Raymond;
use conclave_protocols::mutex::ricart_agrawala::{RicartAgrawala, Variant, Withheld};
use conclave_protocols::mutex::token_ring::TokenRing;
use conclave_protocols::mutex::voting::Voting;
use conclave_protocols::mutex::{Carried, Mutex};
use conclave_protocols::{MemberId, View, cost};

use crate::books::{self, Book};
use crate::measure::{Alone, Busy, Delay, EACH, Run, UNIT, VISIT_IN_T, Visit, view};
use crate::said::{Mean, Said, Spread, nanos};

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
    pub(crate) alone: Pair<Quiet>,
    pub(crate) busy: Line,
}

/// What was measured, and what is said of it.
pub(crate) struct Pair<T> {
    pub(crate) measured: T,
    pub(crate) said: T,
}

/// The entries of each member while nobody else wants in.
pub(crate) struct Quiet {
    pub(crate) messages: Spread,
    pub(crate) on_top: Spread,
    pub(crate) client_delay: Spread,
}

/// One run in which all want in: each number with what is said of it.
pub(crate) struct Line {
    pub(crate) entries: u64,
    pub(crate) counts: Counts,
    /// Between two members, and the sum for each member that enters once, in T.
    pub(crate) sync_delay: (Spread, Said),
    /// Until whoever asks again when it leaves is in; in T, as all that follows.
    pub(crate) response: (Spread, Said),
    /// The same until it has left again.
    pub(crate) turnaround: (Spread, Said),
    /// The longest response of all, those among them that asked at first.
    pub(crate) longest: (Mean, Said),
    /// Entries in a thousand T, and a hundred times that.
    pub(crate) throughput: (Mean, Said),
    /// How often a member tried to get in, for each entry, of an algorithm that tries again.
    pub(crate) attempts: Mean,
}

impl Line {
    /// Those that the source counts.
    pub(crate) fn messages_of_an_entry(&self) -> Mean {
        Mean { sum: self.counts.messages.0, count: self.entries }
    }
}

/// Messages of a run, with what is said of them.
#[derive(Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) messages: (u64, Said),
    pub(crate) on_top: (u64, Said),
}

/// One run in which all want in, and messages take random times.
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
    vec![
        measure(&books::CENTRAL, plainly::<Central>),
        measure(&books::TOKEN_RING, plainly::<TokenRing>),
        measure(&books::RAYMOND, plainly::<Raymond>),
        measure(&books::LAMPORT, plainly::<Lamport>),
        measure(&books::RICART_AGRAWALA, with_answers),
        measure(&books::MAEKAWA, in_grid),
        measure(&books::VOTING, plainly::<Voting>),
    ]
}

/// How members of a view are made.
fn plainly<P: Mutex>(view: View) -> impl Fn(MemberId) -> P {
    move |me| P::new(me, view, &Carried::default())
}

/// The same, and whoever is deferred is told so, as in a group.
fn with_answers(view: View) -> impl Fn(MemberId) -> RicartAgrawala {
    let variant = Variant { withheld: Withheld::Queued, ..Variant::default() };
    move |me| RicartAgrawala::of(variant, me, view, &Carried::default())
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
        let alone = quiet(book, view(size), alone);
        Row { size, alone, busy: line(book, &run().busy(EACH)) }
    };
    let (size, seeds) = WEATHER;
    let make = members(view(size));
    let weather = |seed| {
        let run = Run::new(view(size), &make, book.on_top, Delay::RANDOM, seed).busy(EACH);
        let sync_delay = changes(book, &run, run.whole_rounds(), Said::within_a_half);
        Weather { entries: run.visits.len() as u64, counts: counts(book, &run), sync_delay }
    };
    Lock { book, rows: SIZES.map(row).into(), weather: (0..seeds).map(weather).collect() }
}

/// Maekawa's lock in a square, where nobody else wants in, and where all ask once.
pub(crate) struct Square {
    pub(crate) side: u32,
    pub(crate) alone: Spread,
    pub(crate) busy: (u64, Said),
    pub(crate) sync_delay: Spread,
}

/// Squares of up to 1,024 members.
pub(crate) fn squares() -> Vec<Square> {
    let measure = |side: u32| {
        let (book, view) = (&books::MAEKAWA, view(side * side));
        let make = in_grid(view);
        let mut group = Run::new(view, &make, book.on_top, Delay::FIXED, 0);
        let alone = Spread::of(view.members().map(|who| group.alone(who).messages), 1);
        let said = Mean { sum: cost::maekawa_grid(side.into()), count: 1 };
        for seen in [alone.least, alone.most] {
            assert_eq!(seen.hundredths(), said.hundredths(), "{side} squared");
        }
        let run = Run::new(view, &make, book.on_top, Delay::FIXED, 0).busy(1);
        let busy = counts(book, &run).messages;
        Square { side, alone, busy, sync_delay: changes(book, &run, &run.visits, |said| said) }
    };
    SIDES.map(measure).into()
}

const SIDES: [u32; 9] = [2, 3, 4, 5, 6, 8, 16, 24, 32];

/// Every entry costs exactly what is said.
fn quiet(book: &Book, view: View, alone: impl Iterator<Item = (MemberId, Alone)>) -> Pair<Quiet> {
    let (mut measured, mut said) = (vec![], vec![]);
    for (who, costs) in alone {
        assert_eq!(costs, (book.alone)(view, who), "{}, {who} of {}", book.name, view.size);
        measured.push(costs);
        said.push((book.alone)(view, who));
    }
    let spread = |of: &[Alone]| Quiet {
        messages: Spread::of(of.iter().map(|costs| costs.messages), 1),
        on_top: Spread::of(of.iter().map(|costs| costs.on_top), 1),
        client_delay: Spread::in_t(of.iter().map(|costs| costs.client_delay)),
    };
    Pair { measured: spread(&measured), said: spread(&said) }
}

/// What a run shows in which messages take T each.
fn line(book: &Book, run: &Busy) -> Line {
    let (n, rounds) = (u64::from(run.view.size), run.whole_rounds());
    let said = book.said_of_times(run.view, VISIT_IN_T);
    let in_turns = rounds.windows(2).map(|pair| gap(&pair[0], &pair[1]));
    let turns = rounds.len() as u64 - 1;
    hold(book, run, "sum of delays", in_turns.sum(), said.round.map(|sum| turns / n * sum * UNIT));
    let sum = |of: fn(&Visit) -> Duration| run.asked_again().map(|visit| nanos(of(visit))).sum();
    let again = run.asked_again().count() as u64;
    hold(book, run, "responses", sum(Visit::response), said.response.map(|one| again * one * UNIT));
    let turnarounds = said.turnaround.map(|one| again * one * UNIT);
    hold(book, run, "turnarounds", sum(Visit::turnaround), turnarounds);
    let longest = run.visits.iter().map(|visit| nanos(visit.response())).max().unwrap_or(0);
    hold(book, run, "longest", longest, said.longest.map(|one| one * UNIT));
    let span = nanos(rounds[rounds.len() - 1].entered.saturating_sub(rounds[0].entered));
    let throughput = Mean { sum: turns * 1_000 * UNIT, count: span };
    hold(book, run, "throughput", throughput.hundredths(), said.throughput);
    let spread = |of: fn(&Visit) -> Duration| Spread::in_t(run.asked_again().map(of));
    Line {
        entries: run.visits.len() as u64,
        counts: counts(book, run),
        sync_delay: (changes(book, run, rounds, |said| said), said.round),
        response: (spread(Visit::response), said.response),
        turnaround: (spread(Visit::turnaround), said.turnaround),
        longest: (Mean { sum: longest, count: UNIT }, said.longest),
        throughput: (throughput, said.throughput),
        attempts: Mean {
            sum: run.requests,
            count: books::asked(run.view) * run.visits.len() as u64,
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

/// The delays between an exit and the entry of another, in these visits. Each delay of the run is as
/// it is said to be, given how long messages take.
fn changes(book: &Book, run: &Busy, visits: &[Visit], widened: fn(Said) -> Said) -> Spread {
    for pair in run.visits.windows(2) {
        let said = (book.sync_delay)(run.view, pair[0].who, pair[1].who);
        let said = widened(said.map(|times| times * UNIT));
        hold(book, run, "delay", gap(&pair[0], &pair[1]), said);
    }
    let changes = visits.windows(2).filter(|pair| pair[0].who != pair[1].who);
    Spread::of(changes.map(|pair| gap(&pair[0], &pair[1])), UNIT)
}

/// From an exit to the next entry.
fn gap(one: &Visit, next: &Visit) -> u64 {
    nanos(next.entered.saturating_sub(one.left))
}

/// A number is as it is said to be.
#[track_caller]
fn hold(book: &Book, run: &Busy, what: &str, measured: u64, said: Said) -> (u64, Said) {
    let context = format!("{}, n = {}, {what}: {measured}", book.name, run.view.size);
    assert!(said.admits(measured), "{context} is not {said:?}");
    (measured, said)
}
