//! Puts the deadlines of a trace on its axis.

use std::time::Duration;

use super::event::{Event, TraceEntry};
use crate::ids::Incarnation;
use crate::time::LocalTime;

impl TraceEntry<LocalTime> {
    /// The same with every deadline where the clock of its process will read that.
    pub fn on_axis(
        self,
        true_time: impl Fn(Incarnation, LocalTime) -> Duration,
    ) -> TraceEntry<Duration> {
        let Self { who, event } = self;
        let mine = |at: LocalTime| who.map(|who| true_time(who, at)).unwrap_or_default();
        let event = match event {
            Event::Started(rate) => Event::Started(rate),
            Event::Ended => Event::Ended,
            Event::Read(content) => Event::Read(content),
            Event::Wrote { compared, content } => Event::Wrote { compared, content },
            Event::Replaced(content) => Event::Replaced(content),
            Event::Entered(epoch) => Event::Entered(epoch),
            Event::Refused(epoch) => Event::Refused(epoch),
            Event::Promised(epoch) => Event::Promised(epoch),
            Event::Sealed(epoch) => Event::Sealed(epoch),
            Event::GaveTable(epoch) => Event::GaveTable(epoch),
            Event::Leads(epoch, until) => Event::Leads(epoch, mine(until)),
            Event::LeadsNot => Event::LeadsNot,
            Event::Acknowledged { epoch, member, stamp } => {
                Event::Acknowledged { epoch, member, stamp: true_time(member, stamp) }
            }
            Event::Granted(epoch) => Event::Granted(epoch),
            Event::Held { lock, token, epoch, until } => {
                Event::Held { lock, token, epoch, until: mine(until) }
            }
            Event::Extended { lock, until } => Event::Extended { lock, until: mine(until) },
            Event::Released(lock) => Event::Released(lock),
            Event::Lost(lock) => Event::Lost(lock),
        };
        TraceEntry { who, event }
    }
}
