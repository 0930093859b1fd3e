//! What wakes and stops the thread of beacons while it waits for its socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, eventfd};

/// A counter of the kernel, which can be waited for together with a socket.
#[derive(Debug)]
pub(super) struct Waker {
    calls: OwnedFd,
    stopped: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let calls = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { calls, stopped: AtomicBool::new(false) })
    }

    /// Wakes the thread, or keeps it from waiting next.
    pub(super) fn wake(&self) {
        // It fails if the counter is full; then the thread is woken anyway.
        let _ = rustix::io::write(&self.calls, &1_u64.to_ne_bytes());
    }

    /// Lets the thread end.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.wake();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Takes the calls so far, so that the next one wakes again.
    pub(super) fn hear(&self) {
        // It fails if nobody called.
        let _ = rustix::io::read(&self.calls, &mut [0; 8]);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.calls.as_fd()
    }
}
