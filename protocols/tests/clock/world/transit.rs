//! What members send, on its way: messages and clock probes come late, twice, in another order, or not at all.

use conclave_protocols::clock::AnyMessage;
use conclave_protocols::{LocalTime, Named};

use super::{Happening, MS, World};

/// How often members probe the leader.
pub(super) const PROBE: u64 = 250 * MS;

impl World {
    /// One in ten is lost. That to the leader is quicker than that back, or slower.
    pub(super) fn probe(&mut self, member: usize) {
        self.at(self.now + PROBE, Happening::Probes { member });
        let (leader, now) = (self.members[member].leader, self.now);
        let is_cut = self.cuts.contains(&(leader.min(member), leader.max(member)))
            || self.probe_cuts.contains(&(leader.min(member), leader.max(member)))
            || now < self.members[leader].frozen_until
            || self.members[leader].island != self.members[member].island;
        if leader == member || !self.probes {
            return;
        }
        let usual = if member.is_multiple_of(2) { (20_000, 60_000) } else { (60_000, 20_000) };
        let part = if self.is_quick { 100 } else { 1 };
        let there = now.saturating_sub((self.random.up_to(100_000) + usual.0) / part);
        let back = now.saturating_sub((self.random.up_to(100_000) + usual.1) / part);
        let (theirs, it) = (&self.members[leader], &self.members[member]);
        let samples = [(it.raw(there), theirs.raw(now)), (theirs.raw(back), it.raw(now))];
        let lost = self.random.up_to(10);
        let it = &mut self.members[member];
        if lost != 0 && !is_cut {
            it.link.sent(samples[0].0, samples[0].1);
        }
        if lost != 1 && !is_cut {
            it.link.received(samples[1].0, samples[1].1);
        }
        let raw = it.raw(now);
        it.transfer.related(LocalTime(raw), it.link.relation(raw));
        self.publish(member);
    }

    /// One in ten is lost, one in ten comes twice, one in twenty is slow. One way from each member is
    /// quick, the other is not.
    pub(super) fn send(&mut self, from: usize, to: usize, epoch: u64, message: &AnyMessage) {
        *self.sent.entry(message.name()).or_default() += 1;
        let copies = match self.random.up_to(10) {
            _ if self.calm.is_some() => 1,
            0 => 0,
            1 => 2,
            _ => 1,
        };
        for _ in 0..copies {
            let usual = if (from + to).is_multiple_of(2) == (from < to) { 20_000 } else { 700_000 };
            let is_slow = self.random.up_to(20) == 0;
            let slow = self.calm.unwrap_or(if is_slow { 400 * MS } else { 100_000 });
            let far = self.members[from].slow_ns + self.members[to].slow_ns;
            let delay = usual + self.random.up_to(slow) + far;
            let mut message = message.clone();
            if let Some(lie) = self.members[from].lies {
                let leader = self.members[from].leader;
                let behind_ns = self.read(leader) - self.read(from);
                let leads = &self.members[leader];
                let turns = leads.raw(self.now) >= leads.published.shown.last.raw;
                lie.distort(&mut self.random, (behind_ns, turns), &mut message);
            }
            self.at(self.now + delay, Happening::Arrives { to, from, epoch, message });
        }
    }
}
