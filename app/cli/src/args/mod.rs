//! What was typed: one file per verb, all help texts, no meaning. `plan.rs` turns it into meaning, once.
//!
//! Every verb's help starts with the question that it answers and ends with three examples. The man
//! pages and the shell completions are made from the same definitions.

pub mod ablate;
pub mod archive;
pub mod around;
pub mod cache;
pub mod collect;
pub mod compare;
mod completed;
pub mod counts;
pub mod docs;
pub mod doctor;
#[cfg(test)]
mod documented;
pub mod elf;
pub mod files;
pub mod fleet;
pub mod frag;
pub mod heap;
pub mod history;
pub mod image;
pub mod io;
pub mod memory;
pub mod mistakes;
pub mod optimize;
pub mod order;
pub mod packaging;
pub mod pageload;
pub mod ping;
pub mod preload;
pub mod presets;
pub mod proxy;
pub mod query;
pub mod record;
pub mod report;
pub mod store;
pub mod sweep;
pub mod timeline;
pub mod touch;
pub mod user;
pub mod values;
pub mod view;
pub mod why;

use clap::{Parser, Subcommand, ValueEnum};
use os::replace::Existing;
use std::path::PathBuf;

/// The word with which thaw starts itself as a tracer for another thaw.
pub const TRACER: &str = "__tracer";

