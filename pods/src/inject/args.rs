//! The command line of `conclave inject`, and what can go wrong.

use std::fs;
use std::io::{self, Read};

use clap::Args;

use super::problem::Problem;
use super::{DEFAULT_IMAGE, Options, Resources, inject_and_count};

/// The settings of `conclave inject`.
#[derive(Args, Clone, Debug)]
pub struct InjectArgs {
    /// The manifests; `-` reads them from the standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    filename: String,
    /// Adds every workload in the manifests to this group. Without it, only the workloads whose pods
    /// have the label `conclave.dev/group` get a sidecar.
    #[arg(long, value_name = "NAME", value_parser = group)]
    group: Option<String>,
    /// The image of the sidecar, where no annotation `config.conclave.dev/image` names another.
    #[arg(long, env = "CONCLAVE_IMAGE", value_name = "IMAGE", default_value = DEFAULT_IMAGE)]
    image: String,
    /// What the sidecar asks for and may use.
    #[command(flatten)]
    resources: Resources,
}

/// Why nothing was injected. Nothing is written then.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The manifests cannot be read.
    #[error("`{file}` cannot be read")]
    Read {
        /// What was to be read.
        file: String,
        /// Why it cannot.
        #[source]
        source: io::Error,
    },
    /// The sidecar would ask for more than it may use.
    #[error("{0}")]
    Resources(String),
    /// A document is no YAML.
    #[error("document {document} is no YAML: {reason}")]
    Yaml {
        /// Its number, from 1.
        document: usize,
        /// What the parser says.
        reason: String,
    },
    /// A workload cannot have the sidecar as it is.
    #[error("document {document} ({object}): {problem}")]
    Refused {
        /// The number of the document, from 1.
        document: usize,
        /// Kind and name of the workload.
        object: String,
        /// Which field must change.
        problem: Problem,
    },
    /// No workload belongs to a group.
    #[error(
        "`{file}` has no workload to inject: give --group NAME, or label the pods with \
         `conclave.dev/group: NAME`"
    )]
    NothingToInject {
        /// What was read.
        file: String,
    },
}

impl InjectArgs {
    /// Reads the manifests and returns them with the sidecar.
    pub fn run(&self) -> Result<String, InjectError> {
        let file = self.filename.clone();
        let text =
            self.read().map_err(|source| InjectError::Read { file: file.clone(), source })?;
        self.resources.check().map_err(InjectError::Resources)?;
        let (group, image) = (self.group.clone(), self.image.clone());
        let options = Options { group, image, resources: self.resources.clone() };
        match inject_and_count(&text, &options)? {
            (_, 0) => Err(InjectError::NothingToInject { file }),
            (injected, _) => Ok(injected),
        }
    }

    fn read(&self) -> io::Result<String> {
        if self.filename != "-" {
            return fs::read_to_string(&self.filename);
        }
        let mut text = String::new();
        io::stdin().read_to_string(&mut text)?;
        Ok(text)
    }
}

fn group(name: &str) -> Result<String, String> {
    super::pod::check_group(name).map(|()| name.to_owned())
}
