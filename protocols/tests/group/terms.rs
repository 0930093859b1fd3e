//! Until when applications may go by what they hold, as their members notified them: on the bench and in the world.

use std::collections::BTreeMap;

use conclave_protocols::member::{LockEvent, OfLock, OfService, Term};
use conclave_protocols::{LocalTime, LockName};

use crate::kit::Event;

/// A member and what its application holds.
pub(crate) type Key = (usize, LockName);

/// What each application holds, and what extends that.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms(BTreeMap<Key, Term>);

/// Something is held for longer.
#[derive(Clone, Debug)]
pub(crate) struct Extension {
    pub(crate) key: Key,
    /// Until when it was held so far.
    pub(crate) before: LocalTime,
    /// Until when it is held now.
    pub(crate) until: LocalTime,
}

impl Terms {
    /// An application was notified that it holds.
    pub(crate) fn entered(&mut self, key: Key, term: Term) {
        self.0.insert(key, term);
    }

    /// It gave it back, or lost it.
    pub(crate) fn over(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// The members that were notified that they hold a lock, and until when.
    pub(crate) fn of<'a>(&'a self, lock: &'a str) -> impl Iterator<Item = (usize, LocalTime)> + 'a {
        let of_it = move |((member, held), term): (&Key, &Term)| {
            (held.as_str() == lock).then_some((*member, term.until()))
        };
        self.0.iter().filter_map(of_it)
    }

    /// A member reports something. What is held for longer by that.
    pub(crate) fn hear(&mut self, member: usize, now: LocalTime, event: &Event) -> Vec<Extension> {
        match event {
            Event::Lease(lease) => {
                let of_it =
                    |((of, _), term): &(&Key, &mut Term)| *of == member && term.is_of(*lease);
                let extend = |(key, term): (&Key, &mut Term)| {
                    extension(key, term, |term| term.renew(*lease))
                };
                self.0.iter_mut().filter(of_it).map(extend).collect()
            }
            Event::Service(OfService::Lock(OfLock { lock, event })) => {
                let key = (member, lock.clone());
                let Some(term) = self.0.get_mut(&key) else { return Vec::new() };
                match event {
                    LockEvent::Extended { deadline, .. } => {
                        vec![extension(&key, term, |term| term.extend(*deadline))]
                    }
                    LockEvent::Renewed { renewed, listed } => {
                        term.set_renewed(now, *renewed, *listed);
                        Vec::new()
                    }
                    LockEvent::Lost(_) => {
                        self.over(&key);
                        Vec::new()
                    }
                    LockEvent::Entered { .. } | LockEvent::Queued(_) | LockEvent::Left { .. } => {
                        Vec::new()
                    }
                }
            }
            Event::Service(OfService::Election(_))
            | Event::Leadership(_)
            | Event::Installed(_)
            | Event::Elected { .. }
            | Event::Left
            | Event::Met(_)
            | Event::Grants(_)
            | Event::Grace(_)
            | Event::Full(_)
            | Event::Confirmed(_)
            | Event::Suspected(_)
            | Event::Trusted { .. }
            | Event::Ignored(_)
            | Event::Undone(_) => Vec::new(),
        }
    }
}

fn extension(key: &Key, term: &mut Term, extend: impl FnOnce(&mut Term)) -> Extension {
    let before = term.until();
    extend(term);
    Extension { key: key.clone(), before, until: term.until() }
}
