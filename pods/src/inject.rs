//! Adds the sidecar to manifests: `conclave inject -f deployment.yaml | kubectl apply -f -`.
//!
//! It turns text into text ([`inject`]); what is done to one pod is a function of its own
//! ([`inject_pod`]), which needs no file. Doing it twice is doing it once, byte for byte: what was
//! injected before is taken out first, so that a new image or a new setting takes effect. A document
//! in which nothing is to be changed keeps its text, comments and all.

mod application;
mod args;
mod container;
mod documents;
mod leader_elector;
mod pod;
mod problem;
mod resources;
mod room;
mod settings;
mod workload;

pub use args::{InjectArgs, InjectError};
pub use container::{
    ADMIN_PORT, ADMIN_PORT_NAME, API_PORT, API_PORT_NAME, API_URL, CERTIFICATE_TOKEN_PATH,
    CLOCK_PAGE_PATH, GROUP_VARIABLE, SOCKET_PATH,
};
pub use leader_elector::{LEADER_ELECTOR_PORT, LEADER_ELECTOR_PORT_NAME};
pub use pod::{INJECTED_LABEL, inject_pod};
pub use problem::Problem;
pub use resources::Resources;

use serde_json::Value;

use documents::Document;

/// What is injected.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Options {
    /// The group that every workload joins. Without it, only those that have the label of a group
    /// on their pods get a sidecar.
    pub group: Option<String>,
    /// The image of the sidecar, where a pod's annotation names no other.
    pub image: String,
    /// What the sidecar asks for and may use, where a pod's annotations say nothing else.
    pub resources: Resources,
}

impl Default for Options {
    fn default() -> Self {
        Self { group: None, image: DEFAULT_IMAGE.to_owned(), resources: Resources::default() }
    }
}

/// Adds the sidecar to the workloads in a stream of YAML documents. The others pass through.
pub fn inject(documents: &str, options: &Options) -> Result<String, InjectError> {
    inject_and_count(documents, options).map(|(text, _)| text)
}

/// The same, and how many workloads have the sidecar now.
fn inject_and_count(text: &str, options: &Options) -> Result<(String, usize), InjectError> {
    let mut injected = String::with_capacity(2 * text.len());
    let mut count = 0;
    for (index, document) in documents::split(text).into_iter().enumerate() {
        let number = index + 1;
        let yaml = |reason| InjectError::Yaml { document: number, reason };
        let Some(before) = document.value().map_err(yaml)? else {
            injected.push_str(document.text());
            continue;
        };
        let mut after = before.clone();
        count += workload::inject(&mut after, options).map_err(|(object, problem)| {
            InjectError::Refused { document: number, object, problem }
        })?;
        write(&document, &before, &after, &mut injected).map_err(yaml)?;
    }
    Ok((injected, count))
}

fn write(
    document: &Document<'_>,
    before: &Value,
    after: &Value,
    to: &mut String,
) -> Result<(), String> {
    if before == after {
        to.push_str(document.text());
        return Ok(());
    }
    to.push_str(&document.with(after)?);
    Ok(())
}

/// The image of this version.
pub const DEFAULT_IMAGE: &str =
    concat!("ghcr.io/conclave-dev/conclave:", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
