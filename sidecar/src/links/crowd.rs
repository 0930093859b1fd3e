//! How many may come in at a time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Handshakes at a time: connections whose other end is not known yet.
const HANDSHAKES: usize = 128;

/// Handshakes at a time from one address. Several peers may share one, by the way to here.
pub(super) const FROM_ONE: usize = 16;

/// Links at a time, with peers who are known. No handshake takes their place.
const LINKS: usize = 896;

/// Links at a time that this member passes on. Each keeps a place of a link too.
pub(super) const RELAYS: usize = LINKS / 2;

/// The places for those who come in. Cheap to clone.
#[derive(Clone)]
pub(super) struct Crowd {
    handshakes: Arc<Semaphore>,
    links: Arc<Semaphore>,
    relays: Arc<Semaphore>,
    sources: Sources,
}

/// The handshakes from each address.
type Sources = Arc<Mutex<HashMap<IpAddr, usize>>>;

/// A place for a handshake.
pub(super) struct Stranger {
    links: Arc<Semaphore>,
    _handshake: OwnedSemaphorePermit,
    _source: Source,
}

/// A place for a link, or for one that is passed on.
pub(super) type Known = OwnedSemaphorePermit;

/// One handshake from there, until it is dropped.
struct Source {
    sources: Sources,
    address: IpAddr,
}

impl Crowd {
    /// Nobody is there yet.
    pub(super) fn new() -> Self {
        Self {
            handshakes: Arc::new(Semaphore::new(HANDSHAKES)),
            links: Arc::new(Semaphore::new(LINKS)),
            relays: Arc::new(Semaphore::new(RELAYS)),
            sources: Sources::default(),
        }
    }

    /// Waits for a place for somebody from there. Nothing, at once, if too many from there have one
    /// or wait.
    pub(super) async fn enter(&self, address: IpAddr) -> Option<Stranger> {
        let source = Source::enter(&self.sources, address.to_canonical())?;
        let handshake = Arc::clone(&self.handshakes).acquire_owned().await.ok()?;
        let links = Arc::clone(&self.links);
        Some(Stranger { links, _handshake: handshake, _source: source })
    }

    /// A place for what is to be passed on. Nothing if there is too much.
    pub(super) fn relay(&self) -> Option<Known> {
        Arc::clone(&self.relays).try_acquire_owned().ok()
    }
}

impl Stranger {
    /// It is known now who this is. Nothing if there are too many links.
    pub(super) fn known(self) -> Option<Known> {
        self.links.try_acquire_owned().ok()
    }
}

impl Source {
    fn enter(sources: &Sources, address: IpAddr) -> Option<Self> {
        let mut counts = sources.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if *count >= FROM_ONE {
            return None;
        }
        *count += 1;
        Some(Self { sources: Arc::clone(sources), address })
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        let mut counts = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn pod(number: u8) -> IpAddr {
        [10, 1, 2, number].into()
    }

    /// Who has a place, of so many from there.
    fn enter(crowd: &Crowd, from: IpAddr, times: usize) -> Vec<Stranger> {
        (0..times).filter_map(|_| crowd.enter(from).now_or_never().flatten()).collect()
    }

    #[test]
    fn one_address_has_its_places_and_leaves_those_of_others() {
        let crowd = Crowd::new();
        let mut first = enter(&crowd, pod(1), FROM_ONE + 1);
        assert_eq!(first.len(), FROM_ONE);
        let mapped: IpAddr = "::ffff:10.1.2.1".parse().expect("an address");
        assert_eq!(enter(&crowd, mapped, 1).len(), 0, "it is the same");
        assert_eq!(enter(&crowd, pod(2), 1).len(), 1);
        first.pop();
        assert_eq!(enter(&crowd, pod(1), 2).len(), 1, "the place of one that has gone");
        drop(first);
        assert!(crowd.sources.lock().expect("nobody panicked").is_empty());
    }

    #[test]
    fn handshakes_links_and_relays_have_places_of_their_own() {
        let crowd = Crowd::new();
        let from_each = |pods: std::ops::Range<u8>| -> Vec<Stranger> {
            pods.flat_map(|number| enter(&crowd, pod(number), FROM_ONE)).collect()
        };
        let strangers = from_each(0..8);
        assert_eq!(strangers.len(), HANDSHAKES);
        let (ninth, other) = (pod(8), pod(9));
        assert_eq!(enter(&crowd, ninth, 1).len(), 0, "it waits");
        let known: Vec<_> = strangers.into_iter().filter_map(Stranger::known).collect();
        assert_eq!(known.len(), HANDSHAKES);
        assert_eq!(enter(&crowd, other, FROM_ONE).len(), FROM_ONE, "links keep no such place");
        let others = (HANDSHAKES..LINKS).filter_map(|_| {
            let stranger = enter(&crowd, other, 1).pop();
            stranger.and_then(Stranger::known)
        });
        let others: Vec<_> = others.collect();
        assert_eq!(known.len() + others.len(), LINKS);
        let one_more = enter(&crowd, other, 1).pop().expect("a place for a handshake");
        assert!(one_more.known().is_none());
        let relays: Vec<_> = (0..=LINKS).map_while(|_| crowd.relay()).collect();
        assert_eq!(relays.len(), RELAYS);
    }
}
