//! A trace's requests as an iolog of fio, so that any disk can be asked to serve them again:
//! `fio --name=start --read_iolog=ff.iolog --ioengine=libaio --direct=1 --iodepth=1 --readonly`.
//!
//! The formats are those of fio(1), "Trace file format v2" and "v3", as fio 3.33 really reads them (its iolog.c):
//!
//! - Version 3 (needs fio 3.31) has microseconds since the beginning in every line. fio ignores the first pause if the
//!   line before it has the time 0, so this log begins at 1.
//! - Version 2 has `wait` lines. The manual says that they hold microseconds since the last one; fio takes them as
//!   milliseconds since its own beginning, and so they are written here.
//!
//! Paths with blanks cannot be written: fio splits lines at blanks.

use crate::model::{Ask, Direction};
use crate::simulate::Request;
use model::{Bytes, DiskOffset, Error, Exit, Nanos, Result};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `wait` lines.
    V2,
    /// A time in every line.
    V3,
}

/// The log of some devices with their requests.
///
/// # Errors
/// A device's path cannot be written in this format: it is not absolute, not UTF-8, holds blanks, or is longer than 255
/// bytes.
pub fn export(version: Version, devices: &[(&Path, &[Request])]) -> Result<String> {
    let mut names = Vec::new();
    for (path, _) in devices {
        names.push(writable(path)?);
    }
    let mut requests: Vec<(usize, &Request)> = devices
        .iter()
        .enumerate()
        .flat_map(|(device, (_, requests))| requests.iter().map(move |request| (device, request)))
        // A flush of what was written before has no line of its own here.
        .filter(|(_, request)| request.ask.len.0 > 0)
        .collect();
    requests.sort_by_key(|(_, request)| request.issue);
    let mut log = Log { version, text: String::new(), now_us: 1, waited_ms: 0 };
    log.line(format_args!("fio version {} iolog", if version == Version::V2 { 2 } else { 3 }));
    for name in &names {
        log.action(format_args!("{name} add"));
        log.action(format_args!("{name} open"));
    }
    for (device, Request { issue, ask, .. }) in requests {
        log.advance(issue.0 / 1000, names[device]);
        let action = if ask.direction == Direction::Read { "read" } else { "write" };
        log.action(format_args!("{} {action} {} {}", names[device], ask.disk.0, ask.len.0));
    }
    for name in &names {
        log.action(format_args!("{name} close"));
    }
    Ok(log.text)
}

fn writable(path: &Path) -> Result<&str> {
    let fits = |name: &&str| name.len() <= 255 && name.starts_with('/') && !name.contains(char::is_whitespace);
    path.to_str().filter(fits).ok_or_else(|| {
        Error::on(Exit::Usage, "fio's log format cannot hold the path", path)
            .hint("give the device an absolute name without blanks, at most 255 bytes long")
    })
}

struct Log {
    version: Version,
    text: String,
    now_us: u64,
    /// Version 2: the last wait.
    waited_ms: u64,
}

impl Log {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn action(&mut self, action: std::fmt::Arguments<'_>) {
        let now = self.now_us;
        match self.version {
            Version::V2 => self.line(action),
            Version::V3 => self.line(format_args!("{now} {action}")),
        }
    }

    fn advance(&mut self, to_us: u64, name: &str) {
        self.now_us = to_us.max(1);
        let to_ms = to_us / 1000;
        if self.version == Version::V2 && to_ms > self.waited_ms {
            self.line(format_args!("{name} wait {to_ms} 0"));
            self.waited_ms = to_ms;
        }
    }
}

/// Reads a log of version 2 or 3: its devices with their reads and writes. Times are exact to the microsecond in
/// version 3, to the millisecond in version 2; the end of a request is not in a log and equals its issue. Other actions
/// (sync, trim) are left out.
///
/// # Errors
/// The text is not such a log; the line is named.
pub fn parse(text: &str) -> Result<Vec<(PathBuf, Vec<Request>)>> {
    let mut lines = text.lines().enumerate();
    let version = match lines.next().map(|(_, line)| line.trim_end()) {
        Some("fio version 2 iolog") => Version::V2,
        Some("fio version 3 iolog") => Version::V3,
        _ => {
            return Err(Error::new(Exit::Data, "this is no fio iolog of version 2 or 3", "")
                .hint("write one with `fio --write_iolog=FILE`"));
        }
    };
    let mut reader = Reader { version, now_us: 0, files: Vec::new() };
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        reader
            .line(line)
            .ok_or_else(|| Error::new(Exit::Data, "cannot read fio's log", format!("line {}", index + 1)))?;
    }
    Ok(reader.files)
}

