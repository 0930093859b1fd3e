//! The page: every algorithm with its source, its promises and its figures.

use std::fmt::Write;

use crate::ballots::Costs;
use crate::clocks;
use crate::deaths::Tried;
use crate::elections::Case;
use crate::forgetful::Forgotten;
use crate::header::Header;
use crate::limits;
use crate::locks::{Lock, Square, WEATHER, Weather};
use crate::measure::{EACH, SECTION_IN_T};
use crate::page_elections;
use crate::page_superpeers;
use crate::sent::{Mean, Sent, Spread};
use crate::textbooks::Book;
use crate::unbuilt;
use crate::{at_once, orders, zones};

/// Everything that was measured.
pub(crate) struct Figures {
    pub(crate) locks: Vec<Lock>,
    pub(crate) squares: Vec<Square>,
    pub(crate) forgotten: Vec<Forgotten>,
    pub(crate) bully: Elections,
    pub(crate) ring: Elections,
    pub(crate) chang_roberts: Elections,
    pub(crate) spanning_tree: Elections,
    pub(crate) orders: Vec<orders::Row>,
    pub(crate) zones: Vec<zones::Row>,
    pub(crate) at_once: Vec<at_once::Row>,
}

/// The elections of one algorithm.
pub(crate) struct Elections {
    /// By the algorithm alone.
    pub(crate) cases: Vec<Case>,
    /// By whole members.
    pub(crate) costs: Costs,
    pub(crate) deaths: Tried,
}

/// All of the page.
pub(crate) fn page(figures: &Figures) -> String {
    let mut text = introduction();
    text += &overview(&figures.locks);
    text += PLOTS;
    for lock in &figures.locks {
        text += &head(lock.book.name, lock.book.file, lock.book.text);
        text += &formulas(lock.book);
        text += &alone(lock);
        text += &busy(lock);
        text += &times(lock);
        match lock.book.name {
            "Maekawa" => text += &squares(&figures.squares),
            "Voting" => text += &tries(lock, &figures.forgotten),
            _ => {}
        }
    }
    text += &weather(&figures.locks);
    text += &page_superpeers::section();
    text += &limits::section();
    text += &page_elections::section(figures);
    text + &clocks::section() + unbuilt::SECTION
}

fn introduction() -> String {
    format!(
        "# The algorithms and what they cost

`protocols/tests/figures.rs` makes this page and compares it whenever the tests run: sources and
promises are those in the heads of the algorithms' files, and every figure is measured in the simulator.
`UPDATE=1 cargo test -p conclave-protocols --test figures` writes it anew.

A figure stands beside what the source says of it, computed by `protocols/src/cost.rs` and
`protocols/tests/figures/textbooks.rs`. One number there must be equal to the figure; two numbers, or one
after ≥ or ≤, are bounds that it must keep; otherwise the test fails. \"a (b to c)\" is the mean a of
values between b and c. *None*: nothing is promised.

## Locks

The locks are the algorithms as their sources have them, without the leases, tokens and views that a
member puts around them; [architecture.md](architecture.md) says which of them a group can have. What a
member says takes T = 0.5 ms to arrive, but no time and no message to itself. A section lasts
E = {SECTION_IN_T} T.

- **Messages** are those of an entry and its exit that the source counts. What comes *on top* has names
  of its own.
- **Client delay**: from asking to entering, if nobody else wants in. A figure is the mean over groups
  in which each member is the only one that ever asks.
- **Synchronisation delay**: from one member's exit to the entry of another, if all want in: all ask at
  once, and each again as soon as it has left, {EACH} times in all. The last n entries are left out.
- **Response time**: from asking to entering; **turnaround**: from asking to leaving. Both are those of
  members that ask again at once. Where all enter in turn, the turnaround is a round, n times E and the
  mean delay, and the response E less. The longest response also counts those that asked at first.
- **Throughput**: entries in a thousand T: 1,000 / (delay + {SECTION_IN_T}).

"
    )
}

