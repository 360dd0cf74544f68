//! What the starts of many machines say: segments of pings, the store that they are imported into, questions in SQL
//! that SQLite, Apache Spark and ClickHouse answer alike, and the rule that no answer shows fewer machines than a
//! threshold.
//!
//! A folder of segments is `DIR/dt=YYYY-MM-DD/app=NAME/*.ndjson.zst`, one flat ping per line. [`import`] makes a store
//! of it, [`engine`] asks, [`answer`] turns the rows into one document, [`report`] asks all
//! questions at once, [`forget`] takes a machine out of both.

pub mod answer;
pub mod engine;
pub mod forget;
pub mod hidden;
pub mod import;
pub mod questions;
pub mod report;
pub mod segments;
pub mod store;
