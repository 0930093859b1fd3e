//! A register within this process: what `conclave dev` has in place of the API server.

use std::time::{SystemTime, UNIX_EPOCH};

use conclave_protocols::Epoch;
use conclave_protocols::register::{self, Message};
use tokio::sync::{mpsc, watch};

/// A way to a register within this process, which can be cut off.
#[derive(Clone, Debug)]
pub struct MemoryRegister {
    calls: mpsc::UnboundedSender<Call>,
    /// It is cut off while any of these says so.
    cuts: Vec<watch::Receiver<bool>>,
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
                    // The member that asked is gone, or floods itself.
                    let _ = answers.try_send(answer);
                }
            }
        });
        Self { calls, cuts: vec![cut] }
    }

    /// The same register by another way, which may be cut off on its own besides.
    #[must_use]
    pub fn by(&self, cut: watch::Receiver<bool>) -> Self {
        let cuts = self.cuts.iter().cloned().chain([cut]).collect();
        Self { calls: self.calls.clone(), cuts }
    }

    pub(super) fn call(&self, call: Message, answers: mpsc::Sender<Message>) {
        if !self.cuts.iter().any(|cut| *cut.borrow()) {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use conclave_protocols::register::CallId;

    use super::*;

    #[tokio::test]
    async fn a_way_to_the_register_is_cut_off_by_its_own_switch_and_by_that_of_the_register() {
        let (whole, register_cut) = watch::channel(false);
        let (own, own_cut) = watch::channel(false);
        let way = MemoryRegister::start(register_cut).by(own_cut);
        for (whole_is_cut, own_is_cut) in [(false, false), (true, false), (false, true)] {
            whole.send_replace(whole_is_cut);
            own.send_replace(own_is_cut);
            let (answers, mut answered) = mpsc::channel(1);
            way.call(Message::Read(CallId(1)), answers);
            let answer = tokio::time::timeout(Duration::from_secs(60), answered.recv()).await;
            let answer = answer.expect("answered, or cut off");
            assert_eq!(answer.is_some(), !whole_is_cut && !own_is_cut);
        }
    }
}
