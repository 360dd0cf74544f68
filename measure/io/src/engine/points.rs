//! Which tracepoints the kernel engines look at, and what to do without.

use model::{Bytes, Error, Exit, Result};
use os::tracefs::{Format, Tracefs};

/// What a tracepoint tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Pages came into the cache.
    Fill,
    /// A read got pages.
    Read,
    /// A fault wants a page.
    Fault,
    /// Pages were mapped around a fault.
    Around,
    /// A block request is made, in the context of who wants it.
    Start,
    /// A block request goes to the device, in anybody's context.
    Issue,
    /// A block request (or a part of it) is done.
    Complete,
    /// A stacked device passed a range on.
    Remap,
    /// A read or write past the page cache begins.
    Direct,
    /// A sync of a file begins; the file system names the file.
    SyncBegin,
    /// It ends.
    SyncEnd,
    /// A sync system call begins; no file is named.
    CallBegin,
    /// It ends.
    CallEnd,
    /// A thread or process begins (only without perf's own records).
    Task,
    /// A program is executed.
    Exec,
    /// A thread ends.
    Exit,
    /// A thread gets a name.
    Name,
    /// A thread is woken, by a thread or an interrupt.
    Wake,
}

impl Role {
    /// Whether hits of everybody are logged: requests are issued and completed in anybody's context. Syncs are rare
    /// enough; each event that follows the tree costs something whenever a thread begins or ends.
    pub(super) fn is_system(self) -> bool {
        let requests = matches!(self, Self::Start | Self::Issue | Self::Complete | Self::Remap);
        // Whoever wakes a thread of the tree need not be of it.
        let wakes = matches!(self, Self::Wake);
        requests
            || wakes
            || matches!(self, Self::Direct | Self::SyncBegin | Self::SyncEnd | Self::CallBegin | Self::CallEnd)
    }
}

/// A tracepoint of this kernel and what it tells.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) role: Role,
    pub(super) format: Format,
}

/// The tracepoints that were found, and what is missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Points {
    pub(super) sources: Vec<Source>,
    pub(super) cannot: Vec<String>,
}

/// Whether processes and names come from tracepoints too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tasks {
    /// perf has records of its own for them.
    FromRecords,
    /// Look at sched and task tracepoints.
    FromTracepoints,
}

/// What trace buffers cannot know of a tree with workers of io_uring: the kernel does not follow these.
pub(super) const WORKERS: &str = "which pages io_uring's own threads brought in for the program";

/// Trace buffer of a tree's own events, per CPU: one of a fill is 48 bytes, so this holds a burst of 170,000.
pub(super) const TREE_BUFFER: Bytes = Bytes(8 << 20);
/// The same of block requests; two events of less than 100 bytes each.
pub(super) const SYSTEM_BUFFER: Bytes = Bytes(2 << 20);

/// File systems that name the file of an fsync: system, begin, end.
const SYNCS: [(&str, &str, &str); 4] = [
    ("ext4", "ext4_sync_file_enter", "ext4_sync_file_exit"),
    ("f2fs", "f2fs_sync_file_enter", "f2fs_sync_file_exit"),
    ("xfs", "xfs_file_fsync", ""),
    ("btrfs", "btrfs_sync_file", ""),
];

