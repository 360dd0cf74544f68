//! Files of sums: what the events of a process add up to, in their place (`measure/heaprec` makes them).
//!
//! As all of `packed`: "THAWSUMS", and the first page of the stream and Sums as JSON.

use crate::figures::{Held, MissingFrames, Site, Timeline, Totals};
use crate::form::{STATE, STREAM};
use crate::module::{Module, ModuleId};
use crate::packed::{Kind, LEVEL, unpack};
use crate::recording::believed;
use crate::stack::{Address, StackId, Stacks};
use crate::stream::first_page;
use crate::wire;
use heap_wire::PAGE;
use model::{Error, Exit, Nanos, Result, Warning, WarningKind, shown};
use os::file::Access;
use os::replace::{Existing, Rights};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const KIND: Kind = Kind { magic: *b"THAWSUMS", version: 1, of: "sums" };

/// Why a recording of sums cannot answer.
pub fn no_events(directory: &Path, why: &str) -> Error {
    Error::on(Exit::Usage, "the recording has sums in the place of events", directory)
        .because(why)
        .hint("record it without --aggregate")
}

/// Whether sums have all events of their stream.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// They have.
    Yes,
    /// There may be more of them.
    No,
}

/// What the events of a process add up to.
pub struct Added {
    /// Its sites, split by size.
    pub sites: Vec<Site>,
    /// Sums over all events.
    pub totals: Totals,
    /// Most bytes live at a time.
    pub peak: Held,
    /// When the peak was, since the process began.
    pub peak_at: Nanos,
    /// When the last event was, since the process began.
    pub last: Nanos,
    /// What was live over time.
    pub timeline: Timeline,
    /// Threads that allocated.
    pub threads: u64,
    /// Allocations whose stacks lack frames.
    pub missing: MissingFrames,
    /// Damage that was met, and what else is doubtful.
    pub warnings: Vec<Warning>,
    /// Whether these are all events.
    pub whole: Whole,
}

/// What is kept of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sums {
    /// Split by size.
    pub sites: Vec<Site>,
    /// Callers' stacks and numbers of addresses, from the first that is no end on.
    nodes: Vec<(StackId, u32)>,
    /// Return addresses and numbers of objects.
    addresses: Vec<(u64, Option<u32>)>,
    objects: Vec<StoredObject>,
    /// Sums over all events.
    pub totals: Totals,
    /// Most bytes live at a time.
    pub peak: Held,
    /// When that was, since the process began.
    pub peak_at: Nanos,
    /// When the last event was, since the process began.
    pub last: Nanos,
    /// What was live over time.
    pub timeline: Timeline,
    /// Threads that allocated.
    pub threads: u64,
    /// Allocations whose stack is cut.
    pub cut_stacks: u64,
    /// Of these, those that are deeper than was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deep_stacks: Option<u64>,
    /// Allocations with frames missing between others of their stack.
    #[serde(default)]
    pub skipped_stacks: u64,
    /// Damage that was met, and what else is doubtful.
    pub warnings: Vec<Warning>,
    /// The stream was read to its end, and nobody wrote it any more.
    #[serde(default)]
    whole: bool,
}

/// A loaded object; its path may be no text.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredObject {
    path: Vec<u8>,
    build_id: Vec<u8>,
    bias: u64,
    start: u64,
    end: u64,
}

impl Sums {
    /// As they were before anything happened.
    pub fn before_all(mut self) -> Self {
        self.sites.clear();
        (self.totals, self.peak, self.peak_at, self.last) = Default::default();
        (self.threads, self.cut_stacks, self.skipped_stacks, self.deep_stacks) = (0, 0, 0, None);
        self.timeline = Timeline::default();
        self.warnings.clear();
        self
    }

    /// Leaves what was made after an earlier state of the same sums. What is live stays as it is.
    pub fn since(&mut self, earlier: &Self) {
        let key = |site: &Site| (site.stack, site.part, site.usable);
        let before: HashMap<_, &Site> = earlier.sites.iter().map(|site| (key(site), site)).collect();
        for site in &mut self.sites {
            let Some(before) = before.get(&key(site)) else { continue };
            let (now, then) = (&mut site.figures, &before.figures);
            now.made.remove(then.made);
            now.temporary.remove(then.temporary);
            now.handed_over.remove(then.handed_over);
            now.lifetime_ns = now.lifetime_ns - then.lifetime_ns;
        }
    }

