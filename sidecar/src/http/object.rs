//! A JSON object in which no name stands twice. Of two values, programs differ in which one they take (RFC 8259,
//! section 4), so that neither is what the client surely means.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Why a text is no such object.
#[derive(Debug)]
pub(super) enum ObjectError {
    /// This name stands twice, after the names of the objects that it stands in.
    Twice(String),
    /// It is no JSON, or no object.
    Other(String),
}

/// Reads an object, which is all of the text.
pub(super) fn read(text: &[u8]) -> Result<Map<String, Value>, ObjectError> {
    let object =
        serde_json::from_slice(text).map_err(|error| ObjectError::Other(error.to_string()))?;
    // What was read is UTF-8.
    let twice = std::str::from_utf8(text).ok().and_then(twice);
    twice.map_or(Ok(object), |name| Err(ObjectError::Twice(name)))
}

/// An object or an array that the text is within.
#[derive(Default)]
struct Open {
    names: BTreeSet<String>,
    /// The latest of them.
    latest: String,
}

/// The first name that stands twice in a text that is JSON.
fn twice(text: &str) -> Option<String> {
    let mut open: Vec<Open> = Vec::new();
    let mut rest = text;
    while let Some(place) = rest.find(['{', '[', '}', ']', '"']) {
        let (found, after) = (rest.as_bytes()[place], &rest[place + 1..]);
        rest = after;
        match found {
            b'{' | b'[' => open.push(Open::default()),
            b'"' => {
                let end = end_of_string(after);
                rest = &after[end..];
                // Nothing but a name is before a colon.
                if rest.trim_start().starts_with(':') {
                    let name: String =
                        serde_json::from_str(&format!("\"{}", &after[..end])).ok()?;
                    let object = open.last_mut()?;
                    let is_first = object.names.insert(name.clone());
                    object.latest = name;
                    if !is_first {
                        return Some(path(&open));
                    }
                }
            }
            _ => drop(open.pop()),
        }
    }
    None
}

/// Where a string ends, of which the first quotation mark was read.
fn end_of_string(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 1)
}

fn path(open: &[Open]) -> String {
    let names = open.iter().map(|open| open.latest.as_str()).filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join(".")
}