/// The figures of one size of group, and the plots.
fn overview(locks: &[Lock]) -> String {
    let mut text = table(&[
        "lock, n = 16",
        "messages, nobody else wants in",
        "messages, all want in",
        "client delay in T",
        "synchronisation delay in T",
        "longest response in T",
    ]);
    for lock in locks {
        let found = lock.rows.iter().find(|row| row.size == WEATHER.0);
        let line = found.expect("that size is measured");
        text += &cells(&[
            format!("[{0}](#{1})", lock.book.name, lock.book.name.to_lowercase()),
            line.alone.measured.messages.to_string(),
            line.busy.messages_of_an_entry().to_string(),
            line.alone.measured.client_delay.to_string(),
            line.busy.sync_delay.0.to_string(),
            line.busy.longest.0.to_string(),
        ]);
    }
    text + "\n"
}

/// What the head of a file states.
pub(crate) fn head(name: &str, file: &str, text: &str) -> String {
    let Header { title, source, promises } = Header::read(text);
    let promises = promises.join("\n");
    format!("### {name}\n\n{title} `{file}`.\n\n{source}\n\n{promises}\n\n")
}

/// The formulas, in words.
fn formulas(book: &Book) -> String {
    let statements = &book.statements;
    let rows = [
        ("messages, nobody else wants in", statements.alone),
        ("client delay", statements.client_delay),
        ("messages, all want in", statements.busy),
        ("synchronisation delay", statements.sync_delay),
        ("longest response", statements.longest),
    ];
    let mut text = table(&["measured below", "formula"]);
    for (what, formula) in rows {
        text += &cells(&[what.to_owned(), formula.to_owned()]);
    }
    text + "\n"
}

fn alone(lock: &Lock) -> String {
    let mut text =
        String::from("Nobody else wants in. Every single entry is as its formula has it:\n\n");
    let on_top = on_top(lock.book);
    let columns = [&["n", "messages", "formula"], on_top, &["client delay", "formula"]].concat();
    text += &table(&columns);
    for row in &lock.rows {
        let (seen, sent) = (&row.alone.measured, &row.alone.sent);
        let pair = |seen: Spread, sent: Spread| [seen.to_string(), sent.to_string()];
        let mut line = vec![row.size.to_string()];
        line.extend(pair(seen.messages, sent.messages));
        if !on_top.is_empty() {
            line.extend(pair(seen.on_top, sent.on_top));
        }
        line.extend(pair(seen.client_delay, sent.client_delay));
        text += &cells(&line);
    }
    text + "\n"
}

fn busy(lock: &Lock) -> String {
    let mut text = String::from("All want in:\n\n");
    let on_top = on_top(lock.book);
    let delays =
        ["synchronisation delay", "formula for the mean", "throughput", "formula"].as_slice();
    text += &table(&[&["n", "messages", "formula"], on_top, delays].concat());
    for row in &lock.rows {
        let (line, size) = (&row.busy, u64::from(row.size));
        let counts = |(seen, sent): (u64, Sent)| [each(seen, line.entries), sent.per(line.entries)];
        let mut row = vec![row.size.to_string()];
        row.extend(counts(line.counts.messages));
        if !on_top.is_empty() {
            row.extend(counts(line.counts.on_top));
        }
        row.extend([line.sync_delay.0.to_string(), line.sync_delay.1.per(size)]);
        row.extend([line.throughput.0.to_string(), line.throughput.1.per(100)]);
        text += &cells(&row);
    }
    text + "\n"
}

/// The columns for messages on top, of a lock that has such.
fn on_top(book: &Book) -> &'static [&'static str] {
    if book.on_top.is_empty() { &[] } else { &["on top", "formula"] }
}

fn times(lock: &Lock) -> String {
    let mut text = String::from("The same runs, in T:\n\n");
    text += &table(&[
        "n",
        "response time",
        "formula for the mean",
        "turnaround",
        "formula for the mean",
        "longest response",
        "formula",
    ]);
    for row in &lock.rows {
        let line = &row.busy;
        text += &cells(&[
            row.size.to_string(),
            line.response.0.to_string(),
            line.response.1.per(1),
            line.turnaround.0.to_string(),
            line.turnaround.1.per(1),
            line.longest.0.to_string(),
            line.longest.1.per(1),
        ]);
    }
    text + "\n"
}

