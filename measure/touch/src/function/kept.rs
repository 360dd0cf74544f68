//! What was found out about large files, kept between runs: where their functions begin, and into which of them code
//! jumps. It is used for the very file, unchanged since (its inode, size, times and build id), and by the very thaw
//! that made it; all else is found out anew.

use super::starts::{Function, Hooks};
use model::{Bytes, StartsFrom};
use os::kept::Kept;
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::LazyLock;
use wire::{Fields, Message};

/// In all files together.
const MOST: Bytes = Bytes(64 << 20);
/// Of smaller files nothing is kept: looking takes no longer than reading.
const LEAST: u64 = 128 << 10;
/// A file that is changed again so soon after its last change may show the same times.
const SETTLED_S: i64 = 2;

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// All but the lists.
    pub facts: Facts,
    /// Those that can be watched, by offset.
    pub functions: Vec<Function>,
    /// Indexes of those into which code of others jumps.
    pub entered: Vec<usize>,
}

/// What was found out, but for the lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Where the functions were taken from.
    pub from: StartsFrom,
    /// Places that the tracer watches for itself.
    pub hooks: Hooks,
    /// Code that the program copies elsewhere.
    pub copied: Option<Range<u64>>,
    /// Which code was looked through for jumps: offset and bytes.
    pub code: (u64, u64),
}

/// A file as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    line: String,
    changed_s: i64,
}

impl Identity {
    /// Of an open file with this content. `None`: nothing is kept of such a file.
    pub fn of(about: &Metadata, bytes: &[u8]) -> Option<Self> {
        Self::by(about, bytes, &BY)
    }

    fn by(about: &Metadata, bytes: &[u8], by: &str) -> Option<Self> {
        if about.len() < LEAST || bytes.len() as u64 != about.len() {
            return None;
        }
        let line = format!(
            "thaw {by}, file {} {} of {} bytes, written {}.{:09}, changed {}.{:09}, build {}\n",
            about.dev(),
            about.ino(),
            about.len(),
            about.mtime(),
            about.mtime_nsec(),
            about.ctime(),
            about.ctime_nsec(),
            elf::build_id(bytes).unwrap_or_default(),
        );
        Some(Self { name: format!("{:x}-{:x}", about.dev(), about.ino()), line, changed_s: about.ctime() })
    }
}

/// Version and build of this program.
static BY: LazyLock<String> = LazyLock::new(|| {
    let own = std::fs::File::open("/proc/self/exe").ok();
    let bytes = own.as_ref().and_then(os::mapped::Mapped::of);
    let build = bytes.as_deref().and_then(elf::build_id).unwrap_or_default();
    let times = own.and_then(|own| own.metadata().ok()).map_or(0, |about| about.ctime());
    format!("{} {build} {times}", env!("CARGO_PKG_VERSION"))
});

/// Where it is kept; `None`: nowhere.
pub fn usual() -> Option<Kept> {
    Some(Kept::in_directory(os::kept::directory()?.join("touch"), MOST))
}

/// What was found out about a file before; `None`: nothing that holds for it.
///
/// # Errors
/// What is kept is damaged, or others can have written it.
pub fn load(kept: &Kept, identity: &Identity) -> Result<Option<Known>, String> {
    let Some(bytes) = kept.read(&identity.name).map_err(|cause| cause.to_string())? else { return Ok(None) };
    let Some((content, sum)) = bytes.split_last_chunk() else { return Err("it is damaged".into()) };
    if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
        return Err("it is damaged".into());
    }
    let Some(rest) = content.strip_prefix(identity.line.as_bytes()) else { return Ok(None) };
    decode(rest).map(Some).ok_or_else(|| "it is damaged".into())
}

/// Keeps what was found out about a file.
///
/// # Errors
/// It cannot be written.
pub fn store(kept: &Kept, identity: &Identity, known: &Known) -> model::Result<()> {
    let now_s = (os::machine::now_unix_ns() / 1_000_000_000).cast_signed();
    if now_s - identity.changed_s < SETTLED_S {
        return Ok(());
    }
    let mut bytes = identity.line.clone().into_bytes();
    bytes.extend(encode(known)?);
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    kept.write(&identity.name, &bytes)
}

/// Fields of what is kept behind the line that says of what: [`Facts`] as JSON, then numbers, each told as what it is
/// more than the one before, but for the lengths.
const FACTS: u64 = 1;
const OFFSETS: u64 = 2;
const LENGTHS: u64 = 3;
const ENTERED: u64 = 4;

fn encode(known: &Known) -> model::Result<Vec<u8>> {
    let facts = serde_json::to_vec(&known.facts).map_err(|cause| model::Error::bug(cause.to_string()))?;
    let mut message = Message::default();
    message.bytes(FACTS, &facts);
    message.packed(OFFSETS, steps(known.functions.iter().map(|function| function.offset)));
    message.packed(LENGTHS, known.functions.iter().map(|function| function.len));
    message.packed(ENTERED, steps(known.entered.iter().map(|index| *index as u64)));
    Ok(message.0)
}

