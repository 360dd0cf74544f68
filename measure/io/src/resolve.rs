//! Turns the numbers of a trace into files: names, extents on disk, ELF sections. This part touches
//! the machine, and it must do so right after the run, while the kernel still remembers the names.

mod names;
mod overlay;

use crate::raw::{Inode, RawTrace};
use elf::Section;
use model::{Bytes, DiskOffset, FileKind, FileOffset, FileRow, FileSystemRow, Nanos, Owner, Warning, WarningKind};
use os::{
    device::{DiskPart, from_kernel_dev, part_of},
    extents::{Extent, ExtentKind},
    handle::InodeName as Name,
    mapped::Mapped,
    mounts::{Backing, Mount, Mounts},
};
use overlay::Overlays;
use std::{
    collections::{HashMap, HashSet},
    fs::File,
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::PathBuf,
};

/// A piece of a file on a whole disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskExtent {
    /// Where in the file.
    pub offset: FileOffset,
    /// The whole disk, packed by `makedev`, as block requests name it.
    pub dev: u64,
    /// Where on it; the start of the partition is added.
    pub disk: DiskOffset,
    /// How long.
    pub len: Bytes,
}

/// What is known of where a file's bytes lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The extents are known.
    Known,
    /// On a disk of this machine, but nobody says where.
    Unknown,
    /// On another machine, or served by another process: block requests will not tell.
    Elsewhere,
}

/// What is known of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedFile {
    /// The row for the recording.
    pub row: FileRow,
    /// Where its bytes lie.
    pub place: Place,
    /// Pieces on disk by file offset. A block device is one piece of its disk.
    pub extents: Vec<DiskExtent>,
    /// Ranges that are written, but not on disk yet.
    pub delayed: Vec<(FileOffset, Bytes)>,
    /// ELF sections.
    pub sections: Vec<Section>,
    /// Its dynamic relocations; 0: it is no ELF file. `None`: it could not be read.
    pub relocations: Option<u64>,
}

impl ResolvedFile {
    /// A file of which only the number is known.
    pub fn unknown(inode: Inode) -> Self {
        let path = match inode {
            Inode { dev: 0, ino: 0 } => "(unknown file)".into(),
            Inode { dev, ino } => format!("{}:{}:{ino}", libc::major(dev), libc::minor(dev)).into(),
        };
        Self {
            row: FileRow {
                path,
                kind: FileKind::Unnamed,
                // Until the rules of ownership have been asked.
                owner: Owner::System,
                dev: inode.dev,
                ino: inode.ino,
                size: Bytes(0),
                extents: None,
                build_id: None,
            },
            place: Place::Unknown,
            extents: Vec::new(),
            delayed: Vec::new(),
            sections: Vec::new(),
            relocations: None,
        }
    }

    /// Block requests cannot be matched with its extents.
    pub(crate) fn is_placeless(&self) -> bool {
        self.place != Place::Known
    }

    /// Its bytes are on a disk of this machine, so that reading them makes block requests.
    pub(crate) fn is_local(&self) -> bool {
        self.place != Place::Elsewhere
    }

    /// Whether the byte at this offset is data on disk, or will be; not a hole.
    pub(crate) fn lies_on_disk(&self, offset: u64) -> bool {
        let holds = |start: FileOffset, len: Bytes| (start.0..start.0.saturating_add(len.0)).contains(&offset);
        self.extents.iter().any(|extent| holds(extent.offset, extent.len))
            || self.delayed.iter().any(|(start, len)| holds(*start, *len))
    }
}

/// What is known of all files of a trace.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    /// By inode.
    pub files: HashMap<Inode, ResolvedFile>,
    /// Inodes that stand for another one, as those of an overlay do for a file of one of its layers.
    pub stands_for: HashMap<Inode, Inode>,
    /// Files that processes outside of the traced tree map: how many, and one of them.
    pub held: HashMap<Inode, (u32, String)>,
    /// The file systems that the files are on.
    pub file_systems: Vec<FileSystemRow>,
    /// What could not be found out.
    pub warnings: Vec<Warning>,
}

/// Is told now and then how many files of how many are done; breaking leaves the rest without names.
pub type Told<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// Counts what is done, and knows when to stop.
struct Pace<'a> {
    told: Told<'a>,
    done: u64,
    of: u64,
    stopped: bool,
}

