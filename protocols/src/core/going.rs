//! Whether a member is to lead, and whether it is about to end.

use std::time::Duration;

use crate::ids::Incarnation;
use crate::time::LocalTime;

/// What a member is going to do, and who is to lead in its place.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Going {
    stage: Stage,
    /// Who is to lead next when this member gives its leader lease up, if that one could.
    next_leader: Option<Incarnation>,
    /// By then a member that leaves is gone, whatever is still to be done.
    leave_until: LocalTime,
}

#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
enum Stage {
    /// It may lead, and is not about to end that it knew of.
    #[default]
    Stays,
    /// It gives the lead up, or gave it up: another should lead, if there is one.
    Rests(Rest),
    /// Soon: another should lead, if there is one.
    Drains,
    /// Now.
    Leaves,
}

/// For how long another should lead.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) struct Rest {
    /// When that was asked for.
    pub(super) since: LocalTime,
    /// A leader that could not hand over by then leads on.
    pub(super) tries: LocalTime,
    /// A member that does not lead is like others from then on.
    pub(super) until: LocalTime,
}

impl Going {
    pub(super) fn stays(&self) -> bool {
        self.stage == Stage::Stays
    }

    pub(super) fn leaves(&self) -> bool {
        self.stage == Stage::Leaves
    }

    /// Whether it stays for the moment, and another should lead.
    pub(super) fn gives_way(&self) -> bool {
        matches!(self.stage, Stage::Drains | Stage::Rests(_))
    }

    /// Its rest, if it does.
    pub(super) fn rest(&self) -> Option<Rest> {
        match self.stage {
            Stage::Rests(rest) => Some(rest),
            Stage::Stays | Stage::Drains | Stage::Leaves => None,
        }
    }

    pub(super) fn next_leader(&self) -> Option<Incarnation> {
        self.next_leader
    }

    /// For how much longer it may take to leave.
    pub(super) fn time_to_leave(&self, now: LocalTime) -> Duration {
        now.until(self.leave_until)
    }

    /// Until when it lets others lead. `last`: so long it lets them if it is about to end.
    pub(super) fn lets_others_lead_until(&self, last: LocalTime) -> LocalTime {
        match self.stage {
            Stage::Stays => LocalTime::default(),
            Stage::Rests(rest) => last.min(rest.until),
            Stage::Drains | Stage::Leaves => last,
        }
    }

    /// Another is to lead, that one if it could. `begun`: this member has begun to hand over. False if it is about to
    /// end in any case: then it only names its successor.
    pub(super) fn begin_rest(
        &mut self,
        rest: Rest,
        next: Option<Incarnation>,
        begun: bool,
    ) -> bool {
        self.next_leader = next.or(self.next_leader);
        self.stage = match self.stage {
            Stage::Stays => Stage::Rests(rest),
            // A transfer takes no cooldown back, and a caller that asks over and over keeps nobody from being believed for longer.
            Stage::Rests(before) => {
                let of = if begun { before } else { rest };
                Stage::Rests(Rest { until: rest.until.max(before.until), ..of })
            }
            Stage::Drains | Stage::Leaves => return false,
        };
        true
    }

    /// It rests no longer, if the time for that is over. Whether it was.
    pub(super) fn end_rest(&mut self, now: LocalTime, leads: bool) -> bool {
        let is_over = |rest: Rest| now >= if leads { rest.tries } else { rest.until };
        let over = self.rest().is_some_and(is_over);
        if over {
            (self.stage, self.next_leader) = (Stage::Stays, None);
        }
        over
    }

    /// The pod is about to end. False if that was known.
    pub(super) fn drain(&mut self) -> bool {
        let news = matches!(self.stage, Stage::Stays | Stage::Rests(_));
        if news {
            self.stage = Stage::Drains;
        }
        news
    }

    /// It leaves, and is gone by then. False if it was leaving.
    pub(super) fn leave(&mut self, until: LocalTime) -> bool {
        let news = !self.leaves();
        if news {
            (self.stage, self.leave_until) = (Stage::Leaves, until);
        }
        news
    }
}
