//! Whether a member that asked because of another comes after it, with the locks that work by stamps.
//!
//! Stamps order requests by the time of asking as far as the clocks know of it. The messages of the lock
//! are not all that members send to each other: one may ask, notify another of it over a way of their
//! own, and that one asks because of it.

use conclave_protocols::mutex::lamport::Lamport;
use conclave_protocols::mutex::ricart_agrawala::RicartAgrawala;

use crate::any::{Lock, Search, Sections, assert_breaks, laws_of};
use crate::notifying::{Clocked, Clocks, Notifying};
use crate::storm::{self, Broken};
use crate::support::Part;

mod lamport {
    super::laws_of!(super::notifying::<super::Lamport>(super::Clocks::Follow), super::search());
}

mod ricart_agrawala {
    super::laws_of!(
        super::notifying::<super::RicartAgrawala>(super::Clocks::Follow),
        super::search()
    );
}

/// Nobody is in the critical section while one waits that asked first.
fn notifying<P: Sends>(clocks: Clocks) -> Lock<Notifying<P>> {
    Lock::new(move |me, view, carried| {
        Notifying::around(P::new(me, view, carried), clocks, me, view)
    })
    .in_order(|in_section, waiting| !waiting.asked_before(in_section))
}

/// A lock whose members can be searched while they send other messages.
trait Sends: Clocked<Message: Part, Timer: Part> + Part {}
impl<P: Clocked<Message: Part, Timer: Part> + Part> Sends for P {}

/// The last notifies the first, which would be preferred if they asked at the same time.
fn search() -> Search {
    Search {
        sections: Sections::of([2, 0, 1]),
        giving_up: Sections::of([1, 0, 1]).with_withdrawals(1),
        carrying: Sections::of([0, 1, 0]).with_withdrawals(1),
    }
}

fn assert_out_of_turn<P: Sends>() {
    let lock = notifying::<P>(Clocks::StandApart);
    assert_breaks(lock.world(Sections::of([1, 0, 1])), "everybody gets in in its turn");
    let broken = (0..1_000).find_map(|seed| storm::run(&lock, seed).err());
    assert_eq!(broken, Some(Broken::OutOfTurn));
}

#[test]
fn with_clocks_that_do_not_follow_who_asked_because_of_another_may_go_first() {
    assert_out_of_turn::<Lamport>();
    assert_out_of_turn::<RicartAgrawala>();
}
