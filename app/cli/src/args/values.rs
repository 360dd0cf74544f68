//! Values as people type them: durations, sizes, shares, lists. Each parser's message says what would be right.

use model::CacheState;
pub use model::typed::{duration, growth, share, size};
use std::ffi::{OsStr, OsString};
use std::ops::RangeInclusive;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
pub use work::typed::{DiskLimit, disk_limit, words};

/// `history` or `history:FILE`.
pub fn history(text: &str) -> Result<PathBuf, String> {
    match text.split_once(':') {
        None if text == "history" => Ok(PathBuf::from("history.thawdb")),
        Some(("history", file)) if !file.is_empty() => Ok(PathBuf::from(file)),
        _ => Err(format!("'{text}' is none; write history or history:FILE")),
    }
}

/// A share that is more than nothing.
pub fn positive_share(text: &str) -> Result<f64, String> {
    share(text)
        .and_then(|share| if share > 0.0 { Ok(share) } else { Err(format!("'{text}' is nothing; write 5% or 0.05")) })
}

/// `time`, `bytes=1%`: a figure to be judged, with a limit of its own.
pub fn metric(text: &str) -> Result<(bench::gate::Metric, Option<f64>), String> {
    match text.rsplit_once('=') {
        Some((name, limit)) => Ok((name.trim().parse()?, Some(growth(limit.trim())?))),
        None => Ok((text.trim().parse()?, None)),
    }
}

/// `old,new`: the names of two variants.
pub fn two_names(text: &str) -> Result<(String, String), String> {
    match text.split_once(',') {
        Some((old, new)) if !old.is_empty() && !new.is_empty() && old != new => Ok((old.to_owned(), new.to_owned())),
        _ => Err(format!("'{text}' does not name two variants; write OLD,NEW")),
    }
}

/// `cold,boot,app,hot`: some of them, each once.
pub fn states(text: &str) -> Result<Vec<CacheState>, String> {
    let mut states = Vec::new();
    for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let state: CacheState = word.parse()?;
        if states.contains(&state) {
            return Err(format!("'{word}' is named twice"));
        }
        states.push(state);
    }
    if states.is_empty() { Err("name at least one of cold, boot, app and hot".into()) } else { Ok(states) }
}

/// The disk that programs are started from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskChoice {
    /// The machine's own, slowed down.
    Limit(DiskLimit),
    /// A simulated one, by name.
    Simulated(String),
    /// The same one without its delays: `quick:NAME`.
    Quick(String),
}

/// Parses a [`DiskChoice`].
pub fn disk_choice(text: &str) -> Result<DiskChoice, String> {
    let (quick, name) = text.strip_prefix("quick:").map_or((false, text), |name| (true, name));
    let is_name = |letter: char| letter.is_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || !name.chars().all(is_name) {
        return disk_limit(text).map(DiskChoice::Limit);
    }
    Ok(if quick { DiskChoice::Quick(name.to_owned()) } else { DiskChoice::Simulated(name.to_owned()) })
}

/// What a replay reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Through {
    /// The block device.
    Device,
    /// The files that lie on it.
    Files,
}

/// Exit codes that count as success: `0,3,10-12`.
pub fn exit_codes(text: &str) -> Result<Vec<RangeInclusive<i32>>, String> {
    let wrong = || format!("'{text}' is not a list of exit codes; write 0,3 or 0-2");
    let code = |word: &str| word.trim().parse::<u8>().map(i32::from).map_err(|_| wrong());
    let mut ranges = Vec::new();
    for part in text.split(',') {
        let range = match part.split_once('-') {
            Some((low, high)) => code(low)?..=code(high)?,
            None => code(part)?..=code(part)?,
        };
        if range.is_empty() {
            return Err(wrong());
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// A change of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvChange {
    /// The variable.
    pub name: OsString,
    /// Its value; `None` removes it.
    pub value: Option<OsString>,
}

/// `NAME=VALUE` sets a variable, `NAME` alone removes it.
pub fn env_change(text: OsString) -> Result<EnvChange, String> {
    let bytes = text.as_bytes();
    let (name, value) = match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) => (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
        None => (bytes, None),
    };
    if name.is_empty() {
        return Err("a variable needs a name: NAME=VALUE sets it, NAME alone removes it".into());
    }
    Ok(EnvChange { name: OsString::from_vec(name.to_vec()), value })
}

/// A named variant of the program: `NAME=COMMANDLINE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCommand {
    /// Its name in the report.
    pub name: String,
    /// The words of its command line.
    pub argv: Vec<OsString>,
}

