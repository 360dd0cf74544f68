//! Directories and archives: many small files into one, and back. Nothing is written outside of the target.

use super::apply::{Target, build, write};
use super::entry::{content, deflate, inflate_rate};
use super::plan::{Compression, Costs, Options, Plan, plan};
use super::usage::used_by_names;
use super::verify::verify;
use super::zip::{CENTRAL, END, EntryId, LOCAL, Zip, parse, wrong_name};
use model::{Bytes, Error, Exit, Result};
use os::file::name_beside;
use os::filesystem::current;
use os::journal::{self, Undo};
use os::replace::{Rights, move_to, no_place};
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// An archive that was made of a directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Packed {
    /// Files and empty directories.
    pub entries: u64,
    /// Bytes of the files.
    pub content: Bytes,
    /// Size of the archive.
    pub size: Bytes,
    /// Read-ahead hint.
    pub hint: Bytes,
    /// Entries that are used.
    pub used: u64,
    /// Used names that are not in the directory.
    pub unknown: Vec<String>,
}

/// A directory that was made of an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unpacked {
    /// How many files.
    pub files: u64,
    /// Bytes of their content, not compressed.
    pub content: Bytes,
}

fn failed(what: &str, path: &Path, cause: io::Error) -> Error {
    Error::on(Exit::Machine, what, path).because(cause)
}

/// Makes an archive of all that is below a directory; what `names` says first, the rest by name. With
/// [`Compression::Keep`] and [`Compression::Deflate`] files are deflated where that makes them smaller; with
/// [`Compression::Auto`] what is used only where that is read and inflated faster, by this machine's rate, which is
/// measured on the archive. Links and special files are refused: an archive cannot hold them so that every reader
/// understands them.
///
/// # Errors
/// A file that cannot be read, or is of another kind; more than a zip archive holds; the target.
pub fn pack(directory: &Path, names: &[&str], options: &Options, target: Target<'_>) -> Result<Packed> {
    target.check()?;
    if let Some(cause) = fs::read_dir(directory).err() {
        return Err(Error::on(Exit::Usage, "cannot list", directory).because(cause));
    }
    let mut files = Vec::new();
    // A target inside of the directory is not packed into itself.
    let omit = fs::canonicalize(target.path()).ok();
    list(directory, &mut Vec::new(), omit.as_deref(), &mut files)?;
    if files.len() >= usize::from(u16::MAX) {
        return Err(Error::on(Exit::Usage, "over 65,534 files, which needs zip64:", directory));
    }
    let (plain, content) = plain(&files, options.compression == Compression::Store)?;
    let zip = parse(&plain)?;
    let uses = used_by_names(&zip, names.iter().copied());
    let compression = match options.compression {
        Compression::Auto(costs) => {
            let inflate_rate = inflate_rate(&zip)?.unwrap_or(costs.inflate_rate);
            Compression::Auto(Costs { inflate_rate, ..costs })
        }
        _ => Compression::Keep,
    };
    let plan: Plan = plan(&zip, &uses, &Options { compression, ..*options })?;
    let fresh = target.fresh()?;
    write(&fresh, |out| build(&zip, &plan, out))?;
    verify(&zip, &parse(&fresh.content()?)?)?;
    fresh.grant(Rights::Usual)?;
    fresh.place()?;
    let (size, hint, used) = (plan.len, plan.hint, plan.used as u64);
    Ok(Packed { entries: zip.entries.len() as u64, content, size, hint, used, unknown: uses.unknown })
}

/// A file, or an empty directory, and its name in the archive.
struct Found {
    name: Vec<u8>,
    path: PathBuf,
    about: Metadata,
}

