//! What the cluster has mounted below its state directory.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

/// Unmounts everything below `directory`, what was mounted last first.
///
/// Afterwards nothing is mounted there, so that the directory can be removed without touching
/// anything else.
pub(super) fn remove_below(directory: &Path) -> Result<()> {
    for path in points_below(directory)?.into_iter().rev() {
        match unmount(&path, UnmountFlags::DETACH) {
            // Gone with one that it was mounted on.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot unmount {}", path.display()));
            }
        }
    }
    let left = points_below(directory)?;
    ensure!(left.is_empty(), "still mounted: {left:?}");
    Ok(())
}

fn points_below(directory: &Path) -> Result<Vec<PathBuf>> {
    Ok(below(&fs::read_to_string("/proc/self/mounts")?, directory))
}

/// The mount points below `directory` in the order in which they were mounted.
fn below(table: &str, directory: &Path) -> Vec<PathBuf> {
    let point = |line: &str| line.split(' ').nth(1).map(PathBuf::from);
    table.lines().filter_map(point).filter(|path| path.starts_with(directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_below_is_found() {
        let table = "overlay /state/a overlay rw 0 0\ntmpfs /state-of-another tmpfs rw 0 0\n\
                     tmpfs /state/a/b tmpfs rw 0 0\nproc /proc proc rw 0 0\n";
        assert_eq!(
            below(table, Path::new("/state")),
            [PathBuf::from("/state/a"), PathBuf::from("/state/a/b")]
        );
    }
}
