//! `conclave copy`: puts this program where a container finds it that has another image.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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

/// At no time there is half a program at the path.
fn copy(path: &Path) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    io::copy(&mut File::open("/proc/self/exe")?, &mut File::create(&part)?)?;
    fs::set_permissions(&part, Permissions::from_mode(0o755))?;
    fs::rename(&part, path)
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
    }
}
