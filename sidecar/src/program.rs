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
    let mut outcome = Ok(());
    for Range { start, end } in as_the_file_has_it(&std::fs::read_to_string("/proc/self/smaps")?) {
        let first = ptr::with_exposed_provenance_mut(start);
        // SAFETY: these pages are private, can't be written, and none that is in memory or was taken out of it ever was,
        // so that each is as the file has it; nor can the file be written while it is run. Whatever reads or runs one from
        // now on finds the same in it.
        if let Err(error) = unsafe { madvise(first, end - start, Advice::LinuxDontNeed) } {
            outcome = Err(error.into());
        }
    }
    outcome
}

/// The parts of memory, by `/proc/PID/smaps` (`proc_pid_smaps(5)`), that are of a file, can't be written, and have no page
/// that was. (Of what the loader writes and then closes, as the tables of addresses, pages are "anonymous", or swapped
/// out.) Where nothing is stated to be in memory, as by an emulator that states nothing, there is nothing to give back.
fn as_the_file_has_it(smaps: &str) -> Vec<Range<usize>> {
    let mut parts: Vec<Part> = Vec::new();
    for line in smaps.lines() {
        let Some((key, size)) = line.split_once(':') else { continue };
        // The head of a part has a colon too, in the number of its device.
        if key.contains('-') {
            let range = closed(line);
            parts.push(Part { range, is_there: false, is_written: false });
        } else if let (Some(part), true) = (parts.last_mut(), size.trim() != "0 kB") {
            part.is_there |= key == "Rss";
            part.is_written |= ["Anonymous", "Swap"].contains(&key);
        }
    }
    parts.retain(|part| part.is_there && !part.is_written);
    parts.into_iter().filter_map(|part| part.range).collect()
}

/// What is stated of a part of memory.
struct Part {
    /// Its addresses, if it is of a file and can't be written.
    range: Option<Range<usize>>,
    is_there: bool,
    is_written: bool,
}

/// The addresses of a part that is of a file and can't be written, by its head.
fn closed(head: &str) -> Option<Range<usize>> {
    let mut fields = head.split_ascii_whitespace();
    let (range, may, path) = (fields.next()?, fields.next()?, fields.nth(3)?);
    let (start, end) = range.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    let is_closed = ["r-xp", "r--p"].contains(&may) && path.starts_with('/');
    is_closed.then_some(number(start)?..number(end)?)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    /// What the kernel states of a part, as far as it matters: its head, and how much of it is there, written, and written
    /// and then swapped out.
    fn part(head: &str, [there, written, swapped]: [u32; 3]) -> String {
        let clean = "Private_Clean: 8 kB\nPrivate_Dirty: 0 kB";
        format!(
            "{head}\nSize: 64 kB\nRss: {there:>10} kB\n{clean}\nAnonymous: {written:>10} kB\n\
             AnonHugePages: 0 kB\nSwap: {swapped:>10} kB\nSwapPss: 0 kB\nVmFlags: rd mr mw me\n"
        )
    }

    #[test]
    fn what_was_never_written_is_as_the_file_has_it() {
        let clean = [8, 0, 0];
        let smaps = [
            part("7f00-7f10 r--p 00000000 fe:00 12                     /usr/bin/conclave", clean),
            part("7f10-7f30 r-xp 00010000 fe:00 12                     /usr/bin/conclave", clean),
            part(
                "7f30-7f38 r--p 00030000 fe:00 12                     /usr/bin/conclave",
                [32, 32, 0],
            ),
            part("7f38-7f40 rw-p 00038000 fe:00 12                     /usr/bin/conclave", clean),
            part("7f40-7f50 rw-p 00040000 00:00 0                      [heap]", clean),
            part("7f50-7f60 r-xp 00000000 00:00 0 ", clean),
            part("7f60-7f70 r-xp 00000000 00:00 0                      [vdso]", clean),
            part("7f70-7f80 r--s 00000000 fe:00 14                     /shared", clean),
            part("8f00-8f10 r-xp 00001000 fe:00 13                     /lib/libc.so.6", clean),
            part("8f10-8f20 r-xp 00011000 fe:00 13                     /lib/libc.so.6", [8, 4, 0]),
            part("8f20-8f30 r--p 00021000 fe:00 13                     /lib/libc.so.6", [8, 0, 4]),
            part("8f30-8f40 r--p 00031000 fe:00 13                     /lib/libc.so.6", [0, 0, 0]),
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
        if let Err(error) = forget_program() {
            // Another thread of the tests may have given a part back.
            assert_eq!(error.raw_os_error(), Some(Errno::NOMEM.raw_os_error()), "{error}");
        }
        what_was_never_written_is_as_the_file_has_it();
    }

    const CONSTANT: &str = "a text that is in the file";
}
