//! Where built things are kept between runs, outside the source tree.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// The root of the source tree.
pub fn workspace() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("the crate lies in `e2e`").to_path_buf()
}

/// The cache: `$CONCLAVE_CACHE`, or `conclave` in the user's cache directory.
pub fn root() -> PathBuf {
    if let Some(chosen) = std::env::var_os("CONCLAVE_CACHE") {
        return chosen.into();
    }
    let caches = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into()));
    caches.unwrap_or_else(|| home().join(".cache")).join("conclave")
}

/// Makes the file or directory `path`, unless it is there already; says whether it had to.
///
/// `make` is given another path beside it, which is renamed when it is whole: what an interrupted
/// run leaves behind is never taken for the real thing.
pub fn make_once(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<bool> {
    if path.exists() {
        return Ok(false);
    }
    let parent = path.parent().context("a cached file has a directory")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
    let name = path.file_name().context("a cached file has a name")?.to_string_lossy();
    let partial = parent.join(format!(".partial-{}-{name}", std::process::id()));
    make(&partial)?;
    fs::rename(&partial, path)
        .with_context(|| format!("cannot move the finished {} into place", path.display()))?;
    Ok(true)
}

/// A short name for exactly these inputs.
pub fn key(inputs: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for input in inputs {
        // With its length, so that moving a byte from one input to the next changes the key.
        hash.update(input.len().to_be_bytes());
        hash.update(input);
    }
    hex(&hash.finalize())[..12].to_owned()
}

/// Lowercase hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        write!(text, "{byte:02x}").expect("a string takes everything");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_build_is_not_taken_for_a_whole_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/thing");
        let interrupted = make_once(&path, |partial| {
            fs::write(partial, "half")?;
            anyhow::bail!("interrupted")
        });
        assert!(interrupted.is_err() && !path.exists());

        assert!(make_once(&path, |partial| Ok(fs::write(partial, "whole")?)).unwrap());
        assert!(!make_once(&path, |_| panic!("it is there")).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
    }

    #[test]
    fn a_key_depends_on_where_one_input_ends() {
        assert_ne!(key(&[b"ab", b"c"]), key(&[b"a", b"bc"]));
        assert_eq!(key(&[b"ab"]).len(), 12);
    }
}
