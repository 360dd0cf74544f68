//! Programs that recorded processes executed, as the guest notes them, and which of these left no stream: the recording does not have all then.

use crate::record;
use crate::stream::{Origin, Process, Reader};
use model::{Error, Exit, Nanos, Result, shown};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of notes in a recording's directory, while it is made: `PID TICKS PATH`, each ended by a zero. TICKS 0: what the process noted last failed.
pub(crate) const FILE: &str = "executed";
/// Most programs that are told one by one.
const MOST: usize = 10;

/// Makes an empty one, which descendants that give up root write too.
pub(crate) fn begin(directory: &Path) -> Result<()> {
    let path = directory.join(FILE);
    let cannot = |cause| Error::on(Exit::Machine, "cannot make the recording", &path).because(cause);
    let file = File::create_new(&path).map_err(cannot)?;
    let mode = if rustix::process::geteuid().is_root() { 0o666 } else { 0o600 };
    file.set_permissions(Permissions::from_mode(mode)).map_err(cannot)
}

/// Reads it; takes it away, unless processes are running that go on noting.
pub(crate) fn end(directory: &Path, running: &[u32]) -> Result<Vec<String>> {
    let path = directory.join(FILE);
    let cannot = |cause| Error::on(Exit::Machine, "cannot finish the recording", &path).because(cause);
    let notes = fs::read(&path).map_err(cannot)?;
    if running.is_empty() {
        fs::remove_file(&path).map_err(cannot)?;
    }
    Ok(Reader::open(directory)?.unrecorded(&notes))
}

/// Why the recording lacks each program that left no stream. `at` tells the time of a note, on the clock of [`Process::start`].
pub(crate) fn unrecorded(notes: &[u8], processes: &[Process], at: impl Fn(u64) -> Nanos) -> Vec<String> {
    let mut lacking: BTreeMap<PathBuf, u64> = BTreeMap::new();
    for (pid, notes) in of_processes(notes) {
        let starts = |process: &&Process| process.pid == pid && process.origin == Origin::Exec;
        let starts: Vec<Nanos> = processes.iter().filter(starts).map(|process| process.start).collect();
        for (index, (ticks, path)) in notes.iter().enumerate() {
            let next = notes.get(index + 1).map(|(ticks, _)| at(*ticks));
            let recorded = |start: &Nanos| *start >= at(*ticks) && next.is_none_or(|next| *start < next);
            if !starts.iter().any(recorded) {
                *lacking.entry(found(path)).or_default() += 1;
            }
        }
    }
    let more = lacking.len().saturating_sub(MOST);
    let tell = |(path, times): (PathBuf, u64)| {
        let times = if times == 1 { String::new() } else { format!(", {times} times") };
        format!("{} was executed{times} and is not recorded: {}", shown(&path), record::why_unrecorded(&path))
    };
    let mut texts: Vec<String> = lacking.into_iter().take(MOST).map(tell).collect();
    if more > 0 {
        texts.push(format!("{more} more programs were executed and are not recorded"));
    }
    texts
}

/// What each process became, in the order of time.
fn of_processes(notes: &[u8]) -> HashMap<u32, Vec<(u64, &[u8])>> {
    let mut all: HashMap<u32, Vec<(u64, &[u8])>> = HashMap::new();
    for line in notes.split(|byte| *byte == 0) {
        let mut words = line.splitn(3, |byte| *byte == b' ');
        let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
        let (Some(pid), Some(ticks)) = (number().and_then(|pid| u32::try_from(pid).ok()), number()) else { continue };
        let Some(path) = words.next() else { continue };
        let of_process = all.entry(pid).or_default();
        match ticks {
            0 => {
                of_process.pop();
            }
            ticks => of_process.push((ticks, path)),
        }
    }
    all.values_mut().for_each(|notes| notes.sort_unstable());
    all
}

/// A name without a directory is looked for as `execvp` does.
fn found(path: &[u8]) -> PathBuf {
    let path = OsStr::from_bytes(path);
    if path.as_bytes().contains(&b'/') {
        return Path::new(path).components().collect();
    }
    os::spawn::resolve_program(path).unwrap_or_else(|_| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_that_failed_or_are_damaged_are_none() {
        let notes =
            b"7 100 /bin/a\x007 200 /bin/b\x007 0 /bin/b\x00x\x008 5\x009 50 /with space\x009 40 rel\x00\xff 1 /x\x00";
        let notes = of_processes(notes);
        assert_eq!(notes[&7], [(100, &b"/bin/a"[..])]);
        assert_eq!(notes[&9], [(40, &b"rel"[..]), (50, &b"/with space"[..])]);
        assert_eq!(notes.len(), 2);
    }

    #[test]
    fn what_left_no_stream_is_told_with_the_reason() {
        let texts = unrecorded(b"7 100 /no/such\x007 200 /no/such\x00", &[], Nanos);
        assert_eq!(texts.len(), 1);
        assert!(texts[0].starts_with("/no/such was executed, 2 times and is not recorded: "), "{texts:?}");
    }
}