/// Parses a [`NamedCommand`].
pub fn named_command(text: &str) -> Result<NamedCommand, String> {
    let (name, line) = text
        .split_once('=')
        .filter(|(name, _)| !name.trim().is_empty())
        .ok_or_else(|| format!("'{text}' has no name; write NAME=COMMANDLINE, such as small='prog --profile small'"))?;
    let argv = words(line)?;
    if argv.is_empty() {
        return Err(format!("variant '{name}' has no command line; write NAME=COMMANDLINE"));
    }
    Ok(NamedCommand { name: name.trim().to_owned(), argv: argv.into_iter().map(OsString::from).collect() })
}

/// A base list with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedList {
    /// Its name in the report.
    pub name: String,
    /// Where it is.
    pub file: PathBuf,
}

/// Parses a [`NamedList`]: `NAME=FILE`, or a file whose name without its ending is the name.
pub fn named_list(text: OsString) -> Result<NamedList, String> {
    let bytes = text.as_bytes();
    let named = bytes.iter().position(|byte| *byte == b'=').filter(|at| !bytes[..*at].contains(&b'/'));
    let (name, file) = match named {
        Some(at) => (OsStr::from_bytes(&bytes[..at]), PathBuf::from(OsStr::from_bytes(&bytes[at + 1..]))),
        None => (Path::new(&text).file_stem().unwrap_or_default(), PathBuf::from(&text)),
    };
    if name.is_empty() || file.as_os_str().is_empty() {
        return Err("a base list is FILE or NAME=FILE, such as gnome=gnome.list".into());
    }
    Ok(NamedList { name: name.to_string_lossy().into_owned(), file })
}

/// A parameter and its values: `NAME=a,b,c` (a list) or `NAME=FROM..TO` with `NAME=FROM..TO..STEP` (numbers, both ends
/// included).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// `{NAME}` stands for a value in the words of the program.
    pub name: String,
    /// Values in the order given; at least one, each once.
    pub values: Vec<String>,
}

/// Most values of a parameter.
const MOST_VALUES: usize = 1000;

/// Parses a [`Parameter`].
pub fn parameter(text: &str) -> Result<Parameter, String> {
    let wrong = |why: &str| format!("'{text}': {why}; write NAME=a,b,c or NAME=1..8 or NAME=0..1..0.25");
    let (name, values) = text.split_once('=').ok_or_else(|| wrong("a parameter needs a name and values"))?;
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(wrong("a name is made of letters, digits, _ and -"));
    }
    let parts: Vec<&str> = values.split("..").collect();
    let values = match parts.as_slice() {
        // A path such as ../a is a value like any other.
        [first, ..] if values.contains(',') || first.parse::<f64>().is_err() => {
            values.split(',').map(str::to_owned).collect()
        }
        [_] => vec![values.to_owned()],
        [from, to] => range(from, to, "1").map_err(wrong)?,
        [from, to, step] => range(from, to, step).map_err(wrong)?,
        _ => return Err(wrong("a range has two ends and a step")),
    };
    if values.iter().enumerate().any(|(index, value)| value.is_empty() || values[..index].contains(value)) {
        return Err(wrong("each value is there once and not empty"));
    }
    Ok(Parameter { name: name.to_owned(), values })
}

