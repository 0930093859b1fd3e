//! The clock pages of a group, all evaluated at one reading of the raw clock.
//!
//! The nodes of the harness's cluster are network namespaces of one machine, so all its sidecars have one raw clock:
//! at one reading of it, group time by two pages differs by the errors of the two and by nothing else. A page of a sidecar
//! whose clock has an injected fault is evaluated at what that clock reads at the same moment.

mod deploy;
mod fault;
mod findings;
mod starts;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use conclave_clock_page::{Reader, Reading, Words, raw_clock};

pub use deploy::{Source, are_in_step, form, form_of_wrong_clocks};
pub use fault::Fault;
pub use findings::{Findings, at};
pub use starts::Starts;

/// How often all pages are read.
const PERIOD: Duration = Duration::from_millis(10);

/// How often a look at all pages begins anew because one of them changes meanwhile.
const TRIES: usize = 100;

/// Reads pages until its end is wanted.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<AtomicBool>,
    findings: JoinHandle<Findings>,
}

impl Watch {
    /// Begins. A page need not be there yet.
    pub fn start(sources: Vec<Source>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let findings = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut pages = Pages::new(sources);
                let mut findings = Findings::default();
                let mut next = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    findings.note(pages.sample().as_deref());
                    next += PERIOD;
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                    // A thread that was held up does not make up for it.
                    next = next.max(Instant::now());
                }
                findings
            }
        });
        Self { stop, findings }
    }

    /// What was found until now.
    pub fn end(self) -> Result<Findings> {
        self.stop.store(true, Ordering::Relaxed);
        self.findings.join().map_err(|_| anyhow!("the watch of the pages panicked"))
    }
}

/// Pages that are read together.
#[derive(Debug)]
pub struct Pages(Vec<Page>);

/// A page, which may be replaced while it is read.
#[derive(Debug)]
struct Page {
    source: Source,
    open: Option<(u64, Reader)>,
}

impl Pages {
    /// These pages. One that is not there states nothing.
    pub fn new(sources: Vec<Source>) -> Self {
        Self(sources.into_iter().map(|source| Page { source, open: None }).collect())
    }

    /// What each page gives at one reading of the raw clock; nothing if some page changes all the while.
    pub fn sample(&mut self) -> Option<Vec<Reading>> {
        for page in &mut self.0 {
            page.follow();
        }
        for _ in 0..TRIES {
            let before = self.words();
            let raw = raw_clock();
            // What is in force before and after was so at the reading of the clock.
            if self.words() == before {
                let all = self.0.iter().zip(before);
                return Some(
                    all.map(|(page, words)| words.at(page.source.fault.at(raw))).collect(),
                );
            }
        }
        None
    }

    fn words(&self) -> Vec<Words> {
        self.0.iter().map(Page::words).collect()
    }
}

impl Page {
    /// Opens what is at the path now.
    fn follow(&mut self) {
        let found = fs::metadata(&self.source.path).map(|metadata| metadata.ino());
        match (found, &self.open) {
            (Ok(number), Some((open, _))) if number == *open => {}
            (Ok(number), _) => {
                self.open = self.source.open().ok().map(|reader| (number, reader));
            }
            (Err(error), _) if error.kind() == io::ErrorKind::NotFound => self.open = None,
            (Err(_), _) => {}
        }
    }

    fn words(&self) -> Words {
        let words = self.open.as_ref().and_then(|(_, reader)| reader.words());
        words.unwrap_or(Words::UNKNOWN)
    }
}

#[cfg(test)]
mod tests {
    use conclave_clock_page::{Piece, Stated, Status, Writer};

    use super::*;

    const FAULT: Fault = Fault { offset_ms: 40, drift_ppm: 90, wander_ppb: 0 };

    /// What states that the raw clock is group time.
    fn words() -> Words {
        Words {
            a: Piece { raw: 0, ns: 0, rate: 0 },
            bound_ns: 1,
            stale_after_raw: u64::MAX,
            void_after_raw: u64::MAX,
            status: Stated::Synchronised,
            ..Words::UNKNOWN
        }
    }

    #[test]
    fn a_page_is_found_once_it_is_there_and_when_another_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clock");
        let source = Source { path: path.clone(), fault: Fault::default() };
        let mut pages = Pages::new(vec![source]);
        let status = |pages: &mut Pages| pages.sample().unwrap()[0].status;
        assert_eq!(status(&mut pages), Status::Unknown);
        Writer::create(&path).unwrap().publish(&words()).unwrap();
        assert_eq!(status(&mut pages), Status::Synchronised);
        // The file of the first stays, so that the second cannot have its number.
        fs::rename(&path, folder.path().join("former")).unwrap();
        let _second = Writer::create(&path).unwrap();
        assert_eq!(status(&mut pages), Status::Unknown);
    }

    #[test]
    fn a_page_of_a_clock_with_a_fault_is_read_by_that_clock() {
        let folder = tempfile::tempdir().unwrap();
        let [right, wrong] = ["right", "wrong"].map(|name| folder.path().join(name));
        Writer::create(&right).unwrap().publish(&words()).unwrap();
        let mut writer = Writer::create_with_fault(&wrong, || FAULT.at(raw_clock())).unwrap();
        writer.publish(&words()).unwrap();
        let sources = [(right, Fault::default()), (wrong, FAULT)];
        let source = |(path, fault)| Source { path, fault };
        let sample = Pages::new(sources.map(source).into()).sample().unwrap();
        assert!(sample.iter().all(|reading| reading.status == Status::Synchronised));
        let [right, wrong] = [0, 1].map(|page| sample[page].time_ns.unsigned_abs());
        assert_eq!(FAULT.at(right), wrong);
    }
}
