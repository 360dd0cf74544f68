//! A damaged session put in order while no program uses it: what a program would have of it becomes the current file,
//! and the damaged one is kept.

use super::{Desk, Job};
use crate::counted::Counted;
use crate::files::{CURRENT, Missing};
use crate::shared::Shared;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use thaw_log::bell::Bell;
use thaw_log::book;
use thaw_log::disk::Disk;
use thaw_log::frame;

/// What a repair found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// The file that was damaged.
    pub name: String,
    /// What of it is missing.
    pub missing: Missing,
    /// Where it is kept.
    pub aside: String,
}

/// Puts the session on a disk in order. `None`: the file that a program would load is whole.
///
/// # Errors
/// A program uses it; the disk: then it is as it was, or loads as it did.
pub fn repair(disk: Arc<dyn Disk>) -> io::Result<Option<Repaired>> {
    let shared = Arc::new(Shared::new(Bell::new()?, Duration::ZERO));
    let mut desk = Desk::new(Arc::new(Counted::new(disk)), shared, String::new());
    let mut job = desk.start();
    while let Some(Job::Rest(rest)) = job {
        job = desk.rest(rest);
    }
    if let Some(why) = desk.refused.take() {
        return Err(io::Error::new(io::ErrorKind::WouldBlock, why));
    }
    if desk.failures > 0 {
        let reason = desk.shared.lock().health.reason.clone().unwrap_or_default();
        return Err(io::Error::other(reason));
    }
    let name = desk.home.0.clone();
    if name.is_empty() || !(desk.damaged || desk.has_damage(&name)?) {
        return Ok(None);
    }
    // It stays the file of the version that wrote it, and all of the damaged one is kept.
    (desk.version, desk.damaged, desk.anew) = (desk.label.clone(), true, true);
    desk.save().map_err(io::Error::other)?;
    let aside = if name == CURRENT { desk.kept.take() } else { Some(book::move_aside(&*desk.disk, &name)?) };
    let aside = aside.ok_or_else(|| io::Error::other(format!("{name} was not kept")))?;
    Ok(Some(Repaired { name, missing: std::mem::take(&mut desk.missing), aside }))
}

impl Desk {
    /// Payloads too, which are not read before somebody wants them.
    fn has_damage(&self, name: &str) -> io::Result<bool> {
        let len = self.disk.about(name)?.map_or(0, |about| about.len);
        let mut bytes = vec![0; len as usize];
        let read = self.disk.read(name, 0, &mut bytes)?;
        Ok(frame::open(&bytes[..read]).is_none_or(|(_, found)| !found.damage.is_empty()))
    }
}
