//! What of its own program a process has in memory.
#![allow(unsafe_code, reason = "the kernel takes pages back at no other request")]

use std::io;
use std::ops::Range;
use std::ptr;
use std::time::Duration;

use rustix::mm::{Advice, madvise};
use tracing::debug;

/// How long a process that serves may take to join its group.
const START: Duration = Duration::from_mins(1);

/// Takes the program's code out of this process' memory a minute after it serves: what the start alone needed stays away.
///
/// Of a sidecar at rest the program is most of what it has in memory. The kernel maps 16 pages of it for each that is
/// run, and leaves them mapped while there is memory for all. What is run again is mapped again, from the kernel's
/// cache of the file.
pub(crate) async fn forget_the_start() {
    tokio::time::sleep(START).await;
    if let Err(error) = forget_code() {
        debug!(%error, "give back the code of the start");
    }
}

fn forget_code() -> io::Result<()> {
    for Range { start, end } in code(&std::fs::read_to_string("/proc/self/maps")?) {
        let first = ptr::with_exposed_provenance_mut(start);
        // SAFETY: these pages are private and can't be written, so that each is as the file has it, which can't be
        // written either while it is run; whatever reads or runs one from now on finds the same in it.
        unsafe { madvise(first, end - start, Advice::LinuxDontNeed)? };
    }
    Ok(())
}

/// The parts of memory, by `proc_pid_maps(5)`, that are of a file, can be run and can't be written.
fn code(maps: &str) -> Vec<Range<usize>> {
    let part = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (range, may, path) = (words.next()?, words.next()?, words.nth(3)?);
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        (may == "r-xp" && path.starts_with('/')).then_some(number(start)?..number(end)?)
    };
    maps.lines().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_can_be_run_of_a_file() {
        let maps = "\
            7f00-7f10 r--p 00000000 fe:00 12 /usr/bin/conclave\n\
            7f10-7f30 r-xp 00010000 fe:00 12 /usr/bin/conclave\n\
            7f30-7f40 rw-p 00030000 fe:00 12 /usr/bin/conclave\n\
            7f40-7f50 rw-p 00000000 00:00 0 [heap]\n\
            7f50-7f60 r-xp 00000000 00:00 0\n\
            7f60-7f70 r-xp 00000000 00:00 0 [vdso]\n\
            8f00-8f10 r-xp 00001000 fe:00 13 /lib/libc.so.6\n";
        assert_eq!(code(maps), [0x7f10..0x7f30, 0x8f00..0x8f10]);
        assert!(code("no maps").is_empty());
    }

    #[test]
    fn a_process_goes_on_without_the_code_that_it_has_run() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("a process has memory");
        let mine = forget_code as *const () as usize;
        assert!(code(&maps).iter().any(|part| part.contains(&mine)), "{maps}");
        forget_code().expect("the kernel takes it");
        code_is_what_can_be_run_of_a_file();
    }
}
