//! The one thread that a sidecar is.

use std::io;

use tokio::runtime::Builder;

/// Runs a life to its end on this thread, and then drops what is left of it.
///
/// It is a task like all others. What `block_on` is given itself is not: whenever that is woken, tokio asks the
/// sockets once more first, which would be a system call for each call of the API.
pub(crate) fn live<T: Send + 'static>(
    life: impl Future<Output = T> + Send + 'static,
) -> io::Result<T> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let lived = runtime.spawn(life);
    Ok(runtime.block_on(lived)?)
}
