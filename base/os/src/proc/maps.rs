//! `/proc/PID/maps`: what is mapped where.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A line of `/proc/PID/maps` that maps a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The first address that is mapped.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// What may be done there, and whether others see it: `r-xp`.
    pub permissions: String,
    /// Offset in the file, bytes.
    pub offset: u64,
    /// Device, packed by `makedev`. On btrfs that of the volume, where `stat` shows that of the subvolume.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
    /// Path as the process sees it, without ` (deleted)`.
    pub path: PathBuf,
    /// The file is deleted. (A file whose name ends with ` (deleted)` cannot be told from one that is.)
    pub deleted: bool,
}

/// A line of `/proc/PID/maps`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    /// The first address that is mapped.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// What may be done there, and whether others see it: `r-xp`.
    pub permissions: &'a str,
    /// Offset in the file, bytes; 0 without one.
    pub offset: u64,
    /// Device of the file, packed by `makedev`; 0 without one.
    pub dev: u64,
    /// Inode number of the file; 0 without one.
    pub ino: u64,
    /// What the kernel writes behind it: a path, `[heap]`, `[anon:NAME]`, or nothing.
    pub name: &'a [u8],
}

impl Region<'_> {
    /// The file that is mapped; `None`: memory without one.
    fn mapping(self) -> Option<Mapping> {
        let Self { start, end, permissions, offset, dev, ino, name } = self;
        let (name, deleted) = match name.strip_suffix(b" (deleted)") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let path = name.starts_with(b"/").then(|| OsString::from_vec(unescape_newlines(name)).into())?;
        Some(Mapping { start, end, permissions: permissions.to_owned(), offset, dev, ino, path, deleted })
    }
}

/// File mappings of a process, by address. Empty for kernel threads.
///
/// # Errors
/// It is gone, or not for this user to look at.
pub fn maps(pid: u32) -> std::io::Result<Vec<Mapping>> {
    Ok(parse_maps(&std::fs::read(format!("/proc/{pid}/maps"))?))
}

/// Parses the text of a `maps` file; memory without a file and lines that make no sense are left out.
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    regions(text).filter_map(Region::mapping).collect()
}

/// All lines of a `maps` file, by address; those that make no sense are left out.
pub fn regions(text: &[u8]) -> impl Iterator<Item = Region<'_>> {
    text.split(|byte| *byte == b'\n').filter_map(region)
}

/// All regions of an `smaps` file, each with how many bytes a field of it says (`Rss`, `Pss`); 0: nothing that can be
/// read.
pub fn sized_regions<'a>(text: &'a [u8], field: &str) -> Vec<(Region<'a>, u64)> {
    let mut sized: Vec<(Region<'_>, u64)> = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(region) = region(line) {
            sized.push((region, 0));
        } else if let (Some((_, bytes)), Some(rest)) = (sized.last_mut(), line.strip_prefix(field.as_bytes()))
            && let Some(rest) = rest.strip_prefix(b":")
        {
            let rest = String::from_utf8_lossy(rest);
            let kib = rest.trim().strip_suffix("kB").and_then(|number| number.trim().parse::<u64>().ok());
            *bytes = kib.unwrap_or(0).saturating_mul(1024);
        }
    }
    sized
}

/// `7f1c-7f1d r-xp 00001000 fe:00 1234          /usr/lib/libc.so.6`
fn region(line: &[u8]) -> Option<Region<'_>> {
    let mut rest = line;
    let mut next = || {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        let (field, after) = rest.split_at(end);
        rest = after.strip_prefix(b" ").unwrap_or(after);
        std::str::from_utf8(field).ok()
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = next()?.split_once('-')?;
    let permissions = next()?;
    let offset = hex(next()?)?;
    let (major, minor) = next()?.split_once(':')?;
    let ino = next()?.parse().ok()?;
    let part = |text| u32::try_from(hex(text)?).ok();
    let dev = libc::makedev(part(major)?, part(minor)?);
    let name = rest.trim_ascii_start();
    Some(Region { start: hex(start)?, end: hex(end)?, permissions, offset, dev, ino, name })
}

/// The kernel escapes newlines here, and nothing else (so `\\012` in a name reads as one; that cannot be helped).
fn unescape_newlines(name: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((first, after)) = rest.split_first() {
        rest = match rest.strip_prefix(br"\012") {
            Some(after) => {
                plain.push(b'\n');
                after
            }
            None => {
                plain.push(*first);
                after
            }
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Path;

    #[test]
    fn maps_lines_name_files_and_nothing_else() {
        let text = b"55d0-55d1 r--p 00002000 fe:11 131090                     /usr/bin/a b\n\
            7f00-7f01 rw-p 00000000 00:00 0 \n\
            7f02-7f03 rw-p 00000000 00:00 0                          [heap]\n\
            7f04-7f05 rw-p 00000000 00:00 0                          [anon:some/name]\n\
            7f06-7f07 rw-s 00000000 00:01 1024                       /memfd:x (deleted)\n\
            7f08-7f09 r-xp 00001000 103:02 7                         /with\\012line (deleted)\n\
            nonsense / here\n";
        let maps = parse_maps(text);
        let paths: Vec<_> = maps.iter().map(|mapping| (mapping.path.as_path(), mapping.deleted)).collect();
        assert_eq!(
            paths,
            [(Path::new("/usr/bin/a b"), false), (Path::new("/memfd:x"), true), (Path::new("/with\nline"), true)]
        );
        assert_eq!((maps[0].start, maps[0].end, maps[0].offset), (0x55d0, 0x55d1, 0x2000));
        assert_eq!((maps[0].dev, maps[0].ino), (libc::makedev(0xfe, 0x11), 131090));
        assert_eq!(maps[2].dev, libc::makedev(0x103, 2));
        assert_eq!(maps[2].permissions, "r-xp");
    }

    #[test]
    fn memory_without_a_file_is_among_the_regions() {
        let text = b"7f02-7f03 rw-p 00000000 00:00 0                          [heap]\n\
            7f04-7f05 rw-p 00000000 00:00 0\n\
            7f06-7f07 ---p 00000000 00:00 0 \n\
            7f08-7f09 r-xp 00001000 103:02 7                         /a  b \n\
            7f0a-7f0b\n";
        let found: Vec<_> = regions(text).map(|region| (region.start, region.permissions, region.name)).collect();
        let none = &b""[..];
        assert_eq!(
            found,
            [
                (0x7f02, "rw-p", &b"[heap]"[..]),
                (0x7f04, "rw-p", none),
                (0x7f06, "---p", none),
                (0x7f08, "r-xp", b"/a  b ")
            ]
        );
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..200)) {
            assert!(parse_maps(&text).len() <= regions(&text).count());
        }
    }
}
