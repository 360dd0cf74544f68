//! Events that other programs wrote, as a trace. Each form has a module, which says what becomes an object, a wait,
//! work and a link; `docs/timeline-imports.md` has them side by side. Files may be cut anywhere: what is whole is kept,
//! and the trace's damage says what is not.

mod chrome;
pub mod ctf;
mod date;
mod firefox;
mod har;
mod json;
mod mozlog;
mod netlog;
mod numbers;
mod perfetto;
mod vet;

pub use mozlog::Rules;

use crate::trace::{Form, Trace};
use json::Piece;
use model::{Error, Exit, Result};

/// How far into a file its form is looked for.
const HEAD: usize = 64 << 10;

/// The form of bytes that another program wrote; `None`: none that is known.
pub fn form_of(bytes: &[u8]) -> Option<Form> {
    if ctf::is_metadata(bytes) {
        return Some(Form::Ctf);
    }
    let file = Piece::of_file(bytes);
    match file.bytes.first()? {
        b'[' => {
            let head = &file.bytes[..file.bytes.len().min(HEAD)];
            let has_phase = memchr::memmem::find(head, b"\"ph\"").is_some();
            if has_phase { Some(Form::Chrome) } else { form_of_log(file.bytes) }
        }
        b'{' => file.members().find_map(|(key, value)| {
            Some(match key {
                b"constants" if value.bytes.starts_with(b"{") => Form::NetLog,
                b"traceEvents" => Form::Chrome,
                b"records" => Form::VisualEventTracer,
                b"log" if value.bytes.starts_with(b"{") => Form::Har,
                b"meta" | b"threads" | b"libs" => Form::Firefox,
                _ => return None,
            })
        }),
        _ if perfetto::is_trace(bytes) => Some(Form::Perfetto),
        _ => form_of_log(bytes),
    }
}

/// A log has its form in its first lines.
fn form_of_log(bytes: &[u8]) -> Option<Form> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
    head.lines().take(100).any(mozlog::is_line).then_some(Form::MozLog)
}

/// Reads bytes of a form that is not our own. `rules`: what the lines of a [`Form::MozLog`] mean, beside the built-in
/// ones.
///
/// # Errors
/// The form is not one of these, or the built-in rules are wrong: bugs. A trace of [`Form::Ctf`] is no one file.
pub fn read(form: Form, bytes: &[u8], rules: Option<&Rules>) -> Result<Trace> {
    let file = Piece::of_file(bytes);
    Ok(match form {
        Form::NetLog => netlog::read(file),
        Form::Chrome => chrome::read(file),
        Form::Har => har::read(file),
        Form::Firefox => firefox::read(file),
        Form::VisualEventTracer => vet::read(bytes),
        Form::Perfetto => perfetto::read(bytes),
        Form::MozLog => mozlog::read(bytes, &Rules::built_in()?.and(rules.cloned().unwrap_or_default())),
        Form::Ctf => {
            return Err(Error::new(Exit::Usage, "cannot read the metadata of a CTF trace without its streams", "")
                .hint("name the trace's directory"));
        }
        Form::Events => return Err(Error::bug(format!("{form:?} is no form of an import"))),
    })
}
