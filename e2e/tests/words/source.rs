//! Rust as text: its code, its strings, its comments.

/// Rust without comments, strings and characters.
pub(crate) fn code(source: &str) -> String {
    pieces(source).iter().filter(|piece| piece.kind == Kind::Code).map(|piece| piece.text).collect()
}

/// The strings, each with the line that it begins on. An escape is a space.
pub(crate) fn strings(source: &str) -> Vec<(usize, String)> {
    numbered(source)
        .filter(|(_, piece)| piece.kind == Kind::String)
        .map(|(line, piece)| (line, unescaped(piece.text)))
        .collect()
}

/// The comments, paragraph by paragraph, each with the line that it begins on.
pub(crate) fn comments(source: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = source.lines().collect();
    // A comment that follows code on its line stands alone.
    let is_alone =
        |line: usize| lines.get(line - 1).is_some_and(|text| text.trim().starts_with("//"));
    let mut texts = Vec::new();
    let mut before = 0;
    for (line, piece) in numbered(source).filter(|(_, piece)| piece.kind == Kind::Comment) {
        if line != before + 1 || !is_alone(line) {
            texts.push((line, ""));
        }
        before = line;
        texts.push((line, piece.text.trim_start_matches('/').trim_start_matches('!')));
    }
    paragraphs(texts.into_iter())
}

/// Lines that belong together as one text: an empty line, a heading, a row or an entry of a list begins another.
pub(crate) fn paragraphs<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in lines {
        let line = line.trim();
        let begins = ["- ", "* ", "#", "|", "---"].iter().any(|mark| line.starts_with(mark))
            || line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        match found.last_mut() {
            _ if line.is_empty() => {}
            Some((_, text)) if goes_on && !begins => {
                text.push(' ');
                text.push_str(line);
            }
            _ => found.push((number, line.to_owned())),
        }
        goes_on = !line.is_empty() && !line.starts_with('#') && !line.starts_with('|');
    }
    found
}

fn unescaped(string: &str) -> String {
    let mut text = String::new();
    let mut escaped = false;
    for c in string.chars() {
        match c {
            _ if escaped => {
                escaped = false;
                text.push(' ');
            }
            '\\' => escaped = true,
            _ => text.push(c),
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

struct Piece<'a> {
    kind: Kind,
    text: &'a str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    String,
    Character,
}

fn numbered(source: &str) -> impl Iterator<Item = (usize, Piece<'_>)> {
    let mut line = 1;
    pieces(source).into_iter().map(move |piece| {
        let begins = line;
        line += piece.text.matches('\n').count();
        (begins, piece)
    })
}

fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let before = &source[..source.len() - rest.len()];
        let (kind, size) = match first {
            '/' if rest.starts_with("//") => (Kind::Comment, rest.find('\n').unwrap_or(rest.len())),
            'r' if is_raw(rest, before) => (Kind::String, raw_string(rest)),
            '"' => (Kind::String, string(rest)),
            '\'' => (Kind::Character, character(rest)),
            _ => (Kind::Code, 0),
        };
        let (kind, size) = if size == 0 { (Kind::Code, first.len_utf8()) } else { (kind, size) };
        let (text, after) = rest.split_at(size);
        pieces.push(Piece { kind, text });
        rest = after;
    }
    pieces
}

fn is_raw(rest: &str, before: &str) -> bool {
    let begins = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    begins && rest[1..].trim_start_matches('#').starts_with('"')
}

fn raw_string(rest: &str) -> usize {
    let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
    let end = format!("\"{}", "#".repeat(hashes));
    let begin = 1 + hashes + 1;
    rest[begin..].find(&end).map_or(rest.len(), |place| begin + place + end.len())
}

fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (place, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A lifetime has no end.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    let escaped = characters.next().is_some_and(|(_, c)| c == '\\');
    let end =
        rest.char_indices().skip(if escaped { 3 } else { 2 }).take(if escaped { 9 } else { 1 });
    end.into_iter().find(|(_, c)| *c == '\'').map_or(0, |(place, _)| place + 1)
}
