//! How locks stand: what the claims of this pod know, and what the other members report to a leader.

use std::collections::BTreeMap;

use conclave_protocols::elections::election_of;
use conclave_protocols::member::Shown;
use conclave_protocols::{Incarnation, LocalTime, LockName};

use super::{PodNode, name_of, requests};
use crate::claims::Holder;
use crate::group::costs::cost_of_lock;
use crate::locks::{Elsewhere, Lock, Locks, LocksError, WaitingPod, Which};

impl PodNode {
    /// The locks that are asked for.
    pub(super) fn locks(&mut self, now: LocalTime, which: &Which) -> Result<Locks, LocksError> {
        let no_view = || LocksError::NotReady(requests::NO_VIEW.to_owned());
        let record = self.member.record().ok_or_else(no_view)?;
        let mut locks = Locks { complete: self.member.knows_all(now), ..Locks::default() };
        let names = match which {
            Which::One(name) if record.policy.for_lock(name.as_str()).is_none() => {
                return Err(LocksError::NotAllowed);
            }
            Which::One(name) => vec![name.clone()],
            Which::Used { limit, .. } => {
                let mut names = self.used(now, which, *limit);
                let more = names.len() > *limit;
                names.truncate(*limit);
                locks.next = names.last().filter(|_| more).cloned();
                names
            }
        };
        locks.locks = names.iter().filter_map(|name| self.lock(now, name)).collect();
        Ok(locks)
    }

    /// The names of locks that somebody is known to hold or to wait for, in their order.
    /// A page of them and one more, if there are more; of 50,000 names no others are copied.
    fn used(&self, now: LocalTime, which: &Which, limit: usize) -> Vec<LockName> {
        let known = self.book.names().chain(self.member.names_shown(now));
        // By their texts: the names themselves are ordered by a digest.
        let mut page = BTreeMap::new();
        for name in known.filter(|name| which.has(name) && election_of(name).is_none()) {
            page.insert(name.as_str(), name);
            if page.len() > limit + 1 {
                page.pop_last();
            }
        }
        page.into_values().cloned().collect()
    }

    /// How a lock stands; nothing if no policy allows it any more.
    fn lock(&mut self, now: LocalTime, name: &LockName) -> Option<Lock> {
        let record = self.member.record()?;
        let policy = record.policy.for_lock(name.as_str())?;
        let seat = self.member.seat();
        let grants = seat.and_then(|seat| self.member.service().locks().coordinator(seat, name));
        let lock = self.book.lock(now, name, policy);
        let mut lock = Lock {
            coordinator: seat
                .zip(grants)
                .and_then(|(seat, rank)| Some(seat.info(rank)?.name.clone())),
            expected_messages: cost_of_lock(policy.algorithm, record, self.member.me(), grants),
            ..lock
        };
        if let Some(shown) = self.member.shown(now, name) {
            let me = self.member.me();
            let pod_of = |member: Incarnation| name_of(self.member.record(), member);
            show(&mut lock, now, me, shown, pod_of);
        }
        Some(lock)
    }
}

/// Adds what the leader knows. It knows no more of its own pod than the claims of that.
fn show(
    lock: &mut Lock,
    now: LocalTime,
    me: Incarnation,
    shown: Shown,
    pod_of: impl Fn(Incarnation) -> String,
) {
    let Shown { holder, waiting } = shown;
    let others = holder.filter(|holder| holder.member != me && lock.holding.is_none());
    lock.elsewhere = others.map(|holder| {
        let pod = pod_of(holder.member);
        let owner = Some(holder.note.owner).filter(|owner| !owner.is_empty());
        let holder = Holder {
            owner: owner.unwrap_or_else(|| pod.clone()),
            pod,
            token: holder.token,
            held: holder.held,
            notified: now,
            metadata: holder.note.metadata,
        };
        Elsewhere { holder, is_report: false }
    });
    let others = waiting.into_iter().filter(|(member, _)| *member != me);
    let pods = others.map(|(member, note)| WaitingPod {
        pod: pod_of(member),
        owner: Some(note.owner).filter(|owner| !owner.is_empty()),
        metadata: note.metadata,
    });
    lock.pods = pods.collect();
}
