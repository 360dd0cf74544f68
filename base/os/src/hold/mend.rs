//! Undoing what the journal says, whatever it is: for changes that rooms make, and for what a killed thaw left.
//!
//! The one module that knows everybody who undoes something. Those in this crate that make changes do not need it: they
//! give their own hand to the journal.

use super::journal::{Entry, Hand, Journal, Leftover, Refused, Undo};
use crate::filesystem::current;
use crate::proc::stat::start_ticks;
use crate::replace::move_to;
use model::{Error, Exit, Result};
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Writes down how to undo a change, makes it, and returns its guard. If the change fails, it is
/// undone as far as it went and its error is returned.
///
/// # Errors
/// The journal cannot be written (then nothing was changed), or the change's own error.
pub fn hold(undo: Undo, change: impl FnOnce() -> Result<()>) -> Result<Entry> {
    Journal::own()?.hold(undo, perform, change)
}

/// What dead processes left behind, the newest first: the order in which to mend it.
///
/// # Errors
/// The journal is there and cannot be read.
pub fn leftovers() -> Result<Vec<Leftover>> {
    survey().map(|(leftovers, _)| leftovers)
}

/// [`leftovers`], and what is not obeyed.
///
/// # Errors
/// The journal is there and cannot be read.
pub fn survey() -> Result<(Vec<Leftover>, Vec<Refused>)> {
    let (own, machine) = (Journal::own()?, Journal::machine());
    let (mut leftovers, mut refused) = own.survey()?;
    if machine != own {
        let (more, not) = machine.survey()?;
        leftovers.extend(more);
        refused.extend(not);
    }
    leftovers.sort_by_key(|leftover| std::cmp::Reverse(leftover.created_unix_ns));
    Ok((leftovers, refused))
}

/// Undoes one leftover and forgets it.
///
/// # Errors
/// Undoing failed (the entry stays), or another thaw is mending it right now.
pub fn mend(leftover: &Leftover) -> Result<()> {
    super::journal::mend(leftover, perform)
}

/// Undoes a change of any kind. `entry` is the journal's file that says so.
pub(super) fn perform(undo: &Undo, entry: &Path) -> Result<()> {
    let hand: Hand = match undo {
        Undo::LetGo { .. } => super::settings::undo,
        Undo::RemoveCgroup { .. } => super::cgroup::undo,
        Undo::RemoveTracefsInstance { .. } => crate::tracefs::undo,
        Undo::RemoveUprobes { .. } => crate::tracefs::undo_uprobes,
        Undo::RemoveFile { .. } => crate::replace::undo,
        Undo::WriteFile { path, text } => return put_back(path, text),
        Undo::RestoreDirectory { pristine, live } => return restore_directory(pristine, live),
        Undo::RemoveTree { path } => return crate::tree::remove(path),
        Undo::Unmount { path, note } => return unmount(path, note),
        Undo::EndProcess { pid, start_ticks, what } => return end_process(*pid, *start_ticks, what),
        #[cfg(target_arch = "x86_64")]
        Undo::PutBackCode { pid, start_ticks, places } => return put_back_code(*pid, *start_ticks, places),
        Undo::Unknown => {
            return Err(Error::new(Exit::Data, "cannot read the journal entry", "")
                .hint("it was written by another version of thaw: run that version's `thaw doctor`"));
        }
    };
    hand(undo, entry)
}

fn put_back(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|cause| {
        Error::on(Exit::Machine, "cannot put back", path)
            .because(cause)
            .hint(format!("write '{}' into it by hand", text.trim_end()))
    })
}

/// The note goes first: whoever finds it may count on what is mounted.
fn unmount(path: &Path, note: &Path) -> Result<()> {
    crate::replace::remove(note).map_err(|cause| Error::on(Exit::Machine, "cannot remove", note).because(cause))?;
    let cannot = |cause: rustix::io::Errno| {
        Error::on(Exit::Machine, "cannot unmount", path).because(io::Error::from(cause)).hint("run it as root")
    };
    match rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH | rustix::mount::UnmountFlags::NOFOLLOW) {
        // It is not there, or nothing is mounted there.
        Ok(()) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::INVAL) => {}
        Err(cause) => return Err(cannot(cause)),
    }
    match rustix::fs::rmdir(path) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(cause) => Err(cannot(cause)),
    }
}

