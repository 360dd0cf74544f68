//! Command lines as a shell writes and reads them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// One line that can be typed again; bytes that are no UTF-8 are shown as the replacement character.
pub fn command_line(argv: &[OsString]) -> String {
    argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word as a shell would read it back.
fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |letter: char| letter.is_alphanumeric() || "-_./:=,@%+{}".contains(letter);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// The text with every `placeholder` replaced; what comes in its place is not looked at again.
pub fn replaced(text: &OsStr, placeholder: &str, by: &OsStr) -> OsString {
    let (bytes, placeholder) = (text.as_bytes(), placeholder.as_bytes());
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(placeholder) {
            out.extend_from_slice(by.as_bytes());
            at += placeholder.len();
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_quoted_for_a_shell() {
        assert_eq!(command_line(&["sh".into(), "-c".into(), "it's".into()]), r"sh -c 'it'\''s'");
    }
}
