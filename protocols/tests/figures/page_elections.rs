//! The part of the page that is about elections.

use crate::ballots::Costs;
use crate::deaths::Tried;
use crate::elections::{ANNOUNCEMENT, ANSWER, Case};
use crate::locks::SIZES;
use crate::page::{Figures, cells, each, head, table};
use crate::sent::{Mean, nanos};
use crate::{at_once, orders, zones};

/// All of it.
pub(crate) fn section(figures: &Figures) -> String {
    let Figures { bully, ring, chang_roberts, spanning_tree, .. } = figures;
    let mut text = format!(
        "## Elections

The highest of n ranks is dead, the others live, and somebody notices. A message takes T, an answer is
waited for {ANSWER} T (Δt), an announcement {ANNOUNCEMENT} T (Δt'). In every run all that live follow the
second highest in the end. Each case is measured for every n from 2 to 64, and the test fails if one is
not as its formula has it; the tables show some of them.

A named election and the nomination of the group's leader run the same code as whole members of a group,
as a sidecar has them. What candidates and the leader of the group send around a ballot is a *notice*.
The metrics of a sidecar count the three apart
(`conclave_election_messages_sent_total`, [metrics.md](metrics.md)), and `last_election` of
[the API](http-api.md) has what this member sent until it knew the outcome.\n\n"
    );
    text += &head("Bully", "protocols/src/election/bully.rs", BULLY);
    text += ON_BULLY;
    bully.cases.iter().for_each(|case| text += &outcomes(case));
    text += BULLY_HELD;
    text += &held(&bully.costs);
    text += BULLY_DEATHS;
    text += &deaths(&bully.deaths);
    text += &head("Ring", "protocols/src/election/ring.rs", RING);
    text += ON_RING;
    ring.cases.iter().for_each(|case| text += &outcomes(case));
    text += RING_HELD;
    text += &held(&ring.costs);
    text += RING_DEATHS;
    text += &deaths(&ring.deaths);
    text += &head("ChangRoberts", "protocols/src/election/chang_roberts.rs", CHANG_ROBERTS);
    text += ON_CHANG_ROBERTS;
    chang_roberts.cases.iter().for_each(|case| text += &outcomes(case));
    text += CHANG_ROBERTS_HELD;
    text += &held(&chang_roberts.costs);
    text += CHANG_ROBERTS_DEATHS;
    text += &deaths(&chang_roberts.deaths);
    text += &head("SpanningTree", "protocols/src/election/spanning_tree.rs", SPANNING_TREE);
    text += ON_SPANNING_TREE;
    spanning_tree.cases.iter().for_each(|case| text += &outcomes(case));
    text += &orders::section(&figures.orders);
    text += SPANNING_TREE_HELD;
    text += &held(&spanning_tree.costs);
    text += SPANNING_TREE_DEATHS;
    text += &deaths(&spanning_tree.deaths);
    text += &zones::section(&figures.zones);
    text += &at_once::section(&figures.at_once);
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// The elections of whole members.
fn held(costs: &Costs) -> String {
    let columns =
        ["n", "messages", "formula", "on top", "formula", "notices", "formula", "T", "formula"];
    let [highest, middle, lowest] = &costs.ballots;
    let cases = [
        ("A ballot of n candidates that the highest begins:", highest),
        ("That one in the middle begins:", middle),
        ("That the lowest begins:", lowest),
        (NOMINATION, &costs.nominations),
    ];
    let mut text = String::new();
    for (title, all) in cases {
        text += title;
        text += "\n\n";
        text += &table(&columns);
        for held in all.iter().filter(|held| SIZES.contains(&held.size)) {
            let mut line = vec![held.size.to_string()];
            for (measured, sent) in [held.messages, held.on_top, held.notices, held.took] {
                line.extend([each(measured, 1), sent.per(1)]);
            }
            text += &cells(&line);
        }
        text += "\n";
    }
    text
}

/// The deaths in all elections of one algorithm.
fn deaths(tried: &Tried) -> String {
    let columns =
        ["election", "n that live", "deaths tried", "most messages", "bound", "longest, in s"];
    let mut text = table(&columns);
    let places = [
        ("the algorithm alone", &tried.plain),
        ("a ballot", &tried.ballots),
        ("a nomination", &tried.nominations),
    ];
    for (place, all) in places {
        for deaths in all {
            text += &cells(&[
                place.to_owned(),
                deaths.size.to_string(),
                each(deaths.tried, 1),
                each(deaths.messages.0, 1),
                deaths.messages.1.per(1),
                Mean { sum: nanos(deaths.longest), count: 1_000_000_000 }.to_string(),
            ]);
        }
    }
    text + "\n"
}

fn outcomes(case: &Case) -> String {
    let columns = ["n", "messages", "formula", "on top", "formula", "turnaround in T", "formula"];
    let mut text = format!("{}\n\n{}", case.title, table(&columns));
    for outcome in case.outcomes.iter().filter(|outcome| SIZES.contains(&outcome.size)) {
        let runs = outcome.runs;
        text += &cells(&[
            outcome.size.to_string(),
            each(outcome.messages.0, runs),
            outcome.messages.1.per(runs),
            each(outcome.on_top.0, runs),
            outcome.on_top.1.per(runs),
            outcome.turnaround.0.to_string(),
            outcome.turnaround.1.per(runs),
        ]);
    }
    text + "\n"
}

/// The texts of the files.
pub(crate) const BULLY: &str = include_str!("../../src/election/bully.rs");
pub(crate) const RING: &str = include_str!("../../src/election/ring.rs");

pub(crate) const CHANG_ROBERTS: &str = include_str!("../../src/election/chang_roberts.rs");

pub(crate) const SPANNING_TREE: &str = include_str!("../../src/election/spanning_tree.rs");

const ON_BULLY: &str = "\
A member that misses the leader asks all higher ranks whether they live. Each that lives answers, and asks
all above it in turn. A member that is answered leaves the election to the higher ranks, and waits for the
winner to announce itself. The one that nobody answers within Δt has won, and announces itself to all
others. If no announcement comes within Δt', the winner has died too, and the member asks again. A member
that comes back, or hears a lower rank announce itself, begins an election of its own.

Messages grow with the square of n if the lowest notices; the time does not grow: Δt, T more if there are
others to tell, and T more if somebody else than the winner notices. Several that notice at once cost what
the lowest of them costs alone, because each member asks once in any case. On top comes the announcement
to the dead: one more message than the source has, because a higher rank that lives after all must object.

";

const BULLY_HELD: &str = "\
All candidates of a ballot live. So the source has n - 1 messages if the highest begins; if the member at
place i does, of m = n - 1 - i above it, m(m + 1) + n - 1. On top come (m - 1)(n - 1) announcements: the
highest has nobody to wait for, so it has won before the next one asks it, and announces itself again.
Only one candidate begins a ballot, the one that the call names; several at once do not occur. Notices of
n candidates in a group of n + 1: the withdrawal and the calls make n, and all n others are notified that
nobody leads and then who does, and acknowledge that: 5n. The time is from the withdrawal of the one that
led until the next leads.

";

const BULLY_DEATHS: &str = "\
Each member dies at each step: the initiator, the one that would win, the others; of a ballot also the
leader of the group, which called to it. Afterwards one that lives leads, and all messages together are no
more than those of two elections in their worst case: the one that the death broke off, and one more. A
death that hits the winner costs Δt' by the algorithm alone; in a group the lead is free again after a
leader lease. A member that is left alone of three is no majority: it waits for `apiOutage`, after which no
other can lead.

";

const ON_RING: &str = "\
A member that misses the leader sends a list with itself in it to its successor. Each member adds itself
and passes the list on. A successor that does not acknowledge within Δt is skipped. When the list comes
back to a member that is in it, all that live are in it, and the highest of them is the leader. The member
sends that round once more, so that all know. Each that passed a list on waits for that announcement for
2nΔt, and then begins an election of its own, since the list may have died with its holder.

Messages and time grow with n: 2(n - 1)T + 2Δt for one list. Several that notice at once send a list each,
and all lists elect the same member: k lists cost k times as much. If all notice, the member before the
dead one is the neck: it waits Δt once, and passes 2(n - 1) lists on, so that it takes 4(n - 1)T - T + Δt.
A member alone waits for Δt and has won. On top come one acknowledgement for each message, because a
member does not see that a send failed, and the sends to the dead: one in each pass, but only one in all
if lists still wait there when the second pass comes.

";

const RING_HELD: &str = "\
All n candidates of a ballot live, so the source has 2n messages, two passes. The ballot has fewer where
the lead is granted before the second pass is over, because candidates that know who leads pass on no
more: n + d + 3 if the list ends d steps before the nominee, and n + 2 if the caller is the nominee. Only
one candidate begins a ballot, the one that the call names; several at once do not occur. On top comes an
acknowledgement for each message, but perhaps for the last. Notices are those of the bully algorithm, 5n. In a
nomination there are no more acknowledgements than its formula has messages.

";

const RING_DEATHS: &str = "\
Each member dies at each step, as above, sends to the dead counted. Afterwards one that lives leads. By
the algorithm alone, and in a nomination, all messages together are no more than twice those of an
election that all begin at once; in a ballot, no more than those of two ballots.

";

const ON_CHANG_ROBERTS: &str = "\
A member that misses the leader sends its identifier, which is its rank, to its successor. Each member
passes a higher one on. Instead of a lower one it sends its own, but only once: it marks itself whenever it
sends one, and discards what is lower while it is marked. So only the highest comes back to the member that
it is of, which has won and sends an announcement round. That removes the marks. The ring is in the order of
ranks, so that a lower identifier goes one step; on a ring in another order several that notice at once
could cost up to N(N + 1)/2 + N messages, of N that live. An identifier whose member has died would go round
for ever: the one before that member discards it, and begins an election of its own.

Messages and time grow with n: between 2 and 3 for each that lives, however many notice. A member alone waits
for Δt and has won. On top come one acknowledgement for each message, and two sends to the dead member: it
follows the winner, which sends two messages.

";

const CHANG_ROBERTS_HELD: &str = "\
All n candidates of a ballot live, so the source has 2n messages if the highest begins, and one more for
each candidate from the one that begins up to the highest. The ballot has fewer, because candidates that
know who leads pass on no more, and the nominee asks for the lead when its identifier is back: n + d + 3 if
d steps lead to the nominee, and n + 2 if the caller is the nominee. On top comes an acknowledgement for
each message, but perhaps for the last. Notices are those of the bully algorithm, 5n. In a nomination
there are no more acknowledgements than its formula has messages.

";

const CHANG_ROBERTS_DEATHS: &str = "\
Each member dies at each step, as above, sends to the dead counted. Afterwards one that lives leads, and
all messages together are no more than those of two elections in their worst case, where each election that
is not a ballot has two sends to the dead member too.

";

const ON_SPANNING_TREE: &str = "\
A member that misses the leader sends ELECTION to its neighbours, and each of them to its own: the first that
a member hears from is its parent. Everybody answers each ELECTION: at once if it has another parent, and else
when all its neighbours have answered, with the best of its subtree. So the member that began learns the best of
all, and the tree carries its name back. Of several computations the one with the highest index takes over. In
these tables all capacities are 0, so that the highest rank wins, and the group is a full mesh, in which all
n - 1 that live are neighbours; on m links among them, one that notices costs 2(2m - (n - 2)) + n - 2.

Messages grow with the square of n, and if all begin at once with its cube: everybody joins one computation
after the other, and forwards each. The time does not grow: Δt for the dead member, and three transfers. On top
come the sends to the dead, a reply of each that joins to its parent, and a probe with its reply for each that
the first to find the dead member dead still waits for.

";

const SPANNING_TREE_HELD: &str = "\
All n candidates of a ballot live, so the source has (n - 1)(2n - 1) messages, with any initiator: there
are n(n - 1)/2 links. On top comes a reply of each that joins. Notices are those of the bully algorithm, 5n. In
a ballot the priority goes before the capacity. In a nomination a member joins higher and higher computations, so
(n - 1)(n - 2)/2 replies of those that join come on top, and n - 2 probes with their replies.

";

const SPANNING_TREE_DEATHS: &str = "\
Each member dies at each step, as above, sends to the dead counted. Afterwards one that lives leads. By the
algorithm alone, and in a nomination, all messages together are no more than twice those of an election that
all begin at once; in a ballot, no more than those of the ballot and of one such election, because all that have
lost their parent begin at once.

";

const NOMINATION: &str = "\
The nomination of the group's next leader, after the leader of n members has died. The promises of all run
out together, so all begin at once. A nominee stops to take part and reads the register, and a new view
ends the nomination: so a ring sends less than its formula has. The time is from the first message until
the next leader has its lease, without Δt:";
