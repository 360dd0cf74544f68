//! `thaw ablate`: what was typed.

use super::record::RecordArgs;
use ablate::factor::Factor;
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// How factors are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Design {
    /// Each factor alone is taken away from the whole profile.
    OneOut,
    /// Each factor alone is left of the whole profile.
    OneIn,
    /// Every combination, and interactions of two: up to six factors.
    Full,
    /// A fraction of them that keeps effects apart from interactions of two.
    Fractional,
    /// Which single file it is: halves of all files are taken away in turns.
    Bisect,
}

/// Arguments of `thaw ablate`: those of `thaw record`, and what is taken away.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, override_usage = USAGE)]
#[command(mut_arg("state", |arg| arg.default_value("hot")), mut_arg("needed", |arg| arg.default_value("no")))]
#[command(mut_arg("trace_runs", |arg| arg.default_value("1")))]
#[command(mut_arg("parameter", |arg| arg.hide(true)), mut_arg("variant", |arg| arg.hide(true)))]
#[command(mut_arg("aa", |arg| arg.hide(true)))]
pub struct AblateArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub record: RecordArgs,
    /// The directory in which the program keeps its state; it is only read, and {profile} in the program's words is a
    /// copy of it
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "What is taken away")]
    #[arg(required_unless_present = "from")]
    pub profile: Option<PathBuf>,
    /// Something that can be taken away: files of the profile (with * and **), env:VARIABLE, arg:WORD, or a preference
    /// that is set instead, pref:NAME=VALUE [default: what the profile's files are known or large by]
    #[arg(long, value_name = "NAME=PART,PART", value_parser = Factor::parse, help_heading = "What is taken away")]
    pub factor: Vec<Factor>,
    /// Also the factors that thaw would propose
    #[arg(long, requires = "factor", help_heading = "What is taken away")]
    pub propose: bool,
    /// Not this one of the proposed factors
    #[arg(long, value_name = "NAME", help_heading = "What is taken away")]
    pub without: Vec<String>,
    /// How the factors are combined
    #[arg(long, value_name = "DESIGN", default_value = "one-out", help_heading = "What is taken away")]
    pub design: Design,
    /// Only print the factors, with what they would take away
    #[arg(long, help_heading = "What is taken away")]
    pub list: bool,
    /// Also write a page: every start, the variants side by side, the effects
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    pub html: Option<PathBuf>,
    /// Start nothing: answer from this recording of `thaw ablate`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "The answer")]
    #[arg(conflicts_with_all = ["profile", "factor", "command", "app", "list", "design"])]
    pub from: Option<PathBuf>,
}

pub(super) const LONG_ABOUT: &str = "\
Which part of a profile makes the start slow: cookies, history, the session, add-ons, caches?

Starts the program with copies of a profile from which parts were taken away, in random blocks with the whole profile \
and with an empty one, and tells by how much each part slows the start, with its interval, what of it all that does \
not explain, and with --design full which parts are slow only together. --design bisect finds the one file among \
thousands. The profile itself is only read. Takes all options of `thaw record`.";

const USAGE: &str = "\
thaw ablate [OPTIONS] --profile DIR -- PROGRAM {profile}...
       thaw ablate [OPTIONS] --profile DIR --app NAME
       thaw ablate --from FILE [--html PAGE]";

const EXAMPLES: &str = "\
Examples:
  thaw ablate --profile ~/.mozilla/firefox/abc.default --app firefox-esr --ready beacon
      What are cookies, history, session, add-ons and so on worth, one by one?
  thaw ablate --profile state --factor p=plugins --factor t=theme --design full -- ./app {profile}
      Two parts, alone and together.
  thaw ablate --profile state --design bisect -- ./app {profile}
      Which one of its files is it?";
