//! The register: where a group's record is kept, and compared and swapped.

mod kubernetes;
mod memory;

use conclave_protocols::register::Message;
use tokio::sync::mpsc;

pub use kubernetes::{KubernetesRegister, Sight};
pub use memory::MemoryRegister;

/// A way to the register. Calls never wait; the answer comes by the channel, or never.
#[derive(Clone, Debug)]
pub enum Register {
    /// The Lease of the group.
    Kubernetes(Box<KubernetesRegister>),
    /// A register within this process.
    Memory(MemoryRegister),
}

impl Register {
    pub(crate) fn call(&self, call: Message, answers: mpsc::Sender<Message>) {
        match self {
            Self::Kubernetes(register) => register.call(call, answers),
            Self::Memory(register) => register.call(call, answers),
        }
    }
}
