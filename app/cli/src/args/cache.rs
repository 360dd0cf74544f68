//! `thaw cache`: what was typed.

use super::RowsArgs;
use clap::{Args, Subcommand, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw cache`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CacheArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: CacheVerb,
}

/// What to do with the directory of a cache.
#[derive(Debug, Subcommand)]
pub enum CacheVerb {
    /// Which answers are kept, and how long are they fresh?
    #[command(long_about = LS_ABOUT, after_help = LS_EXAMPLES)]
    Ls(LsArgs),
    /// What exactly is kept for a URL?
    #[command(long_about = SHOW_ABOUT, after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// How much is kept?
    #[command(long_about = STAT_ABOUT, after_help = STAT_EXAMPLES)]
    Stat(StatArgs),
    /// Can all of it be read?
    #[command(long_about = VERIFY_ABOUT, after_help = VERIFY_EXAMPLES)]
    Verify(StatArgs),
    /// How do I take answers out?
    #[command(long_about = CLEAR_ABOUT, after_help = CLEAR_EXAMPLES)]
    Clear(ClearArgs),
}

/// Arguments of `thaw cache ls`.
#[derive(Debug, Args)]
pub struct LsArgs {
    /// Directory of the cache: that of `thaw proxy --store`
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Only URLs that begin so
    #[arg(long, value_name = "URL", default_value = "")]
    pub prefix: String,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text; it has all answers
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw cache show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Directory of the cache
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// The URL, as `thaw cache ls` prints it
    #[arg(value_name = "URL")]
    pub url: String,
    /// Write the body to stdout and nothing else; of several variants, that of the latest
    #[arg(long, conflicts_with = "json")]
    pub body: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw cache stat` and `verify`.
#[derive(Debug, Args)]
pub struct StatArgs {
    /// Directory of the cache
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw cache clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    /// Directory of the cache
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: PathBuf,
    /// Only what is kept for URLs that begin so [default: everything]
    #[arg(long, value_name = "URL", default_value = "", hide_default_value = true)]
    pub prefix: String,
}

pub(super) const LONG_ABOUT: &str = "\
What does a cache keep on disk, is it whole, and how do I take things out?

Looks into the directory that `thaw proxy --store DIR` writes, while no proxy uses it. Only the owner of the directory \
may ask; what is read is checked as the proxy checks it.";

const EXAMPLES: &str = "\
Examples:
  thaw cache ls cache --prefix https://example.org/
  thaw cache verify cache
  thaw cache clear cache --prefix https://example.org/";

const LS_ABOUT: &str = "\
Which answers are kept, and how long are they fresh?

One line for each answer, by URL; several of one URL are variants (Vary).";

const LS_EXAMPLES: &str = "\
Examples:
  thaw cache ls cache
  thaw cache ls cache --prefix https://example.org/ --json";

const SHOW_ABOUT: &str = "\
What exactly is kept for a URL?

Status, fields and times of each variant; with --body the bytes.";

const SHOW_EXAMPLES: &str = "\
Examples:
  thaw cache show cache https://example.org/a.js
  thaw cache show cache https://example.org/a.js --body > a.js";

const STAT_ABOUT: &str = "\
How much is kept?

Answers, how many of them are fresh, bytes of their bodies and of the files.";

const STAT_EXAMPLES: &str = "\
Examples:
  thaw cache stat cache";

const VERIFY_ABOUT: &str = "\
Can all of it be read?

Reads every entry to its last byte and checks it. Exit code 5 if some cannot be read; a proxy takes those for missing.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  thaw cache verify cache";

const CLEAR_ABOUT: &str = "\
How do I take answers out?

Everything, or what is kept for URLs that begin with --prefix. It is on the disk when the command ends: none of it \
comes back.";

const CLEAR_EXAMPLES: &str = "\
Examples:
  thaw cache clear cache
  thaw cache clear cache --prefix https://example.org/private/";
