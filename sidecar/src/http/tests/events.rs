//! A stream of events, as a test reads it.

use axum::Router;
use axum::body::BodyDataStream;
use futures::StreamExt;
use serde_json::Value;
use tower::ServiceExt;

use super::double::*;

/// A stream of events that a test reads one by one.
pub(crate) struct Events {
    pub(crate) body: BodyDataStream,
    text: String,
}

impl Events {
    /// What the body of an answer says.
    pub(crate) fn of(body: BodyDataStream) -> Self {
        Self { body, text: String::new() }
    }

    /// Calls something such as `GET /v1/elections/default`.
    pub(crate) async fn open(router: Router, line: &str) -> Self {
        let request = request(line, &["Accept: text/event-stream"], "");
        let response = soon(router.oneshot(request)).await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self::of(response.into_body().into_data_stream())
    }

    /// The next event's name, id and data; nothing at the end. Comments are skipped.
    pub(crate) async fn next(&mut self) -> Option<(String, String, Value)> {
        // In all: comments come for ever.
        soon(self.read()).await
    }

    async fn read(&mut self) -> Option<(String, String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim().to_owned())
                };
                let Some(name) = field("event:") else { continue };
                assert_eq!(field("retry:").as_deref(), Some("1000"));
                let data = serde_json::from_str(&field("data:").unwrap()).unwrap();
                return Some((name, field("id:").unwrap(), data));
            }
            let chunk = self.body.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event has that name; its data.
    pub(crate) async fn expect(&mut self, name: &str) -> Value {
        let (event, id, data) = self.next().await.expect("the stream goes on");
        assert_eq!(event, name, "{data}");
        assert_eq!(id, data["index"].to_string());
        data
    }
}
