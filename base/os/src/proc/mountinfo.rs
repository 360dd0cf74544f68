//! `/proc/PID/mountinfo`: what is mounted where.

use super::number::parse_dev;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One mount: a line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The number of the mount, which `statx(2)` tells too.
    pub id: u64,
    /// The mount that it hangs on.
    pub parent: u64,
    /// Device of the super block, packed by `makedev`. (On btrfs `stat` shows another one per subvolume.)
    pub dev: u64,
    /// Directory of the file system that is mounted; `/` unless it is a bind mount or a subvolume.
    pub root: PathBuf,
    /// The directory that it covers.
    pub point: PathBuf,
    /// The name of the file system: `ext4`.
    pub fstype: String,
    /// What is mounted, as whoever mounted it said: `/dev/vda`. A word without meaning for many file systems.
    pub source: PathBuf,
    /// Mount options, then super block options, joined by a comma.
    pub options: String,
    /// Options of the super block alone: of a control group hierarchy, its controllers are among them.
    pub super_options: String,
}

impl Mount {
    /// Value of an option: `option("upperdir")`. For a flag, `Some("")`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.split(',').find_map(|option| match option.split_once('=') {
            Some((key, value)) => (key == name).then_some(value),
            None => (option == name).then_some(""),
        })
    }
}

/// The mounts that this process sees, in the kernel's order: a later one lies over an earlier one.
///
/// # Errors
/// There is no `/proc`.
pub(crate) fn own() -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read("/proc/self/mountinfo")?))
}

/// As [`own`], of another process.
///
/// # Errors
/// It is gone, or not for this user to look at.
pub(crate) fn of(pid: u32) -> io::Result<Vec<Mount>> {
    Ok(parse(&std::fs::read(format!("/proc/{pid}/mountinfo"))?))
}

/// Parses the text of a mountinfo file; lines that make no sense are left out.
pub(crate) fn parse(text: &[u8]) -> Vec<Mount> {
    text.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// One line: `36 35 98:0 /root /point rw,noatime shared:1 - ext4 /dev/sda1 rw`. Fields may be empty, but there is
/// one blank between two of them.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let mut next = || fields.next();
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let id = number(next()?)?;
    let parent = number(next()?)?;
    let dev = parse_dev(std::str::from_utf8(next()?).ok()?)?;
    let root = path(next()?);
    let point = path(next()?);
    let mount_options = text(next()?);
    // Any number of optional fields, then a single hyphen.
    while next()? != b"-" {}
    let fstype = text(next()?);
    let source = path(next()?);
    let super_options = text(next()?);
    let options = format!("{mount_options},{super_options}");
    Some(Mount { id, parent, dev, root, point, fstype, source, options, super_options })
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

/// Undoes the kernel's octal escapes (`\040` for a blank); any other backslash stands for itself.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'\\', [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', after @ ..]) => {
                plain.push((high - b'0') << 6 | (middle - b'0') << 3 | (low - b'0'));
                rest = after;
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    pub(crate) const TABLE: &[u8] = br"22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 master:7 - ext4 /dev/vda rw,discard
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684096k
30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw,size=24684096k
40 27 254:0 /srv/a\040b /mnt/with\040blank\011tab\134and\012line ro - ext4 /dev/vda rw,discard
41 27 0:40 /@home /home rw - btrfs /dev/sdb2 rw,subvol=/@home
42 27 0:41 / /merged rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/u,workdir=/w
43 27 0:42 / /empty rw -   rw
44 27 0:43 / /net rw - fuse.sshfs me@host: rw,user_id=0
this line makes no sense
45 27 x:y / /no rw - ext4 /dev/x rw
46 27 8:1 / /short rw - ext4";

    #[test]
    fn reads_the_table_and_leaves_out_nonsense() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.iter().map(|mount| mount.id).collect::<Vec<_>>(), [22, 27, 25, 30, 40, 41, 42, 43, 44]);
        let bind = &mounts[4];
        assert_eq!(bind.point, Path::new("/mnt/with blank\ttab\\and\nline"));
        assert_eq!(bind.root, Path::new("/srv/a b"));
        assert_eq!(bind.options, "ro,rw,discard");
        assert_eq!((mounts[7].fstype.as_str(), mounts[7].source.as_path()), ("", Path::new("")));
        let overlay = &mounts[6];
        assert_eq!(overlay.option("upperdir"), Some("/u"));
        assert_eq!(overlay.option("rw"), Some(""));
        assert_eq!(overlay.option("upper"), None);
    }

    /// As the kernel escapes (`mangle_path` with " \t\n\\#").
    fn escape(plain: &[u8]) -> Vec<u8> {
        let mut escaped = Vec::new();
        for byte in plain {
            match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => escaped.extend(format!("\\{byte:03o}").bytes()),
                other => escaped.push(*other),
            }
        }
        escaped
    }

    proptest! {
        #[test]
        fn any_path_survives_escaping(
            root in prop::collection::vec(1u8.., 0..40),
            point in prop::collection::vec(1u8.., 0..40),
            optional in prop::collection::vec("[a-z]{1,9}:[0-9]{1,3}", 0..4),
            id in any::<u32>(),
        ) {
            let mut line = format!("{id} 1 8:3 ").into_bytes();
            line.extend(escape(&root));
            line.push(b' ');
            line.extend(escape(&point));
            line.extend(b" rw ");
            for field in &optional {
                line.extend(field.bytes());
                line.push(b' ');
            }
            line.extend(b"- ext4 /dev/sda3 rw");
            let mounts = parse(&line);
            prop_assert_eq!(mounts.len(), 1);
            prop_assert_eq!(mounts[0].root.as_os_str().as_bytes(), &root[..]);
            prop_assert_eq!(mounts[0].point.as_os_str().as_bytes(), &point[..]);
            prop_assert_eq!(mounts[0].id, u64::from(id));
            prop_assert_eq!(mounts[0].source.as_path(), Path::new("/dev/sda3"));
        }

        #[test]
        fn garbage_never_panics(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let mounts = parse(&text);
            prop_assert!(mounts.len() <= text.split(|byte| *byte == b'\n').count());
            prop_assert!(unescape(&text).len() <= text.len());
        }

        #[test]
        fn pieces_of_lines_never_panic(cut in 0..TABLE.len(), put in any::<u8>()) {
            let mut text = TABLE.to_vec();
            text[cut] = put;
            parse(&text);
            parse(&TABLE[..cut]);
            parse(&TABLE[cut..]);
        }
    }
}