/// Numbers from one to another. They have as many decimals as the longest of the three, so that 0.1 added ten times is
/// 1.0.
fn range(from: &str, to: &str, step: &str) -> Result<Vec<String>, &'static str> {
    const NUMBERS: &str = "the ends and the step of a range are numbers";
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let places = [from, to, step].into_iter().map(decimals).max().unwrap_or(0);
    let unit = 10_f64.powi(i32::try_from(places).map_err(|_| NUMBERS)?);
    let units = |text: &str| {
        let value = text.trim().parse::<f64>().ok().map(|value| (value * unit).round());
        value.filter(|units| units.abs() < 1e15).map(|units| units as i64).ok_or(NUMBERS)
    };
    let (first, last, step) = (units(from)?, units(to)?, units(step)?);
    if step <= 0 || last < first {
        return Err("a range goes up, by a step above 0");
    }
    if (last - first) / step >= MOST_VALUES as i64 {
        return Err("a parameter has at most 1000 values");
    }
    let shown = |units: i64| format!("{:.places$}", units as f64 / unit);
    Ok((0..=(last - first) / step).map(|index| shown(first + index * step)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_may_have_its_own_limit() {
        use bench::gate::Metric;
        assert_eq!(metric("bytes=1%").unwrap(), (Metric::Bytes, Some(0.01)));
        assert_eq!(metric("time").unwrap(), (Metric::Time, None));
        let milestone = Metric::Milestone("line:a=b".to_owned());
        assert_eq!(metric("milestone:line:a=b=2%").unwrap(), (milestone, Some(0.02)));
        assert!(metric("speed").unwrap_err().contains("time, cpu"));
        assert!(metric("time=5").unwrap_err().contains("5%"));
        assert_eq!(two_names("a,b").unwrap(), ("a".to_owned(), "b".to_owned()));
        assert!(two_names("a").is_err() && two_names("a,a").is_err());
        assert!(positive_share("0%").is_err() && positive_share("2%") == Ok(0.02));
    }

    #[test]
    fn a_state_is_named_once() {
        assert_eq!(states("cold,hot").unwrap(), [CacheState::Cold, CacheState::Hot]);
        assert!(states("cold,warm").unwrap_err().contains("cold, boot, app and hot"));
        assert!(states("hot,hot").unwrap_err().contains("twice"));
        assert!(states(",").is_err());
    }

    #[test]
    fn a_disk_is_a_name_or_a_limit() {
        assert_eq!(disk_choice("laptop2010").unwrap(), DiskChoice::Simulated("laptop2010".into()));
        assert_eq!(disk_choice("quick:sata-ssd").unwrap(), DiskChoice::Quick("sata-ssd".into()));
        let limit = DiskLimit { iops: Some(9), bps: None };
        assert_eq!(disk_choice("throttle:iops=9").unwrap(), DiskChoice::Limit(limit));
        for wrong in ["", "quick:", "iops=200", "a disk", "slow:laptop2010"] {
            assert!(disk_choice(wrong).unwrap_err().contains("thaw io model --list"), "{wrong}");
        }
    }

    #[test]
    fn exit_codes_are_lists_of_ranges() {
        assert_eq!(exit_codes("0,3,10-12").unwrap(), [0..=0, 3..=3, 10..=12]);
        for wrong in ["", "zero", "3-1", "256"] {
            assert!(exit_codes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_alone_removes_a_variable() {
        assert_eq!(env_change("A=b=c".into()).unwrap().value, Some("b=c".into()));
        assert_eq!(env_change("A=".into()).unwrap().value, Some("".into()));
        assert_eq!(env_change("A".into()).unwrap().value, None);
        assert!(env_change("=x".into()).is_err());
    }

    #[test]
    fn parameters_are_lists_or_ranges_of_numbers() {
        let values = |text: &str| parameter(text).unwrap().values.join(" ");
        assert_eq!(parameter("threads=1..4").unwrap().name, "threads");
        assert_eq!(values("threads=1..4"), "1 2 3 4");
        assert_eq!(values("share=0..1..0.25"), "0.00 0.25 0.50 0.75 1.00");
        assert_eq!(values("x=0.1..0.3..0.1"), "0.1 0.2 0.3");
        assert_eq!(values("x=-2..2..2"), "-2 0 2");
        assert_eq!(values("theme=dark,light"), "dark light");
        assert_eq!(values("profile=../a,../b"), "../a ../b");
        assert_eq!(values("x=5"), "5");
        for wrong in
            ["x", "=1", "x=", "x=a,,b", "x=a,a", "x=4..1", "x=1..2..0", "x=1..b", "x=1..2..3..4", "a b=1", "x=1..9999"]
        {
            assert!(parameter(wrong).unwrap_err().contains("write NAME="), "{wrong}");
        }
    }

    #[test]
    fn variants_are_named_command_lines() {
        assert_eq!(named_command("small=prog -x").unwrap().argv, ["prog", "-x"]);
        assert!(named_command("prog -x").is_err());
        assert!(named_command("small=").is_err());
    }
}
