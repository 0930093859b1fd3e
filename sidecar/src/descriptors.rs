//! How many connections this process may have: each takes a file descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have as many descriptors as it needs, if it may. Without one for the next connection, that would
/// wait until another ends.
pub fn allow_enough() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.map_or(ENOUGH, |maximum| maximum.min(ENOUGH));
    if current.is_some_and(|current| current < most)
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum })
    {
        tracing::warn!(%error, "raise the limit of open files: many connections may have to wait");
    }
}

/// More than the limits of all servers of a group in one process come to.
const ENOUGH: u64 = 65_536;
