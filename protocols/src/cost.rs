//! What the books say that an algorithm costs, in messages.
