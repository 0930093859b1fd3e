//! The query of a request, read strictly: what is no text is an error, and not another text.

use super::problem::Problem;

/// The parameters, in their order.
pub(super) fn parameters(query: &str) -> Result<Vec<(String, String)>, Problem> {
    query.split('&').filter(|pair| !pair.is_empty()).map(parameter).collect()
}

fn parameter(pair: &str) -> Result<(String, String), Problem> {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    let expected = "UTF-8, in which each byte that is no plain letter or digit is written `%XX`";
    let name = decode(name)
        .ok_or_else(|| Problem::invalid("query", format!("names of parameters in {expected}")))?;
    let value = decode(value).ok_or_else(|| Problem::invalid(&name, expected))?;
    Ok((name, value))
}

/// The text that stands in a query so; nothing if none does.
fn decode(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => (digit(bytes.next()?)? << 4) | digit(bytes.next()?)?,
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
