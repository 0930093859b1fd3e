//! What was reported to applications about this member's leadership, and has not been revoked since: the
//! next leader waits for that (rule 37 of `docs/views.md`).

use std::sync::Arc;
use std::time::Duration;

use conclave_protocols::LocalTime;
use tokio::sync::watch;

/// Who may believe that this member leads. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Believers(Arc<watch::Sender<Notified>>);

/// What was reported to applications.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Notified {
    /// The latest deadline that was sent to an application to which nothing more will be sent.
    pub(crate) until: LocalTime,
    /// Streams that announced that this member leads, and have not announced the end yet.
    pub(crate) streams: usize,
}

/// One stream, and what was sent to its reader.
#[derive(Debug)]
pub(crate) struct Believer {
    all: Believers,
    /// The last deadline that was sent to the reader, while it may believe.
    until: Option<LocalTime>,
}

/// How long after the end was written an application has read it. One that takes longer must go by its
/// deadline.
const READ: Duration = Duration::from_millis(50);

impl Believers {
    /// A question was answered: nobody can send the caller more.
    pub(crate) fn answered(&self, until: Option<LocalTime>) {
        if let Some(until) = until {
            self.0.send_if_modified(|notified| {
                let later = until > notified.until;
                notified.until = notified.until.max(until);
                later
            });
        }
    }

    /// A stream begins.
    pub(crate) fn stream(&self) -> Believer {
        Believer { all: self.clone(), until: None }
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Notified> {
        self.0.subscribe()
    }

    fn ended(&self, until: LocalTime) {
        self.0.send_modify(|notified| {
            notified.streams -= 1;
            notified.until = notified.until.max(until);
        });
    }
}

impl Believer {
    /// The stream states that this member leads until then, or that it does not.
    pub(crate) fn states(&mut self, until: Option<LocalTime>) {
        let Some(until) = until else { return };
        if self.until.is_none() {
            self.all.0.send_modify(|notified| notified.streams += 1);
        }
        self.until = self.until.max(Some(until));
    }

    /// All that the stream has sent is written to its connection, the end of a leader lease last.
    pub(crate) fn note_end_written(&mut self, now: LocalTime) {
        if let Some(until) = self.until.take() {
            self.all.ended(until.min(now.after(READ)));
        }
    }
}

impl Drop for Believer {
    /// A caller that hung up has its last deadline.
    fn drop(&mut self) {
        if let Some(until) = self.until.take() {
            self.all.ended(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notified(believers: &Believers) -> (u64, usize) {
        let notified = *believers.watch().borrow();
        (notified.until.0, notified.streams)
    }

    #[test]
    fn an_application_that_asked_believes_until_the_latest_deadline() {
        let believers = Believers::default();
        for until in [Some(5), Some(9), None, Some(7)] {
            believers.answered(until.map(LocalTime));
        }
        assert_eq!(notified(&believers), (9, 0));
    }

    #[test]
    fn a_stream_that_took_the_end_has_no_deadline_left() {
        let believers = Believers::default();
        let (mut one, mut other) = (believers.stream(), believers.stream());
        let late = LocalTime(60_000_000_000);
        for until in [None, Some(late), Some(late), None] {
            one.states(until);
        }
        other.states(Some(late));
        assert_eq!(notified(&believers), (0, 2));
        one.note_end_written(LocalTime(1));
        one.note_end_written(LocalTime(2));
        let read = LocalTime(1).after(READ);
        assert_eq!(notified(&believers), (read.0, 1));
        drop(one);
        drop(other);
        assert_eq!(
            notified(&believers),
            (late.0, 0),
            "the other hung up, and goes by what it knows"
        );
    }
}
