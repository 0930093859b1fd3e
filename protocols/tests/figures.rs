//! What the algorithms cost, measured beside the formulas of their sources, and the page that
//! states it: `docs/protocols.md`. `UPDATE=1` writes it and its plots anew.

#[path = "figures/at_once.rs"]
mod at_once;
#[path = "figures/ballots.rs"]
mod ballots;
#[path = "figures/bins.rs"]
mod bins;
#[path = "figures/clocks.rs"]
mod clocks;
#[path = "figures/deaths.rs"]
mod deaths;
#[path = "figures/elections.rs"]
mod elections;
#[path = "figures/forgetful.rs"]
mod forgetful;
#[path = "figures/header.rs"]
mod header;
#[path = "figures/limits.rs"]
mod limits;
#[path = "figures/locks.rs"]
mod locks;
#[path = "figures/many.rs"]
mod many;
#[path = "figures/measure.rs"]
mod measure;
#[path = "figures/orders.rs"]
mod orders;
#[path = "figures/page.rs"]
mod page;
#[path = "figures/page_elections.rs"]
mod page_elections;
#[path = "figures/page_superpeers.rs"]
mod page_superpeers;
#[path = "figures/peer.rs"]
mod peer;
#[path = "figures/plane.rs"]
mod plane;
#[path = "figures/plot.rs"]
mod plot;
#[path = "figures/sent.rs"]
mod sent;
mod support;
#[path = "figures/textbooks.rs"]
mod textbooks;
#[path = "figures/unbuilt.rs"]
mod unbuilt;
#[path = "figures/whole.rs"]
mod whole;
#[path = "figures/zones.rs"]
mod zones;

use std::path::Path;

use conclave_protocols::policy::ElectionAlgorithm;
use locks::{Lock, Row};
use page::{Elections, Figures};
use plot::{Curve, Plot};

/// The measurements themselves fail if a figure is not as its formula has it.
#[test]
fn the_page_says_what_is_measured_and_what_is_measured_is_what_the_formulas_say() {
    let [bully, ring, chang_roberts, spanning_tree] = std::thread::scope(|scope| {
        let runs = ElectionAlgorithm::ALL.map(|one| scope.spawn(move || elections_of(one)));
        runs.map(|run| run.join().expect("its figures are as stated"))
    });
    let figures = Figures {
        locks: locks::all(),
        squares: locks::squares(),
        forgotten: forgetful::all(),
        bully,
        ring,
        chang_roberts,
        spanning_tree,
        orders: orders::all(),
        zones: zones::all(),
        at_once: at_once::all(),
    };
    let mut wrong = vec![];
    for (name, text) in files(&figures) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&path, &text).expect("the file can be written");
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != text {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "out of date: {wrong:?}; run this test with UPDATE=1");
}

fn elections_of(algorithm: ElectionAlgorithm) -> Elections {
    let cases = match algorithm {
        ElectionAlgorithm::Bully => elections::bully(),
        ElectionAlgorithm::Ring => elections::ring(),
        ElectionAlgorithm::ChangRoberts => elections::chang_roberts(),
        ElectionAlgorithm::SpanningTree => elections::spanning_tree(),
    };
    Elections { cases, costs: ballots::all(algorithm), deaths: deaths::all(algorithm) }
}

fn files(figures: &Figures) -> [(&'static str, String); 4] {
    let plot = |title, of: fn(&Row) -> f64| {
        let curves = figures.locks.iter().map(|lock| curve(lock, of)).collect();
        Plot { title, curves }.svg()
    };
    [
        ("protocols.md", page::page(figures)),
        (
            "protocols-alone.svg",
            plot("Messages of an entry, nobody else wants in", |row| {
                row.alone.measured.messages.mean.value()
            }),
        ),
        (
            "protocols-all.svg",
            plot("Messages of an entry, all want in", |row| {
                row.busy.messages_of_an_entry().value()
            }),
        ),
        (
            "protocols-delay.svg",
            plot("Synchronisation delay in T", |row| row.busy.sync_delay.0.mean.value()),
        ),
    ]
}

fn curve(lock: &Lock, of: fn(&Row) -> f64) -> Curve {
    let points = lock.rows.iter().map(|row| (row.size, of(row))).collect();
    Curve { name: lock.book.name, points }
}
