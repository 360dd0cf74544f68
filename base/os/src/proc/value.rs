//! Small files of procfs and sysfs that hold one value.

use std::path::Path;

/// The trimmed text of a small file of sysfs or procfs; `None`: not there, not readable or empty.
pub(crate) fn read_value(path: &Path) -> Option<String> {
    let text = std::fs::read(path).ok()?;
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The word in brackets of a sysfs choice: `none [mq-deadline] bfq`; without brackets, the whole text.
pub(crate) fn active(choice: &str) -> &str {
    choice.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(choice, |(word, _)| word)
}