impl Pace<'_> {
    /// Tells of every so many steps.
    const STRIDE: u64 = 32;

    /// Before each step; `false`: nobody waits for it any more. Each file takes two, one for its name and one for what
    /// is in it.
    fn goes_on(&mut self) -> bool {
        if !self.stopped && self.done.is_multiple_of(Self::STRIDE) {
            self.stopped = (self.told)((self.done / 2).min(self.of), self.of).is_break();
        }
        self.done += 1;
        !self.stopped
    }
}

/// Whether somebody still wants to know what is in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Into,
    Past,
}

/// [`resolve_with`], until a signal asks thaw to end.
pub fn resolve(raw: &RawTrace) -> Resolved {
    let ask = || if os::interrupt::requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    resolve_with(raw, &mut |_, _| ask())
}

/// Finds the files behind the inode numbers of a trace. Call it right after [`crate::Engine::stop`]: names are
/// asked from the kernel, which forgets them when caches are dropped or files deleted.
pub fn resolve_with(raw: &RawTrace, told: Told<'_>) -> Resolved {
    let _span = tracing::info_span!("resolve").entered();
    let mut resolved = Resolved::default();
    let mounts = Mounts::load().unwrap_or_else(|error| {
        let text = format!("files of the trace have no names: {error}");
        resolved.warnings.push(Warning::new(WarningKind::Engine, text));
        Mounts::default()
    });
    let mut touched = touched(raw);
    let overlays = Overlays::of(&mounts);
    let layered = overlays.see_through(raw, &mut touched, &mounts);
    let mut pace = Pace { told, done: 0, of: touched.len() as u64, stopped: false };
    let names = names::find(raw, &layered.beneath, &touched, &mounts, &mut pace);
    let memory = memory_device();
    let mut unseen = 0_u64;
    for inode in touched.into_keys() {
        let look = if pace.goes_on() { Look::Into } else { Look::Past };
        unseen += u64::from(look == Look::Past);
        let mut file = match mounts.of_dev(inode.dev) {
            Some(mount) => on_mount(inode, mount, names.get(&inode), look),
            None => match block_device(inode) {
                Some(file) => file,
                None => nowhere(inode, names.get(&inode), memory),
            },
        };
        if let Some(path) = layered.seen_as(&overlays, inode, &file.row) {
            file.row.path = path;
        }
        resolved.files.insert(inode, file);
    }
    resolved.stands_for = layered.stands_for;
    resolved.file_systems = file_systems(&resolved.files, &mounts);
    if unseen > 0 {
        let all = resolved.files.len();
        let text = format!("{unseen} of the {all} files of the trace were not looked into: thaw was interrupted");
        resolved.warnings.push(Warning::new(WarningKind::Engine, text).hint("record again, and let it end"));
        return resolved;
    }
    resolved.held = held(raw, &resolved.files);
    let unnamed = resolved.files.values().filter(|file| file.row.kind == FileKind::Unnamed).count();
    let rights = rustix::process::geteuid().is_root();
    if !rights && unnamed > 0 {
        let text = format!("{unnamed} files of the trace have no names: finding them needs CAP_DAC_READ_SEARCH");
        resolved.warnings.push(Warning::new(WarningKind::Engine, text).hint("run as root"));
    }
    resolved
}

/// The mounted file systems of these files, by device.
fn file_systems(files: &HashMap<Inode, ResolvedFile>, mounts: &Mounts) -> Vec<FileSystemRow> {
    let mut devices: Vec<u64> = files.keys().map(|inode| inode.dev).collect();
    devices.sort_unstable();
    devices.dedup();
    let row = |dev: u64| {
        let mount = mounts.of_dev(dev)?;
        Some(FileSystemRow {
            dev,
            kind: mount.fstype.clone(),
            point: mount.point.clone(),
            source: model::shown(&mount.source),
            on_disk: matches!(mount.backing(), Backing::Disk | Backing::Volume),
        })
    };
    devices.into_iter().filter_map(row).collect()
}

