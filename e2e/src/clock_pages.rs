//! The clock pages of a group, all evaluated at one reading of the raw clock.
//!
//! The nodes of the harness's cluster are network namespaces of one machine, so all its sidecars have one raw clock:
//! at one reading of it, group time by two pages differs by the errors of the two and by nothing else.

mod deploy;
mod findings;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use conclave_clock_page::{Reader, Reading, Words, raw_clock};

pub use deploy::{Starts, are_in_step, form, paths};
pub use findings::{Findings, at};

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
    pub fn start(paths: Vec<PathBuf>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let findings = thread::spawn({
            let stop = Arc::clone(&stop);
            move || {
                let mut pages = Pages::new(paths);
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
    path: PathBuf,
    open: Option<(u64, Reader)>,
}

impl Pages {
    /// The pages at these paths. One that is not there states nothing.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self(paths.into_iter().map(|path| Page { path, open: None }).collect())
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
                return Some(before.iter().map(|words| words.at(raw)).collect());
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
        let found = fs::metadata(&self.path).map(|metadata| metadata.ino());
        match (found, &self.open) {
            (Ok(number), Some((open, _))) if number == *open => {}
            (Ok(number), _) => {
                self.open = Reader::open(&self.path).ok().map(|reader| (number, reader));
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
