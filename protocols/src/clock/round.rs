//! One round, as the daemon sees it: who answered what, and what follows from that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::average::{Candidate, Mean, average};
use super::discipline::VirtualClock;
use super::estimate::Estimate;
use super::exchange::Offset;
use super::intersection::Interval;
use super::params::Params;
use super::rates::{as_nanos, share};
use super::sway::Sway;
use crate::ids::MemberId;
use crate::time::LocalTime;
use crate::view::View;

/// What a member found out about another in its last round or exchange.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Source {
    /// How far the other's clock was ahead of its own; nothing if it did not answer.
    pub offset: Option<Offset>,
    /// What was made of it.
    pub verdict: Verdict,
    /// The bounds of both cannot be right: a raw clock drifts more than the
    /// policy states, or was stopped. Of a contradiction that lasts, the first round is noted.
    pub contradicts: bool,
}

/// What became of a member's answer.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Verdict {
    /// It is part of the average.
    Averaged,
    /// Its time was taken.
    Taken,
    /// It agrees with most others, and its stratum is not lower.
    Agrees,
    /// It is too far from most others: an outlier, a falseticker.
    Outlier,
    /// It is known too badly, or its exchange took too long.
    Vague,
    /// Its clock was never synchronised, and is set rather than averaged.
    Joining,
    /// No answer came.
    Silent,
}

/// The polls of one round, and the answers so far.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) struct Round {
    /// When the polls were sent.
    pub(super) sent: LocalTime,
    samples: BTreeMap<MemberId, Sample>,
}

/// One answer.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Sample {
    pub(super) offset: Offset,
    pub(super) received: LocalTime,
    /// The member's own bound; nothing if it was never synchronised.
    pub(super) claimed_ns: Option<u64>,
    contradicts: bool,
    /// The exchange took more than twice as long as the fastest with this member, or the member may
    /// be farther from group time than the clocks that are averaged from one another.
    pub(super) is_vague: bool,
}

/// The daemon as one of those that are averaged.
#[derive(Clone, Copy)]
pub(super) struct Own {
    pub(super) id: MemberId,
    /// How far ahead of what it shows it is going to be: by as much others were corrected beside their differences.
    pub(super) ahead_ns: i64,
    /// The bound that it had when it sent its polls; nothing if it was never synchronised.
    pub(super) bound_ns: Option<u64>,
}

impl Source {
    /// What a client learns of a server.
    pub(super) fn of_server(clock: &VirtualClock, server: Estimate, verdict: Verdict) -> Self {
        let map = clock.map();
        let shown_ns = map.now_ns(server.raw.0);
        let ns = server.ns.saturating_sub(shown_ns);
        let most = map.error_ns(server.raw.0).map(|own| own.saturating_add(server.error_ns));
        let contradicts = most.is_some_and(|most| ns.unsigned_abs() > most);
        let offset = Some(Offset { ns, error_ns: server.error_ns });
        Self { offset, verdict, contradicts }
    }
}

impl Sample {
    /// An answer of a member with which no exchange was faster than with an error of `fastest_ns`,
    /// received when the daemon's own bound was `own_ns`.
    pub(super) fn new(
        received: LocalTime,
        (offset, claimed_ns): (Offset, Option<u64>),
        (fastest_ns, own_ns): (u64, Option<u64>),
        params: &Params,
    ) -> Self {
        let most = claimed_ns.zip(own_ns).map(|(theirs, own)| theirs.saturating_add(own));
        let contradicts = most
            .is_some_and(|most| offset.ns.unsigned_abs() > most.saturating_add(offset.error_ns));
        let is_slow =
            offset.error_ns > as_nanos(params.precision).max(fastest_ns.saturating_mul(2));
        let is_vague = is_slow || claimed_ns.is_some_and(|ns| ns > as_nanos(params.gamma));
        Self { offset, received, claimed_ns, contradicts, is_vague }
    }
}

impl Sample {
    /// The clock as one to be averaged.
    fn read(&self, params: &Params) -> Candidate {
        let own = own_interval(self.claimed_ns, params);
        Candidate { ns: self.offset.ns, error_ns: own.saturating_add(self.offset.error_ns) }
    }
}

