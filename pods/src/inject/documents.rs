//! A stream of YAML documents, taken apart and put together as text.

use serde_json::Value;

/// One document of a stream, with the `---` before it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Document<'a> {
    text: &'a str,
    /// How much of the text is marker, comments and blank lines before anything else.
    head: usize,
}

/// Takes a stream apart. Put together, the texts of the documents are the stream.
///
/// A line that begins with `---` and a blank is a marker wherever it stands: YAML 1.2 (9.1.2) lets
/// no scalar contain one.
pub(super) fn split(text: &str) -> Vec<Document<'_>> {
    let mut starts = vec![0];
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if offset > 0 && is_marker(line) {
            starts.push(offset);
        }
        offset += line.len();
    }
    let ends = starts.iter().copied().skip(1).chain([text.len()]);
    starts.iter().zip(ends).map(|(start, end)| Document::new(&text[*start..end])).collect()
}

impl<'a> Document<'a> {
    fn new(text: &'a str) -> Self {
        let is_head = |line: &&str| {
            let content = if is_marker(line) { &line[MARKER.len()..] } else { line };
            let content = content.trim();
            let silent = content.is_empty() || content.starts_with('#') || line.starts_with('%');
            // What follows another break than that of a line may be content.
            silent && !content.contains(BREAKS)
        };
        let head = text.split_inclusive('\n').take_while(is_head).map(str::len).sum();
        Self { text, head }
    }

    /// The document as it was.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// What the document says; nothing, if it is empty.
    pub(super) fn value(&self) -> Result<Option<Value>, String> {
        if self.head == self.text.len() {
            return Ok(None);
        }
        // As kubectl reads YAML, which is version 1.1: `0644` is octal and `yes` is true.
        let options = serde_saphyr::options! { legacy_octal_numbers: true };
        let value: Value = serde_saphyr::from_str_with_options(self.text, options)
            .map_err(|error| error.to_string())?;
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    /// The document with another content. What stood before the content stays.
    pub(super) fn with(&self, value: &Value) -> Result<String, String> {
        // Long texts are not folded: nobody wants to read an argument in two lines.
        let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
        let content = serde_saphyr::to_string_with_options(value, options)
            .map_err(|error| error.to_string())?;
        let marker = if self.head == 0 && is_marker(self.text) { "---\n" } else { "" };
        Ok(format!("{}{marker}{content}", &self.text[..self.head]))
    }
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix(MARKER)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace()))
}

const MARKER: &str = "---";

/// What ends a line, and a comment, besides the line feed: in YAML 1.2 the carriage return, in 1.1,
/// which kubectl reads, these three too.
const BREAKS: [char; 4] = ['\r', '\u{85}', '\u{2028}', '\u{2029}'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_its_documents_put_together() {
        for text in [
            "",
            "a: 1",
            "a: 1\n---\nb: 2\n",
            "# top\n---\n---\r\na: |\n  text\n  ---\n--- {c: 3}\n...\n",
            "---\na: '---x'\n---x: 1\n",
        ] {
            let texts: String = split(text).iter().map(Document::text).collect();
            assert_eq!(texts, text);
        }
    }

    #[test]
    fn a_marker_ends_a_document_and_what_only_begins_like_one_does_not() {
        let count = |text| split(text).len();
        assert_eq!(count("a: 1\n---\nb: 2\n--- # comment\nc: 3\n"), 3);
        assert_eq!(count("a: |\n  ---\n----: 1\n"), 1);
    }

    #[test]
    fn a_document_of_comments_says_nothing() {
        for text in ["", "\n", "---\n# nothing\n", "%YAML 1.1\n", "--- # nothing\n", "---\nnull\n"]
        {
            assert_eq!(split(text)[0].value(), Ok(None), "{text:?}");
        }
    }

    #[test]
    fn what_stands_before_the_content_stays() {
        let with = |text: &str| split(text)[0].with(&serde_json::json!({"a": 2}));
        assert_eq!(
            with("--- # one\n# two\n\na: 1 # three\n"),
            Ok("--- # one\n# two\n\na: 2\n".into())
        );
        assert_eq!(with("--- {a: 1}\n"), Ok("---\na: 2\n".into()));
        assert_eq!(with("a: 1"), Ok("a: 2\n".into()));
    }

    /// Texts that mean something else without quotes, or are hard to quote, in all combinations.
    #[test]
    fn any_text_is_written_so_that_it_is_read_again() {
        let pieces = [
            "",
            " ",
            "\n",
            "\r",
            "\t",
            "\\",
            "'",
            "\"",
            "#",
            " #",
            ":",
            ": ",
            "-",
            "- ",
            "---",
            "...",
            "?",
            "? ",
            "!",
            "&a",
            "*a",
            "%",
            "@",
            "`",
            "|",
            ">",
            "{",
            "}",
            "[",
            "]",
            ",",
            "=",
            "<<",
            "~",
            "null",
            "yes",
            "No",
            "true",
            "0",
            "07",
            "0644",
            "0o17",
            "0x1F",
            "0b1",
            "1_0",
            "1e3",
            ".5",
            ".inf",
            "-.INF",
            ".nan",
            "1:30",
            "+1",
            "2024-01-01",
            "a",
            "é",
            "\u{85}",
            "\u{a0}",
            "\u{2028}",
            "\u{feff}",
            "\u{1f600}",
            "\u{0}",
            "\u{7}",
            "\u{1b}",
            "\u{7f}",
        ];
        for first in pieces {
            for second in pieces {
                for third in ["", "x", "\n", " "] {
                    let text = format!("{first}{second}{third}");
                    let value = serde_json::json!({"key": text, text.clone(): [text]});
                    let written = split("")[0].with(&value).expect("YAML");
                    assert_eq!(split(&written)[0].value(), Ok(Some(value)), "{text:?}: {written}");
                }
            }
        }
    }

    #[test]
    fn a_comment_ends_at_every_break() {
        for text in ["# one\ra: 1\n", "# one\u{2028}a: 1\n", "--- # one\ra: 1\r\n"] {
            let written = split(text)[0].with(&serde_json::json!({"a": 2})).expect("YAML");
            assert_eq!(written.trim_start_matches("---\n"), "a: 2\n", "{text:?}");
        }
    }

    #[test]
    fn values_mean_what_they_mean_to_kubectl() {
        let text =
            "{mode: 0644, flag: yes, text: '0644', words: 'yes', big: 1e3, date: 2024-01-01}";
        let value = split(text)[0].value().expect("YAML").expect("a value");
        assert_eq!(
            value,
            serde_json::json!({
                "mode": 420, "flag": true, "text": "0644", "words": "yes", "big": 1e3,
                "date": "2024-01-01"
            })
        );
        let written = split("").pop().expect("a document").with(&value).expect("YAML");
        assert_eq!(split(&written)[0].value(), Ok(Some(value)), "{written}");
    }
}
