//! The part of the page that is about elections.

use crate::elections::{ANNOUNCEMENT, ANSWER, Cases, Outcome};
use crate::page::{cells, each, head, table};

/// All of it.
pub(crate) fn section(bully: &[Cases], ring: &[Cases]) -> String {
    let mut text = format!(
        "## Elections

The highest of n ranks is dead, the others live, and somebody notices. A message takes T, an answer is
waited for {ANSWER} T (Δt), an announcement {ANNOUNCEMENT} T (Δt'). In every run all that live follow the
second highest in the end.\n\n"
    );
    text += &head("Bully", "protocols/src/election/bully.rs", BULLY);
    text += ON_BULLY;
    text += "At best, n - 1 messages: the second highest notices.\n\n";
    text += &outcomes(bully, |cases| &cases.best);
    text += "At worst, (n - 1)² + n - 2: the lowest notices.\n\n";
    text += &outcomes(bully, |cases| &cases.worst);
    text += &head("Ring", "protocols/src/election/ring.rs", RING);
    text += ON_RING;
    text += "At best, 2(n - 1) messages: one notices.\n\n";
    text += &outcomes(ring, |cases| &cases.best);
    text += "At worst, 2(n - 1)²: all that live notice at once.\n\n";
    text += &outcomes(ring, |cases| &cases.worst);
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn outcomes(all: &[Cases], of: fn(&Cases) -> &Outcome) -> String {
    let mut text =
        table(&["n", "messages", "formula", "on top", "formula", "turnaround in T", "formula"]);
    for cases in all {
        let Outcome { messages, on_top, turnaround } = of(cases);
        text += &cells(&[
            cases.size.to_string(),
            each(messages.0, 1),
            messages.1.per(1),
            each(on_top.0, 1),
            on_top.1.per(1),
            turnaround.0.to_string(),
            turnaround.1.per(1),
        ]);
    }
    text + "\n"
}

/// The texts of the files.
pub(crate) const BULLY: &str = include_str!("../../src/election/bully.rs");
pub(crate) const RING: &str = include_str!("../../src/election/ring.rs");

const ON_BULLY: &str = "The turnaround is until the last that lives has been notified: Δt, T more if there are
others to tell, and T more if somebody else than the winner notices. On top comes the announcement to the
dead.

";

const ON_RING: &str = "The turnaround is until the last list is back: 2(n - 1)T + 2Δt for one; of several,
each may wait behind others. A member alone waits for Δt and has won. On top come the acknowledgements,
one for each message, and what is sent to the dead, at most two for each list.

";
