//! What a member knows of itself, and of its place among the others, when it elects.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::{Incarnation, MemberId};
use crate::policy::Topology;
use crate::record::{MemberInfo, Record};
use crate::view::View;

/// One member of an election, before it begins.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Place {
    /// Its rank.
    pub me: MemberId,
    /// Who takes part.
    pub view: View,
    /// How fit it is to lead: the higher, the fitter. Nobody else knows it beforehand.
    pub capacity: u64,
    /// Whom an election that goes by links sends to: they are links both ways.
    pub neighbours: BTreeSet<MemberId>,
    /// Whether a link to each of the others can be had too: these neighbours are chosen to save messages.
    pub spares: bool,
    /// How many elections in a row among these members came to nothing just before.
    pub in_vain: u32,
}

impl Place {
    /// A member of the capacity 0, in a full mesh.
    #[must_use]
    pub fn new(me: MemberId, view: View) -> Self {
        let neighbours = view.peers(me).collect();
        Self { me, view, capacity: 0, neighbours, spares: false, in_vain: 0 }
    }

    /// Its place when the next leader of a view is to be nominated.
    #[must_use]
    pub fn in_record(electorate: &Record, me: MemberId) -> Self {
        let capacity = electorate.member(me).map_or(0, |info| info.capacity);
        let zones = electorate.members.iter().map(|info| info.zone.as_deref());
        let leader = electorate.leader.and_then(|leader| electorate.rank(leader));
        let place = Self::new(me, electorate.view()).with_capacity(capacity.into());
        place.in_topology(electorate.policy.topology, zones, leader)
    }

    /// The same with a capacity.
    #[must_use]
    pub fn with_capacity(self, capacity: u64) -> Self {
        Self { capacity, ..self }
    }

    /// The same after so many elections in a row that came to nothing.
    #[must_use]
    pub fn after(self, in_vain: u32) -> Self {
        Self { in_vain, ..self }
    }

    /// The same with these neighbours alone: there are no other links.
    #[must_use]
    pub fn with_neighbours(self, neighbours: impl IntoIterator<Item = MemberId>) -> Self {
        let (me, view) = (self.me, self.view);
        let others = neighbours.into_iter().filter(|one| *one != me && view.has(*one));
        Self { neighbours: others.collect(), ..self }
    }

    /// The same with the neighbours that it has by a topology. `zones`: of each rank; nothing is a zone too.
    /// `leader`: who led until now, and may be dead.
    #[must_use]
    pub fn in_topology<'a>(
        self,
        topology: Topology,
        zones: impl IntoIterator<Item = Option<&'a str>>,
        leader: Option<MemberId>,
    ) -> Self {
        match topology {
            Topology::FullMesh => self,
            Topology::Zones => {
                let neighbours = Zones::new(zones, leader).neighbours(self.me);
                Self { spares: true, ..self.with_neighbours(neighbours) }
            }
        }
    }

    /// Whether a member is a neighbour; if the election is wide, each other is.
    #[must_use]
    pub fn is_neighbour(&self, one: MemberId, wide: bool) -> bool {
        if wide { one != self.me && self.view.has(one) } else { self.neighbours.contains(&one) }
    }

    /// The neighbours, or all others if the election is wide.
    #[must_use]
    pub fn neighbours(&self, wide: bool) -> BTreeSet<MemberId> {
        if wide { self.view.peers(self.me).collect() } else { self.neighbours.clone() }
    }
}

/// The gateways between a member of one zone and a member of another that is not its neighbour. Each is a neighbour of the
/// one before and of the one after.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Way {
    /// The gateway that it speaks with.
    pub by: Incarnation,
    /// The gateway that this one speaks with, unless it is a neighbour of the other end.
    pub then: Option<Incarnation>,
}

impl Way {
    /// Whether it goes by that gateway.
    #[must_use]
    pub fn goes_by(&self, gateway: Incarnation) -> bool {
        self.by == gateway || self.then == Some(gateway)
    }

    /// All ways from one to another in a view; none if it has no zones, or they are neighbours. A member that is not in the view yet
    /// is no gateway, unless nobody else of its zone is there.
    #[must_use]
    pub fn all(view: &Record, from: &MemberInfo, to: &MemberInfo) -> Vec<Self> {
        let (one, other) = (from.zone.as_deref(), to.zone.as_deref());
        if view.policy.topology == Topology::FullMesh || one == other {
            return Vec::new();
        }
        let leader = view.leader.and_then(|leader| view.rank(leader));
        let zones = Zones::new(view.members.iter().map(|info| info.zone.as_deref()), leader);
        // Each two members begin with another way, so that no gateway has the most to pass on, and with the same one in both
        // directions, so that as few as can be need a gateway that died.
        let ends = from.incarnation.pod.0 ^ to.incarnation.pod.0;
        let (first, second) = (ends & 1, ends >> 1 & 1);
        let turns = if one < other { [first, second] } else { [second, first] };
        let [leave, enter] =
            [(from, one, turns[0]), (to, other, turns[1])].map(|(end, zone, turn)| {
                let mut exits = zones.exits(zone, view.rank(end.incarnation));
                let by = if turn == 0 { 0 } else { 1 % exits.len() };
                exits.rotate_left(by);
                exits
            });
        let member = |gateway: Option<MemberId>| Some(view.member(gateway?)?.incarnation);
        // The second way has no gateway of the first.
        let (many, of_many) = (enter.len(), leave.len() * enter.len());
        let pairs = (0..of_many).map(|turn| {
            let (place, shift) = (turn % leave.len(), turn / leave.len());
            (member(leave[place]), member(enter[(place + shift) % many]))
        });
        let way = |pair| match pair {
            (Some(by), then) => Some(Self { by, then }),
            (None, Some(by)) => Some(Self { by, then: None }),
            (None, None) => None,
        };
        pairs.filter_map(way).collect()
    }
}

