//! The stream that feeds the page.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, Sse};
use futures::stream::{self, Stream};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::super::watch::Line;
use super::Page;
use super::snapshot::Snapshot;

/// Snapshots: when something has changed, but not too often, and now and then because time passes.
pub(super) async fn stream(
    State(page): State<Page>,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let news = page.observer.seen().news();
    let reader = Reader { page, news, heard: 0, sent: None };
    Sse::new(stream::unfold(reader, |mut reader| async move {
        let event = reader.next().await?;
        Some((Ok(event), reader))
    }))
}

struct Reader {
    page: Page,
    news: watch::Receiver<u64>,
    /// The number of the last line of the journal that was sent.
    heard: u64,
    sent: Option<Instant>,
}

impl Reader {
    async fn next(&mut self) -> Option<Event> {
        if let Some(sent) = self.sent {
            sleep_until(sent + SHORTEST).await;
            if let Ok(Err(_)) = timeout_at(sent + LONGEST, self.news.changed()).await {
                return None;
            }
        }
        self.news.mark_unchanged();
        self.sent = Some(Instant::now());
        let messages = self.page.members.journal.after(self.heard);
        self.heard = messages.last().map_or(self.heard, Line::number);
        let snapshot = Snapshot::take(&self.page.members, self.page.observer.seen(), messages);
        // Plain data always has a JSON form.
        Event::default().json_data(snapshot).ok()
    }
}

/// At most 20 snapshots a second.
pub(super) const SHORTEST: Duration = Duration::from_millis(50);

/// At least two.
const LONGEST: Duration = Duration::from_millis(500);
