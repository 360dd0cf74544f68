//! Which form a file has, by what it begins with; whatever it is becomes a [`Trace`].

use crate::own::clock::Pair;
use crate::own::{self, MAGIC};
use crate::trace::{Form, Trace};
use model::{Error, Exit, Result};

/// The form of a file, by its bytes; `None`: none that is known.
pub fn form_of(bytes: &[u8]) -> Option<Form> {
    bytes.starts_with(MAGIC).then_some(Form::Events)
}

/// Reads a file of events of any known form. `now`: both clocks of this machine on boot `now.0`, for [`Form::Events`].
///
/// # Errors
/// It is of no known form, or nothing of it can be read.
pub fn read(bytes: &[u8], now: Option<(&str, Pair)>) -> Result<Trace> {
    match form_of(bytes) {
        Some(_) => own::parse(bytes, now),
        None => Err(Error::new(
            Exit::Data,
            "cannot read events",
            "they are in no form that thaw knows, or their program ended before it was one",
        )),
    }
}