/// Who else maps the files of the trace now: what they map was in memory before, however empty the caches were made.
fn held(raw: &RawTrace, files: &HashMap<Inode, ResolvedFile>) -> HashMap<Inode, (u32, String)> {
    let named = || files.iter().filter(|(_, file)| file.row.kind == FileKind::Regular);
    let paths: Vec<&std::path::Path> = named().map(|(_, file)| file.row.path.as_path()).collect();
    let holders = os::cache::who_maps(&paths);
    let tree: HashSet<u32> = raw.processes.iter().map(|process| process.pid).collect();
    let others = |path: &PathBuf| {
        let others: Vec<_> = holders.get(path)?.iter().filter(|holder| !tree.contains(&holder.pid)).collect();
        let first = others.first()?;
        Some((others.len() as u32, format!("{} {}", first.pid, first.comm)))
    };
    named().filter_map(|(inode, file)| Some((*inode, others(&file.row.path)?))).collect()
}

/// All inodes of a trace and when they were last touched.
fn touched(raw: &RawTrace) -> HashMap<Inode, Nanos> {
    let mut last = HashMap::new();
    let mut touch = |inode: Inode, at: Nanos| {
        let known = last.entry(inode).or_insert(at);
        *known = at.max(*known);
    };
    raw.fills.iter().for_each(|fill| touch(fill.inode, fill.at));
    raw.reads.iter().for_each(|read| touch(read.inode, read.at));
    raw.faults.iter().for_each(|fault| touch(fault.inode, fault.at));
    raw.mmaps.iter().for_each(|map| touch(map.inode, map.at));
    raw.direct.iter().for_each(|direct| touch(direct.inode, direct.at));
    raw.syncs.iter().filter_map(|sync| sync.inode.zip(Some(sync.at))).for_each(|(inode, at)| touch(inode, at));
    last
}

/// ext4 keeps what its block allocator works with in the page cache of an inode that is in no directory.
fn is_allocator(inode: Inode, mount: &Mount) -> bool {
    const EXT4_BAD_INO: u64 = 1;
    inode.ino == EXT4_BAD_INO && mount.fstype.starts_with("ext")
}

/// What a file is called whose name is not known: where it is and why, not only its number.
fn nameless(inode: Inode, mount: &Mount, look: Look) -> PathBuf {
    let why = match mount.backing() {
        _ if look == Look::Past => "thaw was interrupted".to_owned(),
        Backing::Remote | Backing::Stacked => {
            format!("it is not among the {} names there that were looked at", names::MOST_ENTRIES)
        }
        _ if !rustix::process::geteuid().is_root() => "only root may ask for its name".to_owned(),
        _ => "no directory has it any more".to_owned(),
    };
    let (point, kind) = (model::shown(&mount.point), &mount.fstype);
    format!("(unknown file {} on {point}, {kind}: {why})", inode.ino).into()
}

/// A file of a mounted file system.
fn on_mount(inode: Inode, mount: &Mount, name: Option<&Name>, look: Look) -> ResolvedFile {
    let mut file = ResolvedFile::unknown(inode);
    if is_allocator(inode, mount) {
        file.row.path = format!("(block allocator of {})", model::shown(&mount.point)).into();
        file.row.kind = FileKind::Memory;
        file.place = Place::Elsewhere;
        return file;
    }
    file.row.path = name.map_or_else(|| nameless(inode, mount, look), |name| name.path().to_owned());
    let backing = mount.backing();
    if matches!(backing, Backing::Remote | Backing::Kernel | Backing::Stacked | Backing::Memory) {
        file.place = Place::Elsewhere;
    }
    let opened = match name {
        _ if look == Look::Past => None,
        Some(Name::Path(path)) => names::open_as(path, inode),
        // A number that was given to a new file must not be asked: a deleted one is looked at only without a name.
        Some(Name::Deleted(_)) => None,
        None => names::open_nameless(mount, inode),
    };
    file.row.kind = match (backing, name) {
        (Backing::Memory, _) => FileKind::Memory,
        (_, Some(Name::Path(_))) => FileKind::Regular,
        _ => FileKind::Unnamed,
    };
    if let Some(opened) = opened {
        look_into(&mut file, &opened, mount);
    }
    file
}

