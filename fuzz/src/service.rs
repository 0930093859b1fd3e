//! The API on a runtime whose time passes when nothing else happens.

use std::time::Duration;

use conclave_sidecar::fuzzing::PlayedApi;
use tokio::runtime::{Builder, Runtime};

/// How long a call may take, in a time that waits for nobody.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

struct Service {
    runtime: Runtime,
    api: PlayedApi,
}

thread_local! {
    static SERVICE: Service = begin();
}

/// Does something with the runtime and the API.
pub(crate) fn on_runtime<T>(what: impl FnOnce(&Runtime, &PlayedApi) -> T) -> T {
    SERVICE.with(|service| what(&service.runtime, &service.api))
}

fn begin() -> Service {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
    let api = runtime.block_on(async { PlayedApi::begin() });
    Service { runtime, api }
}
