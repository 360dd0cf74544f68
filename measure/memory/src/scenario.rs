//! A scenario of a memory course: which versions of a program go through which steps. A TOML file.

use model::{Error, Exit, Result, shown};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a scenario says of itself.
pub const SCHEMA: &str = "thaw.course/1";
/// Longest wait, seconds: a day.
const LONGEST: f64 = 86_400.0;

/// A scenario.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// [`SCHEMA`].
    pub schema: String,
    /// How often each version goes through all steps.
    #[serde(default = "five")]
    pub iterations: u32,
    /// Seconds between two looks at the memory.
    #[serde(default = "one_second")]
    pub interval: f64,
    /// The versions, in the order in which they are compared.
    #[serde(rename = "version")]
    pub versions: Vec<Version>,
    /// What is done, one after the other.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

fn five() -> u32 {
    5
}

fn one_second() -> f64 {
    1.0
}

/// One version of the program.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// What it is called; a directory of that name is made.
    pub name: String,
    /// `chromium` or `firefox`: it is driven by its own protocol, in a fresh profile, without a window.
    pub browser: Option<String>,
    /// A browser's program, where it is not the one in PATH.
    pub program: Option<PathBuf>,
    /// Another program: its words.
    #[serde(default)]
    pub command: Vec<String>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Step {
    /// A checkpoint of this name.
    Mark(String),
    /// So many seconds pass.
    Wait(f64),
    /// A browser loads these pages, each in a tab of its own.
    Load(Pages),
    /// A browser closes what it loaded: `tabs`.
    Close(Closed),
    /// The program gives back what it can do without.
    Minimise(bool),
    /// A line for `/bin/sh`; `$THAW_PID` is the program.
    Shell(String),
    /// A line for `/bin/sh` that is run again and again until it succeeds: until the program is ready.
    Until(String),
}

/// One address, or several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Pages {
    /// One.
    One(String),
    /// Several.
    Several(Vec<String>),
}

impl Pages {
    /// All of them.
    pub fn all(&self) -> &[String] {
        match self {
            Self::One(page) => std::slice::from_ref(page),
            Self::Several(pages) => pages,
        }
    }
}

/// What is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closed {
    /// All tabs that were loaded; an empty one is left.
    Tabs,
}

impl Scenario {
    /// Reads one.
    ///
    /// # Errors
    /// Data: no TOML, another schema, or steps that cannot be done; the text says which.
    pub fn parse(text: &str, path: &Path) -> Result<Self> {
        let wrong = |cause: String| {
            Error::on(Exit::Data, "cannot understand the scenario", path)
                .because(cause)
                .hint("docs/memory.md shows one that works")
        };
        let scenario: Self = toml::from_str(text).map_err(|cause| wrong(cause.to_string()))?;
        scenario.check().map_err(wrong)?;
        Ok(scenario)
    }

    /// Between two looks.
    pub fn interval(&self) -> Duration {
        Duration::from_secs_f64(self.interval)
    }

    fn check(&self) -> std::result::Result<(), String> {
        if self.schema != SCHEMA {
            return Err(format!("it says that it is '{}', and this thaw reads {SCHEMA}", self.schema));
        }
        if self.iterations == 0 || self.iterations > 10_000 {
            return Err(format!("{} iterations: from 1 to 10,000 can be made", self.iterations));
        }
        if !lasts(self.interval) || self.interval < 0.01 {
            return Err(format!("an interval of {} seconds: from 0.01 on", self.interval));
        }
        for (index, version) in self.versions.iter().enumerate() {
            version.check()?;
            if self.versions[..index].iter().any(|earlier| earlier.name == version.name) {
                return Err(format!("two versions are called '{}'", version.name));
            }
        }
        if self.versions.is_empty() {
            return Err("it has no [[version]]".to_owned());
        }
        if !self.steps.iter().any(|step| matches!(step, Step::Mark(_))) {
            return Err("it has no step `mark`: nothing would be known of it".to_owned());
        }
        for (index, step) in self.steps.iter().enumerate() {
            self.check_step(step).map_err(|why| format!("step {}: {why}", index + 1))?;
        }
        Ok(())
    }