/// Where a copy is built before it is renamed to its real name.
pub(super) fn partial(pristine: &Path) -> PathBuf {
    let mut name = pristine.as_os_str().to_owned();
    name.push(".partial");
    name.into()
}

fn restore_directory(pristine: &Path, live: &Path) -> Result<()> {
    crate::tree::remove(&partial(pristine))?;
    if pristine.symlink_metadata().is_err() {
        return Ok(());
    }
    crate::tree::restore(pristine, live)?;
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |cause: io::Error| Error::on(Exit::Machine, what, &path).because(cause)
    };
    // After a power cut one of the two must be whole: the copy goes only when what was restored is on the disk.
    sync_around(live).map_err(failed("cannot write", live))?;
    // Renamed first: a removal that is cut short must not leave half a copy that looks like a whole one.
    let spent = partial(pristine);
    move_to(pristine, &spent).map_err(failed("cannot rename", pristine))?;
    crate::tree::remove(&spent)
}

/// Waits until all of the file system that something is on is on the disk. What became a link or a pipe meanwhile is
/// not followed and not waited for.
fn sync_around(path: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    current().sync_everything(&File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Copies `live` to `pristine` (which must not exist) and holds the duty to put `live` back.
///
/// # Errors
/// The copy failed: nothing was changed, nothing is left.
pub fn hold_directory(pristine: &Path, live: &Path) -> Result<Entry> {
    let undo = Undo::RestoreDirectory { pristine: pristine.to_path_buf(), live: live.to_path_buf() };
    hold(undo, || {
        let building = partial(pristine);
        crate::tree::remove(&building)?;
        crate::tree::copy(live, &building)?;
        // After a power cut the copy must be there and whole, or nothing was changed yet.
        sync_around(&building)
            .and_then(|()| move_to(&building, pristine))
            .map_err(|cause| Error::on(Exit::Machine, "cannot save the copy", &building).because(cause))
    })
}

/// Kills a process, if it is still the one that was meant, and waits for its end.
fn end_process(pid: u32, ticks: u64, what: &str) -> Result<()> {
    let failed = |cause: rustix::io::Errno| {
        Error::new(Exit::Machine, format!("cannot end {what}, process"), pid).because(io::Error::from(cause))
    };
    let Some(number) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return Ok(()) };
    let process = match rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        process => process.map_err(failed)?,
    };
    // Looked at after it was opened: from here on the number cannot come to mean another one.
    if start_ticks(pid) != Some(ticks) {
        return Ok(());
    }
    match rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(cause) => return Err(failed(cause)),
    }
    // Long enough for any process that ends at all; one that the kernel holds must not hold us.
    let patience = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
    let mut ended = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    match rustix::event::poll(&mut ended, Some(&patience)) {
        Ok(0) => Err(failed(rustix::io::Errno::TIMEDOUT)),
        Err(cause) if cause != rustix::io::Errno::INTR => Err(failed(cause)),
        _ => Ok(()),
    }
}

#[cfg(target_arch = "x86_64")]
fn put_back_code(pid: u32, ticks: u64, places: &[crate::ptrace::Replaced]) -> Result<()> {
    use crate::ptrace::NotStopped;
    if start_ticks(pid) != Some(ticks) {
        return Ok(());
    }
    let failed = |cause: io::Error| {
        Error::new(Exit::Machine, "cannot take the hooks of a heap recording out of process", pid).because(cause)
    };
    match crate::ptrace::put_back(pid, places) {
        Ok(_) | Err(NotStopped::Gone) => Ok(()),
        Err(NotStopped::Refused(cause)) => Err(failed(cause)),
        Err(NotStopped::Stuck(tid)) => Err(failed(io::Error::other(format!("its thread {tid} does not stop")))),
    }
}
