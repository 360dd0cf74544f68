//! Base lists: what a session has in memory before a program is started in the state `boot`.

use model::{Error, Exit, Result};
use os::cache::ResidentReport;
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// First line of a list that thaw made.
const FIRST_LINE: &str = "# thaw base list 1: resident bytes, size, path";

/// A base list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseList {
    /// Where it was read from.
    pub file: PathBuf,
    /// The files that are read whole.
    pub paths: Vec<PathBuf>,
}

impl BaseList {
    /// Reads it.
    ///
    /// # Errors
    /// Usage: it cannot be read. Data: it is none.
    pub fn read(file: &Path) -> Result<Self> {
        let hint = "make one with `thaw resident /usr /lib /etc > base.list` in a session without the program";
        let text = std::fs::read(file)
            .map_err(|error| Error::on(Exit::Usage, "cannot read the base list", file).because(error).hint(hint))?;
        let wrong = |line| {
            Error::on(Exit::Data, "this is not a base list", file)
                .because(format!("line {line} is no absolute path"))
                .hint(hint)
        };
        Ok(Self { file: file.to_owned(), paths: parse(&text).map_err(wrong)? })
    }
}

/// The list of resident files: `RESIDENT<TAB>SIZE<TAB>PATH`, with `\n`, `\t` and `\\` for these bytes of a path.
pub fn listed(report: &ResidentReport) -> Vec<u8> {
    let mut out = format!("{FIRST_LINE}\n").into_bytes();
    for file in &report.files {
        out.extend_from_slice(format!("{}\t{}\t", file.resident.0, file.size.0).as_bytes());
        for byte in file.path.as_os_str().as_bytes() {
            match byte {
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\t' => out.extend_from_slice(b"\\t"),
                b'\\' => out.extend_from_slice(b"\\\\"),
                other => out.push(*other),
            }
        }
        out.push(b'\n');
    }
    out
}

/// Its paths. A line that is only an absolute path is fine too, so that `find` can make one.
///
/// # Errors
/// The number of the first line that is neither.
fn parse(text: &[u8]) -> std::result::Result<Vec<PathBuf>, usize> {
    let mut paths = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let path = match line.splitn(3, |byte| *byte == b'\t').collect::<Vec<_>>().as_slice() {
            [resident, size, path] if is_number(resident) && is_number(size) => unescape(path),
            _ => line.to_vec(),
        };
        let path = PathBuf::from(std::ffi::OsString::from_vec(path));
        if !Path::is_absolute(&path) {
            return Err(index + 1);
        }
        paths.push(path);
    }
    Ok(paths)
}

fn is_number(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match (byte, rest.as_slice().first()) {
            (b'\\', Some(escaped)) => {
                out.push(match escaped {
                    b'n' => b'\n',
                    b't' => b'\t',
                    other => *other,
                });
                rest.next();
            }
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Bytes;
    use os::cache::ResidentFile;
    use std::ffi::OsString;

    fn resident(paths: &[&[u8]]) -> ResidentReport {
        let file = |path: &&[u8]| ResidentFile {
            path: OsString::from_vec(path.to_vec()).into(),
            size: Bytes(8192),
            resident: Bytes(4096),
        };
        ResidentReport { files: paths.iter().map(file).collect(), ..ResidentReport::default() }
    }

    #[test]
    fn a_base_list_is_read_back_whatever_the_names() {
        let names: [&[u8]; 4] = [b"/usr/lib/libc.so.6", b"/a\nb", b"/tab\there\\n", b"/not \xff utf-8"];
        let list = listed(&resident(&names));
        let back = parse(&list).unwrap();
        assert_eq!(back.iter().map(|path| path.as_os_str().as_bytes()).collect::<Vec<_>>(), names);
    }

    #[test]
    fn a_list_of_paths_is_a_base_list_and_other_text_is_not() {
        assert_eq!(parse(b"/a\n\n# why\n/b").unwrap(), [Path::new("/a"), Path::new("/b")]);
        assert_eq!(parse(b"/a\nrelative\n"), Err(2));
    }
}
