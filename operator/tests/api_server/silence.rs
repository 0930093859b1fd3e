//! What no watch reports is seen all the same.

use std::time::Duration;

use conclave_operator::controller;
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::calls::{CONCLAVE, LEASE, cluster};

/// Its connection was lost, and neither end was notified.
#[tokio::test(start_paused = true)]
async fn a_group_of_which_no_watch_reports_is_seen_within_a_minute() {
    let (server, context) = cluster();
    let conclave = server.object(CONCLAVE);
    server.remove(CONCLAVE);
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { controller::run(context, &[], &stopped).await });
    sleep(Duration::from_secs(1)).await;
    server.put(CONCLAVE, conclave);
    sleep(Duration::from_mins(1)).await;
    assert_ne!(server.object(LEASE), Value::Null, "nothing is made of it");
    stop.cancel();
    running.await.expect("it ends");
}
