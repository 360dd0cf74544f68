//! The history: figures of recordings by commit, machine and set-up, in an append-only SQLite file, and the steps in
//! them.
//!
//! A [`Store`] is written by any number of processes at once, one transaction for each recording, so that a killed
//! writer leaves whole recordings only. [`series`] puts the figures of one commit together and in the order of the
//! commits; recordings of other set-ups and machines are other series.
//!
//! Not for: reading recordings or asking git. Both hand their values over.

mod series;
mod store;

pub use series::{Point, Series, Step, series, since};
pub use store::{Access, Added, Commit, Entry, Figure, Row, Store};

/// SQLite application id of a history: "thwh" in ASCII.
pub const APPLICATION_ID: i32 = 0x7468_7768;

/// Version of the schema (SQLite's `user_version`); other versions are refused.
pub const SCHEMA_VERSION: i32 = 1;

/// The statements that make the tables.
const SCHEMA: &str = include_str!("schema.sql");
