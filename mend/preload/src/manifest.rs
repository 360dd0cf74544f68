//! The manifest: what is read before a start, as a file of lines.
//!
//! ```text
//! thaw preload manifest 1
//! about made_unix_ns 1795307722157216897
//! about source exact
//! file regular 65024 1311 141558816 1740000000000000000 9a0b… /usr/lib/firefox-esr/libxul.so
//! read 0 0 131072 17
//! sum 2f6b0e5c1d3a9f84
//! ```
//!
//! Fields stand between single blanks; what comes last on a line (a path, a text) may hold blanks, and has `\n` and
//! `\\` for these two bytes. All other bytes are as they are, so a path need not be UTF-8. The sum is FNV-1a (64 bits)
//! of all bytes before its line: it finds cut and damaged files, not forged ones. A manifest needs no trust: all it can
//! do is to have files read that its reader may read.

use elf::Identity;
use model::{Bytes, Error, Exit, FileOffset, Result};
use os::replace::{Existing, Rights, write_whole};
use serde::{Serialize, Serializer};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const HEAD: &[u8] = b"thaw preload manifest ";
const VERSION: &[u8] = b"1";
/// Larger files are not manifests: the reads of a browser take 40 kB.
const LARGEST: u64 = 64 << 20;

/// `readahead(2)` cuts a longer call to the larger of a request and the read-ahead of the disk, and says nothing: so
/// that nothing is left out, no read is longer than what every disk takes.
pub const LONGEST: Bytes = Bytes(512 << 10);

/// In which order the data of files is read. Metadata comes first in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// By place on the disk, for disks with an arm.
    Disk,
    /// As the program needs it.
    #[default]
    FirstUse,
}

impl Order {
    /// The word in manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::FirstUse => "first-use",
        }
    }

    /// The order of this word.
    pub fn named(word: &str) -> Option<Self> {
        [Self::Disk, Self::FirstUse].into_iter().find(|order| order.name() == word)
    }
}

/// What is read before a start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Manifest {
    /// Where it comes from.
    pub about: About,
    /// Files in the order in which they are opened: by device and inode number.
    pub files: Vec<Entry>,
    /// Reads in the order in which they are asked for.
    pub reads: Vec<Read>,
}

/// Where a manifest comes from: for people, and for a report on why it does not fit here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct About {
    /// When it was made, nanoseconds since 1970.
    pub made_unix_ns: u64,
    /// Version of thaw that made it.
    pub thaw: String,
    /// Name of the machine that it was made on.
    pub host: String,
    /// Name of the recording that it was made from.
    pub recording: String,
    /// How the needed ranges are known: `exact`, `asked` or `cached`.
    pub source: String,
    /// The disk that it was planned for.
    pub disk: String,
    /// Gaps up to this long are read too.
    pub gap: Bytes,
    /// The order of the reads.
    pub order: Order,
}

/// What kind of file it is, which decides what makes it stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A file that stays as it is until it is replaced: stale with another size or date.
    Regular,
    /// A file that the program itself writes: read as far as it still goes, whatever its size and date.
    Changing,
    /// The block device under the file system of the file that is named: its ranges are the file system's metadata.
    /// Stale where that file has another inode number.
    Device,
}

/// A file of which something is read, as it was when the manifest was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// What makes it stale.
    pub kind: Kind,
    /// Number of the file system's device, as `makedev` packs it; not compared: it changes with every boot.
    pub dev: u64,
    /// Inode number; compared for a [`Kind::Device`] only: of other files a copy serves as well.
    pub ino: u64,
    /// Size; of a [`Kind::Device`] that of the device.
    pub size: Bytes,
    /// Date of the last change, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// What it is known by where only the date differs. `None`: the file changes, or the manifest is of a version that
    /// did not know.
    #[serde(serialize_with = "as_text")]
    pub identity: Option<Identity>,
    /// Where it is; absolute.
    pub path: PathBuf,
}

/// Place of a file in [`Manifest::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct FileIndex(pub u32);

/// A range that is asked for by one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Read {
    /// Of which file, by its place in [`Manifest::files`].
    pub file: FileIndex,
    /// From which byte of the file.
    pub offset: FileOffset,
    /// How many bytes; above 0, at most [`LONGEST`].
    pub len: Bytes,
    /// Place in the order of first use, from 0: what is read if there is no room for all.
    pub rank: u32,
}

impl Manifest {
    /// The file of a read.
    pub fn file(&self, read: &Read) -> &Entry {
        &self.files[read.file.0 as usize]
    }

