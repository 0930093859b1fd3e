//! Sentences whose subject or object is a bare clause: "who asks gets it" for "the member that asks gets it".

/// Where a clause follows that nothing can stand before but what it is about. An indirect question does not follow them:
/// "asks who leads" and "agree on who leads" have none.
const BEFORE: &[&str] = &[
    "by", "of", "to", "from", "for", "than", "with", "but", "at", "in", "between", "against",
    "before", "behind", "after", "until", "that", "if", "when", "because", "since", "while",
    "unless", "whether", "only", "as", "suspect", "suspects", "answer", "deposes",
];

/// Which words of a paragraph begin such a clause, with what follows. The first words of a comment may name a thing by a
/// question, "Who leads."; those of a document may not.
pub(crate) fn bare(paragraph: &str, may_begin: bool) -> Option<String> {
    let is_title = paragraph.starts_with('#');
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let is_bare = |place: &usize| {
        let place = *place;
        if is_title || !plain(words[place]).eq_ignore_ascii_case("who") || asks(&words[place..]) {
            return false;
        }
        match place.checked_sub(1).map(|before| words[before]) {
            None => !may_begin && words.len() > 1 && !is_name(&words),
            // An entry of a list, and a row of a table.
            Some("-" | "*") => !may_begin,
            Some(before) if before.ends_with(['.', '!', '?', ';']) => !is_name(&words[place..]),
            Some(before) => {
                BEFORE.contains(&before.to_lowercase().trim_start_matches(['(', '*', '"']))
            }
        }
    };
    (0..words.len()).find(is_bare).map(|place| {
        let first = place.saturating_sub(3);
        words[first..words.len().min(place + 9)].join(" ")
    })
}

/// The beginning of the same in an identifier. `those_who_stand` names whom it is about, `rule_8_who_stands` does not.
pub(crate) fn is_bare_name<S: AsRef<str>>(parts: &[S]) -> bool {
    (0..parts.len()).any(|place| {
        let before = place.checked_sub(1).map(|before| parts[before].as_ref());
        let begins = before.is_none_or(|word| {
            BEFORE.contains(&word) || word.chars().all(|digit| digit.is_ascii_digit())
        });
        parts[place].as_ref() == "who" && parts.len() > place + 1 && begins
    })
}

/// Whether what begins here is a question.
fn asks(words: &[&str]) -> bool {
    let end = words.iter().find(|word| bald(word).ends_with(['.', '!', '?']));
    end.is_some_and(|word| bald(word).ends_with('?'))
}

/// Whether what begins here is the bold name of what follows: `**Who sent a message.**`
fn is_name(words: &[&str]) -> bool {
    words[0].starts_with("**")
        && words
            .iter()
            .find(|word| word.contains("**") && !word.starts_with("**"))
            .is_some_and(|word| word.ends_with(".**"))
}

fn bald(word: &str) -> &str {
    word.trim_end_matches(|c: char| !c.is_alphanumeric() && !['.', '!', '?'].contains(&c))
}

fn plain(word: &str) -> &str {
    word.trim_matches(['"', '“', '(', '*', '_', ',', ':'])
}
