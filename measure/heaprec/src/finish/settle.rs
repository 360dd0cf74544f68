//! Sums whose process has ended: they stand without their stream.

use heapfile::event::Process;
use heapfile::form::STREAM;
use heapfile::sums::{self, Sums};
use model::{Error, Exit, Result, Warning, WarningKind};

/// What finishing did with sums.
#[derive(Clone, Copy, Debug)]
pub struct Settled {
    /// Bytes of the stream that were not added up, and cannot be any more: which blocks were live before them is not
    /// known.
    pub left_out: u64,
    /// Whether the sums have all events of the process.
    pub whole: bool,
}

/// Removes the stream beside the sums of a process that has ended. What it says of losses, and what was not read of it,
/// is kept with the sums.
///
/// # Errors
/// The sums cannot be read or written, the stream cannot be removed.
pub fn settle(process: &Process) -> Result<Settled> {
    let (path, stream) = (&process.file, process.file.with_extension(STREAM));
    let mut known = Sums::read(path)?;
    let left_out = known.unread(path);
    if left_out > 0 {
        known.warnings.pop();
        let text = known.until(path, &format!("{left_out} bytes of events were not before its thaw was killed"));
        known.warnings.push(Warning::new(WarningKind::LostRecords, text));
    }
    if stream.exists() {
        known.write(&[path], &sums::head(path)?)?;
        os::replace::remove(&stream)
            .map_err(|cause| Error::on(Exit::Machine, "cannot remove", &stream).because(cause))?;
    }
    let lost = |warning: &Warning| warning.kind == WarningKind::LostRecords;
    Ok(Settled { left_out, whole: process.lost == 0 && !known.warnings.iter().any(lost) })
}