    /// Forgets files, and what is read of them.
    pub fn retain(&mut self, keep: impl Fn(&Entry) -> bool) {
        let mut left = 0;
        let kept = |entry: &Entry| {
            keep(entry).then(|| {
                left += 1;
                FileIndex(left - 1)
            })
        };
        let places: Vec<_> = self.files.iter().map(kept).collect();
        self.reads.retain_mut(|read| match places[read.file.0 as usize] {
            Some(place) => {
                read.file = place;
                true
            }
            None => false,
        });
        let mut places = places.into_iter();
        self.files.retain(|_| places.next().flatten().is_some());
    }

    /// Bytes in all reads.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.reads.iter().fold(0, |sum, read| sum.saturating_add(read.len.0)))
    }

    /// The manifest as the bytes of a file, its sum included.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = [HEAD, VERSION, b"\n"].concat();
        let about = &self.about;
        let (made, gap) = (about.made_unix_ns.to_string(), about.gap.0.to_string());
        for (key, value) in [
            ("made_unix_ns", made.as_str()),
            ("thaw", &about.thaw),
            ("host", &about.host),
            ("recording", &about.recording),
            ("source", &about.source),
            ("disk", &about.disk),
            ("gap", &gap),
            ("order", about.order.name()),
        ] {
            out.extend_from_slice(format!("about {key} ").as_bytes());
            escape(value.as_bytes(), &mut out);
            out.push(b'\n');
        }
        for file in &self.files {
            let identity = file.identity.as_ref().map_or_else(|| "-".to_owned(), Identity::to_string);
            let Entry { dev, ino, size, mtime_ns, .. } = file;
            let fields = format!("file {} {dev} {ino} {} {mtime_ns} {identity} ", file.kind.name(), size.0);
            out.extend_from_slice(fields.as_bytes());
            escape(file.path.as_os_str().as_bytes(), &mut out);
            out.push(b'\n');
        }
        let mut reads = String::with_capacity(self.reads.len() * 32);
        for Read { file, offset, len, rank } in &self.reads {
            // Writing to a String cannot fail.
            let _ = writeln!(reads, "read {} {} {} {rank}", file.0, offset.0, len.0);
        }
        out.extend_from_slice(reads.as_bytes());
        let sum = sum(&out);
        out.extend_from_slice(format!("sum {sum:016x}\n").as_bytes());
        out
    }

    /// From the bytes of a file.
    ///
    /// # Errors
    /// It is not a manifest, is of another version, cut or damaged; in words, with the line.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        let rest = bytes.strip_prefix(HEAD).ok_or("it is not a preload manifest")?;
        let (version, _) = rest.split_at(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()));
        if version != VERSION {
            return Err(format!(
                "it is of version {}, and this thaw reads version 1",
                String::from_utf8_lossy(version)
            ));
        }
        let body = checked(bytes)?;
        let mut manifest = Self::default();
        for (number, line) in body.split(|byte| *byte == b'\n').enumerate().skip(1) {
            manifest.line(line).ok_or_else(|| format!("line {} makes no sense", number + 1))?;
        }
        Ok(manifest)
    }

    fn line(&mut self, line: &[u8]) -> Option<()> {
        let (kind, rest) = word(line)?;
        match kind {
            b"about" => {
                let (key, value) = word(rest)?;
                self.about.set(key, String::from_utf8_lossy(&unescape(value)?).into_owned())
            }
            b"file" => {
                self.files.push(Entry::parse(rest)?);
                Some(())
            }
            b"read" => {
                let (file, rest) = number::<u32>(rest)?;
                let (offset, rest) = number::<u64>(rest)?;
                let (len, rank) = number::<u64>(rest)?;
                let rank = digits(rank)?.try_into().ok()?;
                // A longer one would be cut by the kernel without a word.
                let whole = (1..=LONGEST.0).contains(&len) && offset.checked_add(len)? <= i64::MAX as u64;
                (whole && (file as usize) < self.files.len()).then_some(())?;
                self.reads.push(Read { file: FileIndex(file), offset: FileOffset(offset), len: Bytes(len), rank });
                Some(())
            }
            _ => None,
        }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`Exit::Usage`]: the file is not there. [`Exit::Data`]: it is no good manifest.
    pub fn read(path: &Path) -> Result<Self> {
        let bad = |cause: Box<dyn std::error::Error + Send + Sync>| {
            Error::on(Exit::Data, "cannot read the preload manifest", path)
                .because(cause)
                .hint("make one with `thaw preload make RECORDING -o FILE`")
        };
        let unreadable = |cause: std::io::Error| Error { exit: Exit::of_unreadable(&cause), ..bad(cause.into()) };
        let meta = std::fs::metadata(path).map_err(unreadable)?;
        if !meta.is_file() || meta.len() > LARGEST {
            return Err(bad("it is not a preload manifest".into()));
        }
        let bytes = std::fs::read(path).map_err(unreadable)?;
        Self::parse(&bytes).map_err(|why| bad(why.into()))
    }

    /// Writes it so that there is either the whole new file or what was there before.
    ///
    /// # Errors
    /// Something else than a manifest is in the way, or the file cannot be written.
    pub fn write(&self, path: &Path, existing: Existing) -> Result<()> {
        // What is no file is refused when it is written; reading a pipe would wait for ever.
        if path.is_file() {
            let mut begin = Vec::new();
            let read = File::open(path).and_then(|file| file.take(HEAD.len() as u64).read_to_end(&mut begin));
            if read.is_err() || !begin.is_empty() && begin != HEAD {
                return Err(Error::on(Exit::Usage, "will not replace what is not a preload manifest:", path)
                    .hint("choose another name with -o"));
            }
        }
        write_whole(path, &self.to_bytes(), Rights::Usual, existing)
    }
}

