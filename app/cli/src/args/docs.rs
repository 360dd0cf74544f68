//! `thaw docs`: what was typed.

use clap::Args;

/// Arguments of `thaw docs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DocsArgs {
    /// Only print where its first page lies: open no browser
    #[arg(long)]
    pub print: bool,
}

pub(super) const LONG_ABOUT: &str = "\
Where are the tutorial, the how-tos and the reference?

Opens the documents in the browser, and prints where their first page lies. They were installed beside this command, \
need no network and no server, and have a search. `make site` makes them in a source tree.";

const EXAMPLES: &str = "\
Examples:
  thaw docs
  thaw docs --print";
