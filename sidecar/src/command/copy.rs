//! `conclave copy`: puts this program where a container finds it that has another image.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

use anyhow::Context;
use clap::Args;

/// Where to.
#[derive(Args, Debug)]
pub(super) struct CopyArgs {
    /// The path of the copy, in a directory that is there.
    path: PathBuf,
}

pub(super) fn run(args: &CopyArgs) -> ExitCode {
    let copied = copy(&args.path);
    match copied.with_context(|| format!("copy this program to {}", args.path.display())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            super::complain(&error);
            ExitCode::FAILURE
        }
    }
}

/// At no time there is half a program at the path. What is there is replaced, also a link.
fn copy(path: &Path) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", process::id()));
    let part = PathBuf::from(part);
    let copied = write(&part).and_then(|()| fs::rename(&part, path));
    if copied.is_err() {
        // Nothing is left of what failed.
        let _ = fs::remove_file(&part);
    }
    copied
}

fn write(part: &Path) -> io::Result<()> {
    // One that ended in the middle may have left it.
    if let Err(error) = fs::remove_file(part)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    io::copy(&mut File::open("/proc/self/exe")?, &mut File::create_new(part)?)?;
    fs::set_permissions(part, Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_copy_is_this_program_and_can_be_run() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("conclave");
        for _ in 0..2 {
            copy(&path).unwrap();
            let listed = Command::new(&path).arg("--list").output().unwrap();
            let listed = String::from_utf8(listed.stdout).unwrap();
            assert!(listed.contains("the_copy_is_this_program_and_can_be_run"), "{listed}");
        }
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing else is left");
        assert!(copy(&directory.path().join("none/conclave")).is_err());
        let other = directory.path().join("other");
        fs::write(&other, "other").unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        copy(&path).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "other", "a link is not followed");
        assert!(copy(directory.path()).is_err() && directory.path().exists());
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 2, "nothing is left of what failed");
    }
}
