//! An API server that does not answer, or by a connection that was lost, holds nothing up for good.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use conclave_operator::controller::{self, Context};
use serde_json::Value;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::calls::{CONCLAVE, LEASE, cluster};
use crate::server::ApiServer;

/// Whether what belongs to a group is made by then.
async fn is_reconciled_within(limit: Duration, server: &ApiServer, context: Arc<Context>) -> bool {
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let stop = stop.clone();
        async move { controller::run(context, &[], &stop).await }
    });
    sleep(limit).await;
    let made = server.object(LEASE) != Value::Null;
    stop.cancel();
    running.await.expect("it ends");
    made
}

#[tokio::test(start_paused = true)]
async fn a_group_of_which_no_watch_reports_is_seen_within_a_minute() {
    let (server, context) = cluster();
    let conclave = server.object(CONCLAVE);
    server.remove(CONCLAVE);
    let later = server.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        later.put(CONCLAVE, conclave);
    });
    assert!(is_reconciled_within(Duration::from_mins(1), &server, context).await);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_never_answered_is_not_the_last_of_its_group() {
    let (server, context) = cluster();
    server.hang(&Method::GET, CONCLAVE);
    assert!(is_reconciled_within(Duration::from_mins(3), &server, context).await);
}
