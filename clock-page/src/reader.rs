//! Reads a page.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::hint::spin_loop;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::fence;

use crate::layout::{FIRST, LAYOUT, MAGIC, PAYLOAD, SEQUENCE, header, is_known, layout_of};
use crate::map::{Access, Map};
use crate::raw_clock;
use crate::reading::Reading;
use crate::words::Words;

/// An open page. Threads may share it; it asks the kernel for nothing but the raw clock.
#[derive(Debug)]
pub struct Reader {
    map: Map,
    /// Size, layout and flags as they were found.
    header: u64,
}

/// Why a page is not opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened or mapped.
    Io(io::Error),
    /// The file is shorter than a page.
    Short,
    /// The file does not begin as a page does.
    Foreign,
    /// The page has another layout than [`LAYOUT`].
    OtherLayout(u16),
    /// The raw clock of the writer has an injected fault.
    InjectedFault,
}

impl Reader {
    /// How often a reader begins again while the words change.
    pub const TRIES: u32 = 1_000;

    /// Opens the page at a path.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let reader = Self::open_even_with_fault(path)?;
        if reader.header != header(0) {
            return Err(OpenError::InjectedFault);
        }
        Ok(reader)
    }

    /// Opens the page at a path, even if the raw clock of its writer has an injected fault: for tests.
    pub fn open_even_with_fault(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        let file = File::open(path).map_err(OpenError::Io)?;
        let map = Map::new(&file, Access::Read).map_err(|error| {
            let is_short = error.kind() == io::ErrorKind::UnexpectedEof;
            if is_short { OpenError::Short } else { OpenError::Io(error) }
        })?;
        let [magic, header, ..] = map.words();
        let header = u64::from_le(header.load(Relaxed));
        if u64::from_le(magic.load(Relaxed)) != u64::from_le_bytes(MAGIC) {
            return Err(OpenError::Foreign);
        }
        match layout_of(header) {
            LAYOUT if is_known(header) => Ok(Self { map, header }),
            LAYOUT => Err(OpenError::Foreign),
            other => Err(OpenError::OtherLayout(other)),
        }
    }

    /// Group time now.
    #[inline]
    pub fn now(&self) -> Reading {
        let read = self.section(raw_clock, Words::at);
        read.unwrap_or_else(|| Reading::unknown(raw_clock()))
    }

    /// What the page states; nothing if it was never published, or changed all the while.
    pub fn words(&self) -> Option<Words> {
        self.section(|| (), |words, ()| *words)
    }

    /// What is made of the words and of what was done while they were in force.
    #[inline]
    pub(crate) fn section<T, R>(
        &self,
        mut meanwhile: impl FnMut() -> T,
        mut make: impl FnMut(&Words, T) -> R,
    ) -> Option<R> {
        for _ in 0..Self::TRIES {
            let page = self.map.words();
            let before = u64::from_le(page[SEQUENCE].load(Relaxed));
            // With this the relaxed load is an acquiring one, as memory that is mapped for reading alone allows it.
            fence(Acquire);
            if before == 0 || !before.is_multiple_of(2) {
                spin_loop();
                continue;
            }
            // What is loaded after a call need not be kept elsewhere during it, nor what is made of it before the check
            // below. If that fails, the words were none, and what was made of them is dropped.
            let done = meanwhile();
            let header = u64::from_le(page[1].load(Relaxed));
            let mut words = [0; PAYLOAD];
            for (word, shared) in words.iter_mut().zip(&page[FIRST..]) {
                *word = u64::from_le(shared.load(Relaxed));
            }
            let outcome = make(&Words::of_payload(&words), done);
            // No load above is made after the one below.
            fence(Acquire);
            if u64::from_le(page[SEQUENCE].load(Relaxed)) == before {
                // Another writer may have another clock, for which this reader did not ask.
                return (header == self.header).then_some(outcome);
            }
            spin_loop();
        }
        None
    }
}

impl Display for OpenError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_) => write!(f, "cannot open the clock page"),
            Self::Short => write!(f, "the file is shorter than a clock page"),
            Self::Foreign => write!(f, "the file is no clock page"),
            Self::OtherLayout(layout) => {
                write!(f, "the clock page has the layout {layout}, and this reader knows {LAYOUT}")
            }
            Self::InjectedFault => {
                write!(f, "the clock page is of a test: its clock has an injected fault")
            }
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Short | Self::Foreign | Self::OtherLayout(_) | Self::InjectedFault => None,
        }
    }
}
