//! What becomes of messages under way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::protocol::Protocol;

/// From whom to whom.
type Link<P> = (<P as Protocol>::Peer, <P as Protocol>::Peer);

/// All links of a group.
#[derive(Clone)]
pub(super) struct Links<P: Protocol> {
    /// How long a message takes: between these two.
    pub(super) delay: (Duration, Duration),
    /// The same, of some links.
    pub(super) slow: BTreeMap<Link<P>, (Duration, Duration)>,
    pub(super) cut: BTreeSet<Link<P>>,
    /// What arrived on links that are held back, with the sessions of the messages.
    pub(super) held: BTreeMap<Link<P>, Vec<(u64, P::Message)>>,
    /// How often a link broke.
    pub(super) sessions: BTreeMap<Link<P>, u64>,
    /// One message in so many comes again, so much later at most.
    pub(super) repeats: BTreeMap<Link<P>, (u64, Duration)>,
    /// How many did.
    pub(super) repeated: BTreeMap<Link<P>, u64>,
    /// How many messages were lost.
    pub(super) lost: BTreeMap<Link<P>, u64>,
    /// When the latest message of a link arrives, so that none overtakes another.
    latest: BTreeMap<Link<P>, Duration>,
}

impl<P: Protocol> Default for Links<P> {
    fn default() -> Self {
        Self {
            delay: (Duration::from_micros(200), Duration::from_millis(1)),
            slow: BTreeMap::new(),
            cut: BTreeSet::new(),
            held: BTreeMap::new(),
            sessions: BTreeMap::new(),
            repeats: BTreeMap::new(),
            repeated: BTreeMap::new(),
            lost: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }
}

impl<P: Protocol> Links<P> {
    pub(super) fn delay_of(&self, from: P::Peer, to: P::Peer) -> (Duration, Duration) {
        self.slow.get(&(from, to)).copied().unwrap_or(self.delay)
    }

    fn session(&self, link: Link<P>) -> u64 {
        self.sessions.get(&link).copied().unwrap_or(0)
    }

    /// When a message arrives that would take until `arrival`, and in which session of the link;
    /// nothing if it is lost.
    pub(super) fn send(
        &mut self,
        from: P::Peer,
        to: P::Peer,
        arrival: Duration,
    ) -> Option<(Duration, u64)> {
        let link = (from, to);
        let latest = self.latest.entry(link).or_default();
        *latest = (*latest).max(arrival);
        let at = *latest;
        if self.cut.contains(&link) {
            self.lose(link);
            return None;
        }
        Some((at, self.session(link)))
    }

    /// A message arrives: it is handed on unless it is lost or kept back.
    pub(super) fn arrive(
        &mut self,
        from: P::Peer,
        to: P::Peer,
        session: u64,
        message: P::Message,
    ) -> Option<P::Message> {
        let link = (from, to);
        if self.cut.contains(&link) || session != self.session(link) {
            self.lose(link);
            return None;
        }
        match self.held.get_mut(&link) {
            Some(kept) => {
                kept.push((session, message));
                None
            }
            None => Some(message),
        }
    }

    fn lose(&mut self, link: Link<P>) {
        *self.lost.entry(link).or_default() += 1;
    }
}
