//! When a leader of Conclave's has a Lease that programs of client-go take too.
//!
//! **What it promises.** At most one believes that it leads: this member while [`Turn::until`] lies ahead, and a program
//! of client-go until it gives up. It rests on two rules of client-go's leader election
//! (`k8s.io/client-go/tools/leaderelection`, v0.34): a candidate takes a Lease that names a holder only when it has seen
//! it unchanged for the record's `leaseDurationSeconds`, and a leader gives up `RenewDeadline`, which is shorter, after
//! it last renewed. The second holds from when the *reply* came, and from the next turn of its loop on, which is later
//! than it should be: `tests::model` shows by how much.
//!
//! **How.** The nominee that has the hold `election/NAME` takes the Lease by compare-and-swap, and believes from when it
//! *sent* the last write that succeeded, for [`hold`] of what others wait for. A Lease of another holder is taken when
//! this process has seen it unchanged for [`wait_for`] of its duration, counted from after the reply that first showed
//! it; or when its holder has given it back. What became of a write that nobody answered is read, and not guessed.
//!
//! **A former leader of the same election** is not waited for. The hold that this member has was granted when the one
//! before was over, and belief in leading never outlasts the hold; so the Lease's belief is over too. That is sound
//! only if the holder of the Lease is shown to be such a leader: its mark names the group by the UID of its resource
//! (a group that was deleted and made again is another one), the election, and a token below this member's (without an
//! arbiter there is none, and holds exclude nobody). In every other case the duration is waited for.

use std::time::Duration;

use conclave_protocols::random::Random;
use conclave_protocols::time::{hold, wait_for};
use conclave_protocols::{LocalTime, PodUid};

use super::{Call, Do, LEASE, Mark, Outcome, Record, Write};

/// How often a leader writes to its Lease, and a nominee that has to wait reads it, as client-go does.
pub(crate) const RETRY: Duration = Duration::from_secs(2);

/// Two reads in a row are no closer to each other.
const PACE: Duration = Duration::from_millis(200);

/// How long a call may take. Three fit into the time for which a leader believes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// How many calls it may take to give a Lease back. Then it runs out by itself.
const TRIES: u32 = 8;

/// A member's turn with one Lease.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    lease: String,
    /// The mark of this member, but for the token.
    me: Mark,
    stage: Stage,
    /// The Lease as this process saw it last, and since when it has seen it so.
    seen: Option<(Record, LocalTime)>,
    /// It may be another one by now: it is read before anything else.
    doubt: bool,
    /// This member's name may stand in the Lease.
    mine: bool,
    /// Until then the application may go by a lead that was lost.
    believed: LocalTime,
    pending: Option<Pending>,
    /// When the Lease may be read.
    may_read: LocalTime,
    /// When a nominee reads again that has to wait.
    look: LocalTime,
    /// When it last showed that this member has to wait, or had it take the Lease; or when the turn began.
    reached: LocalTime,
    /// There was no Lease at the last call, or it was not to be read or written.
    barred: bool,
    calls: u64,
    random: Random,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// This member does not have the hold, and nothing of its own is in the Lease.
    Rests,
    /// It has the hold, by a grant of that token.
    Wants(Option<u64>),
    /// It has the Lease too.
    Has { token: Option<u64>, until: LocalTime, renewed: LocalTime },
    /// It gives the Lease back, not before that time.
    Returns { from: LocalTime, calls: u32 },
}

#[derive(Clone, Debug)]
struct Pending {
    id: u64,
    sent: LocalTime,
    write: Option<Write>,
}

impl Pending {
    /// Whether that Lease is what was to be written.
    fn is_carried_out_in(&self, record: &Record) -> bool {
        match &self.write {
            None => true,
            Some(Write::Take(mark)) => record.mark().as_ref() == Some(mark),
            Some(Write::Release) => record.holder().is_none(),
        }
    }
}

impl Turn {
    /// The turn of a process, which `holder` names, in the election of a group.
    pub(crate) fn new(lease: &str, group: PodUid, election: &str, holder: &str, seed: u64) -> Self {
        let (election, holder) = (election.to_owned(), holder.to_owned());
        Self {
            lease: lease.to_owned(),
            me: Mark { group, election, token: None, holder },
            stage: Stage::Rests,
            seen: None,
            doubt: true,
            mine: false,
            believed: LocalTime::default(),
            pending: None,
            may_read: LocalTime::default(),
            look: LocalTime::default(),
            reached: LocalTime::default(),
            barred: false,
            calls: 0,
            random: Random::new(seed),
        }
    }

    /// Its calls have numbers above that one, which no other turn's have.
    pub(crate) fn numbered_from(self, calls: u64) -> Self {
        Self { calls, ..self }
    }

