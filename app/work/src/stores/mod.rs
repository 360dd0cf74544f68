//! Files of records (`embed/log`: web storage, sessions, cookies): what they are, whether all of them can be read, and
//! putting a damaged one in order. Reading disturbs no program that uses them.

pub mod bench;
pub mod contents;
pub mod import;

use model::{Bytes, Error, Exit, Result, shown};
use serde::Serialize;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thaw_log::book::{self, Book, DAMAGED};
use thaw_log::disk::{Disk, Folder};

/// The program that `thaw store serve` starts. It lies beside thaw.
///
/// # Errors
/// It does not.
pub fn serve_program() -> Result<PathBuf> {
    crate::own::beside("thaw-storage", "the server of web storage", "thawlab-storage")
}

/// What `thaw store ls` and `verify` tell.
#[derive(Debug, Serialize)]
pub struct StoreDocument {
    /// `thaw.store/1`.
    pub schema: &'static str,
    /// By name.
    pub files: Vec<StoreFile>,
}

/// A file.
#[derive(Debug, Serialize)]
pub struct StoreFile {
    /// Inside its directory.
    pub name: String,
    /// What it holds: `web storage`, `session`, `cookies`, or the letters of its head; `None`: it has no head that can
    /// be read.
    pub kind: Option<String>,
    /// What its store calls it: an origin and its partition, a version.
    pub label: String,
    /// How often it has been written anew.
    pub generation: u64,
    /// When that was last, milliseconds since 1970.
    pub made_unix_ms: u64,
    /// Records that can be read one after the other from the first on, without the head.
    pub records: u64,
    /// Its length.
    pub bytes: Bytes,
    /// Records that can be read behind damage.
    pub records_behind: u64,
    /// Bytes that are no record: from, and to.
    pub damage: Vec<(u64, u64)>,
    /// Bytes at its end that are no record: a write that the power cut, or one that is under way.
    pub torn: u64,
    /// Was kept by a repair; it is nothing that a store reads.
    pub is_aside: bool,
}

impl StoreFile {
    /// All that was written to it can be read, but for a write that did not end.
    pub fn is_whole(&self) -> bool {
        self.is_aside || (self.kind.is_some() && self.damage.is_empty())
    }
}

/// What `thaw store repair` did to a file.
#[derive(Debug, Serialize)]
pub struct Repaired {
    /// Inside its directory.
    pub name: String,
    /// Bytes that were cut off; of a file that was made anew, those that could not be read.
    pub cut: Bytes,
    /// The file that holds them now. `None`: it was a write that did not end.
    pub aside: Option<String>,
    /// What could be read was written anew, and the whole file kept aside.
    pub made_anew: bool,
}

/// What `thaw store repair` tells.
#[derive(Debug, Serialize)]
pub struct RepairDocument {
    /// `thaw.store-repair/1`.
    pub schema: &'static str,
    /// Those in which there was something to do.
    pub repaired: Vec<Repaired>,
}

/// A directory of files, or one of them.
pub struct Stores {
    path: PathBuf,
    folder: PathBuf,
    disk: Folder,
    names: Vec<String>,
}

/// The kind of sessions.
const SESSION: [u8; 4] = thaw_session::files::KIND;
/// Names that no store gives to its records.
const NOT_RECORDS: [&str; 2] = ["lock", "turn"];
/// The end of a name under which a file is written, before it has its own.
const UNFINISHED: &str = ".new";