    fn check_step(&self, step: &Step) -> std::result::Result<(), String> {
        let no_browser = || self.versions.iter().find(|version| version.browser.is_none());
        match step {
            Step::Wait(seconds) if !lasts(*seconds) => Err(format!("a wait of {seconds} seconds: from 0 to {LONGEST}")),
            Step::Mark(name) | Step::Shell(name) | Step::Until(name) if name.trim().is_empty() => {
                Err("there is nothing in it".to_owned())
            }
            Step::Load(pages) if pages.all().is_empty() => Err("no page is loaded".to_owned()),
            Step::Load(_) | Step::Close(_) if no_browser().is_some() => Err(format!(
                "'{}' is no browser that thaw drives: use `shell`",
                no_browser().map(|version| version.name.as_str()).unwrap_or_default()
            )),
            _ => Ok(()),
        }
    }
}

/// Whether something can last so long.
fn lasts(seconds: f64) -> bool {
    (0.0..=LONGEST).contains(&seconds)
}

impl Version {
    fn check(&self) -> std::result::Result<(), String> {
        let fits = |letter: char| letter.is_alphanumeric() || " ._+-".contains(letter);
        if self.name.is_empty() || self.name.starts_with('.') || !self.name.chars().all(fits) {
            return Err(format!("'{}' is no name of a version: letters, digits, blanks and ._+-", self.name));
        }
        match (&self.browser, self.command.is_empty()) {
            (Some(browser), true) if ["chromium", "firefox"].contains(&browser.as_str()) => Ok(()),
            (Some(browser), true) => Err(format!("'{browser}' is no browser that thaw drives: chromium or firefox")),
            (None, false) if self.program.is_some() => Err(format!("'{}': `program` is for browsers", self.name)),
            (None, false) => Ok(()),
            _ => Err(format!("'{}' needs either `browser` or `command`", self.name)),
        }
    }
}

/// Reads the file of a scenario.
///
/// # Errors
/// It cannot be read; as [`Scenario::parse`].
pub fn read(path: &Path) -> Result<(Scenario, String)> {
    let cannot = |cause| Error::new(Exit::Usage, "cannot read the scenario", shown(path)).because(cause);
    let file = os::file::open_regular(path).map_err(cannot)?;
    let text = std::io::read_to_string(std::io::Read::take(file, 1 << 20)).map_err(cannot)?;
    Ok((Scenario::parse(&text, path)?, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"
        schema = "thaw.course/1"
        iterations = 3
        [[version]]
        name = "chromium 1"
        browser = "chromium"
        [[version]]
        name = "other"
        browser = "firefox"
        program = "/opt/firefox/firefox"
        [[step]]
        mark = "start"
        [[step]]
        load = ["a.example", "b.example"]
        [[step]]
        wait = 30
        [[step]]
        close = "tabs"
        [[step]]
        minimise = true
    "#;

    fn parse(text: &str) -> Result<Scenario> {
        Scenario::parse(text, Path::new("s.toml"))
    }

    #[test]
    fn a_whole_scenario_is_read() {
        let scenario = parse(WHOLE).unwrap();
        assert_eq!((scenario.iterations, scenario.interval, scenario.versions.len()), (3, 1.0, 2));
        assert_eq!(scenario.steps[0], Step::Mark("start".into()));
        let Step::Load(pages) = &scenario.steps[1] else { panic!("{:?}", scenario.steps) };
        assert_eq!(pages.all(), ["a.example", "b.example"]);
        assert_eq!(scenario.steps[2..], [Step::Wait(30.0), Step::Close(Closed::Tabs), Step::Minimise(true)]);
    }

    #[test]
    fn what_cannot_be_done_is_named() {
        for (from, to, why) in [
            ("thaw.course/1", "thaw.course/9", "thaw.course/9"),
            ("iterations = 3", "iterations = 0", "0 iterations"),
            ("wait = 30", "wait = -1", "step 3"),
            ("wait = 30", "wait = nan", "step 3"),
            ("wait = 30", "sleep = 30", "unknown variant `sleep`"),
            ("mark = \"start\"", "wait = 1", "no step `mark`"),
            ("\"other\"", "\"chromium 1\"", "two versions"),
            ("\"other\"", "\"../other\"", "'../other' is no name"),
            ("browser = \"firefox\"", "browser = \"lynx\"", "'lynx'"),
            (
                "browser = \"firefox\"\n        program = \"/opt/firefox/firefox\"",
                "command = [\"app\"]",
                "'other' is no browser",
            ),
            ("browser = \"chromium\"", "", "'chromium 1' needs either"),
            ("[\"a.example\", \"b.example\"]", "[]", "no page"),
        ] {
            assert!(WHOLE.contains(from), "{from}");
            let error = parse(&WHOLE.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(why), "{why}: {error}");
        }
    }
}
