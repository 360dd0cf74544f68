//! The collector of a fleet's pings: what it takes, how it keeps it, and what it answers. docs/fleet.md says what goes
//! over the wire and lies on the disk.

pub mod batch;
pub mod counters;
pub mod programs;
pub mod segment;
pub mod send;
pub mod server;
pub mod tokens;
pub mod writer;
