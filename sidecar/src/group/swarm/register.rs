//! The register of a simulated group.

use conclave_protocols::Epoch;
use conclave_protocols::member::Node;
use conclave_protocols::random::Random;
use conclave_protocols::register::{self, MemoryRegister};
use conclave_protocols::trace::{self, Log};

use super::pod::{Out, Parcel};

/// A register that may not say whether it did what it was asked.
pub(super) struct Register {
    memory: MemoryRegister,
    random: Random,
    pub(super) unsure: u64,
    /// How often it did not answer.
    pub(super) unanswered: u64,
    log: Log,
}

impl Register {
    pub(super) fn new(seed: u64, log: Log) -> Self {
        let (memory, random) = (MemoryRegister::default(), Random::new(seed));
        Self { memory, random, unsure: 0, unanswered: 0, log }
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.memory.record().map(|record| record.epoch).unwrap_or_default()
    }

    fn answer_for_sure(
        &mut self,
        from: Node,
        call: &register::Message,
    ) -> Option<register::Message> {
        trace::answer(&mut self.memory, from, call, Epoch(0), &self.log)
    }

    pub(super) fn answer(&mut self, from: Node, call: &register::Message, out: &mut Out) {
        if self.unsure > 0 && self.random.once_in(self.unsure) {
            self.unanswered += 1;
            if self.random.once_in(2) {
                self.answer_for_sure(from, call);
            }
        } else if let Some(answer) = self.answer_for_sure(from, call) {
            out.send(from, Parcel::Register(answer));
        }
    }
}
