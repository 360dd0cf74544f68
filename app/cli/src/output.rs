//! Where answers go: stdout, with colours taken out where nobody sees them. A reader that went away (`| head`) is no
//! error.

use crate::args::Color;
use crate::text::Page;
use model::{Error, Exit, Result};
use os::replace::{Existing, Rights};
use serde::Serialize;
use std::io::{self, Write};
use std::path::Path;

/// Decides on colours for the whole process; `auto` obeys NO_COLOR, CLICOLOR and CLICOLOR_FORCE.
pub fn set_color(color: Color) {
    let choice = match color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Prints a page.
///
/// # Errors
/// stdout cannot be written, for another reason than a reader that went away.
pub fn page(page: &Page) -> Result<()> {
    quiet_pipe(anstream::stdout().lock().write_all(page.text().as_bytes()))
}

/// Prints a value as one indented JSON document.
///
/// # Errors
/// As [`page`].
pub fn json(document: &impl Serialize) -> Result<()> {
    bytes(&json_text(document)?)
}

/// Prints a value as one JSON document, or as the page that is made of it.
///
/// # Errors
/// As [`page`].
pub fn answer(as_json: bool, document: &impl Serialize, made: impl FnOnce() -> Page) -> Result<()> {
    if as_json { json(document) } else { page(&made()) }
}

/// A value as one indented JSON document, with a line end.
///
/// # Errors
/// A value that is no JSON: a bug.
pub fn json_text(document: &impl Serialize) -> Result<Vec<u8>> {
    let mut text =
        serde_json::to_vec_pretty(document).map_err(|error| Error::bug(format!("cannot make JSON: {error}")))?;
    text.push(b'\n');
    Ok(text)
}

/// A page without colours, for a file.
pub fn plain(page: &Page) -> String {
    anstream::adapter::strip_str(page.text()).to_string()
}

/// Prints bytes as they are.
///
/// # Errors
/// As [`page`].
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    quiet_pipe(stdout.write_all(bytes).and_then(|()| stdout.flush()))
}

/// Prints bytes while they are made. The maker may end at the first error that it gets.
///
/// # Errors
/// As [`page`].
pub fn stream(make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut stdout = io::BufWriter::with_capacity(64 << 10, io::stdout().lock());
    quiet_pipe(make(&mut stdout).and_then(|()| stdout.flush()))
}

/// Writes a file that the user named, as any program makes a file.
///
/// # Errors
/// See [`os::replace::write_whole`].
pub fn file(path: &Path, bytes: &[u8], existing: Existing) -> Result<()> {
    os::replace::write_whole(path, bytes, Rights::Usual, existing)
}

/// What a file is written as, by the ending of its name; `hint` says which there are.
///
/// # Errors
/// Usage: the name has another.
pub fn by_ending<T: Copy>(target: &Path, forms: &[(&str, T)], hint: &str) -> Result<T> {
    let ending = target.extension().and_then(|ending| ending.to_str());
    let form = forms.iter().find(|(known, _)| Some(*known) == ending).map(|(_, form)| *form);
    form.ok_or_else(|| Error::on(Exit::Usage, "the ending does not say what to write:", target).hint(hint))
}

/// Prints to stderr; if that does not work there is nobody to tell.
pub fn complain(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

fn quiet_pipe(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::new(Exit::Machine, "cannot write the answer", "stdout").because(error))
        }
        _ => Ok(()),
    }
}