impl Round {
    pub(super) fn new(sent: LocalTime) -> Self {
        Self { sent, samples: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, from: MemberId, sample: Sample) {
        self.samples.insert(from, sample);
    }

    pub(super) fn has(&self, member: MemberId) -> bool {
        self.samples.contains_key(&member)
    }

    pub(super) fn samples(&self) -> impl Iterator<Item = (&MemberId, &Sample)> {
        self.samples.iter()
    }

    /// Whether all answered.
    pub(super) fn is_complete(&self, view: View) -> bool {
        self.samples.len() + 1 >= view.size as usize
    }

    /// Whether a majority answered, the daemon included: then there was no later view when the polls
    /// were sent.
    pub(super) fn is_confirmed(&self, view: View) -> bool {
        self.samples.len() + 1 >= view.majority()
    }

    /// Whether most answers and the daemon's bound cannot both be right.
    pub(super) fn mostly_contradicts(&self, view: View) -> bool {
        let contradict = self.samples.values().filter(|sample| sample.contradicts).count();
        is_most(contradict, self.samples.len(), view)
    }

    /// The average of all clocks, by a daemon that begins group time.
    pub(super) fn average_of_all(&self, own: Own, params: &Params) -> Option<Mean> {
        let clocks = self.read(own, params, |sample| !sample.is_vague);
        average(params.averaging, &clocks, as_nanos(params.gamma), own.id)
    }

    /// The average of the clocks that keep group time. One whose bound and the daemon's cannot both be right is none of
    /// them, unless that is so with most.
    pub(super) fn average(
        &self,
        own: Own,
        view: View,
        params: &Params,
        sway: &mut Sway,
    ) -> Option<Mean> {
        let is_wrong = self.mostly_contradicts(view);
        let keeps = |sample: &Sample| sample.claimed_ns.is_some() && !sample.is_vague;
        let clocks = |sample: &Sample| keeps(sample) && (is_wrong || !sample.contradicts);
        sway.average(self.sent, &self.read(own, params, clocks), (own.id, view), params)
    }

    /// The daemon's clock, and of the others those that count.
    fn read(
        &self,
        own: Own,
        params: &Params,
        counts: impl Fn(&Sample) -> bool,
    ) -> BTreeMap<MemberId, Candidate> {
        let others = self.samples.iter().filter(|(_, sample)| counts(sample));
        let others = others.map(|(id, sample)| (*id, sample.read(params)));
        let clock = Candidate { ns: own.ahead_ns, error_ns: own_interval(own.bound_ns, params) };
        others.chain([(own.id, clock)]).collect()
    }

    /// What a daemon without a time found group time to be, so far ahead of its clock, and whose clocks agree.
    pub(super) fn agreed(&self, ns: i64, error_ns: u64) -> Mean {
        let found = Interval::around(ns, error_ns);
        let agrees = |(id, sample): (&MemberId, &Sample)| {
            let error_ns = sample.claimed_ns?.saturating_add(sample.offset.error_ns);
            Interval::around(sample.offset.ns, error_ns).overlaps(found).then_some(*id)
        };
        Mean { ns, of: self.samples.iter().filter_map(agrees).collect() }
    }

    /// What became of each member's answer.
    pub(super) fn judge(
        &self,
        own: Own,
        view: View,
        mean: Option<&Mean>,
    ) -> BTreeMap<MemberId, Source> {
        let founds = !self.knows_group_time(own);
        let judge = |id: MemberId| {
            let Some(sample) = self.samples.get(&id) else {
                return Source { offset: None, verdict: Verdict::Silent, contradicts: false };
            };
            let verdict = match mean {
                Some(mean) if mean.of.contains(&id) => Verdict::Averaged,
                Some(_) if sample.claimed_ns.is_none() && !founds => Verdict::Joining,
                Some(_) if sample.is_vague => Verdict::Vague,
                Some(_) => Verdict::Outlier,
                None if sample.claimed_ns.is_some() => Verdict::Vague,
                None => Verdict::Joining,
            };
            Source { offset: Some(sample.offset), verdict, contradicts: sample.contradicts }
        };
        view.peers(own.id).map(|id| (id, judge(id))).collect()
    }

    /// How far group time can be from the daemon's clock, as the members that keep group time bound it. Nothing if nobody does. It counts from when the polls were sent, with what
    /// the bound grows by after that.
    ///
    /// It is the best of these bounds that one member at least states that does not lie.
    pub(super) fn error_by_others(&self, view: View, growth_ppb: u64) -> Option<u64> {
        let bound = |sample: &Sample| {
            let apart = sample.offset.ns.unsigned_abs();
            let since_sent = share(as_nanos(sample.received - self.sent), growth_ppb);
            let bound = sample.claimed_ns?.saturating_add(sample.offset.error_ns);
            Some(bound.saturating_add(apart).saturating_add(since_sent))
        };
        let mut bounds: Vec<u64> = self.samples.values().filter_map(bound).collect();
        bounds.sort_unstable();
        bounds.get(liars(view)).or_else(|| bounds.last()).copied()
    }

    /// Those that answered a daemon with a time that they keep group time. To one without, those that are yet to get it anew
    /// state what they had.
    pub(super) fn have_time(&self, own: Own) -> impl Iterator<Item = MemberId> + '_ {
        let counts = own.bound_ns.is_some();
        let claims = move |sample: &Sample| counts && sample.claimed_ns.is_some();
        self.samples.iter().filter(move |(_, sample)| claims(sample)).map(|(id, _)| *id)
    }

    /// Whether the daemon or anybody who answered keeps group time.
    pub(super) fn knows_group_time(&self, own: Own) -> bool {
        own.bound_ns.is_some() || self.samples.values().any(|sample| sample.claimed_ns.is_some())
    }
}

/// How many members of a view may lie: fewer than a third. What more can lie, no rule finds out (Lamport and
/// Melliar-Smith, *Synchronizing Clocks in the Presence of Faults*, JACM 32(1), 1985).
pub(super) fn liars(view: View) -> usize {
    (view.size.saturating_sub(1) / 3) as usize
}

/// Whether so many of those that answered are most of them, and more than may lie.
pub(super) fn is_most(count: usize, answered: usize, view: View) -> bool {
    2 * count > answered && count > liars(view)
}

/// How far group time may be from a clock with that bound, for the average. One that was never
/// synchronised counts as wrong by half of γ, so that those within γ of one another agree. None counts as
/// better than the precision that is asked for: else the daemon's own clock, from which group time hardly
/// differs, would never be moved by the others.
fn own_interval(bound_ns: Option<u64>, params: &Params) -> u64 {
    let unknown = as_nanos(params.gamma) / 2;
    bound_ns.map_or(unknown, |bound| bound.max(as_nanos(params.precision)))
}