fn squares(squares: &[Square]) -> String {
    let mut text = String::from(
        "In squares, where K = 2√n - 1; all ask once. The last column is what Ricart and Agrawala's
algorithm takes:\n\n",
    );
    text += &table(&[
        "n",
        "K",
        "messages, nobody else wants in",
        "3(2√n - 2)",
        "messages, all want in",
        "formula",
        "synchronisation delay",
        "2(n - 1)",
    ]);
    for square in squares {
        let n = u64::from(square.side * square.side);
        let whole = |sum| Mean { sum, count: 1 }.to_string();
        text += &cells(&[
            whole(n),
            (2 * square.side - 1).to_string(),
            square.alone.to_string(),
            whole(6 * (u64::from(square.side) - 1)),
            each(square.busy.0, n),
            square.busy.1.per(n),
            square.sync_delay.to_string(),
            whole(2 * (n - 1)),
        ]);
    }
    text + "\n"
}

/// What only an algorithm has that tries again.
fn tries(lock: &Lock, forgotten: &[Forgotten]) -> String {
    for row in &lock.rows {
        let round_trip = row.busy.response.0.most.hundredths() == 200;
        assert!(round_trip, "n = {}: the sentence below is not true", row.size);
    }
    let mut text = String::from(
        "A member that asks again as soon as it has left entered again at once in these runs, because the others
pause: so the response is short where the longest is very long. An entry took so many attempts:\n\n",
    );
    let sizes: Vec<String> = lock.rows.iter().map(|row| row.size.to_string()).collect();
    text += &table(&[&["n"][..], &sizes.iter().map(String::as_str).collect::<Vec<_>>()].concat());
    let attempts = lock.rows.iter().map(|row| row.busy.attempts.to_string());
    text += &cells(&std::iter::once("attempts".to_owned()).chain(attempts).collect::<Vec<_>>());
    text += "
One member is in_section with m votes of n. Some coordinators crash and come back at once, and have
forgotten their votes; another member asks. So many must forget until both are in_section:\n\n";
    text += &table(&["n", "m", "measured", "2m - n"]);
    for Forgotten { size, votes, too_many } in forgotten {
        text += &cells(&[size, votes, too_many, &(2 * votes - size)].map(u32::to_string));
    }
    text + "\n"
}

/// The locks if messages take random times.
fn weather(locks: &[Lock]) -> String {
    let (size, seeds) = WEATHER;
    let mut text = format!(
        "### If messages take random times

All {size} members want in, {seeds} seeds. A message takes between T/2 and 3T/2, in order on each link. Every
run keeps the formulas above for messages; and every single synchronisation delay is between a half of
its formula and one and a half times that, or of the bounds if it has two.\n\n"
    );
    text += &table(&["lock", "messages", "formula", "synchronisation delay, means of the seeds"]);
    for lock in locks {
        let entries = lock.weather.iter().map(|run| run.entries).max().unwrap_or(1);
        let messages = Spread::of(lock.weather.iter().map(|run| run.counts.messages.0), entries);
        let delay = lock.weather.iter().map(|run| run.sync_delay.mean.hundredths());
        text += &cells(&[
            lock.book.name.to_owned(),
            messages.to_string(),
            range(&lock.weather),
            Spread::of(delay, 100).to_string(),
        ]);
    }
    text + "\n"
}

/// What is stated about the messages of all these runs.
fn range(runs: &[Weather]) -> String {
    let mut sent: Vec<String> =
        runs.iter().map(|run| run.counts.messages.1.per(run.entries)).collect();
    sent.dedup();
    if sent.len() == 1 { sent.remove(0) } else { "that of each run".to_owned() }
}

/// A mean.
pub(crate) fn each(sum: u64, count: u64) -> String {
    Mean { sum, count }.to_string()
}

/// The head of a table.
pub(crate) fn table(columns: &[&str]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "| {} |\n|{}", columns.join(" | "), " --- |".repeat(columns.len()));
    text
}

/// A row of a table.
pub(crate) fn cells<S: AsRef<str>>(cells: &[S]) -> String {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    format!("| {} |\n", cells.join(" | "))
}

const PLOTS: &str = "Messages of an entry and its exit. If nobody else wants in, and if all do:

![Messages of an entry and its exit by the number of members, if nobody else wants in](protocols-alone.svg)
![Messages of an entry and its exit by the number of members, if all want in](protocols-all.svg)

How long it takes until the next is in:

![Synchronisation delay by the number of members](protocols-delay.svg)

";
