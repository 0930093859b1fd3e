//! A register within this process: what `conclave dev` has in place of the API server.

use std::time::{SystemTime, UNIX_EPOCH};

use conclave_protocols::Epoch;
use conclave_protocols::register::{self, Message};
use tokio::sync::{mpsc, watch};

/// A way to a register within this process, which can be cut off.
#[derive(Clone, Debug)]
pub struct MemoryRegister {
    calls: mpsc::UnboundedSender<Call>,
    cut: watch::Receiver<bool>,
}

type Call = (Message, mpsc::Sender<Message>);

impl MemoryRegister {
    /// Starts an empty register; it ends with the last way to it.
    pub fn start(cut: watch::Receiver<bool>) -> Self {
        let (calls, mut asked) = mpsc::unbounded_channel::<Call>();
        tokio::spawn(async move {
            let mut register = register::MemoryRegister::default();
            while let Some((call, answers)) = asked.recv().await {
                if let Some(answer) = register.answer(&call, time_term()) {
                    // Whoever asked is gone, or floods itself.
                    let _ = answers.try_send(answer);
                }
            }
        });
        Self { calls, cut }
    }

    /// The same register by another way, which is cut off on its own.
    #[must_use]
    pub fn by(&self, cut: watch::Receiver<bool>) -> Self {
        Self { calls: self.calls.clone(), cut }
    }

    pub(super) fn call(&self, call: Message, answers: mpsc::Sender<Message>) {
        if !*self.cut.borrow() {
            // A register that is gone does not answer.
            let _ = self.calls.send((call, answers));
        }
    }
}

/// By the register's own clock, which in this process is the machine's.
fn time_term() -> Epoch {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    register::time_term(now.saturating_sub(super::kubernetes::BEFORE_2024))
}
