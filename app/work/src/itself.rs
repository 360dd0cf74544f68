//! What thaw itself does and waits for, as events: `--timeline FILE` of every verb.
//!
//! The rooms say what they do in spans of the crate `tracing`; nobody listens unless this was asked for.

use model::{Error, Exit, Result};
use os::replace::Existing;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tracing_subscriber::layer::SubscriberExt;

/// From here on, what this process does is written to a new file. It can be read at any time, and survives a kill.
///
/// # Errors
/// There is a file of this name already, or it cannot be made.
pub fn write_to(path: &Path) -> Result<()> {
    os::replace::check(path, Existing::Keep).map_err(|error| error.hint("write to another file: --timeline FILE"))?;
    // It is looked at again later, wherever this process is then.
    let name = std::path::absolute(path).ok().and_then(|path| CString::new(path.as_os_str().as_bytes()).ok());
    if !name.is_some_and(|name| thaw_events::write_to(&name)) {
        let error = Error::on(Exit::Machine, "cannot write the events to", path)
            .hint("name a place on a disk that has room: --timeline FILE");
        // The library says only that it cannot.
        return Err(match os::replace::open_directory(os::file::directory_of(path)) {
            Err(cause) => error.because(cause),
            Ok(_) => error,
        });
    }
    crate::start::head::hand_over(path)?;
    let listener = tracing_subscriber::registry().with(thaw_events_tracing::Events);
    tracing::subscriber::set_global_default(listener).map_err(|_| Error::bug("somebody listens to the spans already"))
}
