//! A file of records: written whole now and then, appended to in between. What of it is damaged is set aside, never
//! thrown away; what was written and not synced is known.

use crate::disk::{About, Disk};
use crate::frame::{self, Found, Head};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// Within the names of files that were set aside: `NAME.damaged-N`.
pub const DAMAGED: &str = ".damaged-";
/// Bytes of a file that are read for its head; more if its label is longer.
const BEGIN: usize = 512;

/// What a file held.
pub struct Loaded {
    /// Its bytes, from the first that had not been read before.
    pub bytes: Vec<u8>,
    /// The records among them. The first one of a whole file is its head.
    pub found: Found,
    /// What a whole file begins with; `None`: these bytes were appended to one that was read before, or it is no file
    /// of ours.
    pub head: Option<Head>,
    /// Where the bytes behind the readable prefix were put, if records lie among them.
    pub aside: Option<String>,
}

impl Loaded {
    /// The contents of the readable prefix without the head.
    pub fn contents(&self) -> impl Iterator<Item = &[u8]> {
        let of_prefix = self.found.frames.iter().take(self.found.prefix).skip(usize::from(self.head.is_some()));
        of_prefix.map(|frame| &self.bytes[frame.content.clone()])
    }
}

/// A file that is appended to.
pub struct Book {
    name: String,
    about: About,
    salt: u32,
    next: u64,
    /// What was appended is where it should be, and a sync can be believed.
    sound: bool,
}

impl Book {
    /// Reads a file; `None`: there is none. The first record may be no head: then nothing of it is in the prefix.
    /// `mend`: nobody else writes it now, and what lies behind the readable prefix is cut off, after it was copied to
    /// another name if there are records in it.
    ///
    /// # Errors
    /// The disk.
    pub fn load(disk: &dyn Disk, name: &str, mend: bool) -> io::Result<Option<(Book, Loaded)>> {
        disk.forget(name);
        let Some(about) = disk.about(name)? else { return Ok(None) };
        // All of it is read: in as few requests as can be, and at once.
        disk.will_need(name, 0, about.len);
        let mut bytes = vec![0; usize::try_from(about.len).map_err(|_| io::ErrorKind::FileTooLarge)?];
        let read = disk.read(name, 0, &mut bytes)?;
        bytes.truncate(read);
        let (head, found) = frame::open(&bytes).map_or((None, Found::default()), |(head, found)| (Some(head), found));
        let mut aside = None;
        if mend && found.len < bytes.len() {
            if found.frames.len() > found.prefix || head.is_none() {
                aside = Some(set_aside(disk, name, &bytes[found.len..])?);
            }
            disk.truncate(name, found.len as u64)?;
        }
        let next = found.prefix as u64;
        let about = About { len: found.len as u64, ..about };
        let (salt, sound) = (head.as_ref().map_or(0, |head| head.salt), head.is_some());
        let book = Book { name: name.into(), about, salt, next, sound };
        Ok(Some((book, Loaded { bytes, found, head, aside })))
    }

    /// A file that the caller has read by itself, in the order that suits it, and found whole to its end: `next` is the
    /// number of the next record.
    pub fn resume(name: &str, about: About, head: &Head, next: u64) -> Book {
        Book { name: name.into(), about, salt: head.salt, next, sound: true }
    }

    /// A file that is not there yet: [`Book::replace`] makes it.
    pub fn new(name: &str) -> Book {
        Book { name: name.into(), about: About::default(), salt: 0, next: 0, sound: false }
    }

    /// Its length.
    pub fn len(&self) -> u64 {
        self.about.len
    }

    /// There is nothing in it yet.
    pub fn is_empty(&self) -> bool {
        self.about.len == 0
    }

    /// From which its sums begin.
    pub fn salt(&self) -> u32 {
        self.salt
    }

    /// It can be appended to. If not, a write or a sync failed, and [`Book::replace`] makes it sound.
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// Reads what other processes have done to it since it was read or appended to last: `None`, nothing. A file that
    /// is gone is not sound: it has to be written anew.
    ///
    /// # Errors
    /// The disk.
    pub fn others(&mut self, disk: &dyn Disk) -> io::Result<Option<Loaded>> {
        let Some(now) = disk.about(&self.name)? else {
            disk.forget(&self.name);
            (self.about, self.sound) = (About::default(), false);
            return Ok(None);
        };
        if now.id != self.about.id || now.len < self.about.len || !self.is_the_same(disk)? {
            let loaded = Book::load(disk, &self.name, false)?;
            return Ok(loaded.map(|(book, loaded)| {
                *self = book;
                loaded
            }));
        }
        if now == self.about {
            return Ok(None);
        }
        let mut bytes = vec![0; (now.len - self.about.len) as usize];
        let read = disk.read(&self.name, self.about.len, &mut bytes)?;
        bytes.truncate(read);
        let found = frame::scan(&bytes, 0, self.next, self.salt);
        self.about.len += found.len as u64;
        self.next += found.prefix as u64;
        Ok((found.prefix > 0).then_some(Loaded { bytes, found, head: None, aside: None }))
    }

