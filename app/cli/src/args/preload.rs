//! `thaw preload`: what was typed.

use super::ForceArg;
use super::values;
use clap::{Args, Subcommand, ValueEnum, ValueHint};
use model::Bytes;
use os::installed::Subject;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `thaw preload`.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true, after_help = EXAMPLES)]
pub struct PreloadArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: PreloadVerb,
}

/// The verbs of `thaw preload`.
#[derive(Debug, Subcommand)]
pub enum PreloadVerb {
    /// What should be read before the program starts, and in which order?
    #[command(long_about = MAKE_ABOUT)]
    Make(MakeArgs),
    /// Can the program start faster? (reads what the manifest lists, then becomes the program)
    #[command(long_about = RUN_ABOUT)]
    Run(RunArgs),
    /// Does a manifest still fit the files of this machine?
    #[command(long_about = STATUS_ABOUT)]
    Status(StatusArgs),
    /// How does the program start so from now on? (a launcher, or a systemd unit)
    #[command(long_about = INSTALL_ABOUT)]
    Install(InstallArgs),
    /// How do I get rid of it again?
    #[command(long_about = UNINSTALL_ABOUT)]
    Uninstall(UninstallArgs),
}

/// Arguments of `thaw preload make`.
#[derive(Debug, Args)]
#[command(after_help = MAKE_EXAMPLES)]
pub struct MakeArgs {
    /// Recordings with cold, traced starts; what any of them needed is read
    #[arg(required = true, value_name = "RECORDING", value_hint = ValueHint::FilePath)]
    pub recordings: Vec<PathBuf>,
    /// Where the manifest goes
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub force: ForceArg,
    /// Read gaps up to this size too; auto: the size that the disk is fastest with
    #[arg(long, value_name = "auto|SIZE", default_value = "auto", value_parser = gap)]
    pub gap: GapChoice,
    /// Order of the reads; auto: by place on disks with an arm, else as the program needs them
    #[arg(long, value_name = "ORDER", default_value = "auto")]
    pub order: OrderChoice,
    /// The disk to plan for: laptop2010, desktop2010, sata-ssd, nvme, microsd, this (it is measured), or
    /// throttle:iops=200,bps=30M [default: the disk or limit of the recording; else one as fast as its disk was]
    #[arg(long, value_name = "DISK")]
    pub disk: Option<String>,
    /// Which of the recorded programs [default: the first]
    #[arg(long, value_name = "NAME")]
    pub variant: Option<String>,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// `--gap`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapChoice {
    /// By the disk's cost.
    Auto,
    /// Up to this size.
    UpTo(Bytes),
}

/// `--order`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OrderChoice {
    /// By the kind of disk.
    Auto,
    /// By place on the disk.
    Disk,
    /// As the program needs it.
    FirstUse,
}

/// Arguments of `thaw preload run`.
#[derive(Debug, PartialEq, Eq, Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// The manifest; without a good one the program starts all the same
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,
    /// The program and its arguments; without, only the reading is done
    #[arg(last = true, value_name = "PROGRAM ARGS", value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
    /// The call that asks for the reads
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: EngineChoice,
    /// How much is asked for at a time: all before the program starts, or a size, the rest beside it as the disk
    /// delivers. auto: all in the order of the disk, 4 MiB in the order of first use
    #[arg(long, value_name = "auto|all|SIZE", default_value = "auto", value_parser = window_choice)]
    pub window: WindowChoice,
    /// Say on stderr what is done
    #[arg(long, short)]
    pub verbose: bool,
    #[command(flatten)]
    pub run_as: super::user::UserArgs,
}

/// `--engine`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineChoice {
    /// The fastest.
    Auto,
    /// readahead(2)
    Readahead,
    /// posix_fadvise(2)
    Fadvise,
    /// io_uring
    #[value(name = "io_uring")]
    IoUring,
}

/// `--window`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChoice {
    /// By the order of the manifest.
    Auto,
    /// Everything.
    All,
    /// So much.
    Of(Bytes),
}

fn window_choice(text: &str) -> Result<WindowChoice, String> {
    match text {
        "auto" => Ok(WindowChoice::Auto),
        "all" => Ok(WindowChoice::All),
        size => values::size(size).map(WindowChoice::Of).map_err(|why| format!("{why}; or write auto or all")),
    }
}

/// Arguments of `thaw preload status`.
#[derive(Debug, Args)]
#[command(after_help = STATUS_EXAMPLES)]
pub struct StatusArgs {
    /// The manifest
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long)]
    pub json: bool,
}

