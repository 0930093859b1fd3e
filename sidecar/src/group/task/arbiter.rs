//! What follows from a change of the arbiter, and whom discovery found where there is none.

use conclave_protocols::member::{Command, Member};
use conclave_protocols::policy::Arbiter;
use conclave_protocols::protocol::InputOf;
use conclave_protocols::record::MemberInfo;
use conclave_protocols::{Input, Outbox, Protocol};

use super::Task;
use crate::telemetry;

impl Task<'_> {
    /// Hands something to the member. No claim ever says `safe` of a hold that is not: a hold is
    /// advisory before it is told of what the member did without an arbiter, and safe only after it
    /// was told of what ended with the new one.
    pub(super) fn feed_member(&mut self, input: InputOf<Member>) {
        let now = self.clock.now();
        self.note_input(now, &input);
        let mut out = Outbox::default();
        if let Some(recorder) = &mut self.recorder {
            let lines = recorder.handle(&mut self.member, now, input, &mut out);
            lines.iter().for_each(telemetry::trace);
        } else {
            self.member.handle(now, input, &mut out);
        }
        if self.member.arbiter() == Arbiter::None {
            self.goes_by(Arbiter::None);
        }
        self.carry_out(now, out);
        self.goes_by(self.member.arbiter());
    }

    fn goes_by(&mut self, arbiter: Arbiter) {
        self.publisher.goes_by(arbiter);
        self.book.goes_by(arbiter);
    }

    /// Discovery found these, or is over.
    pub(super) fn on_found(&mut self, found: Option<Vec<MemberInfo>>) {
        let Some(peers) = found else { return self.peers.clear() };
        for info in &peers {
            self.links.meet(info);
        }
        self.peers.clone_from(&peers);
        self.feed(Input::Command(Command::Peers(peers)));
    }
}
