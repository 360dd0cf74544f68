//! `thaw store`: what was typed.

use super::{ForceArg, RowsArgs};
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw store`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StoreArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: StoreVerb,
}

/// What to do with files of records.
#[derive(Debug, Subcommand)]
pub enum StoreVerb {
    /// Which files are there, and what do they hold?
    #[command(long_about = LS_ABOUT, after_help = LS_EXAMPLES)]
    Ls(PathArgs),
    /// What exactly is in them?
    #[command(long_about = SHOW_ABOUT, after_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
    /// How do other programs read it?
    #[command(long_about = EXPORT_ABOUT, after_help = EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// How do I take over what a browser has?
    #[command(long_about = IMPORT_ABOUT, after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// Can all of them be read?
    #[command(long_about = VERIFY_ABOUT, after_help = VERIFY_EXAMPLES)]
    Verify(PathArgs),
    /// How do I put a damaged file in order?
    #[command(long_about = REPAIR_ABOUT, after_help = REPAIR_EXAMPLES)]
    Repair(PathArgs),
    /// What do set, get and flush cost on this disk?
    #[command(long_about = BENCH_ABOUT, after_help = BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// How does a page's storage feel that never waits for the disk?
    #[command(long_about = SERVE_ABOUT, after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
}

/// Arguments of `thaw store bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// A directory on the disk that is measured
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath, default_value = ".")]
    pub directory: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw store serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// A directory of web storage, which is made when it is missing; without it, all stays in memory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
    /// The port on 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

/// Which files.
#[derive(Debug, Args)]
pub struct PathArgs {
    /// A directory of web storage, of a session or of cookies, or a file of one
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw store show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// A directory of web storage, of a session or of cookies, or a file of one
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document for each file instead of text; it has all rows, and values whole
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw store export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// A directory of web storage, of a session or of cookies, or a file of one
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub path: PathBuf,
    /// As what
    #[arg(long, value_name = "FORM", default_value = "json")]
    pub form: Form,
    /// Write it to this file instead of stdout
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub force: ForceArg,
}

/// Arguments of `thaw store import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// The directory of a profile of Firefox or Chromium
    #[arg(value_name = "PROFILE", value_hint = ValueHint::DirPath)]
    pub profile: PathBuf,
    /// The directory to make
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// As what it is exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// One JSON document for each file, in a list
    Json,
    /// Cookies as curl, wget and others read them (cookies.txt)
    Netscape,
}

pub(super) const LONG_ABOUT: &str = "\
What do web storage, sessions and cookies keep on disk, and is it whole?

Looks into the files that programs write with thaw_webstorage, thaw_session and thaw_cookies, while those run or not. \
docs/log.md has the format.";

const EXAMPLES: &str = "\
Examples:
  thaw store ls profile/storage
  thaw store verify profile/storage
  thaw store export profile/cookies --form netscape -o cookies.txt";

const LS_ABOUT: &str = "\
Which files are there, and what do they hold?

One line for each: its kind, what its store calls it (of web storage the origin), how often it was written anew, \
records and bytes.";

const LS_EXAMPLES: &str = "\
Examples:
  thaw store ls profile/storage
  thaw store ls profile/storage --json";

const SHOW_ABOUT: &str = "\
What exactly is in them?

Keys and values of web storage, the windows, tabs and entries of a session, cookies. What a damaged file still holds \
is told too, and how much of it cannot be read.";

const SHOW_EXAMPLES: &str = "\
Examples:
  thaw store show profile/storage
  thaw store show profile/session/current --all";

const EXPORT_ABOUT: &str = "\
How do other programs read it?

Writes all that is in the files as JSON, or cookies in the format of Netscape, which curl and others read.";

const EXPORT_EXAMPLES: &str = "\
Examples:
  thaw store export profile/session -o session.json
  thaw store export profile/cookies --form netscape -o cookies.txt";

const IMPORT_ABOUT: &str = "\
How do I take over what a browser has?

Reads the session and the cookies of a profile of Firefox or Chromium, and makes a directory with a session \
(thaw_session) and a cookie jar (thaw_cookies) of them. The profile stays as it is; its browser may run, and then \
what it has not written yet is missing. A page's address is the payload of its entry.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  thaw store import ~/.mozilla/firefox/x.default -o taken
  thaw store import ~/.config/chromium/Default -o taken";

const VERIFY_ABOUT: &str = "\
Can all of them be read?

Reads every record and checks it. Exit code 5 if one cannot be read. A write at the end of a file that did not end is \
no damage: the power went, or it is under way.";

const VERIFY_EXAMPLES: &str = "\
Examples:
  thaw store verify profile/storage";

const REPAIR_ABOUT: &str = "\
How do I put a damaged file in order?

Cuts off what lies behind the last record that can be read from the first byte on, and keeps those bytes in a file \
beside (NAME.damaged-1), as web storage does when it opens the file. The file that a session loads, and that of a \
cookie jar, are made anew from all that can be read of them, behind damage too, as their programs do. Only the owner \
may, and of these two only while no program uses them.";

const REPAIR_EXAMPLES: &str = "\
Examples:
  thaw store repair profile/storage";

const BENCH_ABOUT: &str = "\
What do set, get and flush cost on this disk?

Measures web storage (thaw_webstorage) in a new directory inside of DIR, which is removed: a set, the longest one, a \
get, a flush, and the first access of an origin of 2 MB that is in memory, in the page cache, or on the disk alone. \
Says which file system it is, and what of it outlives a power cut.";

const BENCH_EXAMPLES: &str = "\
Examples:
  thaw store bench
  thaw store bench /mnt/disk --json";

const SERVE_ABOUT: &str = "\
How does a page's storage feel that never waits for the disk?

Serves a page on 127.0.0.1 whose storage goes through thaw_webstorage into DIR: what DIR holds, changes as they come, \
and what set and get cost beside the browser's own localStorage. The first line on stdout is the address; only who \
knows all of it gets in. Ctrl-C or SIGTERM ends it, when all is on the medium. docs/webstorage.md has its protocol.";

const SERVE_EXAMPLES: &str = "\
Examples:
  thaw store serve profile/storage
  thaw store serve --port 8080";
