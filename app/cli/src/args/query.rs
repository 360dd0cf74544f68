//! `thaw query`: what was typed.

use super::values;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `thaw query`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct QueryArgs {
    /// The recording
    #[arg(value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recording: PathBuf,
    /// A SELECT on the tables of docs/recording.md
    #[arg(value_name = "SQL")]
    pub sql: String,
    /// Give up after this time
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration)]
    pub time_limit: Duration,
    /// Rows of an answer at most
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub max_rows: u64,
    /// Print one JSON document instead of a table
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print CSV instead of a table
    #[arg(long)]
    pub csv: bool,
}

pub(super) const LONG_ABOUT: &str = "\
What else is in a recording?

Answers any question in SQL. A recording is an SQLite file: docs/recording.md explains each table and view. \
Nothing can be changed by a query.";

const EXAMPLES: &str = "\
Examples:
  thaw query ff.thaw 'select * from v_runs'
  thaw query ff.thaw 'select * from v_files limit 20' --csv
  thaw query ff.thaw \"select type, name from sqlite_schema order by 1, 2\"";
