//! Histories that break no law.

/// What is good, and the history.
pub(crate) const GOOD: &[(&str, &str)] = &[
    ("nothing", ""),
    ("a claim that nobody answers", "0 ask 1 a"),
    ("asked, held, given back", "0 ask 1 a; 1 grant 1 7 10; 2 free 1"),
    ("one after the other", "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 2 free 1; 3 grant 2 8 20"),
    ("a hold begins when another ends", "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 10 grant 2 8 20"),
    (
        "a hold begins when another is given back",
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 100; 6 free 1; 6 grant 2 8 20",
    ),
    (
        "let in when the last extension ends",
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 5 extend 1 15; 15 grant 2 8 20",
    ),
    ("extended to the same deadline", "0 ask 1 a; 1 grant 1 7 10; 2 extend 1 10"),
    ("extended a moment before the deadline", "0 ask 1 a; 1 grant 1 7 10; 9 extend 1 20"),
    (
        "extended before the deadline of the extension",
        "0 ask 1 a; 1 grant 1 7 10; 9 extend 1 20; 19 extend 1 30",
    ),
    ("lost at the deadline", "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 11 lost 1; 12 grant 2 8 20"),
    (
        "told late that it was lost",
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 12 grant 2 8 20; 50 lost 1",
    ),
    ("given up while it waited", "0 ask 1 a; 1 free 1"),
    (
        "a grant that crosses a withdrawal",
        "0 ask 1 a; 0 ask 2 a; 1 free 1; 2 grant 1 7 10; 3 grant 2 8 10",
    ),
    ("a grant that is over when it is told", "0 ask 1 a; 0 ask 2 a; 1 grant 2 8 10; 5 grant 1 7 5"),
    (
        "two requests at once, answered in the other order, of which one was over by then",
        "0 ask 1 a; 0 ask 2 a; 1 grant 2 8 2; 3 grant 1 7 3",
    ),
    (
        "asked at the very time of another's answer, and answered when it was over",
        "0 ask 1 a; 5 grant 1 8 6; 5 ask 2 a; 7 grant 2 7 7",
    ),
    ("who waited gets a larger token", "0 ask 1 a; 0 ask 2 a; 1 grant 2 7 2; 2 grant 1 8 9"),
    (
        "a smaller token that was given back before it was answered",
        "0 ask 1 a; 0 ask 2 a; 1 grant 2 8 2; 3 free 1; 4 grant 1 7 9",
    ),
    ("the same token of two locks", "0 ask 1 a; 0 ask 2 b; 1 grant 1 7 10; 1 grant 2 7 10"),
    ("two locks at once", "0 ask 1 a; 0 ask 2 b; 1 grant 1 7 10; 2 grant 2 8 10"),
    ("advisory grants overlap", "0 ask 1 a; 0 ask 2 a; 1 grant 1 - 10; 2 grant 2 - 10"),
    ("tokens with gaps", "0 ask 1 a; 1 grant 1 7 2; 3 ask 2 a; 4 grant 2 7000000 9"),
    ("a store takes one token many times", "1 store a 7 ok; 2 store a 7 ok; 3 store a 8 ok"),
    ("a store refuses an older token", "1 store a 8 ok; 2 store a 7 no; 3 store a 8 ok"),
    ("what a store refused binds it to nothing", "1 store a 9 no; 2 store a 7 ok"),
    (
        "who has given back is refused, and who waited too long",
        "0 ask 1 a; 1 grant 1 7 9; 2 free 1; 2 ask 2 a; 3 grant 2 8 20; 4 store a 8 ok; \
         5 store a 7 no; 20 store a 9 ok; 20 store a 8 no",
    ),
    (
        "refused before it was notified that it holds",
        "0 ask 1 a; 1 store a 8 ok; 2 store a 7 no; 3 grant 1 7 9",
    ),
    (
        "later views give larger tokens, answered in any order",
        "0 ask 1 a; 0 ask 2 a; 0 ask 3 a; 1 grant 2 8/2 9; 2 grant 1 7/1 2; 9 grant 3 9/2 12",
    ),
    ("views of two locks", "0 ask 1 a; 0 ask 2 b; 1 grant 1 8/1 9; 1 grant 2 7/2 9"),
    ("stores of two locks", "1 store a 8 ok; 2 store b 7 ok"),
    (
        "the holder renews and gives back",
        "0 ask 1 a; 1 grant 1 7 10; 2 renew a 7 ok; 3 free 1; 3 drop a 7 ok",
    ),
    (
        "others are refused",
        "0 ask 1 a; 1 grant 1 7 10; 2 renew a 6 no; 3 drop a 9 no; 4 drop b 1 no",
    ),
    (
        "renewed while another's answer is on its way",
        "0 ask 1 a; 0 ask 2 a; 1 grant 1 7 10; 9 renew a 7 ok; 12 grant 2 8 20",
    ),
    ("one leader after another", "1 lead x 1 10; 10 lead y 2 20"),
    ("a leader goes on", "1 lead x 1 10; 5 lead x 1 15; 9 lead x 1 15"),
    ("a leader that resigns", "1 lead x 1 10; 5 resign x; 5 lead y 2 20"),
    ("a leader lease that lapsed comes back in its view", "1 lead x 1 10; 12 lead x 1 20"),
    ("a leader begins the next view itself", "1 lead x 1 10; 5 lead x 2 12"),
    (
        "a leader that began the next view itself resigns",
        "1 lead x 1 10; 5 lead x 2 12; 6 resign x; 6 lead y 3 9",
    ),
    ("views with gaps", "1 lead x 1 10; 10 lead y 17 20"),
    ("who resigns without having led", "1 resign x; 2 lead y 1 9"),
];