impl Points {
    /// Looks up what this kernel has. `file_systems` are the types of the mounted disks.
    pub(super) fn find(tracefs: &Tracefs, tasks: Tasks, file_systems: &[String], wakes: bool) -> Result<Self> {
        let mut points = Self::default();
        let fill = points.add(tracefs, Role::Fill, "filemap", "mm_filemap_add_to_page_cache")?;
        let issue = points.add(tracefs, Role::Issue, "block", "block_rq_issue")?;
        let complete = points.add(tracefs, Role::Complete, "block", "block_rq_complete")?;
        if !fill {
            let what = "this kernel has no tracepoint";
            return Err(Error::new(Exit::Machine, what, "filemap:mm_filemap_add_to_page_cache")
                .hint("look without it: `--engine probe`"));
        }
        if !points.add(tracefs, Role::Start, "block", "block_io_start")? {
            let sentence = "for certain whose a block request is that filled no page: this kernel (before 6.5) has no \
                            block:block_io_start";
            points.cannot.push(sentence.into());
        }
        if !(issue && complete) {
            points.cannot.push("block requests: this kernel has no block:block_rq_issue and block_rq_complete".into());
        }
        let read = points.add(tracefs, Role::Read, "filemap", "mm_filemap_get_pages")?;
        let fault = points.add(tracefs, Role::Fault, "filemap", "mm_filemap_fault")?;
        points.add(tracefs, Role::Around, "filemap", "mm_filemap_map_pages")?;
        if !(read && fault) {
            let sentence = "what was requested and what was read ahead: this kernel (before 6.11) has no \
                            filemap:mm_filemap_get_pages and mm_filemap_fault";
            points.cannot.push(sentence.into());
        }
        if stacked_devices() {
            points.add(tracefs, Role::Remap, "block", "block_bio_remap")?;
        }
        if !points.add(tracefs, Role::Direct, "iomap", "iomap_dio_rw_begin")? {
            let sentence = "which files are read past the page cache (O_DIRECT): this kernel (before 6.6) has no \
                            iomap:iomap_dio_rw_begin";
            points.cannot.push(sentence.into());
        }
        points.add_syncs(tracefs, file_systems)?;
        if wakes && !points.add(tracefs, Role::Wake, "sched", "sched_waking")? {
            points.cannot.push("who woke a thread that waited: this kernel has no sched:sched_waking".into());
        }
        if tasks == Tasks::FromTracepoints {
            points.add(tracefs, Role::Task, "task", "task_newtask")?;
            points.add(tracefs, Role::Exec, "sched", "sched_process_exec")?;
            points.add(tracefs, Role::Exit, "sched", "sched_process_exit")?;
            points.add(tracefs, Role::Name, "task", "task_rename")?;
        }
        Ok(points)
    }

    /// Whether anything with this role was found.
    pub(super) fn has(&self, role: Role) -> bool {
        self.sources.iter().any(|source| source.role == role)
    }

    /// The formats of one scope.
    pub(super) fn formats(&self, system: Scope) -> Vec<Format> {
        let wanted = self.sources.iter().filter(|source| source.role.is_system() == (system == Scope::System));
        wanted.map(|source| source.format.clone()).collect()
    }

    fn add(&mut self, tracefs: &Tracefs, role: Role, system: &str, name: &str) -> Result<bool> {
        if name.is_empty() || !tracefs.has(system, name) {
            return Ok(false);
        }
        self.sources.push(Source { role, format: tracefs.tracepoint(system, name)? });
        Ok(true)
    }

    /// fsyncs: by the file systems that name the file; by the system calls for all others. System call
    /// tracepoints slow every system call down, so they are used only where they must be.
    fn add_syncs(&mut self, tracefs: &Tracefs, file_systems: &[String]) -> Result<()> {
        let mut unnamed = Vec::new();
        for kind in file_systems {
            let known = SYNCS.iter().find(|(system, ..)| system == kind);
            let (begin, end) = match known {
                Some((system, begin, end)) => {
                    (self.add(tracefs, Role::SyncBegin, system, begin)?, self.add(tracefs, Role::SyncEnd, system, end)?)
                }
                None => (false, false),
            };
            if !begin {
                unnamed.push(kind.as_str());
            } else if !end {
                self.cannot.push(format!("how long an fsync on {kind} takes"));
            }
        }
        if !unnamed.is_empty() {
            for call in ["fsync", "fdatasync"] {
                self.add(tracefs, Role::CallBegin, "syscalls", &format!("sys_enter_{call}"))?;
                self.add(tracefs, Role::CallEnd, "syscalls", &format!("sys_exit_{call}"))?;
            }
            self.cannot.push(format!("which file an fsync on {} is for", unnamed.join(", ")));
        }
        Ok(())
    }
}

pub(super) use os::perf::Scope;

/// Types of the mounted file systems that lie on disks, each once.
pub(super) fn disk_file_systems(mounts: &os::mounts::Mounts) -> Vec<String> {
    use os::mounts::Backing;
    let disks = mounts.0.iter().filter(|mount| matches!(mount.backing(), Backing::Disk | Backing::Volume));
    let mut kinds: Vec<String> = disks.map(|mount| mount.fstype.clone()).collect();
    kinds.sort();
    kinds.dedup();
    kinds
}

/// Whether any block device of this machine lies on others (LVM, dm-crypt, RAID). Loop devices do not count:
/// they read files.
fn stacked_devices() -> bool {
    let Ok(devices) = std::fs::read_dir("/sys/block") else { return false };
    devices
        .flatten()
        .any(|device| std::fs::read_dir(device.path().join("slaves")).is_ok_and(|mut slaves| slaves.next().is_some()))
}