fn as_text<S: Serializer>(identity: &Option<Identity>, to: S) -> std::result::Result<S::Ok, S::Error> {
    identity.as_ref().map(Identity::to_string).serialize(to)
}

impl About {
    /// Keys that this version does not know are for later ones.
    fn set(&mut self, key: &[u8], value: String) -> Option<()> {
        match key {
            b"made_unix_ns" => self.made_unix_ns = value.parse().ok()?,
            b"thaw" => self.thaw = value,
            b"host" => self.host = value,
            b"recording" => self.recording = value,
            b"source" => self.source = value,
            b"disk" => self.disk = value,
            b"gap" => self.gap = Bytes(value.parse().ok()?),
            b"order" => self.order = Order::named(&value)?,
            _ => {}
        }
        Some(())
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Changing => "changing",
            Self::Device => "device",
        }
    }
}

impl Entry {
    fn parse(fields: &[u8]) -> Option<Self> {
        let (kind, rest) = word(fields)?;
        let kind = [Kind::Regular, Kind::Changing, Kind::Device].into_iter().find(|it| it.name().as_bytes() == kind)?;
        let (dev, rest) = number(rest)?;
        let (ino, rest) = number(rest)?;
        let (size, rest) = number(rest)?;
        let (mtime_ns, rest) = word(rest)?;
        let mtime_ns = std::str::from_utf8(mtime_ns).ok()?.parse().ok()?;
        let (identity, path) = word(rest)?;
        let identity = match identity {
            b"-" => None,
            text => Some(std::str::from_utf8(text).ok()?.parse().ok()?),
        };
        let path = unescape(path)?;
        if !path.starts_with(b"/") || path.contains(&0) {
            return None;
        }
        let path = OsString::from_vec(path).into();
        Some(Self { kind, dev, ino, size: Bytes(size), mtime_ns, identity, path })
    }

    /// What it is, for people.
    pub fn shown(&self) -> String {
        shown(self.kind, &self.path)
    }
}

/// Its path; a file that stands for its file system is not what is read.
pub(crate) fn shown(kind: Kind, path: &Path) -> String {
    match kind {
        Kind::Device => format!("metadata on the disk of {}", model::shown(path)),
        Kind::Regular | Kind::Changing => model::shown(path),
    }
}

/// What stands before the line of the sum, without its last line end.
fn checked(bytes: &[u8]) -> std::result::Result<&[u8], String> {
    let cut = "its end is missing: it was cut off";
    let line = bytes.strip_suffix(b"\n").ok_or(cut)?;
    let start = line.iter().rposition(|byte| *byte == b'\n').ok_or(cut)? + 1;
    let stored = line[start..].strip_prefix(b"sum ").and_then(|hex| std::str::from_utf8(hex).ok()).ok_or(cut)?;
    match u64::from_str_radix(stored, 16) == Ok(sum(&bytes[..start])) {
        true => Ok(&bytes[..start - 1]),
        false => Err("it is damaged: its sum is another one".to_owned()),
    }
}

/// FNV-1a, 64 bits.
fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// The first word and what comes after its blank.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = line.iter().position(|byte| *byte == b' ')?;
    Some((&line[..at], &line[at + 1..]))
}

/// A number and what comes after its blank.
fn number<T: TryFrom<u64>>(line: &[u8]) -> Option<(T, &[u8])> {
    let (word, rest) = word(line)?;
    Some((T::try_from(digits(word)?).ok()?, rest))
}

/// A number of decimal digits. There are thousands in a manifest, and the program waits.
fn digits(word: &[u8]) -> Option<u64> {
    let append = |number: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then_some(byte & 0x0f)?;
        number.checked_mul(10)?.checked_add(digit.into())
    };
    (!word.is_empty()).then(|| word.iter().try_fold(0, append)).flatten()
}

fn escape(plain: &[u8], out: &mut Vec<u8>) {
    for byte in plain {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            other => out.push(*other),
        }
    }
}

fn unescape(text: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'n' => b'\n',
                b'\\' => b'\\',
                _ => return None,
            },
            other => *other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests;
