//! The first process of every sandbox of the test cluster: it holds the namespaces open and ends
//! when it is asked to.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

fn main() -> io::Result<()> {
    // Process 1 of a namespace ignores signals that it has no handler for.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    signals.forever().next();
    Ok(())
}
