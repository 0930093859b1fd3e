//! What an entry costs: the messages that the textbook counts to it, as far as the member knows of them. What others
//! send on its behalf, such as a token on its way, it does not see.

use crate::mutex::PaidBy;

/// The count of one member's entry to a lock.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub(super) struct Count {
    messages: u64,
    ends: bool,
}

impl Count {
    /// The member asks.
    pub(super) fn begin(&mut self) {
        self.messages = 0;
    }

    /// The member ends the entry, or a wait that has none: what it sends with the end of an entry counts too.
    pub(super) fn end(&mut self, entered: bool) {
        self.ends = entered;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ends
    }

    /// The member sends something: while its application claims the lock, and while it waits for it. A member that
    /// still waits gives back what an attempt got that failed.
    pub(super) fn sent(&mut self, paid_by: PaidBy, claims: bool, waits: bool) {
        let counts = match paid_by {
            PaidBy::Sender => claims,
            PaidBy::Leaver => self.ends || waits,
            PaidBy::Receiver | PaidBy::Nobody => false,
        };
        self.messages += u64::from(counts);
    }

    /// Something comes, while its application claims the lock.
    pub(super) fn received(&mut self, paid_by: PaidBy, claims: bool) {
        self.messages += u64::from(claims && paid_by == PaidBy::Receiver);
    }

    /// So far.
    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// All of an entry that has ended, once.
    pub(super) fn close(&mut self) -> Option<u64> {
        std::mem::take(&mut self.ends).then(|| std::mem::take(&mut self.messages))
    }
}