/// What is installed.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct Place {
    /// A launcher: the desktop entry of this name, such as firefox-esr.desktop
    #[arg(long, value_name = "NAME.desktop")]
    pub desktop: Option<String>,
    /// A systemd unit of this name that reads at login (with --system: at boot)
    #[arg(long, value_name = "NAME")]
    pub unit: Option<String>,
}

impl Place {
    /// The launcher or unit that is named.
    pub fn subject(&self) -> Option<Subject> {
        let launcher = self.desktop.clone().map(Subject::Launcher);
        launcher.or_else(|| self.unit.clone().map(Subject::Unit))
    }
}

/// Arguments of `thaw preload install`.
#[derive(Debug, Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub struct InstallArgs {
    /// The manifest; a copy of it is kept
    #[arg(value_name = "MANIFEST", value_hint = ValueHint::FilePath)]
    pub manifest: PathBuf,
    #[command(flatten)]
    pub place: Place,
    /// For all users instead of this one; needs root
    #[arg(long)]
    pub system: bool,
}

/// Arguments of `thaw preload uninstall`.
#[derive(Debug, Args)]
#[command(after_help = UNINSTALL_EXAMPLES)]
pub struct UninstallArgs {
    #[command(flatten)]
    pub place: Place,
    /// What was installed for all users; needs root
    #[arg(long)]
    pub system: bool,
}

fn gap(text: &str) -> Result<GapChoice, String> {
    match text {
        "auto" => Ok(GapChoice::Auto),
        size => values::size(size).map(GapChoice::UpTo).map_err(|error| format!("{error}, or auto")),
    }
}

pub(super) const LONG_ABOUT: &str = "\
Can the program start faster if its files are read before it asks for them?

A cold start waits for thousands of small reads, one after the other. `make` takes the ranges that a recorded start \
needed and plans few, long reads; `run` asks for them and becomes the program. Nothing of the program is changed.";

const EXAMPLES: &str = "\
Examples:
  thaw preload make ff.thaw -o ff.preload
  thaw preload run ff.preload -- firefox-esr
  thaw preload install ff.preload --desktop firefox-esr.desktop";

const MAKE_ABOUT: &str = "\
What should be read before the program starts, and in which order?

Takes what a recorded, cold start needed, joins ranges over gaps that cost less than a request, and writes a manifest \
with the identity of each file. Best from `thaw touch` or from a recording made with `--readahead 0`, which know the \
needed pages exactly.";

const MAKE_EXAMPLES: &str = "\
Examples:
  thaw preload make ff.thaw -o ff.preload
  thaw preload make ff.thaw -o ff.preload --disk laptop2010
  thaw preload make ff.thaw -o ff.preload --gap 64K --order first-use";

const RUN_ABOUT: &str = "\
Can the program start faster?

Asks the kernel to read what the manifest lists and is not in memory, and becomes the program: same process, \
environment and open files. Files that changed are left out. Reads less where memory is short. Whatever goes wrong, \
the program is started. Exit codes are the program's; 127 where there is none of this name, 126 where it cannot be \
started, as with env(1). Without a program: exit code 1 if no file of the manifest is as it was.";

const RUN_EXAMPLES: &str = "\
Examples:
  thaw preload run ff.preload -- firefox-esr https://example.org
  thaw preload run -v ff.preload -- firefox-esr
  thaw preload run ff.preload";

const STATUS_ABOUT: &str = "\
Does a manifest still fit the files of this machine?

Lists the files that changed since it was made, and says how much is in memory. Exit code 1 if no file is as it was.";

const STATUS_EXAMPLES: &str = "\
Examples:
  thaw preload status ff.preload
  thaw preload status ff.preload --json | jq '.report.stale'
  thaw preload status ff.preload || thaw preload make ff.thaw -o ff.preload";

const INSTALL_ABOUT: &str = "\
How does the program start so from now on?

Puts a copy of the desktop entry, whose commands go through `thaw-preload`, before the system's one; or a systemd unit \
that reads at login. Changes files of this user only, unless --system is given. `thaw doctor` lists what is installed.";

const INSTALL_EXAMPLES: &str = "\
Examples:
  thaw preload install ff.preload --desktop firefox-esr.desktop
  thaw preload install ff.preload --unit firefox
  thaw preload install ff.preload --unit firefox --system";

const UNINSTALL_ABOUT: &str = "\
How do I get rid of it again?

Removes what `install` wrote and puts back what was there before. A file that was changed since is kept and named.";

const UNINSTALL_EXAMPLES: &str = "\
Examples:
  thaw preload uninstall --desktop firefox-esr.desktop
  thaw preload uninstall --unit firefox
  thaw preload uninstall --unit firefox --system";
