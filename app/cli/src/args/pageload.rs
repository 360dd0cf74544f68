//! `thaw pageload`: what was typed.

use super::record::disk_parser;
use super::values::{self, DiskChoice};
use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use pageload::drive::Kind;
use pageload::plan::Via;
use std::path::PathBuf;
use std::time::Duration;

/// How the cache is, as typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// It never saw the page.
    First,
    /// It loaded the page a moment ago.
    Warm,
    /// The page is loaded again where it is.
    Reload,
    /// Its owner was started anew, and its files are in no memory.
    Cold,
}

/// A browser, as typed: `chromium`, `firefox=/opt/firefox/firefox`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypedBrowser {
    /// Which.
    pub kind: Kind,
    /// Where it is; `None`: in PATH.
    pub program: Option<PathBuf>,
}

/// Arguments of `thaw pageload`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("page").required(true).args(["url", "site"]))]
pub struct PageloadArgs {
    /// The page: http:// or https://
    #[arg(value_name = "URL", value_hint = ValueHint::Url, value_parser = url)]
    pub url: Option<String>,
    /// A page that is the same everywhere, from an origin of thaw's own: 460 images, two of them large, styles, scripts
    #[arg(long)]
    pub site: bool,
    /// Images on the page of --site
    #[arg(long, value_name = "N", default_value_t = 460, conflicts_with = "url")]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub images: u32,
    /// How long the origin of --site takes for each answer
    #[arg(long, value_name = "TIME", default_value = "40ms", conflicts_with = "url", value_parser = values::duration)]
    pub latency: Duration,

    /// Whose cache: direct (the browser's own), thaw (of `thaw proxy`, which is started), thaw-h2 (the same by TLS and
    /// HTTP/2), or http://HOST:PORT of another proxy; several times for several [default: direct]
    #[arg(long, value_name = "CACHE", value_parser = via)]
    pub via: Vec<Via>,
    /// chromium or firefox, with =/PATH if it is not in PATH; several times for several [default: chromium]
    #[arg(long, value_name = "BROWSER", value_parser = browser)]
    pub browser: Vec<TypedBrowser>,
    /// How the cache is; several with commas
    #[arg(long, value_name = "STATES", value_delimiter = ',', default_value = "first,warm,reload,cold")]
    pub state: Vec<State>,
    /// Loads of each kind
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// A load that takes longer has failed
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = values::duration)]
    pub timeout: Duration,
    /// A command that starts another proxy anew and returns when it is there: without one it is never cold. $THAW_VIA
    /// says which, as in --via
    #[arg(long, value_name = "COMMAND", value_hint = ValueHint::CommandString)]
    pub restart: Option<String>,
    /// Decides in which order browsers and caches take turns
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Have the cache on a simulated disk, such as laptop2010 (see `thaw io model --list`; quick:laptop2010 is the same
    /// without delays), or slow the machine's own down: throttle:iops=200,bps=30M
    #[arg(long, value_name = "DISK", value_parser = disk_parser(), hide_possible_values = true)]
    pub disk: Option<DiskChoice>,
    /// More disks to choose from: a file like the one of `thaw io model --list`
    #[arg(long, value_name = "FILE", requires = "disk", value_hint = ValueHint::FilePath)]
    pub disks_file: Option<PathBuf>,
    /// A recording of the loads, for `thaw report`, `compare` and `gate`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Replace an existing recording; other files are never replaced
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Print one JSON document instead of text; it has all loads
    #[arg(long)]
    pub json: bool,
}

fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') => Ok(text.to_owned()),
        _ => Err("write http://HOST/PATH or https://HOST/PATH".to_owned()),
    }
}

fn via(text: &str) -> Result<Via, String> {
    text.parse()
}

fn browser(text: &str) -> Result<TypedBrowser, String> {
    let (name, program) = text.split_once('=').map_or((text, None), |(name, path)| (name, Some(PathBuf::from(path))));
    let kind = match name {
        "chromium" => Kind::Chromium,
        "firefox" => Kind::Firefox,
        _ => return Err("chromium, firefox, or one of them with =/PATH".to_owned()),
    };
    Ok(TypedBrowser { kind, program })
}

pub(super) const LONG_ABOUT: &str = "\
How long does a page take to load, and what does a cache save: on a first visit, warm, reloaded, cold?

Starts real browsers without a window, loads the page in rounds, and says when it was loaded, when something was seen \
and when the largest thing was. A cold load comes after the owner of the cache, the browser or its proxy, was started \
anew and its files were dropped from memory. What reached the origin, bytes and reads from the disk stand beside the \
times.";

const EXAMPLES: &str = "\
Examples:
  thaw pageload --site --browser chromium --browser firefox
  thaw pageload --site --via direct --via thaw --via thaw-h2 --disk laptop2010 -n 10
  thaw pageload https://example.org/ --state first,warm --json";