/// Size, extents, sections and build-id of a file that is there.
fn look_into(file: &mut ResolvedFile, opened: &File, mount: &Mount) {
    file.row.size = Bytes(opened.metadata().map_or(0, |metadata| metadata.len()));
    let elf = is_elf(opened).then(|| Mapped::of(opened));
    file.relocations = relocations(elf.as_ref());
    if file.row.kind == FileKind::Memory {
        return;
    }
    if let Ok(extents) = os::extents::extents(opened) {
        file.row.extents = Some(os::extents::pieces(&extents));
        let device = (mount.backing() == Backing::Disk).then(|| mount.block_device()).flatten();
        if let Some(place) = device.map(on_whole_disk) {
            file.place = Place::Known;
            file.extents = extents.iter().filter_map(|extent| on_disk(extent, place)).collect();
            let delayed = extents.iter().filter(|extent| extent.kind == ExtentKind::Delayed);
            file.delayed = delayed.map(|extent| (extent.offset, extent.len)).collect();
        }
    }
    if let Some(bytes) = elf.flatten() {
        file.sections = elf::sections(&bytes).unwrap_or_default();
        file.row.build_id = elf::build_id(&bytes);
    }
}

/// How many dynamic relocations a file has; what is no ELF file (`None`) has none. `None`: it cannot be read.
fn relocations(elf: Option<&Option<Mapped>>) -> Option<u64> {
    let Some(mapped) = elf else { return Some(0) };
    let bytes = mapped.as_ref()?;
    elf::Image::of(&**bytes).and_then(|image| image.relocation_count()).ok()
}

/// A FIEMAP extent on its whole disk; `None` for what needs no disk to be read.
fn on_disk(extent: &Extent, place: DiskPart) -> Option<DiskExtent> {
    let readable = matches!(extent.kind, ExtentKind::Data | ExtentKind::Encoded);
    let disk = extent.disk.filter(|_| readable)?;
    Some(DiskExtent {
        offset: extent.offset,
        dev: place.disk,
        disk: DiskOffset(disk.0 + place.start.0),
        len: extent.len,
    })
}

fn is_elf(file: &File) -> bool {
    let mut magic = [0_u8; 4];
    // Looking must not bring more than one page in; without this it is only slower.
    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::Random);
    file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF"
}

/// The inode of a block device: the kernel keeps them in a file system of its own, numbered by device.
/// Its pages are the metadata of the file system on it.
fn block_device(inode: Inode) -> Option<ResolvedFile> {
    let raw = u32::try_from(inode.ino).ok().filter(|_| libc::major(inode.dev) == 0)?;
    let dev = from_kernel_dev(raw);
    let (major, minor) = (libc::major(dev), libc::minor(dev));
    let sysfs = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let sectors: u64 = std::fs::read_to_string(sysfs.join("size")).ok()?.trim().parse().ok()?;
    let link = sysfs.canonicalize().ok()?;
    let name = link.file_name()?.to_string_lossy().replace('!', "/");
    let mut file = ResolvedFile::unknown(inode);
    file.row.path = PathBuf::from("/dev").join(name);
    file.row.kind = FileKind::Metadata;
    file.row.dev = dev;
    file.row.size = Bytes(sectors * 512);
    let place = on_whole_disk(dev);
    file.place = Place::Known;
    file.extents = vec![DiskExtent { offset: FileOffset(0), dev: place.disk, disk: place.start, len: file.row.size }];
    Some(file)
}

/// Where a device lies. A stacked one (LVM, dm-crypt, RAID) stands for itself: the trace tells which ranges it
/// passed on to which disk.
fn on_whole_disk(dev: u64) -> DiskPart {
    part_of(dev).unwrap_or(DiskPart { disk: dev, start: DiskOffset(0) })
}

/// A file of a file system that is not mounted here: shared memory, or a mount of another namespace.
fn nowhere(inode: Inode, name: Option<&Name>, memory: Option<u64>) -> ResolvedFile {
    let mut file = ResolvedFile::unknown(inode);
    if memory == Some(inode.dev) {
        file.row.kind = FileKind::Memory;
        file.place = Place::Elsewhere;
    }
    if let Some(name) = name {
        file.row.path = name.path().to_owned();
    }
    file
}

/// The device number of the kernel's own tmpfs, where memfds and shared anonymous memory live.
fn memory_device() -> Option<u64> {
    let file = rustix::fs::memfd_create("thaw", rustix::fs::MemfdFlags::CLOEXEC).ok()?;
    rustix::fs::fstat(&file).ok().map(|stat| stat.st_dev)
}

#[cfg(test)]
mod tests;
