//! The recording: one SQLite file that holds a whole session of runs and their traces.
//!
//! [`Writer`] makes it or adds to it, one transaction for each run, so that a killed writer or a full disk leaves a
//! file that opens and holds every finished run. [`Reader`] opens it read-only, gives the rows back as the nouns of
//! `model`, and answers SQL questions. Every table is described in `docs/recording.md`, and a test holds that
//! description against the schema.
//!
//! Not for: computing anything from the rows. The views in the schema are for people; the rooms read rows.
//!
//! ```
//! use recording::{Header, Reader, Replace, Writer};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("ff.thaw");
//! let header = Header {
//!     thaw_version: "0.1.0".into(),
//!     created_unix_ns: 1_700_000_000_000_000_000,
//!     command_line: vec!["thaw".into(), "record".into()],
//!     cwd: "/".into(),
//!     environment: vec![],
//!     plan: serde_json::json!({"runs": 10}),
//!     seed: 7,
//! };
//! let mut writer = Writer::create(&path, &header, Replace::Never)?;
//! writer.finish()?;
//! let reader = Reader::open(&path)?;
//! assert_eq!(reader.header()?, header);
//! assert!(reader.finished()?);
//! # Ok::<(), model::Error>(())
//! ```

mod cell;
mod cpu;
#[cfg(test)]
mod doc;
mod events;
mod failure;
mod loader;
mod nouns;
pub mod plan;
mod query;
mod reader;
mod regular;
mod rows;
mod shape;
mod starts;
mod store;
mod tables;
mod trace;
mod words;
mod writer;

pub use nouns::{Binary, Fact, Header, Replace, Table, Value, Variant};
pub use query::Limits;
pub use reader::Reader;
pub use starts::{Starts, Telling, Told};
pub use writer::Writer;

/// SQLite application id of a recording: "thaw" in ASCII. `file` and other tools can tell a recording by it.
pub const APPLICATION_ID: i32 = 0x7468_6177;

/// Version of the schema that this thaw writes (SQLite's `user_version`).
///
/// It grows whenever a table, a column or the meaning of a word changes. A reader refuses later versions and those
/// before [`OLDEST_VERSION`] rather than misread them; the error names the version that wrote the file.
pub const SCHEMA_VERSION: i32 = 5;

/// The oldest version that this thaw still reads and adds to: later ones only added tables.
pub const OLDEST_VERSION: i32 = 2;

/// The statements that make the tables, indexes and views of the oldest version.
const SCHEMA_2: &str = include_str!("schema.sql");

/// The statements that make version 3 of a recording of version 2.
const SINCE_3: &str = include_str!("since_3.sql");

/// The statements that make version 4 of a recording of version 3.
const SINCE_4: &str = include_str!("since_4.sql");

/// The statements that make version 5 of a recording of version 4.
const SINCE_5: &str = include_str!("since_5.sql");

/// What makes the tables of a version, step by step from nothing on; of a later version than `from` only the steps
/// after that one.
fn statements(from: i32, to: i32) -> impl Iterator<Item = &'static str> {
    let steps = [(OLDEST_VERSION, SCHEMA_2), (3, SINCE_3), (4, SINCE_4), (5, SINCE_5)];
    steps.into_iter().filter(move |(version, _)| (from + 1..=to).contains(version)).map(|(_, sql)| sql)
}
