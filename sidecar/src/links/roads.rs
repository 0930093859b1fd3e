//! Where the others are, and by whom they are reached.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_protocols::Incarnation;
use conclave_protocols::election::Way;
use conclave_protocols::policy::Topology;
use conclave_protocols::record::{MemberInfo, Record};

/// What is known of the others now. Nobody waits while holding it. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Roads(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    peers: HashMap<Incarnation, MemberInfo>,
    /// The latest view, whose gateways pass on what goes from zone to zone.
    view: Option<Record>,
    /// The zones whose members are reached through gateways.
    apart: BTreeSet<Option<String>>,
}

impl Roads {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Learns where a peer is.
    pub(super) fn meet(&self, info: &MemberInfo) {
        self.known().peers.insert(info.incarnation, info.clone());
    }

    /// Forgets where everybody else is.
    pub(super) fn keep_only(&self, known: impl Fn(&Incarnation) -> bool) {
        self.known().peers.retain(|peer, _| known(peer));
    }

    /// Goes by a view from now on.
    pub(super) fn go_by(&self, view: &Record) {
        let mut known = self.known();
        let same = |one: &Record| (one.epoch, one.nonce) == (view.epoch, view.nonce);
        if !known.view.as_ref().is_some_and(same) {
            known.view = Some(view.clone());
        }
    }

    /// Where a peer is; nothing if that is not known.
    pub(super) fn addresses(&self, peer: Incarnation) -> Option<Vec<SocketAddr>> {
        self.known().peers.get(&peer).map(|info| info.addresses.clone())
    }

    /// The ways to a peer besides the direct one.
    pub(super) fn ways(&self, me: &MemberInfo, to: Incarnation) -> Vec<Way> {
        let known = self.known();
        let (Some(view), Some(peer)) = (&known.view, known.peers.get(&to)) else {
            return Vec::new();
        };
        Way::all(view, me, peer)
    }

    /// Notes whether a peer was reached through gateways.
    pub(super) fn reached(&self, peer: Incarnation, relayed: bool) {
        let known = &mut *self.known();
        let Some(zone) = known.peers.get(&peer).map(|info| &info.zone) else { return };
        if relayed {
            known.apart.insert(zone.clone());
        } else {
            known.apart.remove(zone);
        }
    }

    /// Whether the latest member of a peer's zone that was reached was so through gateways.
    pub(super) fn is_apart(&self, peer: Incarnation) -> bool {
        let known = self.known();
        known.peers.get(&peer).is_some_and(|info| known.apart.contains(&info.zone))
    }

    /// Whether members are to pass on what others say to each other.
    pub(super) fn have_gateways(&self) -> bool {
        self.known().view.as_ref().is_some_and(|view| view.policy.topology == Topology::Zones)
    }
}
