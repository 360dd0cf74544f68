//! What a leak check knew of a process: which of its leaks can still be reached, or why that is unknown.

use heapfile::books::Books;
use heapfile::check::Check;
use heapfile::event::Process;
use heapfile::figures::{Site, Window};
use heapfile::reader::{Events, Reader};
use heapfile::recording::Recording;
use model::{Result, Warning, WarningKind, shown};

/// Whether leaks were looked at.
#[derive(Debug)]
pub enum Checked {
    /// Nobody asked for it.
    Not,
    /// They could not be.
    Unknown(String),
    /// They were.
    Known(Check),
}

impl Checked {
    /// What there is of a process.
    ///
    /// # Errors
    /// The file of its check is damaged.
    pub fn of(reader: &Reader, process: &Process) -> Result<Self> {
        Ok(match Check::read(&process.file)? {
            None => why_not(reader.recording()).map_or(Self::Not, Self::Unknown),
            Some(Check { unknown: Some(why), .. }) => Self::Unknown(why),
            Some(check) => Self::Known(check),
        })
    }
}

/// Why nobody looked at a process; `None`: nobody wanted it.
pub(crate) fn why_not(recording: &Recording) -> Option<String> {
    let why = match recording.finished {
        true => "it did not end by exit() or _exit(), but by exec, a signal or a system call of its own",
        false => "it has not ended",
    };
    recording.leak_check.then(|| why.into())
}

/// Enters into the sites of a process, after its last event, what a check knew; what is doubtful about that. A window
/// that ends earlier has other blocks.
///
/// # Errors
/// The file of its check is damaged.
pub(crate) fn enter(
    reader: &Reader,
    process: &Process,
    window: Window,
    books: &Books,
    events: &Events,
    sites: &mut [Site],
) -> Result<Option<Warning>> {
    if window.until_ns.is_some() {
        return Ok(None);
    }
    Ok(match Checked::of(reader, process)? {
        Checked::Not => None,
        Checked::Unknown(why) => {
            let leaks = books.ledger.totals().live_blocks > 0;
            leaks.then(|| unknown(process, &why))
        }
        Checked::Known(check) => {
            if let Some(blocks) = check.blocks() {
                books.reach(sites, &blocks, events.at(blocks.ticks()));
            }
            None
        }
    })
}

/// What is said of a process whose leaks are not known.
pub(crate) fn unknown(process: &Process, why: &str) -> Warning {
    let text = format!(
        "process {} ({}): which of its leaks can still be reached is unknown: {why}",
        process.pid,
        shown(&process.exe)
    );
    Warning::new(WarningKind::Note, text)
}
