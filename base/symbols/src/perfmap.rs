//! Names of code that a program made at run time: what JITs write to `/tmp/perf-PID.map` for `perf`.
//!
//! Anyone can make a file of that name: it is believed only if it is the process's user's or root's, a regular file,
//! and not behind a link.

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::SystemTime;

/// More than the largest programs write; what is behind it is not read.
const MOST_BYTES: u64 = 256 << 20;

/// Functions that a program made, by address.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: String,
    /// Start; end, and where in the text the name is. They do not overlap.
    functions: BTreeMap<u64, Function>,
}

#[derive(Clone, Copy, Debug)]
struct Function {
    end: u64,
    name: (u32, u32),
}

impl PerfMap {
    /// The text of such a file: start and length in hex, then the name. Where lines overlap, the later one is right:
    /// the memory was used again. Lines that make no sense are left out.
    pub fn parse(text: &[u8]) -> Self {
        let mut map = Self { text: String::from_utf8_lossy(text).into_owned(), functions: BTreeMap::new() };
        let mut at = 0;
        let mut found = Vec::new();
        for line in map.text.split_inclusive('\n') {
            if let Some((start, end, name)) = line_of(line) {
                let from = at + (name.as_ptr().addr() - line.as_ptr().addr());
                if let (Ok(from), Ok(to)) = (u32::try_from(from), u32::try_from(from + name.len())) {
                    found.push((start, Function { end, name: (from, to) }));
                }
            }
            at += line.len();
        }
        for (start, function) in found {
            map.put(start, function);
        }
        map
    }

    /// Puts a function over all that was there.
    fn put(&mut self, start: u64, function: Function) {
        let before = self.functions.range_mut(..start).next_back();
        if let Some((_, cut)) = before.filter(|(_, before)| before.end > start) {
            let rest = *cut;
            cut.end = start;
            if rest.end > function.end {
                self.functions.insert(function.end, rest);
            }
        }
        while let Some((at, over)) = self.functions.range(start..function.end).next().map(|(at, over)| (*at, *over)) {
            self.functions.remove(&at);
            if over.end > function.end {
                self.functions.insert(function.end, over);
            }
        }
        self.functions.insert(start, function);
    }

    /// The name of what holds an address.
    pub fn name(&self, address: u64) -> Option<&str> {
        let (_, function) = self.functions.range(..=address).next_back()?;
        let (from, to) = function.name;
        (address < function.end).then(|| &self.text[from as usize..to as usize])
    }

    /// Whether it names nothing.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }
}

/// `7f00c0de 1f0 LazyCompile:~main app.js:1`
fn line_of(line: &str) -> Option<(u64, u64, &str)> {
    let (start, rest) = line.trim_start().split_once(' ')?;
    let (len, name) = rest.trim_start().split_once(' ')?;
    let hex = |text: &str| u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok();
    let start = hex(start)?;
    let end = start.checked_add(hex(len)?).filter(|end| *end > start)?;
    let name = name.trim();
    (!name.is_empty()).then_some((start, end, name))
}

/// Where a process would write such a file. Found while it lives; can be read after its end.
#[derive(Debug)]
pub struct PerfMapPlace {
    /// The process's root directory.
    root: OwnedFd,
    /// Its number as it sees it itself.
    number: u32,
    /// Its user.
    uid: u32,
    /// What was written before is of an earlier process of this number.
    since: Option<SystemTime>,
}

impl PerfMapPlace {
    /// Of a process that lives.
    ///
    /// # Errors
    /// A sentence: it is gone, or not for us to look at.
    pub fn of(pid: u32) -> Result<Self, String> {
        let failed = |error: &dyn std::fmt::Display| format!("process {pid} cannot be looked at: {error}");
        // What this leads to is of this process alone, even if another one gets its number.
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let process = openat(CWD, format!("/proc/{pid}"), directory, Mode::empty()).map_err(|error| failed(&error))?;
        let root = openat(&process, "root", directory, Mode::empty()).map_err(|error| failed(&error))?;
        let status = openat(&process, "status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        let mut text = Vec::new();
        File::from(status.map_err(|error| failed(&error))?).read_to_end(&mut text).map_err(|error| failed(&error))?;
        let text = String::from_utf8_lossy(&text);
        let words = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::split_ascii_whitespace);
        let number = words("NSpid:").and_then(|all| all.last()?.parse().ok());
        let uid = words("Uid:").and_then(|mut all| all.nth(1)?.parse().ok());
        let (Some(number), Some(uid)) = (number, uid) else { return Err(failed(&"its status lacks a line")) };
        Ok(Self { root, number, uid, since: None })
    }

    /// Of a process of thaw's own root directory that has ended, by its number and user; its file was written after
    /// this moment.
    ///
    /// # Errors
    /// A sentence: there is no root directory.
    pub fn of_ended(number: u32, uid: u32, since: SystemTime) -> Result<Self, String> {
        let directory = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root =
            openat(CWD, "/", directory, Mode::empty()).map_err(|error| format!("/ cannot be opened: {error}"))?;
        Ok(Self { root, number, uid, since: Some(since) })
    }

