//! `thaw fleet`: what was typed.

use super::ForceArg;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use fleet::questions::Question;
use std::path::PathBuf;

/// Arguments of `thaw fleet`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct FleetArgs {
    /// What to do
    #[command(subcommand)]
    pub verb: FleetVerb,
}

/// What to do with the starts of many machines.
#[derive(Debug, Subcommand)]
pub enum FleetVerb {
    /// How do the pings of many machines come into one directory, and none is lost?
    #[command(long_about = super::collect::ABOUT, after_help = super::collect::EXAMPLES)]
    Collect(super::collect::CollectArgs),
    /// How do the pings of this machine come to their collector?
    #[command(long_about = super::collect::SEND_ABOUT, after_help = super::collect::SEND_EXAMPLES)]
    Send(super::collect::SendArgs),
    /// How do I ask about segments quickly, on one machine? (makes a store of them)
    #[command(long_about = IMPORT_ABOUT, after_help = IMPORT_EXAMPLES)]
    Import(ImportArgs),
    /// How do starts in the field differ by version, hardware, cache state and remedy?
    #[command(long_about = QUERY_ABOUT, after_help = QUERY_EXAMPLES)]
    Query(QueryArgs),
    /// How do starts in the field do, all questions on one page?
    #[command(long_about = REPORT_ABOUT, after_help = REPORT_EXAMPLES)]
    Report(ReportArgs),
    /// How do I take a machine's starts out of everything?
    #[command(long_about = FORGET_ABOUT, after_help = FORGET_EXAMPLES)]
    Forget(ForgetArgs),
}

/// Arguments of `thaw fleet import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// A folder of segments: DIR/dt=YYYY-MM-DD/app=NAME/*.ndjson.zst
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// The store; one that is there gets what it lacks
    #[arg(short, long, value_name = "FILE", default_value = "fleet.db", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// This program, about a store
    Sqlite,
    /// Apache Spark, about a folder of segments
    Spark,
    /// ClickHouse as the Python module chdb, about a folder of segments
    Clickhouse,
}

/// Which question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum QuestionName {
    /// Versions, starts, machines and days by application
    Apps,
    /// Median, 75th and 95th percentile by version
    Versions,
    /// The same by version and class of hardware
    Classes,
    /// A new version against an old one in each class, and what moved with it
    Regressions,
    /// The worst percentiles by version and cache state
    Worst,
    /// The share of cold starts by version and class
    Cold,
    /// Starts with preload, and with packed files, against those without
    Remedies,
}

impl QuestionName {
    /// What it means.
    pub fn question(self) -> Question {
        match self {
            Self::Apps => Question::Apps,
            Self::Versions => Question::Versions,
            Self::Classes => Question::Classes,
            Self::Regressions => Question::Regressions,
            Self::Worst => Question::Worst,
            Self::Cold => Question::Cold,
            Self::Remedies => Question::Remedies,
        }
    }
}

/// Who is asked, and about what.
#[derive(Debug, Args)]
pub struct AskArgs {
    /// A store (sqlite) or a folder of segments (spark, clickhouse)
    #[arg(value_name = "FROM", default_value = "fleet.db", value_hint = ValueHint::AnyPath)]
    pub from: PathBuf,
    /// Who answers
    #[arg(long, value_enum, default_value_t = Engine::Sqlite)]
    pub engine: Engine,
    /// One application alone
    #[arg(long, value_name = "APP")]
    pub app: Option<String>,
    /// Fewest distinct machines of a cell that is shown
    #[arg(long, value_name = "MACHINES", default_value_t = fleet::questions::MACHINES)]
    pub k: u64,
    /// The Python that has pyspark or chdb
    #[arg(long, value_name = "PROGRAM", default_value = "python3", value_hint = ValueHint::CommandName)]
    pub python: PathBuf,
    /// Spark's master: spark://HOST:PORT, local[N]; without it, all CPUs of this machine
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
}

