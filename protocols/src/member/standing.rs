//! How a member stands in its group, for its process.

use super::{Event, Member, Out, Role, Standing};
use crate::time::LocalTime;

impl Member {
    /// Tells how this member stands, if that has changed.
    pub(super) fn tell_standing(&mut self, now: LocalTime, out: &mut Out) {
        let standing = self.standing(now);
        if self.told != Some(standing) {
            self.told = Some(standing);
            out.tell(Event::Standing(standing));
        }
    }

    fn standing(&self, now: LocalTime) -> Standing {
        let leader = self.record.as_ref().and_then(|record| record.leader);
        match &self.role {
            Role::Leader(office) if office.office_until() > now => {
                Standing::Leading(office.office_until())
            }
            Role::Candidate(_) => Standing::Electing,
            Role::Follower => match leader {
                Some(leader) if self.follows(now) => Standing::Following(leader, self.pledge.until),
                Some(_) | None => Standing::Electing,
            },
            Role::Leader(_) | Role::Joiner { .. } | Role::Resigned(_) | Role::Gone => {
                Standing::Isolated
            }
        }
    }
}
