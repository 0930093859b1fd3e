//! Physical clocks: one group time, kept by correcting every member's clock a little.
//!
//! No member's hardware clock is touched. Each member has a *virtual* clock, a function of its raw
//! hardware clock ([`VirtualClock`]), and one of three algorithms states by how much to move it:
//! [`Berkeley`], [`Cristian`] or [`Ntp`], whichever the policy names ([`AnyClock`]). What readers
//! get is a [`ClockMap`], a small value from which the time, its error bound and its state follow
//! for any raw reading, without asking anybody.
//!
//! # What the bound means
//!
//! Let `V_i` be the virtual clock of member i and `b_i` its bound. There is a *group time* G such
//! that at every moment, for every synchronised member, `|V_i - G| <= b_i`. So two members never
//! disagree by more than `b_i + b_j`, whatever either of them has heard lately.
//!
//! G is the virtual clock of the leader (Berkeley's daemon, Cristian's time server, NTP's stratum 1), but for an offset that the daemon's own bound covers.
//! What makes the bound sound without any message from the others is that G is continuous and that its
//! rate is limited: seen from the raw clock of the daemon that keeps it, it never runs more than
//! [`Rates::group`] fast or slow. A member that hears nothing therefore only has to let its bound
//! grow ([`Rates::follower_growth`]).
//!
//! - **One exchange of a daemon.** The daemon reads its clock when it sends a poll (a) and when it has the answer
//!   (b). The member's reading v belongs to some moment in between, so the member is off by
//!   `v - (a + b) / 2`, give or take `(b - a) / 2`. That the delay is the same both ways is *not*
//!   assumed.
//! - **One exchange with a server.** A client reads its raw clock when it asks (T1) and when it has the
//!   reply (T4). The server's virtual clock showed T2 and T3 in between, each within the server's bound b
//!   of G. So G at T1 was at most T2 + b, and at T4 at least T3 - b. Seen from the client's raw clock, G
//!   runs at most g = [`Rates::follower_growth`] fast or slow. So from T4 on, at any raw reading r, G is at most
//!   T2 + b + (r - T1)(1 + g) and at least T3 - b + (r - T4)(1 - g): the line as fast as the raw clock
//!   through θ = ((T2 - T1) + (T3 - T4))/2 is wrong by at most half of the round trip and b, and g for each
//!   second since T1. It does not matter who the server is: every synchronised member states a bound that
//!   holds. Nor does it matter when the server was adjusted, or by what algorithm.
//! - **A member that lies.** The bound that a follower passes on is another's statement. A daemon, a leader
//!   without a time, and a member that follows several servers of one stratum go by what more of them state
//!   than may lie. A member that follows only its leader, which keeps G, has nobody else to believe.
//! - **The adjustment** applies to the reading that the member gave, not to the moment when the
//!   adjustment arrives; the age of a bound counts from that reading.
//! - **A leader states what it knows.** As long as a leader leads, G is its clock, but for an offset that is not
//!   more than its bound. So it states to the others the course of its clock, as a function of its raw clock
//!   ([`Known`]), and that G keeps to this until [`HOLD_NS`] after the moment at which it was confirmed last. That
//!   holds, since the leader turns its clock no earlier, and since nobody else leads earlier (below). A member that knows
//!   the leader's raw clock from clock probes ([`Relation`]) has G as a function of its own raw clock by that
//!   ([`Known::seen_by`]): the probes bound the reading that the leader's clock shows, and the path that G keeps to
//!   gives the time at it. Later than that, G may be as far from the path as its rate allows. What members show is this,
//!   or what their algorithm knows, whichever has the smaller bound ([`Transfer`]).
//! - **A change of leader** changes nothing at once. Its clock becomes G no earlier than [`HOLD_NS`] after its
//!   view began, by a clock that is slow by as much as is assumed. A moment at which the leader before was confirmed was
//!   before that view, so that by then nothing of what it stated still has to hold. Meanwhile the new leader holds over:
//!   it keeps to what it knows of G, and states that, and its bound grows. It knows more than the others: that nobody else
//!   begins to lead. So if it heard the leader of the view that its own was made from, G is on that one's path but for
//!   a turn that it may have missed, and a leader turns slowly. From its first confirmed round after that on, the
//!   new leader *leads*: G runs with its clock, at the offset that it happens to have then. That offset is shed
//!   slowly, within the limit on the rate of G, until its clock is group time. A leader that led in the view
//!   that its present view was made from goes on, and waits for nothing.
//! - **A round of a daemon is confirmed** when a majority of the view answered it. Then no later view had a
//!   daemon when its polls were sent, for a later view needs somebody of that majority. A daemon
//!   whose rounds are not confirmed may have been replaced: its bound grows too. A server that is only asked
//!   is confirmed by requests that repeat a stamp of its replies, as of that stamp: no later view
//!   had a leader then, for the same reason.
//! - **A group time begins** when a leader and all members of its view have none. One that had it was then cut off, or
//!   ended, in a view before. So until every member of a view has the time ([`Known::common`]), a member states it only
//!   while no other view can have a leader ([`Transfer::led`]), and a leader of a view that is not the first begins a time
//!   only when no member of an earlier one can still be led by that one's leader
//!   ([`VirtualClock::beginning_from`]), and all others of its own have answered that they have none. Then it goes on from
//!   what a member of the view had before, if there is one. A clock that missed a view takes the time of its leader
//!   whatever it knew ([`Wants`]). If every member of a view has the time, so has every member of one that is made from it
//!   without others ([`Succession`]).
//! - **A change of the algorithm** comes with a view, and the clock is carried over with its bound.
//!   Nothing above depends on how the members of the view before compared their clocks.
//!
//! # What is assumed
//!
//! - The rate of every raw clock is within the policy's `maxDriftPpm` of true time, and raw clocks do
//!   not jump. A machine that was suspended breaks this; the member that compares clocks sees it as a contradiction
//!   ([`Source::contradicts`]). A follower's clock is mended by the next adjustment of the daemon, by the next
//!   reading of the server, or with NTP by the fourth poll after, since each server is known anew. If it was the leader's,
//!   the daemon takes the others' bound for its error, and Cristian's clients follow the server. NTP's outvote
//!   a leader that three or more servers contradict, and hold over until their bounds reach its clock or another leads.
//! - The rate of a raw clock, as another shows it, is within the policy's `maxWanderPpb` of some constant for two minutes.
//!   What clock probes find rests on this besides ([`Link`]). It is chosen and not proven. Samples that contradict it
//!   are found out ([`Missing::Broken`]), and the member begins anew with that peer, as it does when the policy changes.
//! - Views follow one another as under the arbiter `Quorum`, and a member that sealed a view answers
//!   no more polls of it. Under the arbiter `None`, the bounds hold among the members of one view.
//! - All members have the same policy. While a changed `maxDriftPpm` is on its way, the larger value
//!   may not yet be in every bound. When it becomes smaller, group time may go on as was planned by the larger one, until
//!   the leader of the view leads it and states so: each member assumes the larger one until then. One whose process
//!   began after the change, or that was in no view with the larger one, does not know it.

