//! Where the others are, and by whom they are reached.

use std::collections::{BTreeMap, HashMap};
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
    /// How members of each zone were reached.
    zones: BTreeMap<Option<String>, Zone>,
}

/// How members of a zone were reached.
struct Zone {
    /// A way to the zone.
    way: Way,
    /// Whether the latest was reached by gateways. Neighbours say nothing of that.
    is_apart: bool,
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

    /// The ways to a peer besides the direct one: those of the topology, and one by which its zone was reached before. The
    /// gateways change with the view, and who reaches whom need not change with it.
    pub(super) fn ways(&self, me: &MemberInfo, to: Incarnation) -> Vec<Way> {
        let known = self.known();
        let (Some(view), Some(peer)) = (&known.view, known.peers.get(&to)) else {
            return Vec::new();
        };
        let mut ways = Way::all(view, me, peer);
        if view.policy.topology == Topology::FullMesh || me.zone == peer.zone {
            return ways;
        }
        let Some(Zone { way, is_apart }) = known.zones.get(&peer.zone) else { return ways };
        let way = Way { then: way.then.filter(|then| *then != to), ..*way };
        if way.by != to && known.peers.contains_key(&way.by) && !ways.contains(&way) {
            // The leader may be dead.
            let is_last = !is_apart || view.leader.is_some_and(|one| way.goes_by(one));
            ways.insert(if is_last { ways.len() } else { 0 }, way);
        }
        ways
    }

    /// Notes how a peer was reached: by those gateways, or directly.
    pub(super) fn reached(&self, me: &MemberInfo, peer: Incarnation, by: Option<Way>) {
        let known = &mut *self.known();
        let Some(info) = known.peers.get(&peer) else { return };
        let name = info.zone.clone();
        let is_in_zone = |other| known.peers.get(&other).is_some_and(|info| info.zone == name);
        // A member that is reached from another zone reaches all of its own.
        let by_peer = Way { by: peer, then: None };
        let last = known.zones.get(&name).filter(|zone| known.peers.contains_key(&zone.way.by));
        let zone = match by {
            Some(way) if way.then.is_none() && !is_in_zone(way.by) => {
                Zone { way: Way { then: Some(peer), ..way }, is_apart: true }
            }
            Some(way) => Zone { way, is_apart: true },
            None => Zone {
                way: last.map_or(by_peer, |zone| zone.way),
                is_apart: last.is_some_and(|zone| zone.is_apart) && known.are_neighbours(me, info),
            },
        };
        known.zones.insert(name, zone);
    }

    /// Whether a peer is no neighbour, and the latest member of its zone that was reached was so through gateways. If none
    /// was reached yet, another zone stands for it.
    pub(super) fn is_apart(&self, me: &MemberInfo, peer: Incarnation) -> bool {
        let known = self.known();
        let Some(info) = known.peers.get(&peer) else { return false };
        let lies_apart = known
            .zones
            .get(&info.zone)
            .map_or_else(|| known.zones.values().any(|zone| zone.is_apart), |zone| zone.is_apart);
        lies_apart && !known.are_neighbours(me, info)
    }

    /// Whether members are to pass on what others say to each other.
    pub(super) fn have_gateways(&self) -> bool {
        self.known().view.as_ref().is_some_and(|view| view.policy.topology == Topology::Zones)
    }
}

impl Known {
    /// Whether one is to speak with the other directly alone.
    fn are_neighbours(&self, one: &MemberInfo, other: &MemberInfo) -> bool {
        self.view.as_ref().is_none_or(|view| Way::all(view, one, other).is_empty())
    }
}