/// Why does my program start slowly, and what makes it start fast?
#[derive(Debug, Parser)]
#[command(
    name = "thaw",
    version,
    long_about = LONG_ABOUT,
    after_help = AFTER_HELP,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Args {
    /// Colour in the answer.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    #[arg(help = "Colour: auto (obeys NO_COLOR, CLICOLOR_FORCE), always, never", help_heading = "For every verb")]
    pub color: Color,
    /// No progress on stderr; errors and warnings are still printed.
    #[arg(long, short, global = true, help_heading = "For every verb")]
    pub quiet: bool,
    /// Warnings whole, with what to do about each, in the place of one line each; with --version: commit, guest, parts
    #[arg(long, short, global = true, help_heading = "For every verb")]
    pub verbose: bool,
    /// What thaw itself does and waits for, as a file of events for `thaw timeline`
    #[arg(long, global = true, value_name = "FILE", help_heading = "For every verb")]
    pub timeline: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Whether files that are named, and are there, may be replaced.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct ForceArg {
    /// Replace the files to be written, if they are there
    #[arg(long)]
    force: bool,
}

impl ForceArg {
    /// What it means.
    pub fn existing(self) -> Existing {
        Existing::forced(self.force)
    }
}

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that wants it.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The verbs, in the order in which a user meets them.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// How long does my program take to start, cold and hot, and what does it wait for?
    #[command(long_about = record::LONG_ABOUT)]
    Record(Box<record::RecordArgs>),
    /// Which part of a profile makes the start slow?
    #[command(long_about = ablate::LONG_ABOUT)]
    Ablate(Box<ablate::AblateArgs>),
    /// Where does the time of a start go, and who waits for whom?
    #[command(long_about = why::LONG_ABOUT)]
    Why(Box<why::WhyArgs>),
    /// How does the start grow, with a parameter or with each restart?
    #[command(long_about = sweep::LONG_ABOUT)]
    Sweep(Box<sweep::SweepArgs>),
    /// What does a recording say?
    #[command(long_about = report::LONG_ABOUT)]
    Report(report::ReportArgs),
    /// What does a recording look like? (a page in the browser)
    #[command(long_about = view::LONG_ABOUT)]
    View(view::ViewArgs),
    /// Is one recording faster than another?
    #[command(long_about = compare::COMPARE_ABOUT)]
    Compare(compare::CompareArgs),
    /// Did my change make the start slower? (for CI: exit code 1 if it did)
    #[command(long_about = compare::GATE_ABOUT)]
    Gate(compare::GateArgs),
    /// Since which commit does my program start slower?
    #[command(long_about = history::LONG_ABOUT)]
    History(Box<history::HistoryArgs>),
    /// Which commit made my program start slower? (bisects, and measures until it knows)
    #[command(long_about = history::BISECT_ABOUT)]
    Bisect(Box<history::BisectArgs>),
    /// What would another disk, or another order, make of a start?
    #[command(long_about = io::LONG_ABOUT)]
    Io(io::IoArgs),
    /// What else is in a recording? (SQL)
    #[command(long_about = query::LONG_ABOUT)]
    Query(query::QueryArgs),
    /// Can the program start faster if its files are read before it asks for them?
    #[command(long_about = preload::LONG_ABOUT)]
    Preload(Box<preload::PreloadArgs>),
    /// Which remedies make this program start faster, and by how much?
    #[command(long_about = optimize::LONG_ABOUT)]
    Optimize(Box<optimize::OptimizeArgs>),
    /// What does my program allocate, and what does it never free?
    #[command(long_about = heap::LONG_ABOUT)]
    Heap(heap::HeapArgs),
    /// What waits for what, by the events that a program writes?
    #[command(long_about = timeline::LONG_ABOUT)]
    Timeline(timeline::TimelineArgs),
    /// How long does a page take to load, and what does a cache save?
    #[command(long_about = pageload::LONG_ABOUT)]
    Pageload(Box<pageload::PageloadArgs>),
    /// Which lines does a text consist of, and how often does each occur?
    #[command(long_about = counts::LONG_ABOUT)]
    Counts(counts::CountsArgs),
    /// What does a program use its memory for, and how does that change?
    #[command(long_about = memory::LONG_ABOUT)]
    Memory(Box<memory::MemoryArgs>),
    /// Which bytes does a start really need, and which functions does it call?
    #[command(long_about = touch::LONG_ABOUT)]
    Touch(Box<touch::TouchArgs>),
    /// In which order should the linker lay my functions out?
    #[command(long_about = order::LONG_ABOUT)]
    Order(order::OrderArgs),
    /// Can a program's archive be read with fewer requests?
    #[command(long_about = archive::LONG_ABOUT)]
    Archive(archive::ArchiveArgs),
    /// Can a program start from one small image of its directory, in the order of its start?
    #[command(long_about = image::LONG_ABOUT)]
    Image(image::ImageArgs),
    /// In how many pieces do my files lie on the disk, and what lies between them?
    #[command(long_about = frag::LONG_ABOUT)]
    Frag(frag::FragArgs),
    /// Can these files be evicted from the page cache, and if not, why?
    #[command(long_about = files::FLUSH_ABOUT)]
    Flush(files::FlushArgs),
    /// Which files are in the page cache now?
    #[command(long_about = files::RESIDENT_ABOUT)]
    Resident(files::ResidentArgs),
    /// What do my ELF files cost at a start, and can they cost less?
    #[command(long_about = elf::LONG_ABOUT)]
    Elf(elf::ElfArgs),
    /// What can this machine measure, and what did a killed run leave behind?
    #[command(long_about = doctor::LONG_ABOUT)]
    Doctor(doctor::DoctorArgs),
    /// How do my HTTP clients reach their origins through one strict place?
    #[command(long_about = proxy::LONG_ABOUT)]
    Proxy(proxy::ProxyArgs),
    /// What does a cache keep on disk, is it whole, and how do I take things out?
    #[command(long_about = cache::LONG_ABOUT)]
    Cache(cache::CacheArgs),
    /// What do web storage, sessions and cookies keep on disk, and is it whole?
    #[command(long_about = store::LONG_ABOUT)]
    Store(store::StoreArgs),
    /// How long do starts take on this machine, if its user agrees to tell?
    #[command(long_about = ping::LONG_ABOUT)]
    Ping(ping::PingArgs),
    /// How do my program's starts do on the machines of its users?
    #[command(long_about = fleet::LONG_ABOUT)]
    Fleet(fleet::FleetArgs),
    /// Which programs does thaw know how to start?
    #[command(long_about = presets::LONG_ABOUT)]
    Presets(presets::PresetsArgs),
    /// Where are the tutorial, the how-tos and the reference? (pages in the browser)
    #[command(long_about = docs::LONG_ABOUT)]
    Docs(docs::DocsArgs),
    /// How does my shell complete thaw's words? (prints its completions)
    #[command(long_about = packaging::COMPLETIONS_ABOUT)]
    Completions(packaging::CompletionsArgs),
    /// How do I get the man pages? (writes them into a directory)
    #[command(long_about = packaging::MAN_ABOUT)]
    Man(packaging::ManArgs),
}

/// How much of a long table is printed.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct RowsArgs {
    /// Rows of each table
    #[arg(long, value_name = "N", default_value_t = 20, conflicts_with = "all")]
    top: usize,
    /// All rows of each table
    #[arg(long)]
    all: bool,
}

impl RowsArgs {
    /// Most rows of a table.
    pub fn most(self) -> usize {
        if self.all { usize::MAX } else { self.top }
    }
}

const LONG_ABOUT: &str = "\
Why does my program start slowly, and what makes it start fast?

thaw starts a program many times in well-defined cache states, proves each state, traces what is read from the \
disk, and keeps all of it in one recording: a file that the other verbs read.";

const AFTER_HELP: &str = "\
Examples:
  thaw record -- gimp --no-interface --batch '(gimp-quit 0)'
  thaw report thaw.thaw
  thaw doctor

Exit codes:
  0 done   1 the answer is \"no\" (a regression)   2 the command line makes no sense
  3 this machine cannot (no root, no cgroup)   4 the program under test failed
  5 bad data in a file   70 a bug in thaw   130 interrupted; what was done is kept";