    /// Whether it waits for the answer to that call.
    pub(crate) fn awaits(&self, id: u64) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.id == id)
    }

    /// The name of the Lease.
    pub(crate) fn lease(&self) -> &str {
        &self.lease
    }

    /// Until when this member has the Lease, if it does.
    pub(crate) fn until(&self) -> Option<LocalTime> {
        match self.stage {
            Stage::Has { until, .. } => Some(until),
            Stage::Rests | Stage::Wants(_) | Stage::Returns { .. } => None,
        }
    }

    /// The Lease as it was read or written last.
    pub(crate) fn seen(&self) -> Option<&Record> {
        self.seen.as_ref().map(|(record, _)| record)
    }

    /// Whether nothing is left to be done.
    pub(crate) fn rests(&self) -> bool {
        self.stage == Stage::Rests && self.pending.is_none()
    }

    /// Whether this member has the hold, and cannot take a Lease that is free: another nominee may. It may not reach the
    /// API server, or not be let write.
    pub(crate) fn is_out_of_reach(&self, now: LocalTime) -> bool {
        matches!(self.stage, Stage::Wants(_)) && now - self.reached >= LEASE
    }

    /// This member has the hold from now on, by a grant of that token.
    pub(crate) fn want(&mut self, now: LocalTime, token: Option<u64>) {
        self.stage = Stage::Wants(token);
        (self.doubt, self.reached) = (true, now);
    }

    /// This member does not have the hold any more, and its application does not believe from `from` on. One that has
    /// not begun with this lead may go by the one before.
    pub(crate) fn give_back(&mut self, from: LocalTime) {
        match self.stage {
            Stage::Has { .. } => self.believed = from,
            Stage::Wants(_) => self.believed = self.believed.max(from),
            Stage::Rests | Stage::Returns { .. } => return,
        }
        self.stage =
            if self.mine { Stage::Returns { from: self.believed, calls: 0 } } else { Stage::Rests };
    }

    /// Nothing arbitrates any more: the hold of this member excludes nobody, and its mark is not to say that it does.
    pub(crate) fn without_arbiter(&mut self) {
        match &mut self.stage {
            Stage::Wants(token) | Stage::Has { token, .. } => *token = None,
            Stage::Rests | Stage::Returns { .. } => {}
        }
    }

    /// A watch has seen the Lease. Nothing is decided by that: it may be late.
    pub(crate) fn saw(&mut self, record: Option<&Record>) {
        let holder = |record: Option<&Record>| record.and_then(Record::holder).map(str::to_owned);
        let now = holder(record);
        if self.stage == Stage::Rests && now.as_ref() == Some(&self.me.holder) {
            // A write that was given up was carried out after all.
            self.mine = true;
            self.stage = Stage::Returns { from: self.believed, calls: 0 };
        }
        self.doubt |= holder(self.seen()) != now || record.is_none();
    }

    /// What became of a call. Whether it has just turned out that there is no Lease, or that it is not to be written.
    pub(crate) fn answer(&mut self, now: LocalTime, id: u64, outcome: Outcome) -> bool {
        let Some(pending) = self.pending.take_if(|pending| pending.id == id) else { return false };
        let barred = match &outcome {
            Outcome::Absent | Outcome::Refused => true,
            // What was read may not be written all the same.
            Outcome::Is(_) if pending.write.is_none() => self.barred,
            Outcome::Is(record) => !pending.is_carried_out_in(record),
            Outcome::Unknown => self.barred,
            Outcome::Conflict => false,
        };
        let is_news = !std::mem::replace(&mut self.barred, barred) && barred;
        match outcome {
            Outcome::Is(record) => self.learn(now, &pending, record),
            Outcome::Absent => {
                (self.seen, self.mine) = (None, false);
                self.is_anothers();
                self.pause(now);
            }
            Outcome::Conflict => (self.doubt, self.reached) = (true, now),
            Outcome::Refused => self.pause(now),
            Outcome::Unknown if pending.write.is_some() => self.doubt = true,
            Outcome::Unknown => self.pause(now),
        }
        is_news
    }

    fn pause(&mut self, now: LocalTime) {
        self.doubt = true;
        self.may_read = now.after(self.jitter());
    }

    /// Up to a fifth more than [`RETRY`].
    fn jitter(&mut self) -> Duration {
        RETRY + self.random.below(RETRY / 5)
    }

    fn learn(&mut self, now: LocalTime, pending: &Pending, record: Record) {
        self.doubt = false;
        if self.seen().map(Record::version) != Some(record.version()) {
            self.seen = Some((record, now));
        }
        match &pending.write {
            None => {
                self.look = now.after(self.jitter());
                let waits = matches!(self.stage, Stage::Wants(token) if self.may_take(token) > now);
                self.reached = if waits { now } else { self.reached };
                self.mine = self.is_mine();
                if !self.mine {
                    self.is_anothers();
                }
            }
            Some(Write::Take(mark)) => {
                if self.seen().is_some_and(|record| pending.is_carried_out_in(record)) {
                    self.reached = now;
                    self.took(now, pending.sent, mark.token);
                } else {
                    // Something on the way changed what was written.
                    self.pause(now);
                }
            }
            Some(Write::Release) => {
                self.mine = false;
                self.is_anothers();
            }
        }
    }

    /// A write succeeded: others count from when they see it, and that is after it was sent.
    fn took(&mut self, now: LocalTime, sent: LocalTime, with: Option<u64>) {
        let until = sent.after(hold(LEASE));
        match self.stage {
            Stage::Wants(token) | Stage::Has { token, .. } if token == with && now < until => {
                self.stage = Stage::Has { token, until, renewed: sent };
            }
            Stage::Wants(_) | Stage::Has { .. } | Stage::Rests | Stage::Returns { .. } => {}
        }
    }

    fn is_mine(&self) -> bool {
        self.seen().and_then(Record::holder) == Some(&self.me.holder)
    }

    /// This member's name does not stand in the Lease.
    fn is_anothers(&mut self) {
        match self.stage {
            Stage::Has { .. } | Stage::Returns { .. } => self.stage = Stage::Rests,
            Stage::Rests | Stage::Wants(_) => {}
        }
    }

    /// When the Lease may be taken, as it was last seen.
    fn may_take(&self, token: Option<u64>) -> LocalTime {
        let Some((record, since)) = &self.seen else { return LocalTime(u64::MAX) };
        let is_former = record.mark().is_some_and(|mark| self.is_over(&mark, token));
        if record.holder().is_none() || self.is_mine() || is_former {
            return LocalTime::default();
        }
        since.after(wait_for(record.duration()))
    }

    /// Whether the lead of that mark is over, because this member has the hold by a grant of that token.
    fn is_over(&self, mark: &Mark, token: Option<u64>) -> bool {
        let Mark { group, election, .. } = &self.me;
        let is_earlier = mark.token.zip(token).is_some_and(|(theirs, mine)| theirs < mine);
        mark.group == *group && mark.election == *election && is_earlier
    }

    /// When the next call is due, unless one is under way.
    fn next_call(&self) -> Option<LocalTime> {
        Some(match self.stage {
            Stage::Rests => return None,
            Stage::Wants(_) | Stage::Has { .. } if self.doubt => self.may_read,
            Stage::Wants(token) => self.may_take(token).min(self.look.max(self.may_read)),
            Stage::Has { renewed, .. } => renewed.after(RETRY),
            Stage::Returns { from, .. } if self.doubt => from.max(self.may_read),
            Stage::Returns { from, .. } => from,
        })
    }

    /// When [`tick`](Self::tick) has something to do.
    pub(crate) fn next_due(&self) -> Option<LocalTime> {
        let reach = match self.stage {
            Stage::Wants(_) => Some(self.reached.after(LEASE)),
            Stage::Rests | Stage::Has { .. } | Stage::Returns { .. } => None,
        };
        let call = match &self.pending {
            Some(pending) => Some(pending.sent.after(PATIENCE)),
            None => self.next_call(),
        };
        [call, self.until(), reach].into_iter().flatten().min()
    }

    /// Ends what is over by now. The call that is to be made, if there is one.
    pub(crate) fn tick(&mut self, now: LocalTime) -> Option<Call> {
        if let Stage::Has { until, .. } = self.stage
            && until <= now
        {
            self.believed = now;
            self.stage = Stage::Returns { from: now, calls: 0 };
        }
        let late = self.pending.as_ref().filter(|pending| pending.sent.after(PATIENCE) <= now);
        if let Some(id) = late.map(|pending| pending.id) {
            self.answer(now, id, Outcome::Unknown);
        }
        if self.pending.is_some() || self.next_call().is_none_or(|due| now < due) {
            return None;
        }
        let what = self.next_step(now)?;
        let write = match &what {
            Do::Read => None,
            Do::Write(_, write) => Some(write.clone()),
        };
        self.may_read = if write.is_none() { now.after(PACE) } else { self.may_read };
        self.mine |= matches!(write, Some(Write::Take(_)));
        self.calls += 1;
        let id = self.calls;
        self.pending = Some(Pending { id, sent: now, write });
        Some(Call { lease: self.lease.clone(), id, what })
    }

    fn next_step(&mut self, now: LocalTime) -> Option<Do> {
        if let Stage::Returns { calls, .. } = &mut self.stage {
            *calls += 1;
            if *calls > TRIES {
                self.stage = Stage::Rests;
                return None;
            }
        }
        let Some((record, _)) = self.seen.clone().filter(|_| !self.doubt) else {
            return Some(Do::Read);
        };
        let take = |token| Write::Take(Mark { token, ..self.me.clone() });
        match self.stage {
            Stage::Rests => None,
            Stage::Wants(token) if self.may_take(token) > now => Some(Do::Read),
            Stage::Wants(token) | Stage::Has { token, .. } => Some(Do::Write(record, take(token))),
            Stage::Returns { .. } if self.is_mine() => Some(Do::Write(record, Write::Release)),
            Stage::Returns { .. } => {
                self.stage = Stage::Rests;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
