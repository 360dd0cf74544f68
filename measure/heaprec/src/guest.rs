//! The file of the guest: where it is, and of which thaw. One of another thaw is loaded into no program: what both
//! sides write and read has to be the same.

use crate::record::{AGENT, AGENT_VARIABLE};
use elf::Image;
use heap_wire::identity::{NOTE, Note, SECTION};
use model::{Error, Exit, Result, shown};
use std::fmt;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A larger file is no guest.
const MOST_BYTES: u64 = 64 << 20;

/// Of which thaw a guest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Version of thaw.
    pub thaw: String,
    /// Version of the streams that it writes.
    pub stream: u32,
    /// Version of the words by which thaw goes into a running program.
    pub attach: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (streams {}, attaching {})", self.thaw, self.stream, self.attach)
    }
}

impl Version {
    /// That of this thaw.
    pub fn own() -> Self {
        Self { thaw: text(&NOTE.version), stream: NOTE.stream, attach: NOTE.attach }
    }

    /// What a guest says of itself.
    ///
    /// # Errors
    /// The file cannot be read, or does not say it.
    pub fn of(guest: &Path) -> Result<Self> {
        let cannot = || Error::on(Exit::Machine, "cannot read the guest", guest);
        let meta = std::fs::metadata(guest).map_err(|cause| cannot().because(cause))?;
        if !meta.is_file() || meta.len() > MOST_BYTES {
            return Err(cannot().because("it is no file of a library"));
        }
        let bytes = std::fs::read(guest).map_err(|cause| cannot().because(cause))?;
        Self::in_file(&bytes).ok_or_else(|| {
            Error::on(Exit::Machine, "the guest does not say of which version it is:", guest)
                .because(format!("this thaw is {}", Self::own()))
                .hint(TOGETHER)
        })
    }

    /// What the bytes of a library say; `None`: nothing.
    pub fn in_file(bytes: &[u8]) -> Option<Self> {
        let image = Image::of(bytes).ok()?;
        let note = image.bytes_of(image.section(SECTION)?)?;
        let part = |at: usize, len: usize| note.get(at..at + len);
        let word = |at| Some(u32::from_le_bytes(part(at, 4)?.try_into().ok()?));
        let name = part(offset_of!(Note, name), NOTE.name.len())?;
        if name != NOTE.name || word(offset_of!(Note, kind))? != NOTE.kind {
            return None;
        }
        Some(Self {
            thaw: text(part(offset_of!(Note, version), NOTE.version.len())?),
            stream: word(offset_of!(Note, stream))?,
            attach: word(offset_of!(Note, attach))?,
        })
    }
}

const TOGETHER: &str = "thaw and its guest belong together: install both from one package, or build both: make build";

fn text(padded: &[u8]) -> String {
    let end = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    String::from_utf8_lossy(&padded[..end]).into_owned()
}

/// Finds the guest: where `THAW_HEAP_AGENT` says, beside `thaw`, in `../lib/thaw`, or where the build of a checkout
/// puts it.
///
/// # Errors
/// It is nowhere, of another thaw, or its path cannot be put into LD_PRELOAD.
pub fn find(thaw: &Path) -> Result<PathBuf> {
    let found = place(thaw)?;
    let version = Version::of(&found)?;
    if version != Version::own() {
        return Err(Error::on(Exit::Machine, "the guest is of another thaw:", &found)
            .because(format!("it is {version}, this thaw is {}", Version::own()))
            .hint(TOGETHER));
    }
    if found.as_os_str().as_bytes().iter().any(|byte| b" :\t\n$".contains(byte)) {
        return Err(Error::on(Exit::Machine, "the path of the guest cannot be put into LD_PRELOAD", &found)
            .because("it has a blank, a colon or a dollar sign")
            .hint(format!("copy it to another directory and set {AGENT_VARIABLE}")));
    }
    Ok(found)
}

/// Where it is, of whichever thaw.
///
/// # Errors
/// It is nowhere.
pub fn place(thaw: &Path) -> Result<PathBuf> {
    let directory = thaw.parent().unwrap_or(Path::new("/"));
    let beside = directory.parent().unwrap_or(Path::new("/"));
    let places = match std::env::var_os(AGENT_VARIABLE) {
        Some(named) => vec![PathBuf::from(named)],
        None => [directory.to_path_buf(), beside.join("lib/thaw"), beside.join("agent")]
            .map(|place| place.join(AGENT))
            .to_vec(),
    };
    places.iter().find_map(|place| place.canonicalize().ok()).ok_or_else(|| {
        let names: Vec<String> = places.iter().map(|place| shown(place)).collect();
        Error::new(Exit::Machine, "cannot find the guest", AGENT)
            .because(format!("it is not at {}", names.join(", ")))
            .hint("install thaw whole, or build it in a checkout of thaw: make build, or dev/agent alone")
    })
}
