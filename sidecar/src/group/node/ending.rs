//! How a node ends: it waits for its application, and then it leaves its group.

use std::time::Duration;

use conclave_protocols::Input;
use conclave_protocols::member::Command;

use super::{Ending, Moment, PodNode, PodTimer, Surroundings};

/// How long leaving may take, whatever the member still waits for: a part of a pod's usual grace period.
/// While the register answers it takes milliseconds. Where Kubernetes leaves less time, it ends the process.
const LEAVE: Duration = Duration::from_secs(10);

/// How long it may take before that until the application leads no more. A deadline that is later than that is one that
/// others wait for.
const STOP: Duration = Duration::from_secs(10);

impl PodNode {
    /// The pod is to end. Where its application leads, it is notified, and leads until it has stopped, or until its
    /// deadline; the group is led by another meanwhile.
    pub(super) fn end(&mut self, at: Moment, around: &mut impl Surroundings) {
        self.candidacies.end();
        self.grant_intents(at, around);
        if !self.keeps_it() || self.ending == Some(Ending::Leaves) {
            return self.leave(at, around);
        }
        self.ending = Some(Ending::Waits);
        around.ends(Ending::Waits);
        self.timers.set(PodTimer::Stop, at.now.after(STOP));
        self.feed(at, Input::Command(Command::Drain), around);
    }

    /// The application for which this node has waited leads no more.
    pub(super) fn leave_if_stopped(&mut self, at: Moment, around: &mut impl Surroundings) {
        if self.ending == Some(Ending::Waits) && !self.keeps_it() {
            self.leave(at, around);
            self.grant_intents(at, around);
        }
    }

    /// Whether its application leads, or a Lease is yet to be given back.
    fn keeps_it(&self) -> bool {
        self.candidacies.leads() || self.candidacies.gives_back()
    }

    /// Leaves the group: the claims end first, then the member says what it holds.
    pub(super) fn leave(&mut self, at: Moment, around: &mut impl Surroundings) {
        self.timers.clear(&PodTimer::Stop);
        self.ending = Some(Ending::Leaves);
        around.ends(Ending::Leaves);
        self.book.close(at.now);
        self.candidacies.drain();
        self.grant_intents(at, around);
        self.timers.set(PodTimer::Leave, at.now.after(LEAVE));
        self.feed(at, Input::Command(Command::Leave), around);
    }
}