/// Who is in which zone.
struct Zones<'a> {
    members: BTreeMap<Option<&'a str>, Vec<MemberId>>,
    leader: Option<MemberId>,
}

impl<'a> Zones<'a> {
    fn new(zones: impl IntoIterator<Item = Option<&'a str>>, leader: Option<MemberId>) -> Self {
        let mut members: BTreeMap<Option<&str>, Vec<MemberId>> = BTreeMap::new();
        for (rank, zone) in (0..).map(MemberId).zip(zones) {
            members.entry(zone).or_default().push(rank);
        }
        Self { members, leader }
    }

    /// The members of its own zone and, if it is a gateway, all gateways.
    fn neighbours(self, me: MemberId) -> BTreeSet<MemberId> {
        let gateways: BTreeSet<MemberId> =
            self.members.values().flat_map(|zone| self.gateways(zone)).collect();
        let own = self.members.into_values().find(|zone| zone.contains(&me)).unwrap_or_default();
        let mut neighbours = BTreeSet::from_iter(own);
        if gateways.contains(&me) {
            neighbours.extend(gateways);
        }
        neighbours
    }

    /// Who is between a member of a zone and the gateways of other zones: one of these, or nobody.
    fn exits(&self, zone: Option<&str>, me: Option<MemberId>) -> Vec<Option<MemberId>> {
        let gateways = self.members.get(&zone).map_or_else(Vec::new, |zone| self.gateways(zone));
        let is_one = gateways.is_empty() || gateways.iter().any(|gateway| Some(*gateway) == me);
        if is_one { vec![None] } else { gateways.into_iter().map(Some).collect() }
    }

    /// The first two ranks of a zone, but not the leader unless there is nobody else.
    fn gateways(&self, zone: &[MemberId]) -> Vec<MemberId> {
        let others = zone.iter().copied().filter(|one| Some(*one) != self.leader);
        let gateways: Vec<MemberId> = others.take(GATEWAYS).collect();
        if gateways.is_empty() { zone.to_vec() } else { gateways }
    }
}