    /// What was added up, with the stacks and objects that its sites are of.
    pub fn of(added: Added, stacks: &Stacks, modules: &[Module]) -> Self {
        let object = |module: &Module| StoredObject {
            path: module.path.as_os_str().as_bytes().to_vec(),
            build_id: module.build_id.clone(),
            bias: module.bias,
            start: module.start,
            end: module.end,
        };
        Self {
            sites: added.sites,
            nodes: (heap_wire::mark::FIRST_PC..stacks.len() as u32).map(|node| stacks.node(StackId(node))).collect(),
            addresses: stacks.addresses().map(|it| (it.pc, it.module.map(|module| module.0))).collect(),
            objects: modules.iter().map(object).collect(),
            totals: added.totals,
            peak: added.peak,
            peak_at: added.peak_at,
            last: added.last,
            timeline: added.timeline,
            threads: added.threads,
            cut_stacks: added.missing.cut,
            deep_stacks: Some(added.missing.deep),
            skipped_stacks: added.missing.skipped,
            warnings: added.warnings,
            whole: added.whole == Whole::Yes,
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is damaged, or of another version.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).map_err(|cause| Error::on(Exit::Data, "cannot read", path).because(cause))?;
        let mut unpacked = KIND.open(&bytes, path)?;
        let mut page = [0; PAGE];
        unpacked.read_exact(&mut page).map_err(|cause| KIND.damaged(path, cause))?;
        let read = serde_json::from_reader(std::io::BufReader::new(unpacked));
        let mut sums: Self = read.map_err(|cause| KIND.damaged(path, cause))?;
        if !sums.is_sound() {
            return Err(KIND.damaged(path, "it names stacks that it does not have"));
        }
        let bytes = sums.unread(path);
        if bytes > 0 {
            let text = sums.until(path, &format!("{bytes} bytes of events were not, or not yet"));
            sums.warnings.push(Warning::new(WarningKind::LostRecords, text));
        }
        Ok(sums)
    }

    /// Allocations whose stacks lack frames. Sums of older versions do not tell why.
    pub fn missing(&self) -> MissingFrames {
        let cut = self.cut_stacks;
        MissingFrames { cut, deep: self.deep_stacks.unwrap_or(cut).min(cut), skipped: self.skipped_stacks }
    }

    /// Bytes of the stream beside the sums: thaw has not read it to its end.
    pub fn unread(&self, path: &Path) -> u64 {
        let stream = fs::metadata(path.with_extension(STREAM));
        stream.map_or(0, |meta| if self.whole { 0 } else { meta.blocks() * 512 })
    }

    /// Until when something was added up, and `what` was not.
    pub fn until(&self, path: &Path, what: &str) -> String {
        let (file, last) = (shown(path), self.last.seconds());
        format!("{file} has what was added up until {last:.1} s after its process began; {what}")
    }

    /// Whether all numbers lead somewhere.
    fn is_sound(&self) -> bool {
        let first = heap_wire::mark::FIRST_PC as usize;
        let nodes = self.nodes.iter().enumerate().all(|(index, (caller, address))| {
            (caller.0 as usize) < first + index && (*address as usize) < self.addresses.len()
        });
        let known = |stack: StackId| (stack.0 as usize) < first + self.nodes.len();
        let few = |count: u64| count < 1 << 62;
        let made = self.sites.iter().try_fold(0u64, |sum, site| sum.checked_add(site.figures.made.blocks));
        let of_made = |site: &Site| {
            let figures = &site.figures;
            [figures.end, figures.peak, figures.max].iter().all(|part| part.blocks <= figures.made.blocks)
        };
        let objects = self.addresses.iter().filter_map(|(_, object)| *object);
        nodes
            && self.sites.iter().filter_map(|site| site.stack).all(known)
            && objects.into_iter().all(|object| (object as usize) < self.objects.len())
            && made.is_some_and(few)
            && self.sites.iter().all(of_made)
            && few(self.totals.allocs_over_live)
            && few(self.totals.frees_of_unknown)
            && self.timeline.is_sound()
    }

    /// Writes files of them and of the first page of their stream: each is the same.
    pub fn write(&self, targets: &[&Path], page: &[u8]) -> Result<()> {
        let Some(first) = targets.first() else { return Ok(()) };
        let packed =
            pack(page, self).map_err(|cause| Error::on(Exit::Machine, "cannot write", first).because(cause))?;
        let sealed = KIND.seal(&packed);
        let write = |target: &&Path| os::replace::write_whole(target, &sealed, Rights::Private, Existing::Replace);
        targets.iter().try_for_each(write)
    }

