//! What a recording holds besides the rows that `model` defines.

use model::Bytes;
use serde::{Serialize, Serializer};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What is known when a recording begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Version of the thaw that writes it: `0.1.0`.
    pub thaw_version: String,
    /// When it began, nanoseconds since 1970 (UTC).
    pub created_unix_ns: u64,
    /// thaw's own command line, word by word.
    pub command_line: Vec<OsString>,
    /// thaw's working directory.
    pub cwd: PathBuf,
    /// The variables that matter for a start, in the order given. Not all of them: they may hold secrets.
    pub environment: Vec<(OsString, OsString)>,
    /// What was planned: states, blocks, options. Its shape belongs to the application, but for [`crate::plan::Plan`].
    pub plan: serde_json::Value,
    /// Seed of all random choices.
    pub seed: u64,
}

/// One of the programs that are compared in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its number, as in `RunRow::variant`.
    pub index: u32,
    /// Its name in reports.
    pub name: String,
    /// Its command line, word by word.
    pub argv: Vec<OsString>,
}

/// Something true of the machine while the recording was made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fact {
    /// What it is about: `machine`, `cpu`, `disk:vda`, `filesystem:/`.
    pub subject: String,
    /// Which property: `kernel`, `read_ahead_kb`.
    pub key: String,
    /// Its value as text.
    pub value: String,
}

/// An executable or a library, so that a later reader can tell whether two recordings are of the same build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Where it was.
    pub path: PathBuf,
    /// Its size.
    pub size: Bytes,
    /// When it was last changed, nanoseconds since 1970 (UTC).
    pub mtime_unix_ns: u64,
    /// GNU build-id in hex, if it has one.
    pub build_id: Option<String>,
}

/// What to do with a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// Refuse any file.
    Never,
    /// Replace a recording (of any schema version); refuse everything else.
    Recording,
}

/// One value of an answer, with SQLite's type.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing, or "could not be told".
    Null,
    /// INTEGER.
    Integer(i64),
    /// REAL.
    Real(f64),
    /// TEXT.
    Text(String),
    /// BLOB: a name that is not UTF-8, or text that SQL made invalid.
    Blob(Vec<u8>),
}

/// Bytes that are no text, in JSON and SQL: two digits each.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// As SQL would write it, except that text stands bare and NULL is empty: `1.5`, `/usr/lib/x.so`, `X'ff00'`.
impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => out.pad(""),
            Self::Integer(number) => fmt::Display::fmt(number, out),
            Self::Real(number) => fmt::Display::fmt(number, out),
            Self::Text(text) => out.pad(text),
            Self::Blob(bytes) => out.pad(&format!("X'{}'", hex(bytes))),
        }
    }
}

/// In JSON a blob is `{"hex": "ff00"}`, so that it is never mistaken for text; infinities are `null`.
impl Serialize for Value {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Integer(number) => to.serialize_i64(*number),
            Self::Real(number) => to.serialize_f64(*number),
            Self::Text(text) => to.serialize_str(text),
            Self::Blob(bytes) => {
                use serde::ser::SerializeMap;
                let mut map = to.serialize_map(Some(1))?;
                map.serialize_entry("hex", &hex(bytes))?;
                map.end()
            }
        }
    }
}

/// The answer to a query.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Names of the columns, as SQLite gives them; they need not differ.
    pub columns: Vec<String>,
    /// Rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_show_their_type_in_text_and_json() {
        let row = vec![
            Value::Null,
            Value::Integer(-3),
            Value::Real(0.5),
            Value::Text("a'b".into()),
            Value::Blob(vec![0xff, 0x00]),
        ];
        let shown: Vec<String> = row.iter().map(Value::to_string).collect();
        assert_eq!(shown, ["", "-3", "0.5", "a'b", "X'ff00'"]);
        assert_eq!(serde_json::to_string(&row).unwrap(), r#"[null,-3,0.5,"a'b",{"hex":"ff00"}]"#);
        assert_eq!(format!("{:>6}|", Value::Integer(12)), "    12|");
    }
}
