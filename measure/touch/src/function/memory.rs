//! The memory of another process: by its file in `/proc`, else word by word.

use os::tracee::Tracee;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

const PAGE: usize = model::PAGE as usize;

/// Memory of a process, shared by all its threads. It stays usable when the process changes its rights; the file
/// belongs to the memory, not to the process.
#[derive(Debug)]
pub struct Memory {
    file: Option<File>,
}

impl Memory {
    /// Of a thread that is stopped or has just been made.
    pub fn of(tracee: Tracee) -> Self {
        Self { file: File::options().read(true).write(true).open(format!("/proc/{}/mem", tracee.0)).ok() }
    }

    /// Whether `/proc` helps: then other threads than the tracer's may read and write too.
    pub fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Reads what a mapping of a file holds into `bytes`, which are those of the file: only pages that are not the
    /// file's own any more are read. To read a page would map it, and a write would then have to unmap it again.
    pub fn read_over(&self, tracee: Tracee, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut entries = vec![[0; 8]; bytes.len().div_ceil(PAGE)];
        let pagemap = File::open(format!("/proc/{}/pagemap", tracee.0));
        let known = pagemap.and_then(|it| it.read_exact_at(entries.as_flattened_mut(), address / PAGE as u64 * 8));
        if known.is_err() || !address.is_multiple_of(PAGE as u64) {
            return self.read(tracee, address, bytes);
        }
        for (page, (part, entry)) in bytes.chunks_mut(PAGE).zip(entries).enumerate() {
            if is_changed(u64::from_ne_bytes(entry)) {
                self.read(tracee, address + (page * PAGE) as u64, part)?;
            }
        }
        Ok(())
    }

    /// Reads all of `bytes`.
    pub fn read(&self, tracee: Tracee, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        if let Some(file) = &self.file
            && file.read_exact_at(bytes, address).is_ok()
        {
            return Ok(());
        }
        for (at, part) in words(address, bytes.len()) {
            let from = (at + part.start as u64 - address) as usize;
            bytes[from..from + part.len()].copy_from_slice(&tracee.peek(at)?[part]);
        }
        Ok(())
    }

    /// Writes all of `bytes`, also where the program itself may not write. Needs a stopped thread where `/proc` does
    /// not help (`proc_mem.force_override=never`, programs that are not dumpable).
    pub fn write(&self, tracee: Tracee, address: u64, bytes: &[u8]) -> io::Result<()> {
        if let Some(file) = &self.file
            && file.write_all_at(bytes, address).is_ok()
        {
            return Ok(());
        }
        for (at, part) in words(address, bytes.len()) {
            let from = (at + part.start as u64 - address) as usize;
            let mut word = if part.len() < 8 { tracee.peek(at)? } else { [0; 8] };
            word[part.clone()].copy_from_slice(&bytes[from..from + part.len()]);
            tracee.poke(at, word)?;
        }
        Ok(())
    }
}

/// Whether an entry of `pagemap` is not of a page of the file: one in memory that has been written to, or one that is
/// elsewhere.
fn is_changed(entry: u64) -> bool {
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const OF_FILE: u64 = 1 << 61;
    entry & SWAPPED != 0 || entry & (PRESENT | OF_FILE) == PRESENT
}

/// The aligned words that hold a range, and which part of each belongs to it: a word that is not aligned could reach
/// into a page that is not there.
fn words(address: u64, len: usize) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> {
    let end = address.saturating_add(len as u64);
    (address & !7..end).step_by(8).map(move |at| {
        let from = address.saturating_sub(at) as usize;
        let to = (end - at).min(8) as usize;
        (at, from..to)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_written_are_told_from_those_of_the_file() {
        let entry = |present: u64, swapped: u64, of_file: u64| present << 63 | swapped << 62 | of_file << 61 | 0x1234;
        assert!(is_changed(entry(1, 0, 0)));
        assert!(is_changed(entry(0, 1, 0)));
        assert!(is_changed(entry(0, 1, 1)));
        assert!(!is_changed(entry(1, 0, 1)));
        assert!(!is_changed(0));
    }

    #[test]
    fn words_are_aligned_and_cover_the_range() {
        assert_eq!(words(0x1006, 3).collect::<Vec<_>>(), [(0x1000, 6..8), (0x1008, 0..1)]);
        assert_eq!(words(0x1fff, 1).collect::<Vec<_>>(), [(0x1ff8, 7..8)]);
        assert_eq!(words(0x1000, 16).collect::<Vec<_>>(), [(0x1000, 0..8), (0x1008, 0..8)]);
    }

    #[test]
    fn memory_is_read_and_written_word_by_word_where_proc_does_not_help() {
        use std::os::unix::process::CommandExt;
        let mut command = std::process::Command::new("sleep");
        // SAFETY: ptrace with this request only marks the process; it is async-signal-safe.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child = command.arg("1000").spawn().unwrap();
        let tracee = Tracee(child.id().cast_signed());
        os::tracee::wait_for(tracee).unwrap();
        let stack = tracee.registers().unwrap().rsp + 1;
        let (by_file, by_words) = (Memory::of(tracee), Memory { file: None });
        by_words.write(tracee, stack, b"thirteen byte").unwrap();
        let (mut one, mut other) = ([0; 15], [0; 15]);
        by_file.read(tracee, stack - 1, &mut one).unwrap();
        by_words.read(tracee, stack - 1, &mut other).unwrap();
        assert_eq!(one, other);
        assert_eq!(&one[1..14], b"thirteen byte");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
