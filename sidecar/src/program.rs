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

/// Takes the program out of this process' memory a minute after it serves: what the start alone needed stays away.
///
/// Of a sidecar at rest the program is most of what it has in memory. The kernel maps 16 pages of it for each that is
/// run or read, and leaves them mapped while there is memory for all. What is needed again is mapped again, from the
/// kernel's cache of the file.
pub(crate) async fn forget_the_start() {
    tokio::time::sleep(START).await;
    if let Err(error) = forget_program() {
        debug!(%error, "give back the code of the start");
    }
}

fn forget_program() -> io::Result<()> {
    for Range { start, end } in as_the_file_has_it(&std::fs::read_to_string("/proc/self/smaps")?) {
        let first = ptr::with_exposed_provenance_mut(start);
        // SAFETY: these pages are private, can't be written, and none of them ever was, so that each is as the file has
        // it; nor can the file be written while it is run. Whatever reads or runs one from now on finds the same in it.
        unsafe { madvise(first, end - start, Advice::LinuxDontNeed)? };
    }
    Ok(())
}

/// The parts of memory, by `/proc/PID/smaps` (`proc_pid_smaps(5)`), that are of a file, can't be written, and have no page
/// that was. (Of what the loader writes and then closes, as the tables of addresses, pages are "anonymous".)
fn as_the_file_has_it(smaps: &str) -> Vec<Range<usize>> {
    let part = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (range, may, path) = (fields.next()?, fields.next()?, fields.nth(3)?);
        let (start, end) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_closed = ["r-xp", "r--p"].contains(&may) && path.starts_with('/');
        is_closed.then_some(number(start)?..number(end)?)
    };
    let (mut parts, mut latest) = (Vec::new(), None);
    for line in smaps.lines() {
        match line.split_once(':') {
            // The head of a part has a colon too, in the number of its device.
            Some((head, _)) if head.contains('-') => latest = part(line),
            Some(("Anonymous", size)) if size.trim() == "0 kB" => parts.extend(latest.take()),
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel states of a part, as far as it matters.
    fn part(head: &str, written: &str) -> String {
        let sizes = "Size: 64 kB\nPrivate_Clean: 8 kB\nPrivate_Dirty: 0 kB\n";
        format!("{head}\n{sizes}Anonymous: {written:>10} kB\nVmFlags: rd mr mw me\n")
    }

    #[test]
    fn what_was_never_written_is_as_the_file_has_it() {
        let smaps = [
            part("7f00-7f10 r--p 00000000 fe:00 12                     /usr/bin/conclave", "0"),
            part("7f10-7f30 r-xp 00010000 fe:00 12                     /usr/bin/conclave", "0"),
            part("7f30-7f38 r--p 00030000 fe:00 12                     /usr/bin/conclave", "32"),
            part("7f38-7f40 rw-p 00038000 fe:00 12                     /usr/bin/conclave", "0"),
            part("7f40-7f50 rw-p 00040000 00:00 0                      [heap]", "0"),
            part("7f50-7f60 r-xp 00000000 00:00 0 ", "0"),
            part("7f60-7f70 r-xp 00000000 00:00 0                      [vdso]", "0"),
            part("7f70-7f80 r--s 00000000 fe:00 14                     /shared", "0"),
            part("8f00-8f10 r-xp 00001000 fe:00 13                     /lib/libc.so.6", "0"),
            part("8f10-8f20 r-xp 00011000 fe:00 13                     /lib/libc.so.6", "4"),
        ];
        let parts = as_the_file_has_it(&smaps.concat());
        assert_eq!(parts, [0x7f00..0x7f10, 0x7f10..0x7f30, 0x8f00..0x8f10]);
        assert!(as_the_file_has_it("no parts").is_empty());
    }

    #[test]
    fn a_process_goes_on_without_the_program_that_it_has_run() {
        let smaps = std::fs::read_to_string("/proc/self/smaps").expect("a process has memory");
        let (code, text) = (forget_program as *const () as usize, CONSTANT.as_ptr() as usize);
        for mine in [code, text] {
            assert!(as_the_file_has_it(&smaps).iter().any(|part| part.contains(&mine)), "{smaps}");
        }
        forget_program().expect("the kernel takes it");
        what_was_never_written_is_as_the_file_has_it();
    }

    const CONSTANT: &str = "a text that is in the file";
}