/// So that one of a zone may die.
const GATEWAYS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, PodUid};
    use crate::policy::Policy;
    use crate::record;

    /// The neighbours of each rank; the zones are letters, and a dash is none.
    fn neighbours(zones: &str, leader: Option<u32>) -> Vec<Vec<u32>> {
        let size = u32::try_from(zones.len()).expect("few");
        let view = View { epoch: Epoch(1), size, leader: MemberId(0) };
        let zone = |at: usize| Some(&zones[at..=at]).filter(|zone| *zone != "-");
        let of = |me| {
            let zones = (0..zones.len()).map(zone);
            let place = Place::new(me, view);
            let place = place.in_topology(Topology::Zones, zones, leader.map(MemberId));
            assert!(place.spares && !place.neighbours.contains(&me));
            assert_eq!(place.neighbours(false), place.neighbours);
            assert_eq!(place.neighbours(true), view.peers(me).collect());
            for one in (0..=size).map(MemberId) {
                for wide in [false, true] {
                    let is_one = place.neighbours(wide).contains(&one);
                    assert_eq!(place.is_neighbour(one, wide), is_one);
                }
            }
            place.neighbours.into_iter().map(|one| one.0).collect()
        };
        view.members().map(of).collect()
    }

    #[test]
    fn members_of_a_zone_are_neighbours_and_so_are_all_gateways() {
        let of = neighbours("aaabbb", None);
        assert_eq!(of[0], [1, 2, 3, 4]);
        assert_eq!(of[2], [0, 1]);
        assert_eq!(of[4], [0, 1, 3, 5]);
        assert_eq!(of[5], [3, 4]);
    }

    #[test]
    fn the_leader_is_a_gateway_only_if_its_zone_has_nobody_else() {
        assert_eq!(neighbours("aaab", Some(0))[3], [1, 2]);
        assert_eq!(neighbours("aaab", Some(3))[3], [0, 1]);
        assert_eq!(neighbours("aabb", Some(3))[3], [2], "one gateway is enough for two");
        assert_eq!(neighbours("aabb", Some(3))[2], [0, 1, 3]);
    }

    #[test]
    fn members_without_a_zone_are_in_one_of_their_own() {
        let of = neighbours("a--a-", None);
        assert_eq!(of[4], [1, 2]);
        assert_eq!(of[1], [0, 2, 3, 4]);
        let all: Vec<u32> = (1..5).collect();
        assert_eq!(neighbours("-----", None)[0], all);
    }

    #[test]
    fn links_go_both_ways_and_join_all_with_any_leader() {
        for zones in ["abcabcabc", "aabbbccccc", "abc", "aaaab", "--ab-ba", "a"] {
            for leader in (0..10).map(Some).chain([None]) {
                let of = neighbours(zones, leader);
                for (one, others) in (0..).zip(&of) {
                    assert!(others.iter().all(|other| of[*other as usize].contains(&one)));
                }
                let mut reached = vec![0];
                for next in 0..zones.len() {
                    let more = &of[reached[next] as usize];
                    let new: Vec<u32> =
                        more.iter().filter(|one| !reached.contains(one)).copied().collect();
                    reached.extend(new);
                }
                assert_eq!(reached.len(), zones.len(), "{zones}, led by {leader:?}");
            }
        }
    }

    fn member(number: usize, zones: &str) -> MemberInfo {
        let zone = Some(&zones[number..=number]).filter(|zone| *zone != "-");
        MemberInfo {
            incarnation: Incarnation { pod: PodUid(number as u128), run: 1 },
            zone: zone.map(str::to_owned),
            ..record::tests::member(0)
        }
    }

    /// A view of the first so many of these.
    fn view(zones: &str, members: usize, leader: Option<usize>, topology: Topology) -> Record {
        let members: Vec<MemberInfo> = (0..members).map(|number| member(number, zones)).collect();
        Record {
            leader: leader.map(|leader| members[leader].incarnation),
            policy: Policy { topology, ..Policy::default() },
            ..record::tests::record(members)
        }
    }

    /// The ways between two, by number.
    fn ways(view: &Record, zones: &str, from: usize, to: usize) -> Vec<Vec<usize>> {
        let number = |pod: Incarnation| usize::try_from(pod.pod.0).expect("few");
        let ways = Way::all(view, &member(from, zones), &member(to, zones)).into_iter();
        ways.map(|way| [Some(way.by), way.then].into_iter().flatten().map(number).collect())
            .collect()
    }

    #[test]
    fn every_two_members_are_neighbours_or_have_a_way_along_neighbours() {
        for zones in ["abcabcabc", "aabbbccccc", "abc", "aaaab", "--ab-ba", "a"] {
            for leader in (0..zones.len()).map(Some).chain([None]) {
                let view = view(zones, zones.len(), leader, Topology::Zones);
                let rank = |number| MemberId(u32::try_from(number).expect("few"));
                let places: Vec<Place> =
                    (0..zones.len()).map(|one| Place::in_record(&view, rank(one))).collect();
                for (from, to) in
                    (0..zones.len()).flat_map(|one| (0..zones.len()).map(move |to| (one, to)))
                {
                    let ways = ways(&view, zones, from, to);
                    let is_near = from == to || places[from].is_neighbour(rank(to), false);
                    assert_eq!(ways.is_empty(), is_near, "{zones}, {leader:?}: {from} to {to}");
                    for way in ways {
                        let stops: Vec<usize> = [from].into_iter().chain(way).chain([to]).collect();
                        let is_way =
                            |hop: &[usize]| places[hop[0]].is_neighbour(rank(hop[1]), false);
                        assert!(stops.windows(2).all(is_way), "{zones}, {leader:?}: {stops:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn there_is_a_way_by_each_gateway_and_none_in_a_full_mesh() {
        let view_of = |topology| view("aaabbb", 6, Some(0), topology);
        let zones = view_of(Topology::Zones);
        assert_eq!(ways(&zones, "aaabbb", 0, 5), [[2, 3], [1, 4], [2, 4], [1, 3]]);
        assert_eq!(ways(&zones, "aaabbb", 5, 0), [[3, 2], [4, 1], [3, 1], [4, 2]]);
        assert_eq!(ways(&zones, "aaabbb", 0, 3), [[2], [1]]);
        assert_eq!(ways(&zones, "aaabbb", 1, 5), [[3], [4]]);
        assert!(ways(&view_of(Topology::FullMesh), "aaabbb", 0, 5).is_empty());
    }

    #[test]
    fn a_member_that_is_not_in_the_view_yet_goes_by_the_gateways_that_are() {
        let zones = "aaabbbbc";
        let view = view(zones, 6, Some(0), Topology::Zones);
        assert_eq!(ways(&view, zones, 6, 0), [[4, 1], [3, 2], [4, 2], [3, 1]]);
        assert_eq!(ways(&view, zones, 0, 6), [[1, 4], [2, 3], [1, 3], [2, 4]]);
        assert_eq!(ways(&view, zones, 7, 0), [[2], [1]], "nobody else is in its zone");
        assert!(ways(&view, zones, 7, 1).is_empty());
    }

    #[test]
    fn in_a_full_mesh_all_are_neighbours_and_nothing_is_spared() {
        let view = View { epoch: Epoch(1), size: 3, leader: MemberId(0) };
        let place = Place::new(MemberId(1), view);
        assert_eq!(place.clone().in_topology(Topology::FullMesh, [], None), place);
        assert!(!place.spares);
    }
}
