//! What the documents give to paste: a test applies the very text.

use std::fs;

use anyhow::{Context, Result};
use conclave_testbed::cache;

/// The block of YAML on a page that has an object of this name.
pub fn manifest(page: &str, name: &str) -> Result<String> {
    let text = fs::read_to_string(cache::workspace().join(page))?;
    let mut blocks =
        text.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let wanted = format!("metadata: {{name: {name}}}");
    let found = blocks.find(|block| block.lines().any(|line| line == wanted));
    found.map(str::to_owned).with_context(|| format!("{page} has no `{wanted}` to paste"))
}

/// For those who install and operate.
pub const OPERATING: &str = "docs/operating.md";

/// For those who decide whether it may run.
pub const SECURITY: &str = "docs/security.md";
