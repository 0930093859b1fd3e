//! As much of the shell's grammar as the snippets of the documents use.

use anyhow::{Context, Result, ensure};

/// A program, its arguments, and what it is given on standard input.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Call {
    pub(crate) words: Vec<String>,
    /// The text of a here-document.
    pub(crate) input: Option<String>,
}

/// The calls of a script, without assignments before them, redirections and comments. Variables and substitutions
/// stay as they are written.
pub(crate) fn calls(script: &str) -> Result<Vec<Call>> {
    let mut reader =
        Reader { rest: script, calls: Vec::new(), call: Call::default(), ends: Vec::new() };
    while let Some(next) = reader.rest.chars().next() {
        reader.step(next)?;
    }
    reader.end_of_line()?;
    Ok(reader.calls)
}

struct Reader<'a> {
    rest: &'a str,
    calls: Vec<Call>,
    call: Call,
    /// What ends the here-documents that begin after this line.
    ends: Vec<String>,
}

impl Reader<'_> {
    fn step(&mut self, next: char) -> Result<()> {
        match next {
            '#' => self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]),
            '\n' => {
                self.rest = &self.rest[1..];
                self.end_of_line()?;
            }
            '\\' if self.rest.starts_with("\\\n") => self.rest = &self.rest[2..],
            '|' | '&' | ';' => {
                self.rest = self.rest.trim_start_matches(next);
                self.end_of_call();
            }
            '<' | '>' => {
                let is_document = self.rest.starts_with("<<");
                self.rest = self.rest.trim_start_matches(next).trim_start_matches(' ');
                let word = self.word()?;
                if is_document {
                    self.ends.push(word);
                }
            }
            space if space.is_whitespace() => self.rest = &self.rest[1..],
            _ => {
                let word = self.word()?;
                if !(self.call.words.is_empty() && is_assignment(&word)) {
                    self.call.words.push(word);
                }
            }
        }
        Ok(())
    }

    /// The word that begins here, without its quotes.
    fn word(&mut self) -> Result<String> {
        let mut word = String::new();
        while let Some(next) = self.rest.chars().next() {
            match next {
                '\'' | '"' => {
                    let end = self.rest[1..].find(next).context("a quote without an end")?;
                    word.push_str(&self.rest[1..=end]);
                    self.rest = &self.rest[end + 2..];
                }
                '|' | '&' | ';' | '<' | '>' => break,
                space if space.is_whitespace() => break,
                _ => {
                    word.push(next);
                    self.rest = &self.rest[next.len_utf8()..];
                }
            }
        }
        Ok(word)
    }

    fn end_of_call(&mut self) {
        let call = std::mem::take(&mut self.call);
        if !call.words.is_empty() {
            self.calls.push(call);
        }
    }

    /// Here-documents belong to the last call of the line.
    fn end_of_line(&mut self) -> Result<()> {
        self.end_of_call();
        for end in std::mem::take(&mut self.ends) {
            let line = format!("{end}\n");
            let (text, rest) = match self.rest.split_once(&format!("\n{line}")) {
                Some(both) => both,
                None => (self.rest.strip_suffix(&format!("\n{end}")).unwrap_or_default(), ""),
            };
            ensure!(!text.is_empty(), "a here-document without its {end}");
            self.rest = rest;
            let call = self.calls.last_mut().context("a here-document for nobody")?;
            call.input = Some(format!("{text}\n"));
        }
        Ok(())
    }
}

fn is_assignment(word: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    word.split_once('=').is_some_and(|(name, _)| is_name(name))
}

#[test]
fn a_script_is_read_as_the_shell_reads_it() {
    let script = "A=1 one -x 'a b' \"c|d\"e \\\n  two > file # never\nthree | four && five & # six\n\
                  seven -f - <<END\nkind: x # y\nEND\neight <<END\nz\nEND";
    let read = calls(script).expect("a script");
    let words: Vec<String> = read.iter().map(|call| call.words.join(",")).collect();
    assert_eq!(words, ["one,-x,a b,c|de,two", "three", "four", "five", "seven,-f,-", "eight"]);
    let input = |index: usize| read[index].input.as_deref();
    assert_eq!((input(3), input(4), input(5)), (None, Some("kind: x # y\n"), Some("z\n")));
    assert!(calls("one 'two").is_err());
    assert!(calls("one <<END\ntwo").is_err());
}
