//! What the documents give to paste: a test applies the very text.

use std::fs;

use anyhow::{Context, Result};

use crate::cache;

/// The block of YAML in [`PAGE`] that has an object of this name.
pub fn manifest(name: &str) -> Result<String> {
    let page = fs::read_to_string(cache::workspace().join(PAGE))?;
    let mut blocks =
        page.split("\n```yaml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
    let wanted = format!("metadata: {{name: {name}}}");
    let found = blocks.find(|block| block.lines().any(|line| line == wanted));
    found.map(str::to_owned).with_context(|| format!("{PAGE} has no `{wanted}` to paste"))
}

const PAGE: &str = "docs/operating.md";