    /// The file that bears the name has the salt that is known of it. One that came later may have the number of one
    /// that is gone.
    fn is_the_same(&self, disk: &dyn Disk) -> io::Result<bool> {
        let mut first = [0; frame::HEAD + frame::SALT.end];
        let read = disk.read(&self.name, 0, &mut first)?;
        Ok(read < first.len() || first[frame::HEAD..][frame::SALT] == self.salt.to_le_bytes())
    }

    /// Appends records, in one write. It fails whole: what of it was written is cut off, or the file is not sound from
    /// then on.
    ///
    /// # Errors
    /// The disk; it is not sound.
    pub fn append(&mut self, disk: &dyn Disk, contents: &[&[u8]]) -> io::Result<u64> {
        if !self.sound {
            return Err(io::Error::other("the file has to be written anew: a write or sync of it failed"));
        }
        let mut bytes = Vec::with_capacity(contents.iter().map(|content| content.len() + frame::HEAD).sum());
        for (number, content) in (self.next..).zip(contents) {
            frame::write(&mut bytes, self.salt, number, content);
        }
        if let Err(error) = disk.write(&self.name, self.about.len, &[&bytes]) {
            let there = disk.about(&self.name).ok().flatten().unwrap_or_default();
            self.sound = there == self.about || disk.truncate(&self.name, self.about.len).is_ok();
            return Err(error);
        }
        self.about.len += bytes.len() as u64;
        self.next += contents.len() as u64;
        Ok(bytes.len() as u64)
    }

    /// Returns when all that was appended is on the medium.
    ///
    /// # Errors
    /// The disk: then nobody knows what of it is there, and it is not sound.
    pub fn sync(&mut self, disk: &dyn Disk) -> io::Result<()> {
        let done = disk.sync(&self.name);
        self.sound &= done.is_ok();
        done
    }

    /// Writes the file anew, beside the old one, syncs it and puts it in its place: it is the old one or the new one at
    /// every moment. Time and salt of `head` are filled in.
    ///
    /// # Errors
    /// The disk: then the old one is still there.
    pub fn replace(&mut self, disk: &dyn Disk, mut head: Head, contents: &[&[u8]]) -> io::Result<u64> {
        let beside = format!("{}.new", self.name);
        head.made_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        // Random: its keys come from the system.
        head.salt = RandomState::new().build_hasher().finish() as u32;
        let mut bytes = Vec::with_capacity(contents.iter().map(|content| content.len() + frame::HEAD).sum());
        frame::write(&mut bytes, 0, 0, &head.bytes());
        for (number, content) in (1..).zip(contents) {
            frame::write(&mut bytes, head.salt, number, content);
        }
        disk.forget(&beside);
        let write = || -> io::Result<About> {
            if disk.about(&beside)?.is_some() {
                disk.truncate(&beside, 0)?;
            }
            disk.write(&beside, 0, &[&bytes])?;
            disk.sync(&beside)?;
            let about = disk.about(&beside)?.ok_or(io::ErrorKind::NotFound)?;
            disk.rename(&beside, &self.name)?;
            Ok(about)
        };
        match write() {
            Ok(about) => {
                (self.about, self.salt, self.next, self.sound) = (about, head.salt, contents.len() as u64 + 1, true)
            }
            Err(error) => {
                let _ = disk.unlink(&beside);
                return Err(error);
            }
        }
        disk.sync_names().inspect_err(|_| self.sound = false)?;
        Ok(bytes.len() as u64)
    }
}

/// The head of a file. `None`: it has none that can be read, or there is no such file.
///
/// # Errors
/// The disk.
pub fn head(disk: &dyn Disk, name: &str) -> io::Result<Option<Head>> {
    let Some(about) = disk.about(name)? else { return Ok(None) };
    let mut bytes = vec![0; BEGIN.min(about.len as usize)];
    let mut read = disk.read(name, 0, &mut bytes)?;
    bytes.truncate(read);
    let whole = frame::length(&bytes).filter(|whole| *whole > read && *whole as u64 <= about.len);
    if let Some(whole) = whole {
        bytes.resize(whole, 0);
        read += disk.read(name, read as u64, &mut bytes[read..])?;
        bytes.truncate(read);
    }
    Ok(frame::at(&bytes, 0, 0).filter(|first| first.number == 0).and_then(|first| Head::read(&bytes[first.content])))
}

/// A name for what of a file is set aside.
fn aside_of(disk: &dyn Disk, name: &str) -> io::Result<String> {
    let taken = disk.list()?;
    let free = (1..).map(|number| format!("{name}{DAMAGED}{number}"));
    { free }.find(|aside| taken.iter().all(|file| file.0 != *aside)).ok_or(io::ErrorKind::AlreadyExists.into())
}

/// Keeps bytes of a file under another name, which is returned.
///
/// # Errors
/// The disk.
pub fn set_aside(disk: &dyn Disk, name: &str, bytes: &[u8]) -> io::Result<String> {
    let aside = aside_of(disk, name)?;
    disk.write(&aside, 0, &[bytes])?;
    disk.sync(&aside)?;
    disk.sync_names()?;
    Ok(aside)
}

/// Gives a whole file another name, which is returned.
///
/// # Errors
/// The disk.
pub fn move_aside(disk: &dyn Disk, name: &str) -> io::Result<String> {
    let aside = aside_of(disk, name)?;
    disk.rename(name, &aside)?;
    disk.sync_names()?;
    Ok(aside)
}