    /// Its stacks and objects.
    pub fn places(&self) -> (Stacks, Vec<Module>) {
        let mut stacks = Stacks::default();
        for (pc, module) in &self.addresses {
            stacks.append_address(Address { pc: *pc, module: module.map(ModuleId) });
        }
        for (caller, address) in &self.nodes {
            stacks.append(*caller, *address);
        }
        let modules = self.objects.iter().map(|object| Module {
            path: PathBuf::from(OsString::from_vec(object.path.clone())),
            build_id: object.build_id.clone(),
            bias: object.bias,
            start: object.start,
            end: object.end,
        });
        (stacks, modules.collect())
    }
}

/// Where the state of a process's sums at a moment is kept, by the path of its stream: `PID-N.MILLISECONDS.state`.
pub fn state(stream: &Path, at: Duration) -> PathBuf {
    stream.with_extension(format!("{}.{STATE}", at.as_millis()))
}

/// The states of a process's sums that are there, by the path of its file, in the order of their times since the
/// recording began.
///
/// # Errors
/// The recording's directory cannot be read.
pub fn states(file: &Path) -> Result<Vec<(Nanos, PathBuf)>> {
    let directory = file.parent().unwrap_or(Path::new("."));
    let cannot = |cause| Error::on(Exit::Data, "cannot read the recording", directory).because(cause);
    let about = fs::metadata(directory).map_err(cannot)?;
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let moment =
            name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(STATE)?.strip_suffix('.'));
        let Some(Ok(moment)) = moment.map(str::parse::<u64>) else { continue };
        if believed(&about, &path, Access::Read).is_ok() {
            found.push((Nanos(moment.saturating_mul(1_000_000)), path));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// The first page of the stream that a file of sums was made from: as it is now, if it is still there.
pub fn head(path: &Path) -> Result<Vec<u8>> {
    let stream = path.with_extension(STREAM);
    if let Ok(page) = first_page(&stream)
        && wire::head(&page).is_ok()
    {
        return Ok(page);
    }
    let cannot = |cause| Error::on(Exit::Data, "cannot read", path).because(cause);
    let bytes = fs::read(path).map_err(cannot)?;
    let mut page = vec![0; PAGE];
    unpack(KIND.packed(&bytes, path)?).and_then(|mut unpacked| unpacked.read_exact(&mut page)).map_err(cannot)?;
    Ok(page)
}

fn pack(page: &[u8], sums: &Sums) -> std::io::Result<Vec<u8>> {
    let mut packer = zstd::Encoder::new(Vec::new(), LEVEL)?;
    std::io::Write::write_all(&mut packer, page)?;
    let mut packer = std::io::BufWriter::new(packer);
    serde_json::to_writer(&mut packer, sums)?;
    packer.into_inner().map_err(std::io::IntoInnerError::into_error)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A file whose packed part are the first page of a stream and this text.
    fn file_of(text: &[u8]) -> Vec<u8> {
        let mut raw = vec![0; PAGE];
        raw[..8].copy_from_slice(&heap_wire::MAGIC);
        raw[8] = heap_wire::VERSION as u8;
        raw.extend(text);
        let packed = zstd::encode_all(&raw[..], LEVEL).unwrap();
        KIND.seal(&packed)
    }

    fn written(sums: &Value) -> Result<Sums> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1-0.sums");
        fs::write(&path, file_of(&serde_json::to_vec(sums).unwrap())).unwrap();
        Sums::read(&path)
    }

    /// Sums with one site.
    fn sound() -> Value {
        serde_json::from_str(include_str!("../../../fixtures/heap/sums.json")).unwrap()
    }

    #[test]
    fn numbers_that_lead_nowhere_are_damage() {
        let sound = sound();
        let sums = written(&sound).unwrap();
        assert_eq!(sums.places().0.innermost(StackId(4)).unwrap().pc, 4096);
        for (place, value) in [
            ("/sites/0/stack", json!(5)),
            ("/nodes/0", json!([4, 0])),
            ("/nodes/0", json!([0, 1])),
            ("/addresses/0", json!([4096, 1])),
            ("/sites/0/figures/end/blocks", json!(2)),
            ("/sites/0/figures/made/blocks", json!(u64::MAX)),
            ("/totals/frees_of_unknown", json!(u64::MAX)),
            ("/timeline/step_ns", json!(0)),
            ("/sites", json!(null)),
        ] {
            let mut damaged = sound.clone();
            *damaged.pointer_mut(place).unwrap() = value;
            assert_eq!(written(&damaged).unwrap_err().exit, Exit::Data, "{place}");
        }
    }
}
