//! `thaw archive`: what was typed, for each of its verbs.

use super::RowsArgs;
use clap::{ArgGroup, Args, Subcommand, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Arguments of `thaw archive`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true, disable_help_subcommand = true)]
pub struct ArchiveArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ArchiveVerb,
}

/// The verbs of `thaw archive`.
#[derive(Debug, Subcommand)]
pub enum ArchiveVerb {
    /// How scattered are the entries that a start uses?
    #[command(long_about = STAT_ABOUT)]
    Stat(StatArgs),
    /// Can an archive be read with fewer requests?
    #[command(long_about = REORDER_ABOUT)]
    Reorder(ReorderArgs),
    /// Can many small files become one?
    #[command(long_about = PACK_ABOUT)]
    Pack(PackArgs),
    /// What is in an archive? (writes its files below a new directory)
    #[command(long_about = UNPACK_ABOUT)]
    Unpack(UnpackArgs),
}

/// Where the order of use comes from.
#[derive(Debug, Args)]
pub struct OrderFrom {
    /// A recording of a start that used it: `thaw touch --engine page` is exact, `thaw record` knows what was asked
    /// for
    #[arg(long, value_name = "RECORDING", value_hint = ValueHint::FilePath, conflicts_with = "log")]
    pub from: Option<PathBuf>,
    /// Which program of the recording [default: the first]
    #[arg(long, value_name = "NAME", requires = "from")]
    pub variant: Option<String>,
    /// A list of entries in the order of their use, as Firefox writes it (MOZ_JAR_LOG_FILE): a name in a line, or an
    /// archive and a name
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
}

/// How the new archive is.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("compression").args(["store", "deflate", "auto"]))]
pub struct Shape {
    /// Where the directory is: both (in front for Firefox, at the end for everybody), front (as Mozilla's packager
    /// writes it) or end. Without it: both; end for formats whose readers want an entry in front (ODF, EPUB, jar, apk)
    #[arg(long, value_name = "PLACE", hide_possible_values = true)]
    pub directory: Option<Directory>,
    /// No entry is compressed
    #[arg(long)]
    pub store: bool,
    /// Entries are deflated where that makes them smaller
    #[arg(long)]
    pub deflate: bool,
    /// Entries that are used are stored or deflated, whichever takes less time: bytes from --disk, inflating as
    /// measured here
    #[arg(long)]
    pub auto: bool,
    /// The disk for --auto (see `thaw io model --list`)
    #[arg(long, value_name = "NAME", default_value = "laptop2010")]
    pub disk: String,
    /// Data of stored entries begin at multiples of this
    #[arg(long, value_name = "BYTES", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32_768))]
    pub align: u16,
}

/// Where the directory goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Directory {
    /// In front and at the end
    Both,
    /// In front only
    Front,
    /// At the end only
    End,
}

/// Arguments of `thaw archive stat`.
#[derive(Debug, Args)]
#[command(after_help = STAT_EXAMPLES)]
pub struct StatArgs {
    /// A zip archive: omni.ja, .jar, .xpi, .apk, .docx
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    #[command(flatten)]
    pub order: OrderFrom,
    #[command(flatten)]
    pub rows: RowsArgs,
    /// Print one JSON document instead of text; it has all entries
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw archive reorder`.
#[derive(Debug, Args)]
#[command(after_help = REORDER_EXAMPLES, group = ArgGroup::new("order").required(true).args(["from", "log"]))]
pub struct ReorderArgs {
    /// A zip archive
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    #[command(flatten)]
    pub order: OrderFrom,
    /// Where the new archive goes
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace OUT if it is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub shape: Shape,
    /// Also rewrite an archive with signatures: those of its entries stay valid
    #[arg(long)]
    pub signed: bool,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw archive pack`.
#[derive(Debug, Args)]
#[command(after_help = PACK_EXAMPLES)]
pub struct PackArgs {
    /// A directory
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub tree: PathBuf,
    #[command(flatten)]
    pub order: OrderFrom,
    /// Where the archive goes
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Replace OUT if it is there
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub shape: Shape,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw archive unpack`.
#[derive(Debug, Args)]
#[command(after_help = UNPACK_EXAMPLES)]
pub struct UnpackArgs {
    /// A zip archive
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// A directory that is not there yet, or is empty
    #[arg(short, long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
Can a program's archive be read with fewer requests?

A start that reads a few hundred of thousands of entries reads them from all over the file. `stat` says how scattered \
they are, `reorder` writes an archive that has them side by side, in the order of their use.";

const EXAMPLES: &str = "\
Examples:
  thaw archive stat /usr/lib/firefox-esr/omni.ja --from ff.thaw
  thaw archive reorder /usr/lib/firefox-esr/omni.ja --from ff.thaw -o omni.ja
  thaw archive pack chrome -o chrome.jar";

const STAT_ABOUT: &str = "\
How scattered are the entries that a start uses?

Sizes, compression, where the directory is and its read-ahead hint. With a recording or a list: which entries a start \
uses, on how many stretches of the file they lie, and how many requests of 128 KiB read them as they lie and after \
reordering (a model: each page that is not in memory is read with what lies around it).";

const STAT_EXAMPLES: &str = "\
Examples:
  thaw archive stat /usr/lib/firefox-esr/omni.ja
  thaw archive stat /usr/lib/firefox-esr/omni.ja --from ff.thaw --all
  thaw archive stat app.jar --log jar.log --json | jq '.archive.used'";

const REORDER_ABOUT: &str = "\
Can an archive be read with fewer requests?

Writes a new archive: the directory in front with the read-ahead hint that Firefox obeys, used entries behind it in \
the order of their first use, all others after them. Compressed data are copied as they are unless asked otherwise; \
times, attributes, extra fields and comments stay. The new file is read again and every entry compared before it gets \
its name. Encrypted entries, zip64, two entries of one name, names that lead out of the archive and anything damaged \
are refused; FILE itself is never changed.";

const REORDER_EXAMPLES: &str = "\
Examples:
  thaw archive reorder /usr/lib/firefox-esr/omni.ja --from ff.thaw -o omni.ja
  thaw archive reorder omni.ja --log jar.log --auto --disk sata-ssd -o fast/omni.ja
  thaw archive reorder app.jar --from app.thaw --directory end -o app.new.jar --json";

const PACK_ABOUT: &str = "\
Can many small files become one?

Writes an archive of everything below a directory. With a recording of a start that read the files, or a list of \
names, what was used comes first. Symbolic links and special files are refused.";

const PACK_EXAMPLES: &str = "\
Examples:
  thaw archive pack chrome -o chrome.jar
  thaw archive pack data --from app.thaw --store --align 4096 -o data.zip
  thaw archive pack data -o data.zip --directory end --force";

const UNPACK_ABOUT: &str = "\
What is in an archive?

Writes all entries below a new directory, which appears when everything is right or not at all. Archives with names \
that lead out of the directory, links, encrypted or damaged entries are refused before anything is kept.";

const UNPACK_EXAMPLES: &str = "\
Examples:
  thaw archive unpack /usr/lib/firefox-esr/omni.ja -o omni
  thaw archive unpack app.jar -o app
  thaw archive unpack data.zip -o data --json";