impl Stores {
    /// Looks for the files.
    ///
    /// # Errors
    /// There is nothing of this name, or nothing that may be a file of records.
    pub fn open(path: &Path) -> Result<Self> {
        let unread = |cause: io::Error| Error::on(Exit::of_unreadable(&cause), "cannot look into", path).because(cause);
        let about = path.symlink_metadata().map_err(unread)?;
        let not = |why: &str| {
            let error = Error::on(Exit::Usage, "cannot look into", path).because(why);
            let inside = path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path());
            match inside.filter(|inside| inside.is_dir()).min() {
                Some(inside) => error.hint(format!("name one of the directories in it, such as {}", shown(&inside))),
                None => error.hint("name a directory of web storage, of a session or of cookies, or a file of one"),
            }
        };
        let (folder, mut names) = if about.is_file() {
            let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| not("its name is not UTF-8"))?;
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            (folder.to_owned(), vec![name.to_owned()])
        } else if path.is_dir() {
            let all = Folder::new(path).list().map_err(unread)?;
            let is_one = |name: &String| !NOT_RECORDS.contains(&&name[..]) && !name.ends_with(UNFINISHED);
            (path.to_owned(), all.into_iter().map(|(name, _)| name).filter(is_one).collect())
        } else {
            return Err(not("it is neither a directory nor a file"));
        };
        names.sort();
        let disk = Folder::new(&folder);
        let stores = Self { path: path.to_owned(), folder, disk, names };
        // The head of one may be damaged; a directory without any is something else.
        let heads = stores.names.iter().map(|name| stores.done(name, book::head(&stores.disk, name)));
        if heads.collect::<Result<Vec<_>>>()?.iter().all(Option::is_none) {
            let why = if stores.names.is_empty() { "there is no file in it" } else { "no file of records is in it" };
            return Err(not(if about.is_file() { "it is no file of records" } else { why }));
        }
        Ok(stores)
    }

    /// What all the files are.
    ///
    /// # Errors
    /// One of them cannot be read.
    pub fn look(&self) -> Result<StoreDocument> {
        let mut files = Vec::new();
        for name in &self.names {
            // Another process may have taken it away meanwhile.
            let Some((_, loaded)) = self.done(name, Book::load(&self.disk, name, false))? else { continue };
            let head = loaded.head.as_ref();
            let number = |from: usize| from as u64;
            files.push(StoreFile {
                name: name.clone(),
                kind: head.map(|head| kind(&head.kind)),
                label: head.map(|head| label(&head.label)).unwrap_or_default(),
                generation: head.map_or(0, |head| head.generation),
                made_unix_ms: head.map_or(0, |head| head.made_ms),
                records: number(loaded.found.prefix.saturating_sub(1)),
                bytes: Bytes(number(loaded.bytes.len())),
                records_behind: number(loaded.found.frames.len() - loaded.found.prefix),
                damage: loaded.found.damage.iter().map(|at| (number(at.start), number(at.end))).collect(),
                torn: if head.is_some() { number(loaded.found.torn(loaded.bytes.len())) } else { 0 },
                is_aside: name.contains(DAMAGED),
            });
        }
        Ok(StoreDocument { schema: "thaw.store/1", files })
    }

    /// Cuts off what cannot be read, and keeps it beside. What lies behind damage is not used by a store then: it is in
    /// the file that is kept.
    ///
    /// # Errors
    /// The files are another user's, or a program has the directory for itself; the disk.
    pub fn repair(&self) -> Result<RepairDocument> {
        let cannot = |why: &str| Error::on(Exit::Usage, "cannot repair", &self.path).because(why);
        crate::caches::is_own(&self.folder, "cannot repair", "thaw store")?;
        // A store that is one process's holds the first; processes that share one take turns by the second.
        let mut repaired = self.repair_session()?;
        repaired.extend(self.repair_jar()?);
        let is_held = self.folder.join("lock").exists();
        if is_held && !self.done("lock", self.disk.lock())? {
            return Err(cannot("a program uses it").hint("end it first; it repairs its files itself when it starts"));
        }
        let _turn = if is_held { None } else { Some(self.done("turn", self.disk.turn())?) };
        for file in self.look()?.files.into_iter().filter(|file| !file.is_aside) {
            let Some((book, loaded)) = self.done(&file.name, Book::load(&self.disk, &file.name, true))? else {
                continue;
            };
            let cut = loaded.bytes.len() as u64 - book.len();
            if cut > 0 {
                repaired.push(Repaired { name: file.name, cut: Bytes(cut), aside: loaded.aside, made_anew: false });
            }
        }
        Ok(RepairDocument { schema: "thaw.store-repair/1", repaired })
    }

    /// A session reads behind damage too: its own store makes the file anew.
    fn repair_session(&self) -> Result<Vec<Repaired>> {
        let is_session = |name: &String| matches!(book::head(&self.disk, name), Ok(Some(head)) if head.kind == SESSION);
        if self.path != self.folder || !self.names.iter().any(is_session) {
            return Ok(Vec::new());
        }
        match thaw_session::repair(Arc::new(Folder::new(&self.folder))) {
            Ok(done) => Ok(done
                .map(|done| {
                    let cut = Bytes(done.missing.bytes);
                    Repaired { name: done.name, cut, aside: Some(done.aside), made_anew: true }
                })
                .into_iter()
                .collect()),
            // Who else has it is told below, as of every store.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
            Err(error) => Err(Error::on(Exit::of_unreadable(&error), "cannot repair", &self.path).because(error)),
        }
    }

    /// So does a cookie jar. What has expired is not taken over.
    fn repair_jar(&self) -> Result<Option<Repaired>> {
        if self.path != self.folder {
            return Ok(None);
        }
        let jar = kind(&thaw_cookies::record::KIND);
        let is_damaged = |file: &StoreFile| !file.is_whole() && file.kind.as_ref() == Some(&jar);
        let Some(file) = self.look()?.files.into_iter().find(is_damaged) else { return Ok(None) };
        let aside = import::jar_made_anew(&self.folder)
            .map_err(|why| Error::on(Exit::Machine, "cannot repair", &self.path).because(why))?;
        let cut = Bytes(file.damage.iter().map(|(from, to)| to - from).sum());
        Ok(aside.map(|aside| Repaired { name: file.name, cut, aside: Some(aside), made_anew: true }))
    }

    fn done<T>(&self, name: &str, done: io::Result<T>) -> Result<T> {
        done.map_err(|cause| {
            Error::on(Exit::of_unreadable(&cause), "cannot use", self.folder.join(name).as_path()).because(cause)
        })
    }
}

fn kind(letters: &[u8; 4]) -> String {
    match *letters {
        thaw_webstorage::record::KIND => "web storage".into(),
        thaw_session::files::KIND => "session".into(),
        thaw_cookies::record::KIND => "cookies".into(),
        other => String::from_utf8_lossy(&other).into_owned(),
    }
}

/// Parts of a label end with a NUL.
fn label(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let parts: Vec<&str> = text.split('\0').filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
