//! What a leak check knew of a process: which of its leaks can still be reached, or why that is unknown.

use heapfile::books::Books;
use heapfile::check::Check;
use heapfile::event::Process;
use heapfile::figures::{Site, Window};
use heapfile::reader::{Events, Reader};
use heapfile::recording::Recording;
use model::{Result, Warning, WarningKind, shown};

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
    let check = Check::read(&process.file)?;
    if let Some((check, blocks)) = check.as_ref().and_then(|check| Some((check, check.blocks()?))) {
        books.reach(sites, &blocks, events.at(check.ticks));
        return Ok(None);
    }
    let why = check.and_then(|check| check.unknown).or_else(|| why_not(reader.recording()));
    let leaks = books.ledger.totals().live_blocks > 0;
    Ok(why.filter(|_| leaks).map(|why| unknown(process, &why)))
}

/// What is said of a process whose leaks are not known.
fn unknown(process: &Process, why: &str) -> Warning {
    let text = format!(
        "process {} ({}): which of its leaks can still be reached is unknown: {why}",
        process.pid,
        shown(&process.exe)
    );
    Warning::new(WarningKind::Note, text)
}
