//! The group at one moment, as the page draws it.
//!
//! Everything is read from watch channels, so that no member is waited for.

mod clocks;
mod locks;

use std::time::{Duration, Instant};

use conclave_protocols::{LocalTime, PodUid};
use serde::Serialize;

use self::clocks::ClockView;
use self::locks::ClaimView;
use super::super::chronicle::Drawable;
use super::super::elections;
use super::super::member::{Members, Outside, number_of};
use super::super::watch::Line;
use super::failover::FailoverView;
use super::observer::Shared;
use super::stalls::{StallView, StallViews};
use crate::group::{Election, Group, Leadership, Status};
use crate::os_clock::OsClock;

/// The group at one moment.
#[derive(Debug, Serialize)]
pub(super) struct Snapshot {
    group: String,
    arbiter: String,
    algorithm: String,
    /// Who surely leads.
    leader: Option<u16>,
    /// Whether locks are granted at the moment.
    grants: bool,
    /// The time in which none are.
    stall: StallView,
    /// The highest that a member knows.
    epoch: u64,
    leader_lease_ms: u64,
    register_cut: bool,
    failover: FailoverView,
    members: Vec<MemberView>,
    claims: Vec<ClaimView>,
    /// Which entries there are to draw.
    entries: Vec<Drawable>,
    /// Which ballots.
    elections: Vec<elections::Drawable>,
    /// What was sent since the snapshot before.
    sent: Vec<Line>,
}

/// A member, seen from outside, and what it says of itself if it lives.
#[derive(Debug, Serialize)]
struct MemberView {
    number: u16,
    pod: String,
    api_port: u16,
    alive: bool,
    paused: bool,
    cut: bool,
    split_off: bool,
    /// The time in which it takes no part.
    stall: StallView,
    own: Option<OwnView>,
    clock: Option<ClockView>,
}

/// What a member says of itself.
#[derive(Debug, Serialize)]
struct OwnView {
    /// Why it is in no view.
    missing: Option<String>,
    leadership: &'static str,
    /// Whether it surely leads.
    leads: bool,
    /// For how long, if it does.
    safe_for_ms: u64,
    /// For how much longer it grants nothing, as far as it knows.
    grace_ms: Option<u64>,
    epoch: u64,
    rank: Option<u32>,
    /// The members of its view, the highest rank last.
    view: Vec<PeerView>,
}

/// A member of a view.
#[derive(Debug, Serialize)]
struct PeerView {
    number: Option<u16>,
    leader: bool,
    connected: bool,
}

impl Snapshot {
    /// Looks at everybody.
    pub(super) fn take(members: &Members, seen: &Shared, sent: Vec<Line>) -> Self {
        let now = OsClock::default().now();
        let numbers = 0..members.count();
        let groups: Vec<Option<Group>> =
            numbers.clone().map(|number| members.group(number)).collect();
        let mut clocks = clocks::compare(members, &groups).into_iter();
        let StallViews { group: stall, members: stalls } = seen.stalls.look(members);
        let views: Vec<MemberView> = numbers
            .clone()
            .zip(&groups)
            .zip(stalls)
            .map(|((number, group), stall)| {
                let clock = clocks.next().flatten();
                MemberView::new(members, number, group.as_ref(), clock, stall, now)
            })
            .collect();
        let own = || views.iter().filter_map(|view| Some((view.number, view.own.as_ref()?)));
        let leads = own().filter(|(_, own)| own.leads);
        let settings = members.settings();
        Self {
            group: settings.group.clone(),
            arbiter: format!("{:?}", settings.policy.arbiter),
            algorithm: format!("{:?}", settings.policy.election),
            leader: leads.max_by_key(|(_, own)| own.epoch).map(|(number, _)| number),
            grants: stall.running_ms.is_none(),
            stall,
            epoch: own().map(|(_, own)| own.epoch).max().unwrap_or_default(),
            leader_lease_ms: millis(settings.policy.timing.leader_lease),
            register_cut: members.register_is_cut(),
            failover: seen.failover.view(Instant::now()),
            claims: numbers.flat_map(|number| locks::claims(seen, number, now)).collect(),
            entries: members.chronicle.drawable(now),
            elections: members.elections.drawable(now),
            members: views,
            sent,
        }
    }
}

impl MemberView {
    fn new(
        members: &Members,
        number: u16,
        group: Option<&Group>,
        clock: Option<ClockView>,
        stall: StallView,
        now: LocalTime,
    ) -> Self {
        let outside = members.outside(number);
        let is = |what: fn(&Outside) -> bool| outside.as_ref().is_some_and(what);
        let settings = members.settings();
        Self {
            number,
            pod: format!("{}-{number}", settings.group),
            api_port: settings.base_port + number,
            alive: is(|outside| outside.alive),
            paused: is(|outside| outside.paused),
            cut: is(|outside| outside.cut),
            split_off: is(|outside| outside.split_off),
            stall,
            own: group.map(|group| {
                OwnView::new(&group.status().borrow(), &group.election().borrow(), now)
            }),
            clock,
        }
    }
}

impl OwnView {
    fn new(status: &Status, election: &Election, now: LocalTime) -> Self {
        let leads = election.leads_at(now);
        let safe_until = election.safe_until.filter(|_| leads);
        let leader = election.leader_at(now).map(|leader| leader.uid.as_str());
        let peer = |member: &crate::group::MemberStatus| PeerView {
            number: member.uid.parse::<PodUid>().ok().and_then(number_of),
            leader: leader == Some(member.uid.as_str()),
            connected: member.connected,
        };
        Self {
            missing: status.missing.clone(),
            leadership: leadership(election, leads),
            leads,
            safe_for_ms: safe_until.map_or(0, |until| millis(now.until(until))),
            grace_ms: status.grace_after(now).map(|until| millis(now.until(until))),
            epoch: status.epoch.0,
            rank: status.members.iter().find(|member| member.me).map(|member| member.rank),
            view: status.members.iter().map(peer).collect(),
        }
    }
}

/// A leader whose leader lease has run out without its noticing is isolated, not leading.
fn leadership(election: &Election, leads: bool) -> &'static str {
    match election.leadership {
        Leadership::Leading if leads => "leading",
        Leadership::Leading | Leadership::Isolated => "isolated",
        Leadership::Following => "following",
        Leadership::Electing => "electing",
        Leadership::HandingOver => "handing over",
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
