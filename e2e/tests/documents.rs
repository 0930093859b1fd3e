//! The documents name files that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use conclave_e2e::cache;

#[test]
fn every_file_that_a_document_names_exists() -> Result<()> {
    let root = cache::workspace();
    let mut missing = BTreeSet::new();
    let mut named = 0;
    for document in documents(&root)? {
        let text = fs::read_to_string(&document)?;
        let below = document.parent().unwrap_or(&root);
        for path in in_backticks(&text) {
            named += 1;
            if !root.join(path).exists() {
                missing.insert(format!("{}: {path}", document.display()));
            }
        }
        for path in linked(&text) {
            named += 1;
            if !below.join(path).exists() {
                missing.insert(format!("{}: link to {path}", document.display()));
            }
        }
    }
    ensure!(named > 100, "only {named} files are named: is this how documents name them?");
    ensure!(missing.is_empty(), "there is no such file: {missing:#?}");
    Ok(())
}

/// The threat model names the test that covers each line.
#[test]
fn every_test_that_the_threat_model_names_exists() -> Result<()> {
    let root = cache::workspace();
    let model = fs::read_to_string(root.join("docs/security.md"))?;
    let rows = model.lines().filter(|line| line.starts_with("| ") && line.contains('_'));
    let is_test = |name: &&str| name.contains('_') && !name.contains(['/', '.', ' ']);
    let named: BTreeSet<&str> = rows.flat_map(|row| row.split('`')).filter(is_test).collect();
    ensure!(named.len() > 20, "only {} tests are named", named.len());
    let mut sources = String::new();
    for name in CRATES {
        read_sources(&root.join(name), &mut sources)?;
    }
    let missing: Vec<&str> =
        named.into_iter().filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    ensure!(missing.is_empty(), "there is no test {missing:?}");
    Ok(())
}

fn read_sources(directory: &Path, sources: &mut String) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read_sources(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn documents(root: &Path) -> Result<Vec<PathBuf>> {
    let mut documents = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for entry in fs::read_dir(root.join("docs"))? {
        documents.push(entry?.path());
    }
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(documents)
}

/// Paths of the source tree, as in `protocols/src/ids.rs`.
fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    let begins_a_crate = |path: &str| CRATES.iter().any(|name| path.starts_with(name));
    let plain = |path: &str| !path.contains(['*', ' ', '<', '{', '$']);
    text.split('`').filter(move |path| begins_a_crate(path) && plain(path))
}

/// Documents that a link leads to, as in `[models](models.md)`.
fn linked(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|path| !path.is_empty() && !path.contains("://"))
}

const CRATES: &[&str] = &[
    "protocols/",
    "sidecar/",
    "operator/",
    "crds/",
    "pods/",
    "kubernetes/",
    "e2e/",
    "charts/",
    "docs/",
    "fuzz/",
];
