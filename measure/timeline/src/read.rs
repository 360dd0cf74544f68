//! Which form a file has, by what it begins with; whatever it is becomes a [`Trace`].

use crate::import::{self, Rules, ctf};
use crate::own::clock::Pair;
use crate::own::{self, MAGIC};
use crate::trace::{Form, Trace};
use flate2::read::MultiGzDecoder;
use model::{Error, Exit, Result, shown};
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// A packed file may become this large, in bytes.
const LARGEST: u64 = 4 << 30;
/// So much of a packed file is looked at to find its form.
const HEAD: u64 = 1 << 20;

/// The form of a file, by its bytes; `None`: none that is known. A file that gzip packed has the form of its content.
pub fn form_of(bytes: &[u8]) -> Option<Form> {
    if is_packed(bytes) {
        let mut head = Vec::new();
        // What was unpacked before an error is looked at all the same.
        let _ = MultiGzDecoder::new(bytes).take(HEAD).read_to_end(&mut head);
        return plain_form(&head);
    }
    plain_form(bytes)
}

fn plain_form(bytes: &[u8]) -> Option<Form> {
    if bytes.starts_with(MAGIC) { Some(Form::Events) } else { import::form_of(bytes) }
}

fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Reads a file of events of any known form, also one that gzip packed. `now`: both clocks of this machine on boot
/// `now.0`, for [`Form::Events`]. `rules`: what lines of [`Form::MozLog`] mean, beside those that are built in.
///
/// # Errors
/// It is of no known form, or nothing of it can be read.
pub fn read_by(bytes: &[u8], now: Option<(&str, Pair)>, rules: Option<&Rules>) -> Result<Trace> {
    let (bytes, damage) = unpacked(bytes)?;
    let mut trace = match plain_form(&bytes) {
        Some(Form::Events) => own::parse(&bytes, now)?,
        Some(form) => import::read(form, &bytes, rules)?,
        None => {
            return Err(Error::new(
                Exit::Data,
                "cannot read events",
                "they are in no form that thaw knows, or their program ended before it was one",
            ));
        }
    };
    trace.damage.extend(damage);
    Ok(trace)
}

/// Reads a file as [`read_by`] does; of [`Form::Ctf`] it is the metadata, and its streams are beside it.
///
/// # Errors
/// As [`read_by`]; it cannot be had.
pub fn read_file(path: &Path, now: Option<(&str, Pair)>, rules: Option<&Rules>) -> Result<Trace> {
    let bytes = std::fs::read(path).map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))?;
    if ctf::is_metadata(&bytes) {
        return ctf::read_beside(path, &bytes);
    }
    read_by(&bytes, now, rules).map_err(|error| match error.hint {
        Some(_) => error,
        None => error.hint(format!("it is {}", shown(path))),
    })
}

/// As [`read_by`], with the built-in rules.
///
/// # Errors
/// As [`read_by`].
pub fn read(bytes: &[u8], now: Option<(&str, Pair)>) -> Result<Trace> {
    read_by(bytes, now, None)
}

fn unpacked(bytes: &[u8]) -> Result<(Cow<'_, [u8]>, Option<String>)> {
    if !is_packed(bytes) {
        return Ok((Cow::Borrowed(bytes), None));
    }
    let mut content = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(LARGEST).read_to_end(&mut content);
    if content.len() as u64 == LARGEST {
        return Err(Error::new(Exit::Data, "cannot read events", "the packed file holds more than 4 GiB")
            .hint("unpack it, and take the part that is of interest"));
    }
    Ok((Cow::Owned(content), read.err().map(|error| format!("the packed file ends early: {error}"))))
}