mod any;
mod average;
mod beginning;
pub mod berkeley;
mod by_messages;
mod correction;
mod course;
pub mod cristian;
mod discipline;
mod estimate;
mod exchange;
mod intersection;
mod joining;
mod link;
mod map;
pub mod ntp;
mod params;
mod rates;
mod reign;
mod round;
mod succession;
mod sway;
mod transfer;
mod wants;

pub use any::{AnyClock, AnyMessage, AnyTimer, Event, GroupClock};
pub use average::{Candidate, Mean, average};
pub use berkeley::Berkeley;
pub use by_messages::{ByMessages, MessageReading};
pub use correction::{Correction, Shown};
pub use course::{Bound, Course, Known, Line};
pub use cristian::Cristian;
pub use discipline::{HOLD_NS, VirtualClock};
pub use exchange::{Exchange, Offset};
pub use intersection::{Agreement, Interval, covered, intersection};
pub use link::{Ahead, Assumptions, Heard, Link, Missing, Refused, Relation, Shows, Slope};
pub use map::{ClockMap, Reading, State};
pub use ntp::Ntp;
pub use params::{Params, resync_interval};
pub use rates::Rates;
pub use round::{Source, Verdict};
pub use succession::{NextView, Succession};
pub use transfer::Transfer;
pub use wants::Wants;
