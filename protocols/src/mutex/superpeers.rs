//! Mutual exclusion by a coordinator that is one of several: which of them, the lock's name decides.
//!
//! Source: Tanenbaum and van Steen, *Distributed Systems*, 2nd edition, 6.5.3, "Elections in large-scale systems",
//! for the choice of the coordinators; section "Mutual exclusion: a centralized algorithm" for what they do.
//!
//! ```text
//! coordinator of a lock: the superpeer that is responsible for its name
//! to enter:              send request to it, wait for grant
//! to exit:               send release to it
//! ```
//!
//! | property | value |
//! | --- | --- |
//! | messages per entry and exit | 3: request, grant, release; none for the coordinator of the lock |
//! | with the optional reply to a request that must wait | one more, `queued` |
//! | delay before entry, nobody else in | one round trip |
//! | delay between an exit and the next entry | one round trip: release, grant |
//! | order | of arrival at the coordinator |
//! | messages, if grants are kept | as those of `Central` |
//! | load | of N superpeers each has a part of 1 / N of the names |
//! | tolerates | the crash of a member that is neither in nor waiting nor the coordinator of the lock |
//! | links | reliable, FIFO |
//!
//! Deviations:
//!
//! * The source says who coordinates what, and not by which algorithm. It is [`Central`], with its deviations, but
//!   for the leader.
//! * Its driver makes good nothing that gets lost, as it does where the leader grants: a member cannot take another
//!   out whose lease is over, since the promises, which say so, go to the leader. So this is a lock among the members:
//!   links are reliable and in order within a view, and a member that dies ends the view, which begins anew with the
//!   holder and those that wait.
//! * All members know who is first of those that wait when a view begins. That member enters without a grant if nobody
//!   is in the critical section: a link that is broken between it and the coordinator would lose the grant in each view.
//! * A view without names, which the algorithms alone have, takes the ids of ranks, and one lock of one name.

use super::central::{Central, Message, Timer};
use super::{Carried, Command, Event, GroupMutex, Mutex, PaidBy, Permissions, Phase, Waits};
use crate::election::superpeers::{self, Key};
use crate::ids::{MemberId, RequestNumber};
use crate::policy::SuperpeersPolicy;
use crate::protocol::{InputOf, OutboxOf, Protocol};
use crate::time::LocalTime;
use crate::view::View;

/// One member's part in the algorithm.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Superpeers {
    central: Central,
    /// This member is first in the line that was carried over, and nobody is in the critical section.
    is_first: bool,
    /// Others are behind it.
    is_followed: bool,
}

impl Superpeers {
    /// One member's part in a lock that this one coordinates.
    #[must_use]
    pub fn of(coordinator: MemberId, me: MemberId, view: View, carried: &Carried) -> Self {
        let view = View { leader: coordinator, ..view };
        match (carried.holder, carried.waiting.split_first()) {
            (None, Some((first, behind))) if *first != me => {
                let carried = Carried { holder: Some(*first), waiting: behind.to_vec() };
                let central = Central::new(me, view, &carried);
                Self { central, is_first: false, is_followed: false }
            }
            (holder, line) => Self {
                central: Central::new(me, view, carried),
                is_first: holder.is_none() && line.is_some(),
                is_followed: line.is_some_and(|(_, behind)| !behind.is_empty()),
            },
        }
    }

    /// The same, with grants that are good for so long, which is so at all members.
    #[must_use]
    pub fn with(self, permissions: Permissions) -> Self {
        Self { central: self.central.with(permissions), ..self }
    }

    /// Who coordinates the one lock of members that have no names.
    #[must_use]
    pub fn by_rank(view: View) -> MemberId {
        let ids: Vec<Key> = view.members().map(Key::of_rank).collect();
        let superpeers =
            superpeers::Superpeers::among(&ids, SuperpeersPolicy::default().share_percent);
        superpeers.responsible(Key::of("")).unwrap_or(view.leader)
    }
}

impl Mutex for Superpeers {
    fn new(me: MemberId, view: View, carried: &Carried) -> Self {
        Self::of(Self::by_rank(view), me, view, carried)
    }

    fn phase(&self) -> Phase {
        self.central.phase()
    }
}

impl GroupMutex for Superpeers {
    fn is_contended(&self) -> bool {
        self.central.is_contended()
    }

    fn latest(&self) -> u64 {
        GroupMutex::latest(&self.central)
    }

    fn numbered_after(self, latest: u64) -> Self {
        Self { central: self.central.numbered_after(latest), ..self }
    }

    fn is_unused(&self) -> bool {
        self.central.is_unused()
    }

    fn paid_by(message: &Message) -> PaidBy {
        Central::paid_by(message)
    }

    fn waiting_side(message: &Message) -> Waits {
        Central::waiting_side(message)
    }
}

impl Protocol for Superpeers {
    type Peer = MemberId;
    type Command = Command;
    type Message = Message;
    type Timer = Timer;
    type Event = Event;

    /// The lock may have come free when the view before ended.
    fn start(&mut self, now: LocalTime, out: &mut OutboxOf<Self>) {
        self.central.start(now, out);
        if self.is_first {
            self.central.on_grant(RequestNumber::default(), self.is_followed, out);
        }
    }

    fn handle(&mut self, now: LocalTime, input: InputOf<Self>, out: &mut OutboxOf<Self>) {
        self.central.handle(now, input, out);
    }
}
