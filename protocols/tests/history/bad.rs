//! Histories that break one law each.

use conclave_protocols::history::Law;

/// What is wrong, the law that it breaks, and the history.
pub(crate) const BAD: &[(&str, Law, &str)] = &[
    // ----- Exclusion
    (
        "granted before the deadline of another",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 9 grant 2 8 20",
    ),
    (
        "granted at the same moment",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 5 grant 1 7 10; 5 grant 2 8 20",
    ),
    (
        "granted before the release was called",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 100; 6 free 1; 5 grant 2 8 20",
    ),
    (
        "the lower token is answered later",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 2 8 10; 5 grant 1 7 20",
    ),
    (
        "an extension reaches into another's hold",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 5 extend 1 15; 12 grant 2 8 20",
    ),
    (
        "lost early, but told that nobody else holds until later",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 4 lost 1; 6 grant 2 8 20",
    ),
    (
        "a short hold within a long one",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 100; 50 grant 2 8 60; 55 free 2",
    ),
    (
        "the first holder of three goes on beyond the second",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 1 7 2; 2 grant 2 8 9; 8 grant 3 9 20",
    ),
    (
        "a long hold overlaps the next but one",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 1 7 50; 2 grant 2 6 1; 9 grant 3 9 20",
    ),
    (
        "two locks, one of them held twice",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 b; 0 ask 3 b; 1 grant 1 7 99; 2 grant 2 7 9; 8 grant 3 8 20",
    ),
    (
        "both release, but the second was let in before",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 50; 2 grant 2 8 50; 3 free 1; 4 free 2",
    ),
    (
        "the recording is not in the order of time",
        Law::Exclusion,
        "9 grant 2 8 20; 1 grant 1 7 10; 0 ask 2 a; 0 ask 1 a",
    ),
    (
        "a moment counts as much as a minute",
        Law::Exclusion,
        "0 ask 1 a; 0 ask 2 a; 0 grant 1 7 10000; 9999 grant 2 8 20000",
    ),
    (
        "the same client holds twice",
        Law::Exclusion,
        "0 ask 1 a; 1 grant 1 7 10; 2 ask 2 a; 3 grant 2 8 10",
    ),
    // ----- TokenOrder
    (
        "the next holder gets a smaller token",
        Law::TokenOrder,
        "0 ask 1 a; 1 grant 1 7 10; 2 free 1; 3 ask 2 a; 4 grant 2 6 10",
    ),
    (
        "the token begins anew after a long time",
        Law::TokenOrder,
        "0 ask 1 a; 1 grant 1 7 10; 5000 ask 2 a; 5001 grant 2 1 6000",
    ),
    (
        "two grants ago",
        Law::TokenOrder,
        "0 ask 1 a; 1 grant 1 7 2; 3 ask 2 a; 4 grant 2 9 5; 6 ask 3 a; 7 grant 3 8 9",
    ),
    (
        "between the tokens of two earlier holders",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 5 2; 3 grant 2 9 4; 5 ask 3 a; 6 grant 3 7 9",
    ),
    (
        "a grant that nobody wanted counts too",
        Law::TokenOrder,
        "0 ask 1 a; 1 free 1; 2 grant 1 9 10; 3 ask 2 a; 4 grant 2 8 10",
    ),
    (
        "a hold that was over when it was told counts too",
        Law::TokenOrder,
        "0 ask 1 a; 9 grant 1 9 5; 10 ask 2 a; 11 grant 2 8 20",
    ),
    (
        "a lost hold counts too",
        Law::TokenOrder,
        "0 ask 1 a; 1 grant 1 9 5; 5 lost 1; 6 ask 2 a; 7 grant 2 8 20",
    ),
    (
        "of two locks one goes back",
        Law::TokenOrder,
        "0 ask 1 a; 1 grant 1 9 2; 0 ask 2 b; 1 grant 2 9 2; 3 ask 3 b; 4 grant 3 8 9",
    ),
    (
        "from a large number to zero",
        Law::TokenOrder,
        "0 ask 1 a; 1 grant 1 9007199254740991 2; 3 ask 2 a; 4 grant 2 0 9",
    ),
    (
        "two requests at once, answered in the other order",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 1 grant 2 8 2; 3 grant 1 7 9",
    ),
    (
        "asked before the answer of another, with a smaller token",
        Law::TokenOrder,
        "0 ask 1 a; 4 ask 2 a; 5 grant 1 8 6; 7 grant 2 7 9",
    ),
    (
        "who waited gets a smaller token when the lock is given back",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 8 100; 6 free 1; 6 grant 2 7 20",
    ),
    (
        "who waited gets a smaller token than the holder before the last",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 1 8 2; 3 grant 2 9 4; 5 grant 3 7 9",
    ),
    (
        "who waited gets a smaller token than one that was over when it was told",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 3 grant 1 8 2; 4 grant 2 7 9",
    ),
    (
        "while one holds, another that gave up is let in",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 1 free 2; 2 grant 1 7 10; 5 grant 2 8 20",
    ),
    (
        "while one holds, another is let in by an answer that takes too long",
        Law::TokenOrder,
        "0 ask 1 a; 0 ask 2 a; 2 grant 1 7 10; 5 grant 2 8 4",
    ),
    // ----- TokenOnce
    (
        "the same token to the next",
        Law::TokenOnce,
        "0 ask 1 a; 1 grant 1 7 10; 2 free 1; 3 ask 2 a; 4 grant 2 7 10",
    ),
    (
        "the same token to two that asked at once",
        Law::TokenOnce,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 10 grant 2 7 20",
    ),
    (
        "a token comes again after another",
        Law::TokenOnce,
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 1 7 2; 3 grant 2 8 4; 5 grant 3 7 5",
    ),
    (
        "a token of a grant that nobody wanted comes again",
        Law::TokenOnce,
        "0 ask 1 a; 0 ask 2 a; 1 free 1; 2 grant 1 7 9; 3 grant 2 7 9",
    ),
    ("token zero twice", Law::TokenOnce, "0 ask 1 a; 1 grant 1 0 2; 3 ask 2 a; 4 grant 2 0 9"),
    // ----- Fence
    ("a store takes an older token", Law::Fence, "1 store a 8 ok; 2 store a 7 ok"),
    (
        "a store takes an older token after several",
        Law::Fence,
        "1 store a 5 ok; 2 store a 8 ok; 3 store a 8 ok; 4 store a 7 ok",
    ),
    (
        "a store refuses once and takes it then",
        Law::Fence,
        "1 store a 8 ok; 2 store a 7 no; 3 store a 7 ok",
    ),
    (
        "one of two stores does not look",
        Law::Fence,
        "1 store a 8 ok; 1 store b 8 ok; 2 store a 7 no; 2 store b 7 ok",
    ),
    (
        "a store takes a token of a holder that was frozen",
        Law::Fence,
        "0 ask 1 a; 1 grant 1 7 9; 10 ask 2 a; 11 grant 2 8 20; 12 store a 8 ok; 13 store a 7 ok",
    ),
    ("at the same time, in the order of the store", Law::Fence, "1 store a 8 ok; 1 store a 7 ok"),
    (
        "a later view begins below an earlier one",
        Law::Fence,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7/2 2; 3 grant 2 8/1 9",
    ),
    (
        "a view goes on above a later one",
        Law::Fence,
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 1 7/1 2; 3 grant 2 8/2 4; 5 grant 3 9/1 9",
    ),
    (
        "a view between two others is above the later",
        Law::Fence,
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 1 7/1 2; 3 grant 2 8/3 4; 5 grant 3 9/2 9",
    ),
    // ----- Refused
    (
        "a holder is refused",
        Law::Refused,
        "0 ask 1 a; 1 grant 1 7 9; 2 store a 8 ok; 3 store a 7 no",
    ),
    ("a holder is refused by a whim", Law::Refused, "0 ask 1 a; 1 grant 1 7 9; 3 store a 7 no"),
    (
        "a holder is refused that was extended",
        Law::Refused,
        "0 ask 1 a; 1 grant 1 7 9; 8 extend 1 20; 15 store a 7 no",
    ),
    (
        "a holder is refused that was told of its loss before its deadline",
        Law::Refused,
        "0 ask 1 a; 1 grant 1 7 9; 2 lost 1; 3 store a 7 no",
    ),
    // ----- Deadline
    ("an extension shortens", Law::Deadline, "0 ask 1 a; 1 grant 1 7 10; 2 extend 1 9"),
    (
        "the second extension shortens",
        Law::Deadline,
        "0 ask 1 a; 1 grant 1 7 10; 2 extend 1 20; 3 extend 1 19",
    ),
    ("taken back to before now", Law::Deadline, "0 ask 1 a; 1 grant 1 7 10; 5 extend 1 2"),
    ("an advisory deadline is one too", Law::Deadline, "0 ask 1 a; 1 grant 1 - 10; 2 extend 1 9"),
    ("a leader lease is told for shorter", Law::Deadline, "1 lead x 1 10; 2 lead x 1 9"),
    ("a leader lease is shorter in the next view", Law::Deadline, "1 lead x 1 10; 5 lead x 2 9"),
    (
        "a leader lease is told for shorter at the third time",
        Law::Deadline,
        "1 lead x 1 10; 2 lead x 1 12; 3 lead x 1 11",
    ),
    // ----- Past
    ("extended after its deadline", Law::Past, "0 ask 1 a; 1 grant 1 7 10; 11 extend 1 20"),
    ("extended at its very deadline", Law::Past, "0 ask 1 a; 1 grant 1 7 10; 10 extend 1 20"),
    (
        "extended after the deadline of the extension",
        Law::Past,
        "0 ask 1 a; 1 grant 1 7 10; 5 extend 1 15; 16 extend 1 30",
    ),
    ("an advisory hold is revived", Law::Past, "0 ask 1 a; 1 grant 1 - 10; 11 extend 1 20"),
    (
        "revived while nobody else holds",
        Law::Past,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 12 extend 1 20; 20 grant 2 8 30",
    ),
    // ----- Final
    ("a lost hold is extended", Law::Final, "0 ask 1 a; 1 grant 1 7 10; 10 lost 1; 11 extend 1 20"),
    (
        "a lost hold is extended before its deadline",
        Law::Final,
        "0 ask 1 a; 1 grant 1 7 10; 5 lost 1; 6 extend 1 20",
    ),
    (
        "an advisory hold that was lost is extended",
        Law::Final,
        "0 ask 1 a; 1 grant 1 - 10; 5 lost 1; 6 extend 1 20",
    ),
    // ----- Holder
    (
        "a token that was never given renews",
        Law::Holder,
        "0 ask 1 a; 1 grant 1 7 10; 2 renew a 6 ok",
    ),
    ("a lock that was never granted is given back", Law::Holder, "2 drop a 6 ok"),
    ("renewed after a release", Law::Holder, "0 ask 1 a; 1 grant 1 7 10; 2 free 1; 3 renew a 7 ok"),
    ("renewed after a loss", Law::Holder, "0 ask 1 a; 1 grant 1 7 10; 5 lost 1; 6 renew a 7 ok"),
    (
        "the holder before gives back what the next holds",
        Law::Holder,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 11 grant 2 8 20; 12 drop a 7 ok",
    ),
    (
        "the holder before renews what the next holds",
        Law::Holder,
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 11 grant 2 8 20; 12 renew a 7 ok",
    ),
    (
        "a token of another lock",
        Law::Holder,
        "0 ask 1 a; 0 ask 2 b; 1 grant 1 7 10; 1 grant 2 8 10; 2 drop a 8 ok",
    ),
    (
        "a larger token than was ever given",
        Law::Holder,
        "0 ask 1 a; 1 grant 1 7 10; 2 renew a 8 ok",
    ),
    // ----- OneLeader
    ("two lead in two views", Law::OneLeader, "1 lead x 1 10; 5 lead y 2 20"),
    ("the old leader goes on", Law::OneLeader, "1 lead x 1 10; 9 lead x 1 14; 12 lead y 2 20"),
    ("the old leader resigns too late", Law::OneLeader, "1 lead x 1 10; 5 lead y 2 20; 6 resign x"),
    (
        "a short leader lease within a long one",
        Law::OneLeader,
        "1 lead x 1 100; 5 lead y 2 6; 7 resign y",
    ),
    ("a third while the first leads", Law::OneLeader, "1 lead x 1 100; 5 lead y 2 4; 6 lead z 3 9"),
    // ----- LeaderOfEpoch
    (
        "one view, two leaders, one after the other",
        Law::LeaderOfEpoch,
        "1 lead x 1 10; 11 lead y 1 20",
    ),
    (
        "one view, two leaders, long apart",
        Law::LeaderOfEpoch,
        "1 lead x 1 2; 3 resign x; 9000 lead y 1 9001",
    ),
    // ----- EpochsRise
    ("a view below the last", Law::EpochsRise, "1 lead x 2 10; 11 lead y 1 20"),
    (
        "the same member leads an older view again",
        Law::EpochsRise,
        "1 lead x 1 2; 3 lead x 2 4; 5 lead x 1 6",
    ),
    (
        "an old leader lease comes back",
        Law::EpochsRise,
        "1 lead x 1 10; 11 lead y 2 20; 21 lead x 1 30",
    ),
    // ----- Form
    ("granted without a request", Law::Form, "1 grant 1 7 10"),
    ("granted twice", Law::Form, "0 ask 1 a; 1 grant 1 7 10; 2 grant 1 8 10"),
    ("asked twice", Law::Form, "0 ask 1 a; 1 ask 1 a"),
    ("extended without a grant", Law::Form, "0 ask 1 a; 1 extend 1 10"),
    ("extended without a request", Law::Form, "1 extend 1 10"),
    ("given back without a request", Law::Form, "1 free 1"),
    ("lost without a grant", Law::Form, "0 ask 1 a; 1 lost 1"),
    ("granted before it was asked for", Law::Form, "1 grant 1 7 10; 2 ask 1 a"),
];