    /// Reads the file; `None`: the process wrote none.
    ///
    /// # Errors
    /// A sentence: there is one that is not to be believed, or that cannot be read.
    pub fn read(&self) -> Result<Option<PerfMap>, String> {
        let name = format!("tmp/perf-{}.map", self.number);
        // Opening a pipe would wait for ever, without NONBLOCK.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let file = match openat2(&self.root, &name, flags, Mode::empty(), resolve) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(format!("/{name} is not read: it is a link, or behind one")),
            Err(error) => return Err(format!("/{name} cannot be read: {error}")),
        };
        let about = fstat(&file).map_err(|error| format!("/{name} cannot be read: {error}"))?;
        if FileType::from_raw_mode(about.st_mode) != FileType::RegularFile {
            return Err(format!("/{name} is not read: it is no regular file"));
        }
        if about.st_uid != self.uid && about.st_uid != 0 {
            return Err(format!("/{name} is not read: it is of user {}, the process of {}", about.st_uid, self.uid));
        }
        let mut text = Vec::new();
        let file = File::from(file);
        let written = file.metadata().and_then(|about| about.modified());
        if self.since.is_some_and(|since| written.is_ok_and(|written| written < since)) {
            return Ok(None);
        }
        let read = file.take(MOST_BYTES).read_to_end(&mut text);
        read.map_err(|error| format!("/{name} cannot be read: {error}"))?;
        Ok(Some(PerfMap::parse(&text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::PathBuf;

    #[test]
    fn later_lines_win_and_bad_ones_are_left_out() {
        let text = b"1000 100 one\n1080 10 two with spaces\r\nx y z\n2000 0 empty\nffffffffffffffff 2 beyond\n\
            3000 10\n0x4000 0x10 prefixed\n1000 8 three";
        let map = PerfMap::parse(text);
        for (address, expected) in [
            (0xfff, None),
            (0x1000, Some("three")),
            (0x1008, Some("one")),
            (0x107f, Some("one")),
            (0x1080, Some("two with spaces")),
            (0x108f, Some("two with spaces")),
            (0x1090, Some("one")),
            (0x1100, None),
            (0x2000, None),
            (0x3000, None),
            (0x4008, Some("prefixed")),
        ] {
            assert_eq!(map.name(address), expected, "{address:x}");
        }
        assert!(PerfMap::parse(b"\xff\n").is_empty());
    }

    /// The place of this process's own file, which is gone at the end.
    struct Own(PathBuf);

    impl Drop for Own {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_place() {
        // No process has this number: they are positive in 32 bits with a sign.
        assert!(PerfMapPlace::of(u32::MAX).unwrap_err().contains("cannot be looked at"));
    }

    #[test]
    fn only_a_file_of_its_own_user_is_believed() {
        let place = PerfMapPlace::of(std::process::id()).unwrap();
        let own = Own(PathBuf::from(format!("/tmp/perf-{}.map", place.number)));
        assert!(place.read().unwrap().is_none(), "it wrote none");
        std::fs::write(&own.0, "10 10 made\n").unwrap();
        assert_eq!(place.read().unwrap().unwrap().name(0x11), Some("made"));
        let now = std::fs::metadata(&own.0).unwrap().modified().unwrap();
        let ended = |since| PerfMapPlace::of_ended(place.number, place.uid, since).unwrap().read().unwrap();
        assert!(ended(now).is_some() && ended(now + std::time::Duration::from_secs(1)).is_none(), "of another one");
        let other = tempfile::NamedTempFile::new().unwrap();
        std::fs::remove_file(&own.0).unwrap();
        std::os::unix::fs::symlink(other.path(), &own.0).unwrap();
        assert!(place.read().unwrap_err().contains("link"));
        std::fs::remove_file(&own.0).unwrap();
        rustix::fs::mknodat(CWD, &own.0, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(place.read().unwrap_err().contains("regular"));
        std::fs::remove_file(&own.0).unwrap();
        if testing::root_or_skip() {
            std::fs::write(&own.0, "10 10 made\n").unwrap();
            std::os::unix::fs::chown(&own.0, Some(testing::SECOND_USER), None).unwrap();
            assert!(place.read().unwrap_err().contains("of user"));
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..300), address: u64) {
            PerfMap::parse(&text).name(address);
        }

        #[test]
        fn an_address_has_the_name_of_the_last_line_that_holds_it(
            lines in prop::collection::vec((0_u64..60, 1_u64..20), 0..30)
        ) {
            let line = |(number, (start, len)): (usize, &(u64, u64))| format!("{start:x} {len:x} f{number}\n");
            let text: String = lines.iter().enumerate().map(line).collect();
            let map = PerfMap::parse(text.as_bytes());
            for address in 0..90 {
                let last = lines.iter().rposition(|(start, len)| (*start..start + len).contains(&address));
                prop_assert_eq!(map.name(address).map(str::to_owned), last.map(|number| format!("f{number}")));
            }
        }
    }
}
