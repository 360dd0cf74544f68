//! `thaw presets`: what was typed.

use clap::Args;

/// Arguments of `thaw presets`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct PresetsArgs {
    /// Show this one in full
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print only the names of the Debian packages that it needs, for scripts
    #[arg(long, requires = "name")]
    pub packages: bool,
    /// Print one JSON document instead of text
    #[arg(long, conflicts_with = "packages")]
    pub json: bool,
}

pub(super) const LONG_ABOUT: &str = "\
Which programs does thaw know how to start?

A preset is a small TOML file: program, arguments, environment, what belongs to it, what to put back before each run. \
Your own go to $XDG_CONFIG_HOME/thaw/apps/NAME.toml or /etc/thaw/apps/NAME.toml; a file with the name of a built-in \
preset overrides the fields that it has. Placeholders: {profile} {tmp} {home} are directories that thaw makes for each \
recording, {beacon} is the page that reports first paint and load.";

const EXAMPLES: &str = "\
Examples:
  thaw presets
  thaw presets firefox-esr > ~/.config/thaw/apps/firefox-esr.toml
  apt-get install $(thaw presets --packages chromium)";
