//! The image of the client applications in test pods: programs of Debian's that nobody here wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::oci::{Content, Image};
use crate::{cache, command};

/// The reference of the client image on the test cluster.
pub const CLIENT: &str = "conclave.local/client:bookworm";

/// Makes the archive if it is not there yet, and returns its path.
pub fn archive() -> Result<PathBuf> {
    let key = cache::key(&[RELEASE.as_bytes(), PACKAGES.as_bytes(), CLEANING.as_bytes()]);
    let path = cache::root().join("images").join(format!("client-{key}.tar"));
    cache::make_once(&path, |partial| {
        println!("making the client image; this is done once");
        let root = partial.with_extension("root");
        let made = make(&root, partial);
        // Also after a failure: a root that is half there is of no use.
        remove(&root)?;
        made
    })?;
    Ok(path)
}

fn make(root: &Path, path: &Path) -> Result<()> {
    command::output(
        Command::new("debootstrap")
            .args(["--variant=minbase", "--merged-usr"])
            .arg(format!("--include={PACKAGES}"))
            .arg(RELEASE)
            .arg(root),
    )?;
    command::run(Command::new("sh").args(["-ec", CLEANING]).current_dir(root))?;

    let tarred = path.with_extension("root.tar");
    let made = pack(root, &tarred, path);
    if tarred.exists() {
        fs::remove_file(&tarred)?;
    }
    made
}

fn pack(root: &Path, tarred: &Path, path: &Path) -> Result<()> {
    command::run(
        Command::new("tar")
            .args(["--create", "--sort=name", "--numeric-owner", "--one-file-system", "--file"])
            .arg(tarred)
            .arg("--directory")
            .arg(root)
            .arg("."),
    )?;
    let image = Image {
        name: CLIENT.to_owned(),
        entrypoint: vec!["/bin/bash".to_owned()],
        user: "0:0".to_owned(),
        content: Content::Root(tarred.to_owned()),
    };
    image.write(path)
}

fn remove(root: &Path) -> Result<()> {
    command::run(Command::new("rm").args(["-rf", "--one-file-system"]).arg(root))
}

const RELEASE: &str = "bookworm";

const PACKAGES: &str = "curl,iproute2,jq,redis-server,redis-tools";

/// What a pod has no use for: more than half of the size.
const CLEANING: &str = "rm -rf var/cache/apt var/lib/apt/lists usr/share/doc usr/share/locale \
    usr/share/man usr/share/info usr/lib/x86_64-linux-gnu/gconv usr/share/zoneinfo dev/*";
