//! Server-sent events, as they come: bytes in, events out.

/// An event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Event {
    /// Its name.
    pub(super) name: String,
    /// What it says.
    pub(super) data: String,
}

/// Reads a stream of events.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The beginning of a line whose end has not come yet.
    line: Vec<u8>,
    event: Event,
    has_data: bool,
}

/// An event is larger than any that a sidecar sends.
#[derive(Debug, thiserror::Error)]
#[error("an event of more than {EVENT_BYTES} bytes")]
pub(super) struct TooLarge;

impl Events {
    /// Takes the bytes that came, and gives the events that are whole now.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        let mut whole = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if self.line.len() + self.event.data.len() > EVENT_BYTES {
                return Err(TooLarge);
            }
            if self.line.ends_with(b"\n") {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                whole.extend(self.take(line.trim_end_matches(['\r', '\n'])));
            }
        }
        Ok(whole)
    }

    fn take(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.has_data).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // Comments, which have no name, and fields that nobody needs here.
            _ => {}
        }
        None
    }
}

/// A sidecar's events have less than a tenth of it.
const EVENT_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = ": hello\r\n\r\nevent: elected\nid: 7\nretry: 1000\ndata: {\"a\":\ndata:1}\n\n\
                          :keep-alive\n\nevent:lost\ndata: \u{e9}\n\nevent: no data\n\ndata\n\nevent: cut";

    fn event(name: &str, data: &str) -> Event {
        Event { name: name.to_owned(), data: data.to_owned() }
    }

    fn whole() -> Vec<Event> {
        vec![event("elected", "{\"a\":\n1}"), event("lost", "\u{e9}"), event("", "")]
    }

    #[test]
    fn events_are_the_same_however_their_bytes_come() {
        assert_eq!(Events::default().read(STREAM.as_bytes()).unwrap(), whole());
        for size in 1..STREAM.len() {
            let mut events = Events::default();
            let read = |part: &[u8]| events.read(part).unwrap();
            let found: Vec<Event> = STREAM.as_bytes().chunks(size).flat_map(read).collect();
            assert_eq!(found, whole(), "{size} bytes at a time");
        }
    }

    #[test]
    fn a_line_and_an_event_without_an_end_are_refused() {
        let line = vec![b'x'; EVENT_BYTES / 2 + 1];
        let mut events = Events::default();
        assert!(events.read(&line).is_ok());
        assert!(events.read(&line).is_err());
        let mut events = Events::default();
        let mut lines = std::iter::repeat_n(b"data: 1234567\n".as_slice(), EVENT_BYTES / 7 + 1);
        assert!(lines.any(|line| events.read(line).is_err()));
    }
}
