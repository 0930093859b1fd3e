//! The documents name what there is: files, sections, tests, terms, and whatever their snippets use.

#[path = "documents/calls.rs"]
mod calls;
#[path = "documents/commands.rs"]
mod commands;
#[path = "documents/kubectl.rs"]
mod kubectl;
#[path = "documents/manifests.rs"]
mod manifests;
#[path = "documents/shell.rs"]
mod shell;
#[path = "documents/snippets.rs"]
mod snippets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use conclave_e2e::documented;
use conclave_testbed::cache;
use k8s_openapi::api::networking::v1::{NetworkPolicy, NetworkPolicyPeer, NetworkPolicySpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

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

#[test]
fn every_section_that_a_link_leads_to_exists() -> Result<()> {
    let root = cache::workspace();
    let mut missing = BTreeSet::new();
    let mut linked = 0;
    for document in documents(&root)? {
        let text = fs::read_to_string(&document)?;
        let below = document.parent().unwrap_or(&root);
        for target in targets(&text) {
            let Some((path, section)) = target.split_once('#') else { continue };
            let other = if path.is_empty() { document.clone() } else { below.join(path) };
            linked += 1;
            if !sections(&fs::read_to_string(other)?).contains(section) {
                missing.insert(format!("{}: {target}", document.display()));
            }
        }
    }
    ensure!(linked > 50, "only {linked} sections are linked");
    ensure!(missing.is_empty(), "there is no such section: {missing:#?}");
    Ok(())
}

/// A user finds an entry by the words that the programs show.
#[test]
fn every_symptom_of_the_troubleshooting_page_is_shown_by_the_code() -> Result<()> {
    let root = cache::workspace();
    let page = fs::read_to_string(root.join("docs/troubleshooting.md"))?;
    let headings = page.lines().filter(|line| line.starts_with("### "));
    let shown: Vec<&str> = headings.flat_map(|line| line.split('`').skip(1).step_by(2)).collect();
    ensure!(shown.len() > 30, "only {} symptoms are there", shown.len());
    let mut sources = String::new();
    for name in ["protocols", "sidecar", "operator", "pods"] {
        read_sources(&root.join(name).join("src"), &mut sources)?;
    }
    let is_shown = |text: &&&str| sources.contains(**text) || OF_KUBERNETES.contains(text);
    let missing: Vec<_> = shown.iter().filter(|text| !is_shown(text)).collect();
    ensure!(missing.is_empty(), "no program shows {missing:?}");
    Ok(())
}

/// What kubectl shows, and the texts that only the code of Kubernetes has.
const OF_KUBERNETES: &[&str] = &["Init:0/1", "failed calling webhook", "x509", "ContainerCreating"];

/// A term that nothing else uses needs no definition.
#[test]
fn every_term_of_the_glossary_is_in_order_has_a_source_and_is_used() -> Result<()> {
    let root = cache::workspace();
    let glossary = fs::read_to_string(root.join("docs/glossary.md"))?;
    let entries: Vec<(&str, &str)> =
        glossary.split("\n### ").skip(1).filter_map(|entry| entry.split_once('\n')).collect();
    ensure!(entries.len() > 30, "only {} terms are there", entries.len());
    let terms: Vec<String> = entries.iter().map(|(term, _)| term.to_lowercase()).collect();
    ensure!(terms.is_sorted(), "the terms are not in the order of the alphabet: {terms:?}");
    let mut used = String::new();
    for document in documents(&root)?.iter().filter(|path| !path.ends_with("docs/glossary.md")) {
        used.push_str(&fs::read_to_string(document)?);
    }
    for name in CRATES {
        read_sources(&root.join(name), &mut used)?;
    }
    // A term may be broken by the end of a line, or by the marks of a comment.
    let used: Vec<String> = used
        .split(|c: char| !c.is_alphanumeric() && c != '-')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let used = format!(" {} ", used.join(" "));
    for ((_, text), term) in entries.iter().zip(&terms) {
        ensure!(text.contains("Source:"), "the term `{term}` has no source");
        ensure!(used.contains(&format!(" {term} ")), "nothing uses the term `{term}`");
    }
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

/// Where all is denied, the policy to paste opens the peer port to the group, and no other to anybody.
#[test]
fn the_policy_for_the_group_alone_opens_nothing_to_others() -> Result<()> {
    let spec = policy("orders-peers")?;
    assert_eq!(spec.policy_types, Some(["Ingress", "Egress"].map(str::to_owned).into()));
    let ingress = spec.ingress.unwrap_or_default();
    let outgoing = spec.egress.unwrap_or_default();
    let ports = ingress.iter().flat_map(|rule| rule.ports.iter().flatten());
    let ports: Vec<_> =
        ports.map(|port| (port.protocol.as_deref(), port.port.clone(), port.end_port)).collect();
    let peers = Some(IntOrString::Int(7071));
    assert_eq!(ports, [(Some("TCP"), peers.clone(), None), (Some("UDP"), peers, None)]);
    assert_eq!(outgoing[0].ports, ingress[0].ports);
    assert_eq!(ingress.into_iter().map(|rule| rule.from).collect::<Vec<_>>(), [Some(group()?)]);
    ensure!(outgoing.iter().all(|rule| rule.ports.is_some()), "{outgoing:#?}");
    assert_eq!(outgoing[0].to, Some(group()?));
    Ok(())
}

/// Where nothing is denied, the policy to paste closes the peer port to all others, and no other port.
#[test]
fn the_policy_that_closes_the_peer_port_closes_no_other() -> Result<()> {
    let spec = policy("orders-peer-port")?;
    assert_eq!(spec.policy_types, Some(vec!["Ingress".to_owned()]));
    let (all, some): (Vec<_>, Vec<_>) =
        spec.ingress.unwrap_or_default().into_iter().partition(|rule| rule.from.is_none());
    assert_eq!(some.into_iter().map(|rule| rule.from).collect::<Vec<_>>(), [Some(group()?)]);
    let mut open = Vec::new();
    for port in all.into_iter().flat_map(|rule| rule.ports.unwrap_or_default()) {
        open.push((port.protocol.unwrap_or_default(), port.port, port.end_port));
    }
    let range = |protocol: &str, first, last| {
        (protocol.to_owned(), Some(IntOrString::Int(first)), Some(last))
    };
    let closed = |protocol| [range(protocol, 1, 7_070), range(protocol, 7_072, 65_535)];
    assert_eq!(open, [&closed("TCP")[..], &closed("UDP"), &[range("SCTP", 1, 65_535)]].concat());
    Ok(())
}

/// A policy that is printed, for the pods of the group `orders`. Kubernetes knows every field of it.
fn policy(name: &str) -> Result<NetworkPolicySpec> {
    let printed: Value =
        serde_saphyr::from_str(&documented::manifest(documented::OPERATING, name)?)?;
    let known: NetworkPolicy = serde_json::from_value(printed.clone())?;
    assert_eq!(serde_json::to_value(&known)?, printed);
    let spec = known.spec.unwrap_or_default();
    assert_eq!(serde_json::to_value(&spec.pod_selector)?, labelled());
    Ok(spec)
}

fn group() -> Result<Vec<NetworkPolicyPeer>> {
    Ok(serde_json::from_value(json!([{ "podSelector": labelled() }]))?)
}

fn labelled() -> Value {
    json!({ "matchLabels": { "conclave.dev/group": "orders" } })
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
    let alone = ["README.md", "CONTRIBUTING.md", "clock-page/README.md"];
    let mut documents: Vec<PathBuf> = alone.map(|path| root.join(path)).into();
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
    let paths = targets(text).map(|target| target.split_once('#').map_or(target, |(path, _)| path));
    paths.filter(|path| !path.is_empty())
}

/// What links lead to in this repository, with the section.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://"))
}

/// The sections of a document, as links name them.
fn sections(text: &str) -> BTreeSet<String> {
    let headings = text.lines().filter_map(|line| {
        let heading = line.trim_start_matches('#');
        (heading != line).then(|| heading.strip_prefix(' ')).flatten()
    });
    let of_name = |c: char| c.is_alphanumeric() || ['-', '_', ' '].contains(&c);
    headings
        .map(|heading| heading.to_lowercase().chars().filter(|c| of_name(*c)).collect::<String>())
        .map(|heading| heading.replace(' ', "-"))
        .collect()
}

const CRATES: &[&str] = &[
    "protocols/",
    "clock-page/",
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
