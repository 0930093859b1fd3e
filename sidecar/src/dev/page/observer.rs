//! Watches all members, and notifies the page of what is new to see.
//!
//! Whatever has to be asked of a member is asked here, by one task for each, so that a paused
//! member keeps nobody waiting but its own observer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;

use super::super::member::Members;
use super::events::SHORTEST;
use super::failover::Failover;
use super::stalls::{OFTEN, Stalls};
use crate::claims::{Claim, ClaimId, ClaimState};
use crate::group::Group;

/// What was seen of the members. The tasks end when it is dropped.
pub(super) struct Observer {
    seen: Arc<Shared>,
    _tasks: JoinSet<()>,
}

/// What the tasks and the page share.
pub(super) struct Shared {
    /// By member.
    claims: Mutex<Vec<Vec<watch::Receiver<Claim>>>>,
    pub(super) failover: Failover,
    pub(super) stalls: Stalls,
    news: watch::Sender<u64>,
}

impl Observer {
    /// Begins to watch.
    pub(super) fn start(members: &Arc<Members>) -> Self {
        let seen = Arc::new(Shared {
            claims: Mutex::new(vec![Vec::new(); usize::from(members.count())]),
            failover: Failover::default(),
            stalls: Stalls::new(members.count()),
            news: watch::Sender::new(0),
        });
        let mut tasks = JoinSet::new();
        for number in 0..members.count() {
            tasks.spawn(watch_member(number, Arc::clone(members), Arc::clone(&seen)));
        }
        tasks.spawn(watch_stalls(Arc::clone(members), Arc::clone(&seen)));
        tasks.spawn(pass_on(members.changes(), Arc::clone(&seen)));
        tasks.spawn(pass_on(members.journal.last(), Arc::clone(&seen)));
        Self { seen, _tasks: tasks }
    }

    pub(super) fn seen(&self) -> &Shared {
        &self.seen
    }
}

impl Shared {
    /// Notifies when something has changed.
    pub(super) fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The claims of a member that wait or hold, and those lost of late.
    pub(super) fn claims(&self, number: u16) -> Vec<Claim> {
        let all = self.all_claims();
        let of_member = all.get(usize::from(number)).into_iter().flatten();
        of_member.map(|claim| claim.borrow().clone()).collect()
    }

    /// Whether no page is open. Then no claim is looked at: a member may have thousands.
    fn is_unwatched(&self) -> bool {
        self.news.receiver_count() == 0
    }

    fn forget_claims(&self, number: u16) {
        if let Some(claims) = self.all_claims().get_mut(usize::from(number)) {
            claims.clear();
        }
    }

    fn ring(&self) {
        self.news.send_modify(|news| *news += 1);
    }

    fn all_claims(&self) -> MutexGuard<'_, Vec<Vec<watch::Receiver<Claim>>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a member's claims down. Those lost of late stay, since to see it is why one came.
    fn take_down(&self, number: u16, group: &Group, mut open: Vec<watch::Receiver<Claim>>) {
        let now = group.os_clock().now();
        let mut all = self.all_claims();
        let Some(known) = all.get_mut(usize::from(number)) else { return };
        for claim in known.drain(..) {
            let (id, is_fresh_loss) = {
                let claim = claim.borrow();
                let of_late = claim.ended.is_some_and(|ended| ended.until(now) < SHOWN_LOST);
                (claim.id.clone(), of_late && matches!(claim.state, ClaimState::Lost(_)))
            };
            if is_fresh_loss && open.iter().all(|other| other.borrow().id != id) {
                open.push(claim);
            }
        }
        *known = open;
    }

    fn digest(&self, number: u16) -> Vec<(ClaimId, u64)> {
        self.claims(number).into_iter().map(|claim| (claim.id, claim.index)).collect()
    }
}

/// How long a lost claim is shown.
const SHOWN_LOST: Duration = Duration::from_secs(10);

/// How often a member's claims are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Notifies once of what comes at once: members that send a lot are not to wake this thread each time.
async fn pass_on(mut changes: watch::Receiver<u64>, seen: Arc<Shared>) {
    while changes.changed().await.is_ok() {
        seen.ring();
        tokio::time::sleep(SHORTEST).await;
    }
}

/// Looks for stalls, whether a page is open or not: the longest so far may be one that nobody saw.
async fn watch_stalls(members: Arc<Members>, seen: Arc<Shared>) {
    let mut changes = members.changes();
    loop {
        seen.stalls.look(&members);
        // By time, or because something was done to a member.
        let _ = tokio::time::timeout(OFTEN, changes.changed()).await;
    }
}

/// Watches a member through all its lives.
async fn watch_member(number: u16, members: Arc<Members>, seen: Arc<Shared>) {
    let mut changes = members.changes();
    loop {
        changes.mark_unchanged();
        if let Some(group) = members.group(number) {
            watch_life(number, &group, &seen).await;
            seen.forget_claims(number);
            seen.ring();
        }
        // A member that ended by itself is looked for again after a while.
        let _ = tokio::time::timeout(LOOK, changes.changed()).await;
    }
}

/// Watches a member until it ends.
async fn watch_life(number: u16, group: &Group, seen: &Shared) {
    let (mut status, mut election) = (group.status(), group.election());
    let mut look = tokio::time::interval(LOOK);
    loop {
        let alive = tokio::select! {
            changed = status.changed() => changed.is_ok(),
            changed = election.changed() => changed.is_ok(),
            _ = look.tick() => {
                if seen.is_unwatched() {
                    seen.forget_claims(number);
                    continue;
                }
                let before = seen.digest(number);
                let open = group.claims().await;
                seen.take_down(number, group, open);
                if seen.digest(number) == before {
                    continue;
                }
                true
            }
        };
        if !alive {
            return;
        }
        if election.borrow().leads_at(group.os_clock().now()) {
            seen.failover.leads(Instant::now(), number);
        }
        seen.ring();
    }
}
