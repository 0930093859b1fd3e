//! Who nominates the next leader, as the core sees it.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ids::MemberId;
use crate::protocol::{Named, Outbox, Value};
use crate::record::Record;
use crate::time::LocalTime;

/// One member's part in nominating the next leader, when promises have run out and nothing is granted.
///
/// It only nominates: two members may be notified of two winners. What makes a winner the leader is the
/// leader lease. A nomination that came to nothing is begun anew, with a new value.
pub trait Nominator: Value {
    /// What members send to each other.
    type Message: Value + Named + Serialize + DeserializeOwned;
    /// Its timers, by name.
    type Timer: Value + Copy + Ord;

    /// Takes part in nothing yet, with this rank in the view. Its leader lease states how long members may
    /// take to answer. `in_vain`: how many nominations in that view came to nothing since
    /// somebody led last.
    fn new(electorate: &Record, me: MemberId, in_vain: u32) -> Self;

    /// The leader is gone: nominate another.
    fn nominate(&mut self, now: LocalTime, out: &mut NominatorOut<Self>);

    /// Another member sent this.
    fn receive(
        &mut self,
        now: LocalTime,
        from: MemberId,
        message: Self::Message,
        out: &mut NominatorOut<Self>,
    );

    /// A timer fires that was set and not cleared since.
    fn fire(&mut self, now: LocalTime, timer: Self::Timer, out: &mut NominatorOut<Self>);

    /// Whether this member waits for an outcome, or knows one.
    fn is_at_work(&self) -> bool;

    /// Whether the literature counts such a message.
    fn is_counted(message: &Self::Message) -> bool;
}

/// Where a nominator puts what it wants done. It reports who is nominated.
pub type NominatorOut<N> =
    Outbox<MemberId, <N as Nominator>::Message, <N as Nominator>::Timer, MemberId>;
