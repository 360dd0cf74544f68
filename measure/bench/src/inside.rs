//! Work that thaw does on the run's account.
//!
//! Whoever brings a page, an inode or a directory entry into memory is charged for it, and the state `app` evicts what
//! is charged to the run's memory group. When thaw puts a profile directory back or opens the program's files to look
//! at their pages, that must be charged to the run as well, or it would stay in memory when the run's things are
//! evicted. So thaw joins the group for that long.

use model::{Error, Exit, Result};
use os::cgroup::RunCgroup;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The controller whose group thaw joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    /// To be charged for what comes into memory.
    Memory,
    /// To read at the run's limits.
    Io,
}

/// The way in and out, both open.
#[derive(Debug)]
pub(crate) struct Door {
    inside: File,
    outside: File,
    /// Why thaw is still in the group, though it should have left.
    stuck: RefCell<Option<std::io::Error>>,
}

/// So often thaw tries to leave, and so long it waits before each further time: the kernel may be short of memory.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(5);

/// Thaw is in the run's group while this lives.
pub(crate) struct Inside<'a>(&'a Door);

impl Door {
    /// `None`: there is no such group, or thaw may not move itself.
    ///
    /// # Errors
    /// Thaw got in and not out again.
    pub fn open(cgroup: &RunCgroup, controller: Controller) -> Result<Option<Self>> {
        let Some(group) = cgroup.paths().into_iter().find(|path| controller.is_of(path)).map(Path::to_owned) else {
            return Ok(None);
        };
        let open = |directory: &Path| OpenOptions::new().write(true).open(directory.join("cgroup.procs")).ok();
        let Some(home) = home(&group, controller) else { return Ok(None) };
        let (Some(inside), Some(outside)) = (open(&group), open(&home)) else { return Ok(None) };
        let door = Self { inside, outside, stuck: RefCell::default() };
        // Not yet with anything at stake: whoever cannot leave must find out now.
        if (&door.outside).write_all(b"0").is_err() || (&door.inside).write_all(b"0").is_err() {
            return Ok(None);
        }
        drop(Inside(&door));
        door.is_left()?;
        Ok(Some(door))
    }

    /// Whether thaw is out of the group again. If it is not, the group's end would be thaw's: it must be left to stay.
    ///
    /// # Errors
    /// Thaw is still in it.
    pub fn is_left(&self) -> Result<()> {
        match &*self.stuck.borrow() {
            None => Ok(()),
            Some(cause) => Err(Error::new(Exit::Machine, "thaw cannot leave the run's control group", "")
                .because(cause.to_string())
                .hint("`thaw doctor --mend` removes the group when thaw has ended")),
        }
    }

    /// Goes in.
    pub fn enter(&self) -> Option<Inside<'_>> {
        (&self.inside).write_all(b"0").ok()?;
        Some(Inside(self))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let mut left = (&self.0.outside).write_all(b"0");
        for _ in 1..TRIES {
            if left.is_ok() {
                break;
            }
            std::thread::sleep(PAUSE);
            left = (&self.0.outside).write_all(b"0");
        }
        // It worked when the door was opened: the administrator may have removed our home since.
        *self.0.stuck.borrow_mut() = left.err();
    }
}

impl Controller {
    /// Its names in version 1 and 2, and a file that only its groups of version 1 have.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Memory => ("memory", "memory", "memory.force_empty"),
            Self::Io => ("blkio", "io", "blkio.throttle.read_bps_device"),
        }
    }

    fn is_of(self, group: &Path) -> bool {
        let (_, name, file) = self.names();
        let v2 = std::fs::read_to_string(group.join("cgroup.controllers")).unwrap_or_default();
        group.join(file).exists() || v2.split_ascii_whitespace().any(|word| word == name)
    }
}

/// Directory of the group that thaw itself is in, in the hierarchy that `group` is in.
fn home(group: &Path, controller: Controller) -> Option<PathBuf> {
    let mounts = os::mounts::Mounts::load().ok()?;
    let mount = mounts.of_path(group)?;
    let mine = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = mine.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let wanted = match mount.fstype.as_str() {
            "cgroup2" => controllers.is_empty(),
            _ => controllers.split(',').any(|name| name == controller.names().0),
        };
        wanted.then_some(path)
    })?;
    let below = Path::new(path).strip_prefix(&mount.root).ok()?;
    Some(mount.point.join(below))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_leave_says_so_and_is_not_ended_for_it() {
        let file = |path| OpenOptions::new().write(true).open(path).unwrap();
        let of = |outside| Door { inside: file("/dev/null"), outside: file(outside), stuck: RefCell::default() };
        let door = of("/dev/null");
        drop(door.enter());
        door.is_left().unwrap();
        let door = of("/dev/full");
        drop(door.enter());
        let error = door.is_left().unwrap_err();
        assert_eq!(error.exit, Exit::Machine);
        assert!(error.to_string().contains("cannot leave the run's control group"));
    }
}
