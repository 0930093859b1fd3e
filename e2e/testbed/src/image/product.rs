//! The product's image and the pause image, from static binaries of this workspace.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::oci::{Content, Image};
use crate::{cache, command};

/// The reference of the product's image on the test cluster.
pub const PRODUCT: &str = "conclave.local/conclave:dev";

/// The reference of the image of a build that also speaks what the next release may.
pub const NEXT: &str = "conclave.local/conclave:next-version";

/// The reference of the image of which every sandbox is made.
pub const PAUSE: &str = "conclave.local/pause:1";

/// Builds the product's programs as they are shipped; [`binary`] returns where they are.
pub fn make() -> Result<()> {
    build(PACKAGES, PROGRAMS, &[])
}

/// Builds the product as it is shipped, and writes its image.
pub fn write(path: &Path) -> Result<()> {
    make()?;
    image(PRODUCT, PROGRAMS).write(path)
}

/// Builds the product for tests, which compare it with no rival, and writes its image.
pub fn write_quickly(path: &Path) -> Result<()> {
    build(PACKAGES, PROGRAMS, &[QUICKLY, &["--config=profile.release.opt-level=1"]].concat())?;
    image(PRODUCT, PROGRAMS).write(path)
}

/// Builds a sidecar of which the highest protocol version is higher by one, and writes its image.
///
/// Its program lies where that of the product is to be: this comes first.
pub fn write_next(path: &Path) -> Result<()> {
    // With the operator, of which nothing is built, all that others wrote is that of `write_quickly`.
    let next =
        ["--features", "conclave-sidecar/next-version", "--config=profile.release.opt-level=0"];
    build(PACKAGES, &["conclave"], &[&next, QUICKLY].concat())?;
    image(NEXT, &["conclave"]).write(path)
}

/// Builds the pause program and writes its image. It is a package of its own, since that of the harness would have all
/// that it depends on built like the product.
pub fn write_pause(path: &Path) -> Result<()> {
    build(&["conclave-pause"], &["pause"], &[])?;
    image(PAUSE, &["pause"]).write(path)
}

/// Builds static binaries of packages.
fn build(packages: &[&str], binaries: &[&str], more: &[&str]) -> Result<()> {
    let mut cargo =
        command::cargo(&["build", "--quiet", "--release", "--locked", "--target", TARGET]);
    // A target that is named has a directory of its own, and its flags do not reach build
    // scripts and procedural macros, which cannot be linked statically.
    cargo.env("RUSTFLAGS", FLAGS);
    cargo.args(packages.iter().flat_map(|package| ["--package", package]));
    cargo.args(binaries.iter().flat_map(|binary| ["--bin", binary]));
    command::run(cargo.args(more))
}

/// An image of programs at its root; the first is what it runs.
fn image(name: &str, programs: &[&str]) -> Image {
    let place = |program: &&str| (format!("/{program}"), binary(program));
    Image {
        name: name.to_owned(),
        entrypoint: programs.iter().take(1).map(|program| format!("/{program}")).collect(),
        user: "65532:65532".to_owned(),
        content: Content::Programs(programs.iter().map(place).collect()),
    }
}

/// Where a static program of the product is once it is built.
pub fn binary(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| cache::workspace().join("target"), PathBuf::from);
    target.join(TARGET).join("release").join(name)
}

const PACKAGES: &[&str] = &["conclave-sidecar", "conclave-operator"];

const PROGRAMS: &[&str] = &["conclave", "conclave-operator"];

/// How the profile of the product is changed for programs that tests run and nobody uses: what makes those smaller and
/// faster takes most of the time to build them. Another profile would have all build scripts and procedural macros built
/// once more.
const QUICKLY: &[&str] =
    &["--config=profile.release.lto='off'", "--config=profile.release.codegen-units=16"];

/// A static program. What it relocates when it starts stays in memory, so the list of that is written in its short
/// form, which glibc knows since 2.36. The Dockerfile has the same flags.
const FLAGS: &str = "-C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs";

const TARGET: &str = "x86_64-unknown-linux-gnu";