/// What is read of kept bytes, whatever they are; `None`: they are not what [`encode`] makes.
pub fn decode(bytes: &[u8]) -> Option<Known> {
    let mut fields = Fields::of(bytes);
    let mut field = |number| fields.next().filter(|(found, _)| *found == number).map(|(_, value)| value);
    let facts = serde_json::from_slice(field(FACTS)?.bytes()).ok()?;
    let offsets = sums(field(OFFSETS)?.numbers()?)?;
    let lengths = field(LENGTHS)?.numbers()?;
    let index = |index| usize::try_from(index).ok().filter(|index| *index < offsets.len());
    let entered = sums(field(ENTERED)?.numbers()?)?.into_iter().map(index).collect::<Option<_>>()?;
    if lengths.len() != offsets.len() || fields.rest() > 0 {
        return None;
    }
    let functions = offsets.iter().zip(lengths).map(|(offset, len)| Function { offset: *offset, len }).collect();
    Some(Known { facts, functions, entered })
}

/// What each number is more than the one before.
fn steps(numbers: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
    numbers.scan(0, |before, number| Some(number - std::mem::replace(before, number)))
}

/// The numbers again; `None` behind the largest that there is.
fn sums(mut steps: Vec<u64>) -> Option<Vec<u64>> {
    let mut sum = 0_u64;
    for step in &mut steps {
        sum = sum.checked_add(*step)?;
        *step = sum;
    }
    Some(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::mapped::Mapped;
    use std::fs::File;
    use std::path::Path;

    fn known() -> Known {
        let functions: Vec<Function> =
            (1..3000).map(|number| Function { offset: number * 77, len: number % 300 }).collect();
        let hooks = Hooks { entry: Some(77), ..Hooks::default() };
        let facts = Facts { from: StartsFrom::Unwind, hooks, copied: Some(5..9), code: (0x1000, 0x20_0000) };
        Known { facts, functions, entered: vec![0, 3, 2998] }
    }

    fn identity(path: &Path, by: &str) -> Identity {
        let file = File::open(path).unwrap();
        let bytes = Mapped::of(&file).unwrap();
        Identity { changed_s: 0, ..Identity::by(&file.metadata().unwrap(), &bytes, by).unwrap() }
    }

    #[test]
    fn only_the_same_file_and_the_same_thaw_find_what_was_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let large = vec![1_u8; LEAST as usize];
        std::fs::write(&path, &large).unwrap();
        let kept = Kept::in_directory(folder.path().join("kept"), MOST);
        let first = identity(&path, "one");
        assert_eq!(load(&kept, &first), Ok(None));
        store(&kept, &first, &known()).unwrap();
        assert_eq!(load(&kept, &identity(&path, "one")), Ok(Some(known())));
        assert_eq!(load(&kept, &identity(&path, "another")), Ok(None), "another version");
        // Of the same size, in the same place; by its times it is another file, and by its inode as well.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, &large).unwrap();
        assert_eq!(load(&kept, &identity(&path, "one")), Ok(None), "written again");
        std::fs::write(folder.path().join("other"), &large).unwrap();
        std::fs::rename(folder.path().join("other"), &path).unwrap();
        assert_eq!(load(&kept, &identity(&path, "one")), Ok(None), "another file of this path");
    }

    #[test]
    fn what_was_changed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, vec![1_u8; LEAST as usize]).unwrap();
        let kept = Kept::in_directory(folder.path().join("kept"), MOST);
        let identity = identity(&path, "one");
        store(&kept, &identity, &known()).unwrap();
        let file = kept.path(&identity.name);
        let whole = std::fs::read(&file).unwrap();
        for at in [0, identity.line.len() + 3, whole.len() / 2, whole.len() - 1] {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            std::fs::write(&file, altered).unwrap();
            assert!(load(&kept, &identity).is_err(), "{at}");
        }
        for len in [0, 3, whole.len() - 1] {
            std::fs::write(&file, &whole[..len]).unwrap();
            assert!(load(&kept, &identity).is_err(), "{len}");
        }
        std::fs::write(&file, &whole).unwrap();
        assert_eq!(load(&kept, &identity), Ok(Some(known())));
    }

    #[test]
    fn of_a_file_that_was_just_written_nothing_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::write(&path, vec![1_u8; LEAST as usize]).unwrap();
        let kept = Kept::in_directory(folder.path().join("kept"), MOST);
        let file = File::open(&path).unwrap();
        let fresh = Identity::of(&file.metadata().unwrap(), &Mapped::of(&file).unwrap()).unwrap();
        store(&kept, &fresh, &known()).unwrap();
        assert_eq!(load(&kept, &fresh), Ok(None));
    }
}