struct Reader {
    version: Version,
    now_us: u64,
    files: Vec<(PathBuf, Vec<Request>)>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Option<()> {
        let mut words = line.split_whitespace();
        if self.version == Version::V3 {
            self.now_us = words.next()?.parse().ok()?;
        }
        let (name, action) = (words.next()?, words.next()?);
        let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let file = self.files.iter().position(|(file, _)| file == Path::new(name));
        match (action, numbers.as_slice(), file) {
            ("add", [], None) => self.files.push((name.into(), Vec::new())),
            ("add" | "open" | "close", [], Some(_)) => {}
            ("wait", [wait, ..], Some(_)) if self.version == Version::V2 => {
                self.now_us = self.now_us.max(wait.checked_mul(1000)?);
            }
            ("read" | "write", [disk, len], Some(file)) => {
                let at = Nanos(self.now_us.checked_mul(1000)?);
                let direction = if action == "write" { Direction::Write } else { Direction::Read };
                disk.checked_add(*len)?;
                let ask = Ask { disk: DiskOffset(*disk), len: Bytes(*len), direction };
                self.files[file].1.push(Request { issue: at, done: at, ask });
            }
            ("sync" | "datasync" | "sync_file_range" | "trim", _, Some(_)) => {}
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(us: u64, disk: u64, len: u64, direction: Direction) -> Request {
        let at = Nanos(us * 1000);
        Request { issue: at, done: at, ask: Ask { disk: DiskOffset(disk), len: Bytes(len), direction } }
    }

    #[test]
    fn version_3_has_a_time_in_every_line() {
        let requests = [request(7, 4096, 8192, Direction::Read), request(1500, 0, 512, Direction::Write)];
        let log = export(Version::V3, &[(Path::new("/dev/sda"), &requests)]).unwrap();
        let expected = "fio version 3 iolog\n1 /dev/sda add\n1 /dev/sda open\n7 /dev/sda read 4096 8192\n\
                        1500 /dev/sda write 0 512\n1500 /dev/sda close\n";
        assert_eq!(log, expected);
    }

    #[test]
    fn version_2_waits_until_the_millisecond() {
        let requests = [60, 1120, 1150, 40_999].map(|us| request(us, us * 4096, 4096, Direction::Read));
        let log = export(Version::V2, &[(Path::new("/dev/sda"), &requests)]).unwrap();
        let waits: Vec<_> = log.lines().filter(|line| line.contains("wait")).collect();
        assert_eq!(waits, ["/dev/sda wait 1 0", "/dev/sda wait 40 0"]);
        let parsed = parse(&log).unwrap();
        let times: Vec<_> = parsed[0].1.iter().map(|request| request.issue.0 / 1_000_000).collect();
        assert_eq!(times, [0, 1, 1, 40]);
    }

    #[test]
    fn devices_are_mixed_by_time() {
        let one = [request(1, 0, 1, Direction::Read), request(3, 0, 3, Direction::Read)];
        let two = [request(2, 0, 2, Direction::Read)];
        let log = export(Version::V3, &[(Path::new("/dev/a"), &one), (Path::new("/dev/b"), &two)]).unwrap();
        let reads: Vec<_> = log.lines().filter(|line| line.contains("read")).collect();
        assert_eq!(reads, ["1 /dev/a read 0 1", "2 /dev/b read 0 2", "3 /dev/a read 0 3"]);
    }

    #[test]
    fn names_that_fio_would_split_are_refused() {
        for name in ["/dev/a b", "relative", &format!("/{}", "x".repeat(255))] {
            assert_eq!(export(Version::V3, &[(Path::new(name), &[])]).unwrap_err().exit, Exit::Usage);
        }
    }

    #[test]
    fn a_bad_line_is_named() {
        let object = |text: &str| parse(text).unwrap_err().object;
        assert_eq!(object("hello"), "");
        assert_eq!(object("fio version 3 iolog\n0 /a add\n0 /a read 1"), "line 3");
        assert_eq!(object("fio version 3 iolog\n0 /a read 1 1"), "line 2");
        assert_eq!(object("fio version 3 iolog\n0 /a add\n\n0 /a wait 1 1"), "line 4");
        assert_eq!(object("fio version 2 iolog\n/a add\n/a read 18446744073709551615 2"), "line 3");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_exported_is_parsed(asks in prop::collection::vec((1u64..1 << 40, 0u64..1 << 45, 1u64..1 << 24, any::<bool>()), 0..50)) {
            let mut requests: Vec<_> = asks.into_iter().map(|(us, disk, len, write)| {
                request(us, disk, len, if write { Direction::Write } else { Direction::Read })
            }).collect();
            let log = export(Version::V3, &[(Path::new("/dev/x"), &requests)]).unwrap();
            requests.sort_by_key(|request| request.issue);
            prop_assert_eq!(parse(&log).unwrap(), vec![(PathBuf::from("/dev/x"), requests)]);
        }

        #[test]
        fn no_text_makes_it_panic(text in "(fio version [23] iolog\n)?([0-9]{0,20} ?/a (add|open|read|wait|close)( \
            [0-9]{0,20}){0,3}\n){0,5}") {
            let _ = parse(&text);
        }
    }
}
