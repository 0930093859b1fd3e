//! All that a peer sends over one connection.

use std::sync::LazyLock;

use conclave_sidecar::fuzzing;
use conclave_sidecar::metrics::Metrics;

use crate::service::on_runtime;

/// Nothing comes through that was not admitted.
pub(crate) fn run(input: &[u8]) {
    static METRICS: LazyLock<Metrics> = LazyLock::new(|| Metrics::new("orders"));
    on_runtime(|runtime, _| runtime.block_on(fuzzing::conversation(input, &METRICS)));
}
