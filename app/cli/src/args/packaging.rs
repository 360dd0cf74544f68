//! Completions and man pages, made from the same definitions as `--help`.

use clap::{Args, ValueHint};
use clap_complete::Shell;
use std::path::PathBuf;

/// Arguments of `thaw completions`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thaw completions bash > /usr/share/bash-completion/completions/thaw
  thaw completions zsh > /usr/share/zsh/vendor-completions/_thaw
  thaw completions fish > /usr/share/fish/vendor_completions.d/thaw.fish")]
pub struct CompletionsArgs {
    /// bash, zsh, fish, elvish or powershell
    pub shell: Shell,
}

/// Arguments of `thaw man`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thaw man /usr/share/man/man1
  thaw man . && man ./thaw-record.1
  thaw man \"$DESTDIR/usr/share/man/man1\" && gzip -9n \"$DESTDIR\"/usr/share/man/man1/thaw*.1")]
pub struct ManArgs {
    /// Directory for thaw.1, thaw-record.1, ...
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

pub(super) const COMPLETIONS_ABOUT: &str = "\
How does my shell complete thaw's words?

Prints the completions of a shell: verbs, options and the values that an option knows. Save them where the shell looks \
for them; `make install` does so for bash, zsh and fish.";

pub(super) const MAN_ABOUT: &str = "\
How do I get the man pages?

Writes thaw.1 and one page for each verb into a directory, made when it is missing; `make install` does so. They say \
what --help says.";
