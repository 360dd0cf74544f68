//! The files of a recording that hold a process image, by their extensions.

use std::path::Path;

/// Extension of streams.
pub const STREAM: &str = "stream";
/// Extension of finished files.
pub const EVENTS: &str = "events";
/// Extension of files of sums.
pub const SUMS: &str = "sums";

/// Extension of files of earlier states of sums: they lie beside a process image and hold none.
pub const STATE: &str = "state";
/// Extension of files of leak checks: they lie beside a process image and hold none.
pub const REACH: &str = "reach";

/// What a file of a recording is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As the recorded process wrote it.
    Stream,
    /// Rewritten: [`crate::finished`].
    Finished,
    /// Added up: [`crate::sums`].
    Sums,
}

/// What a file is; `None`: it holds no process image.
pub fn form(path: &Path) -> Option<Form> {
    match path.extension()?.to_str()? {
        STREAM => Some(Form::Stream),
        EVENTS => Some(Form::Finished),
        SUMS => Some(Form::Sums),
        _ => None,
    }
}

/// Whether a file is a stream, not yet rewritten.
pub fn is_stream(path: &Path) -> bool {
    form(path) == Some(Form::Stream)
}