/// Arguments of `thaw fleet query`.
#[derive(Debug, Args)]
pub struct QueryArgs {
    /// The question
    #[arg(value_name = "NAME")]
    pub name: QuestionName,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ask: AskArgs,
    /// The version to compare with (regressions)
    #[arg(long, value_name = "V")]
    pub version_old: Option<String>,
    /// The version to judge (regressions)
    #[arg(long, value_name = "V")]
    pub version_new: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long, conflicts_with = "sql")]
    pub json: bool,
    /// Print the SQL of the question and ask nobody
    #[arg(long)]
    pub sql: bool,
}

/// Arguments of `thaw fleet report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub ask: AskArgs,
    /// Show the newest versions of each application, so many
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u16).range(1..))]
    pub newest: u16,
    /// Show these versions instead, in this order; each is compared with the one before
    #[arg(long, value_name = "V", value_delimiter = ',', conflicts_with = "newest")]
    pub versions: Vec<String>,
    /// Write it into a file; the ending chooses the form: .html (a page that needs no network), .prom (metrics for
    /// the textfile collector of node_exporter), .json or .txt
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "json")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `thaw fleet forget`.
#[derive(Debug, Args)]
pub struct ForgetArgs {
    /// The machine's token: 32 hexadecimal digits
    #[arg(value_name = "TOKEN")]
    pub token: String,
    /// A folder of segments
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub folder: PathBuf,
    /// A store that was made of it
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub db: Option<PathBuf>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
How do my program's starts do on the machines of its users?

A folder of segments holds pings, one start each, without names and paths: `collect` takes them in. `import` makes a \
store of it, `query` and `report` answer by SQL that SQLite, Apache Spark and ClickHouse read alike, `forget` takes a \
machine out again. No answer shows a cell of fewer than 20 machines.";

const EXAMPLES: &str = "\
Examples:
  thaw fleet import /srv/pings -o fleet.db
  thaw fleet query regressions fleet.db --version-old 1.4 --version-new 1.5";

const IMPORT_ABOUT: &str = "\
How do I ask about segments quickly, on one machine?

Reads all segments of a folder into one SQLite file, up to some ten million pings. A ping that comes twice counts \
once, a segment that was read before is not read again, one that is damaged is named and left out as a whole. After \
a kill the store is as it was.";

const IMPORT_EXAMPLES: &str = "\
Examples:
  thaw fleet import /srv/pings -o fleet.db";

const QUERY_ABOUT: &str = "\
How do starts in the field differ by version, hardware, cache state and remedy?

The same SQL is answered by SQLite from a store, or by Spark or ClickHouse from a folder of segments; the answers are \
equal, byte by byte. Cells of fewer than --k machines are not shown, nor what would let them be reckoned.";

const QUERY_EXAMPLES: &str = "\
Examples:
  thaw fleet query versions fleet.db
  thaw fleet query regressions fleet.db --version-old 1.4 --version-new 1.5 --json
  thaw fleet query classes /srv/pings --engine spark --master spark://10.0.0.1:7077";

const REPORT_ABOUT: &str = "\
How do starts in the field do, all questions on one page?

Asks all questions, and each of the newest versions against the one before it: start times by version, a map of the \
changes by class of hardware, what became slower and what moved with it, cold starts, remedies, the worst starts. What \
the answers hide is nowhere in it.";

const REPORT_EXAMPLES: &str = "\
Examples:
  thaw fleet report fleet.db -o fleet.html
  thaw fleet report fleet.db --versions 1.4,1.5 --app editor
  thaw fleet report fleet.db -o /var/lib/node_exporter/thaw_fleet.prom --force";

const FORGET_ABOUT: &str = "\
How do I take a machine's starts out of everything?

Writes the segments anew that hold the machine, each replaced as a whole, and deletes its pings from the store. Exit \
code 5: a damaged segment could not be looked through.";

const FORGET_EXAMPLES: &str = "\
Examples:
  thaw fleet forget 0123456789abcdef0123456789abcdef /srv/pings --db fleet.db";
