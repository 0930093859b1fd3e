//! The page in memory: the one place of this crate that is not checked by the compiler.
#![allow(unsafe_code, reason = "memory that other processes share can be had in no other way")]

use std::fs::File;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::layout::{PAYLOAD, SEQUENCE, SIZE};

/// A file of [`SIZE`] bytes in memory, until it is dropped.
#[derive(Debug)]
pub(crate) struct Map(NonNull<[AtomicU64; WORDS]>);

/// What a process does with a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Map {
    /// Maps a file, whose length is checked first: an access behind its end would end the process.
    pub(crate) fn new(file: &File, access: Access) -> io::Result<Self> {
        let is_long_enough = file.metadata()?.len() >= SIZE as u64;
        if !is_long_enough {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::Write => ProtFlags::READ | ProtFlags::WRITE,
        };
        // SAFETY: the kernel chooses a place that nothing else uses.
        let start = unsafe { mmap(ptr::null_mut(), SIZE, protection, MapFlags::SHARED, file, 0)? };
        NonNull::new(start.cast()).map(Self).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    /// The words as they are in the file, so little endian. Those of a page that was mapped for reading are to be
    /// loaded and nothing else, with relaxed ordering: the documentation of `std::sync::atomic`, "Atomic accesses to
    /// read-only memory", promises no more.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64; WORDS] {
        // SAFETY: the pages are mapped until `self` is dropped, are aligned and longer than the words, and every
        // process that changes them while they are mapped does it by aligned stores of whole words.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the address and the length are those of the map, and the words are borrowed from it.
        let unmapped = unsafe { munmap(self.0.as_ptr().cast(), SIZE) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

// SAFETY: the map belongs to the process and not to a thread.
unsafe impl Send for Map {}
// SAFETY: the words are atomics.
unsafe impl Sync for Map {}

/// The words of a page that the layout uses, the header's among them.
pub(crate) const WORDS: usize = SEQUENCE + 1 + PAYLOAD;
