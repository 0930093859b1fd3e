//! The files of the page, part of the binary.

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

/// A path, its media type, its text.
const FILES: &[(&str, &str, &str)] = &[
    ("/", "text/html; charset=utf-8", include_str!("page.html")),
    ("/page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("/page.js", JAVASCRIPT, include_str!("page.js")),
    ("/members.js", JAVASCRIPT, include_str!("members.js")),
    ("/locks.js", JAVASCRIPT, include_str!("locks.js")),
    ("/clocks.js", JAVASCRIPT, include_str!("clocks.js")),
    ("/traffic.js", JAVASCRIPT, include_str!("traffic.js")),
    ("/diagram.js", JAVASCRIPT, include_str!("diagram.js")),
    ("/spacetime.js", JAVASCRIPT, include_str!("spacetime.js")),
    ("/stay.js", JAVASCRIPT, include_str!("stay.js")),
    ("/election.js", JAVASCRIPT, include_str!("election.js")),
    ("/ballot.js", JAVASCRIPT, include_str!("ballot.js")),
    ("/axis.js", JAVASCRIPT, include_str!("axis.js")),
    ("/explain.js", JAVASCRIPT, include_str!("explain.js")),
    ("/terms.js", JAVASCRIPT, include_str!("terms.js")),
    ("/tools.js", JAVASCRIPT, include_str!("tools.js")),
    ("/icon.svg", "image/svg+xml", include_str!("icon.svg")),
];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Serves them.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    FILES.iter().fold(Router::new(), |router, (path, media, text)| {
        router.route(path, get(|| async { ([(CONTENT_TYPE, *media)], *text) }))
    })
}