impl Found {
    /// Its bytes. Who may write there must not have put a link to something else in its place since.
    fn read(&self) -> io::Result<Vec<u8>> {
        let mut file = os::cache::open_quietly(&self.path)?;
        let now = file.metadata()?;
        if (now.dev(), now.ino()) != (self.about.dev(), self.about.ino()) {
            return Err(io::Error::other("another file took its name meanwhile"));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

fn list(directory: &Path, prefix: &mut Vec<u8>, omit: Option<&Path>, found: &mut Vec<Found>) -> Result<()> {
    let entries = fs::read_dir(directory).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let mut entries = entries.map_err(|cause| failed("cannot list", directory, cause))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let about = path.symlink_metadata().map_err(|cause| failed("cannot look at", &path, cause))?;
        if omit.is_some() && fs::canonicalize(&path).ok().as_deref() == omit {
            continue;
        }
        let before = prefix.len();
        prefix.extend(entry.file_name().as_bytes());
        if about.is_dir() {
            prefix.push(b'/');
            let already = found.len();
            list(&path, prefix, omit, found)?;
            if found.len() == already {
                found.push(Found { name: prefix.clone(), path, about });
            }
        } else if about.is_file() {
            found.push(Found { name: prefix.clone(), path, about });
        } else {
            let hint = match about.is_symlink() {
                true => "replace the link by what it leads to, or leave it out",
                false => "leave it out",
            };
            return Err(Error::on(Exit::Usage, "an archive cannot hold what is no regular file:", &path).hint(hint));
        }
        prefix.truncate(before);
    }
    Ok(())
}

/// A plain archive in memory, and how much content it has.
fn plain(files: &[Found], store: bool) -> Result<(Vec<u8>, Bytes)> {
    let (mut bytes, mut records, mut content) = (Vec::new(), Vec::new(), Bytes(0));
    for file in files {
        os::interrupt::check()?;
        let data = if file.about.is_dir() {
            Vec::new()
        } else {
            file.read().map_err(|cause| failed("cannot read", &file.path, cause))?
        };
        content += Bytes(data.len() as u64);
        let packed = if store { None } else { Some(deflate(&data)).filter(|packed| packed.len() < data.len()) };
        let kept = packed.as_deref().unwrap_or(&data);
        let (needs, method) = if packed.is_some() { (20_u16, 8_u16) } else { (10, 0) };
        let room = u64::from(u32::MAX).saturating_sub((bytes.len() + records.len()) as u64);
        if data.len() as u64 >= room || file.name.len() > usize::from(u16::MAX) {
            return Err(Error::on(Exit::Usage, "too large for a zip archive:", &file.path));
        }
        // Names are UTF-8 by flag; others are bytes that each reader takes as it likes.
        let flags: u16 = if std::str::from_utf8(&file.name).is_ok() && !file.name.is_ascii() { 1 << 11 } else { 0 };
        let (time, date) = dos_time(file.about.mtime());
        let mut common = Vec::with_capacity(26);
        for half in [needs, flags, method, time, date] {
            common.extend(half.to_le_bytes());
        }
        for word in [crc32fast::hash(&data), kept.len() as u32, data.len() as u32] {
            common.extend(word.to_le_bytes());
        }
        common.extend((file.name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        let offset = (bytes.len() as u32).to_le_bytes();
        bytes.extend(LOCAL.to_le_bytes());
        bytes.extend(&common);
        bytes.extend(&file.name);
        bytes.extend(kept);
        // Made by Unix, version 2.0.
        records.extend(CENTRAL.to_le_bytes());
        records.extend([20, 3]);
        records.extend(&common);
        records.extend([0; 6]);
        records.extend((file.about.mode() << 16 | u32::from(file.about.is_dir()) << 4).to_le_bytes());
        records.extend(offset);
        records.extend(&file.name);
    }
    let (start, count) = ((bytes.len() as u32).to_le_bytes(), (files.len() as u16).to_le_bytes());
    bytes.extend(&records);
    bytes.extend(END.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(count);
    bytes.extend(count);
    bytes.extend((records.len() as u32).to_le_bytes());
    bytes.extend(start);
    bytes.extend([0, 0]);
    Ok((bytes, content))
}

/// Time and date of the format, in UTC: two seconds fine, from 1980 to 2107.
fn dos_time(unix: i64) -> (u16, u16) {
    let (days, second) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    // H. Hinnant, "chrono-compatible low-level date algorithms": days since the beginning of an era of 400 years from
    // March 1.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    match year {
        ..1980 => (0, 1 << 5 | 1),
        1980..=2107 => {
            let time = ((second / 3600) << 11) | ((second / 60 % 60) << 5) | (second % 60 / 2);
            (time as u16, ((year - 1980) << 9 | month << 5 | day) as u16)
        }
        _ => (23 << 11 | 59 << 5 | 29, 127 << 9 | 12 << 5 | 31),
    }
}

/// Writes all entries below a directory that is not there yet, or is empty. It appears whole or not at all.
///
/// # Errors
/// An obstacle (nothing is written then); a symbolic link; a damaged entry; a directory that is not empty.
pub fn unpack(zip: &Zip<'_>, directory: &Path) -> Result<Unpacked> {
    zip.must_be_plain(super::form::Signed::Accept)?;
    let taken = fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_some());
    if taken || directory.symlink_metadata().is_ok_and(|about| !about.is_dir()) {
        return Err(Error::on(Exit::Usage, "there is already something in", directory).hint("name a new directory"));
    }
    for entry in &zip.entries {
        let kind = entry.unix_mode().unwrap_or(0) & libc::S_IFMT;
        let is_usual = kind == 0 || kind == libc::S_IFREG || kind == libc::S_IFDIR;
        if !is_usual {
            let what =
                format!("the archive is not unpacked: the entry '{}' is a link or a special file", entry.shown());
            return Err(Error::new(Exit::Data, what, ""));
        }
    }
    let fresh =
        std::path::absolute(name_beside(directory)).map_err(|cause| failed("cannot write to", directory, cause))?;
    let mut unpacked = Unpacked::default();
    let _guard = journal::hold(Undo::RemoveTree { path: fresh.clone() }, || {
        fs::create_dir(&fresh).map_err(|cause| no_place(directory, cause))
    })?;
    for id in zip.ids() {
        os::interrupt::check()?;
        unpack_entry(zip, id, &fresh, &mut unpacked)?;
    }
    // The content and the names of all files, by one call: it gets its name when all of it is on the disk.
    let synced = File::open(&fresh).and_then(|file| current().sync_everything(&file));
    synced.map_err(|cause| failed("cannot write", &fresh, cause))?;
    let placed = move_to(&fresh, directory);
    placed.map_err(|cause| failed("cannot create", directory, cause))?;
    Ok(unpacked)
}

fn unpack_entry(zip: &Zip<'_>, id: EntryId, fresh: &Path, unpacked: &mut Unpacked) -> Result<()> {
    let entry = zip.entry(id);
    debug_assert!(wrong_name(entry.name).is_none(), "an obstacle");
    let path = fresh.join(OsStr::from_bytes(entry.name));
    let cannot = |cause| failed("cannot unpack", &path, cause);
    if entry.is_directory() {
        return fs::create_dir_all(&path).map_err(cannot);
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(cannot)?;
    }
    let mode = entry.unix_mode().map_or(0o644, |mode| mode & 0o777 | 0o600);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(cannot)?;
    let mut written = Ok(());
    content(zip, entry, |piece| {
        if written.is_ok() {
            written = file.write_all(piece);
        }
    })?;
    written.map_err(cannot)?;
    unpacked.files += 1;
    unpacked.content += Bytes(u64::from(entry.size));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let date = |year: u16, month: u16, day: u16| (year - 1980) << 9 | month << 5 | day;
        // `date -u -d @N`
        for (unix, expected) in [
            (0, (0, date(1980, 1, 1))),
            (315_532_800, (0, date(1980, 1, 1))),
            (951_782_399, (23 << 11 | 59 << 5 | 29, date(2000, 2, 28))),
            (951_782_400, (0, date(2000, 2, 29))),
            (1_709_208_000, (12 << 11, date(2024, 2, 29))),
            (1_735_689_599, (23 << 11 | 59 << 5 | 29, date(2024, 12, 31))),
            (i64::MAX / 1_000_000, (23 << 11 | 59 << 5 | 29, date(2107, 12, 31))),
        ] {
            assert_eq!(dos_time(unix), expected, "{unix}");
        }
    }
}
