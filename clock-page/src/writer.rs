//! Writes a page.

use std::error::Error;
use std::fmt::{self, Debug, Display, Formatter};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::atomic::fence;

use rustix::fs::OFlags;

use crate::course::Piece;
use crate::layout::{FIRST, INJECTED_FAULT, MAGIC, SEQUENCE, SIZE, header, is_known};
use crate::map::{Access, Map};
use crate::raw_clock;
use crate::words::{Stated, Words};

/// The one process that publishes on a page. Two of them at a time are a fault that nothing finds.
pub struct Writer {
    map: Map,
    sequence: u64,
    published: Words,
    raw_clock: RawClock,
}

/// Why words are not published. What was published before is still in force.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// The course differs from the published one before or soon after now: it is to be planned again.
    TooLate {
        /// The reading of the raw clock.
        now_raw: u64,
    },
    /// Time would fall somewhere on the course.
    GoesBack,
}

impl Writer {
    /// How far ahead of the raw clock a course is planned to differ from the published one: 5 ms.
    pub const PLAN_NS: u64 = 5_000_000;

    /// How far ahead of the raw clock that must still be when the course is published: 1 ms.
    pub const MARGIN_NS: u64 = 1_000_000;

    /// Goes on with the page at a path, or puts a new one there if there is none, or one of another layout.
    ///
    /// The page is for everybody to read and for its owner to write, whatever the umask. What is published on a page that
    /// is whole is still in force; [`Writer::published`] has it.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open(path.as_ref(), 0, Box::new(raw_clock))
    }

    /// Like [`Writer::create`], with a raw clock that has an injected fault. Readers refuse the page unless they are
    /// asked not to: for tests.
    pub fn create_with_fault(
        path: impl AsRef<Path>,
        raw_clock: impl FnMut() -> u64 + Send + 'static,
    ) -> io::Result<Self> {
        Self::open(path.as_ref(), INJECTED_FAULT, Box::new(raw_clock))
    }

    fn open(path: &Path, flags: u16, raw_clock: RawClock) -> io::Result<Self> {
        let map = existing(path).map_or_else(|| replacing(path, flags), Ok)?;
        let [_, found, sequence, payload @ ..] = map.words();
        let sequence = u64::from_le(sequence.load(Relaxed));
        let published =
            Words::of_payload(&payload.each_ref().map(|word| u64::from_le(word.load(Relaxed))));
        let has_our_clock = u64::from_le(found.load(Relaxed)) == header(flags);
        let mut writer = Self { map, sequence, published, raw_clock };
        if sequence == 0 || !sequence.is_multiple_of(2) || !has_our_clock {
            writer.begin();
            writer.map.words()[1].store(header(flags).to_le(), Relaxed);
            writer.store(Words::UNKNOWN);
            writer.end();
        }
        Ok(writer)
    }

    /// What is in force. A writer that begins anew plans from here, so that time goes on.
    pub fn published(&self) -> &Words {
        &self.published
    }

    /// Publishes words whose course agrees with the published one until [`Writer::MARGIN_NS`] from now, and which never
    /// lets time fall from now on. If nothing was stated of the time before, or nothing is stated any more, the course may
    /// be any. Words that state nothing of the same clock keep the latest time that readers may have seen, until what was
    /// stated would be void ([`Words::latest_seen`]).
    pub fn publish(&mut self, words: &Words) -> Result<(), Refused> {
        // Before the check: a writer that is held up after it keeps the readers waiting, and not in error.
        self.begin();
        let now_raw = (self.raw_clock)();
        let outcome = self.check(words, now_raw);
        if outcome.is_ok() {
            self.store(Words { published_raw: now_raw, ..self.keeping(words, now_raw) });
        }
        self.end();
        outcome
    }

    fn check(&self, words: &Words, now_raw: u64) -> Result<(), Refused> {
        if words.status == Stated::Unknown {
            return Ok(());
        }
        let course = words.course();
        let until = now_raw.saturating_add(Self::MARGIN_NS);
        let follows = self.published.status == Stated::Unknown
            || course.agrees(self.published.course(), now_raw, until);
        if !follows {
            return Err(Refused::TooLate { now_raw });
        }
        if course.is_forward_from(now_raw) { Ok(()) } else { Err(Refused::GoesBack) }
    }

    fn keeping(&self, words: &Words, now_raw: u64) -> Words {
        let is_of_clock = words.clock_domain == self.published.clock_domain;
        let keeps = words.status == Stated::Unknown && is_of_clock;
        match self.published.latest_seen(now_raw).filter(|_| keeps) {
            Some(ns) => {
                let a = Piece { raw: now_raw, ns, rate: 0 };
                Words { a, void_after_raw: self.published.void_after_raw, ..*words }
            }
            None => *words,
        }
    }

    /// Makes the sequence odd, if it is not odd since a writer ended.
    fn begin(&mut self) {
        self.sequence |= 1;
        self.map.words()[SEQUENCE].store(self.sequence.to_le(), Relaxed);
        // No store below is seen before the one above, and the raw clock is read after it.
        fence(SeqCst);
    }

    fn store(&mut self, words: Words) {
        for (shared, word) in self.map.words()[FIRST..].iter().zip(words.payload()) {
            shared.store(word.to_le(), Relaxed);
        }
        self.published = words;
    }

    /// Makes the sequence even.
    fn end(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
        // No store above is seen after this one.
        self.map.words()[SEQUENCE].store(self.sequence.to_le(), Release);
    }
}

/// The page at a path, if there is one of this layout.
fn existing(path: &Path) -> Option<Map> {
    // A link is no page, and neither is a pipe, for which opening would wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags.bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    let is_page = file.metadata().is_ok_and(|data| data.is_file() && data.len() == SIZE as u64);
    let map = is_page.then(|| Map::new(&file, Access::Write).ok()).flatten()?;
    let [magic, found, ..] = map.words();
    let is_ours = u64::from_le(magic.load(Relaxed)) == u64::from_le_bytes(MAGIC)
        && is_known(u64::from_le(found.load(Relaxed)));
    is_ours.then_some(map)
}

/// A new page at a path. It is whole before it has that name, so that no reader finds half of one.
fn replacing(path: &Path, flags: u16) -> io::Result<Map> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&new)?;
    let mut bytes = [0; SIZE];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..16].copy_from_slice(&header(flags).to_le_bytes());
    file.write_all(&bytes)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    let map = Map::new(&file, Access::Write)?;
    fs::rename(new, path)?;
    Ok(map)
}

impl Debug for Writer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("sequence", &self.sequence)
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}

impl Display for Refused {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate { now_raw } => {
                write!(f, "the course changes too soon after the raw reading {now_raw}")
            }
            Self::GoesBack => write!(f, "time would fall on the course"),
        }
    }
}

impl Error for Refused {}

type RawClock = Box<dyn FnMut() -> u64 + Send>;
