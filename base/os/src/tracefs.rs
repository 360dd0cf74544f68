//! tracefs: what tracepoints there are and how their records look; and trace buffers of our own as an engine
//! for machines without perf events.
//!
//! A mounted tracefs is used if there is one; otherwise a detached mount, which nobody else sees and which is
//! gone with the last descriptor. Tracepoints at places of programs, too. Not for kprobes or function tracing.

mod format;
mod instance;
mod pages;
mod uprobe;

pub use format::{Field, Format, WhereData};
pub(crate) use instance::undo;
pub use instance::{Event, Instance, InstanceLog};
pub(crate) use uprobe::undo as undo_uprobes;
pub use uprobe::{Place, Uprobes};

use crate::proc::mountinfo::{self, Mount};
use model::{Error, Exit, Result};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

/// The file system, mounted or as a detached mount of our own.
#[derive(Debug)]
pub struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// Finds it.
    ///
    /// # Errors
    /// This kernel has none, or only root may look at it.
    pub fn open() -> Result<Self> {
        Self::mounted().map_or_else(Self::detached, Ok).map_err(|cause| {
            Error::new(Exit::Machine, "cannot open tracefs", "").because(cause).hint("run thaw as root")
        })
    }

    /// One that is mounted and readable.
    fn mounted() -> Option<Self> {
        let points = mountinfo::own().ok()?.into_iter().filter(|mount| mount.fstype == "tracefs");
        let open = |mount: Mount| {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let tracefs = Self { root: rustix::fs::open(&mount.point, flags, Mode::empty()).ok()? };
            tracefs.read("events/header_page").is_ok().then_some(tracefs)
        };
        points.filter_map(open).next()
    }

    /// One that is mounted nowhere.
    fn detached() -> io::Result<Self> {
        let context = rustix::mount::fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let attributes =
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        Ok(Self { root: rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)? })
    }

    fn open_file(&self, path: &str, flags: OFlags) -> io::Result<File> {
        Ok(rustix::fs::openat(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    fn read(&self, path: &str) -> io::Result<String> {
        let mut file = self.open_file(path, OFlags::RDONLY)?;
        let mut text = Vec::new();
        // Some of these files give what fits into the first read and then nothing, so it must be a large one.
        let mut part = vec![0u8; 64 << 10];
        loop {
            match file.read(&mut part) {
                Ok(0) => {
                    return String::from_utf8(text).map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause));
                }
                Ok(len) => text.extend_from_slice(&part[..len]),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        self.open_file(path, OFlags::WRONLY | OFlags::TRUNC)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|cause| {
                Error::new(Exit::Machine, format!("cannot write '{text}' to tracefs"), path).because(cause)
            })
    }

    fn names(&self, path: &str) -> io::Result<Vec<String>> {
        let directory =
            rustix::fs::openat(&self.root, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&directory)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// How a tracepoint's record looks.
    ///
    /// # Errors
    /// This kernel has no such tracepoint, or describes it in an unknown way.
    pub fn tracepoint(&self, system: &str, name: &str) -> Result<Format> {
        let text = self.read(&format!("events/{system}/{name}/format")).map_err(|cause| {
            Error::new(Exit::Machine, "this kernel has no tracepoint", format!("{system}:{name}"))
                .because(cause)
                .hint("`thaw doctor` lists what can be measured without it")
        })?;
        Format::parse(system, &text)
    }

    /// Whether there is such a tracepoint.
    pub fn has(&self, system: &str, name: &str) -> bool {
        self.open_file(&format!("events/{system}/{name}/format"), OFlags::RDONLY).is_ok()
    }

    /// All tracepoints, `system:name`.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn available(&self) -> Result<Vec<String>> {
        let text = self.read("available_events").map_err(|cause| {
            Error::new(Exit::Machine, "cannot read the list of tracepoints", "available_events").because(cause)
        })?;
        Ok(text.lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detached_mount_reads_formats_and_leaves_no_mount() {
        if !testing::root_or_skip() {
            return;
        }
        let tracefs = match Tracefs::detached() {
            Ok(tracefs) => tracefs,
            Err(error) => return testing::skip(&format!("no tracefs: {error}")),
        };
        let before = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let format = tracefs.tracepoint("sched", "sched_process_fork").unwrap();
        assert!(format.id > 0 && format.fields.contains_key("child_pid"));
        assert!(tracefs.has("sched", "sched_process_fork") && !tracefs.has("sched", "no_such_thing"));
        assert!(tracefs.available().unwrap().iter().any(|name| name == "sched:sched_process_fork"));
        let missing = tracefs.tracepoint("filemap", "no_such_thing").unwrap_err();
        assert_eq!((missing.exit, missing.object.as_str()), (Exit::Machine, "filemap:no_such_thing"));
        assert_eq!(before, std::fs::read_to_string("/proc/self/mountinfo").unwrap());
    }

    #[test]
    fn whatever_is_there_is_found() {
        if testing::root_or_skip() {
            match Tracefs::open() {
                Ok(tracefs) => assert!(tracefs.names("events").unwrap().len() > 10),
                Err(error) => testing::skip(&error.to_string()),
            }
        }
    }
}
