//! App presets: how to start a known program, as small TOML files.
//!
//! Those in `app/cli/presets` are built in. Files in `/etc/thaw/apps` and `$XDG_CONFIG_HOME/thaw/apps` add to them; one
//! with the name of another preset overrides the fields that it has. Not here: what the placeholders
//! become (see `rundir.rs`).

use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const BUILT_IN: [(&str, &str); 2] = [
    ("chromium", include_str!("../presets/chromium.toml")),
    ("firefox-esr", include_str!("../presets/firefox-esr.toml")),
];

/// One TOML file; a field that it lacks is taken from the layer below.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fields {
    /// Program, by PATH or with a slash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Arguments put before the others for root only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_as_root: Option<Vec<String>>,
    /// Arguments used instead of `args` where `--ready beacon` is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beacon_args: Option<Vec<String>>,
    /// Files and directories that belong to the program and not to the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own: Option<Vec<String>>,
    /// Directories to put back before every run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restore: Option<Vec<String>>,
    /// Probes, as `--ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<Vec<String>>,
    /// Debian packages that it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packages: Option<Vec<String>>,
    /// Variables; merged one by one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A preset, merged from all its layers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Preset {
    /// Its name: the file's name without `.toml`.
    pub name: String,
    /// Where it comes from, the lowest layer first: `built in`, or a path.
    pub sources: Vec<String>,
    /// Its fields.
    #[serde(flatten)]
    pub fields: Fields,
}

impl Preset {
    /// The program.
    ///
    /// # Errors
    /// The preset names none.
    pub fn program(&self) -> Result<&str> {
        self.fields.program.as_deref().ok_or_else(|| {
            Error::new(Exit::Usage, "the preset names no program", &self.name)
                .hint(format!("add a line program = \"...\" to {}", self.sources.join(" or ")))
        })
    }

    /// Its arguments, placeholders unfilled.
    pub fn args(&self, beacon: bool, root: bool) -> Vec<String> {
        let fields = &self.fields;
        let chosen = if beacon { fields.beacon_args.as_ref().or(fields.args.as_ref()) } else { fields.args.as_ref() };
        let as_root = if root { fields.args_as_root.as_deref().unwrap_or_default() } else { &[] };
        as_root.iter().chain(chosen.into_iter().flatten()).cloned().collect()
    }

    /// Whether its program is the one that was typed.
    fn starts(&self, typed: &OsStr) -> bool {
        let base = |name: &OsStr| Path::new(name).file_name().map(OsStr::to_owned);
        let own = self.fields.program.as_ref().and_then(|program| base(OsStr::new(program)));
        own.is_some() && own == base(typed)
    }
}

/// All presets by name; of the user whose home is named, else of the one who runs thaw.
///
/// # Errors
/// A file of the user's that is no preset.
pub fn all(home: Option<&Path>) -> Result<Vec<Preset>> {
    load(&directories(home))
}

/// The preset of this name.
///
/// # Errors
/// There is none; the hint names those that there are.
pub fn find(name: &str, home: Option<&Path>) -> Result<Preset> {
    let presets = all(home)?;
    let names: Vec<String> = presets.iter().map(|preset| preset.name.clone()).collect();
    presets.into_iter().find(|preset| preset.name == name).ok_or_else(|| {
        Error::new(Exit::Usage, "no preset of this name", name).hint(format!(
            "there are {}; write your own as {}/{name}.toml",
            names.join(", "),
            user_directory(home).display()
        ))
    })
}

/// The preset whose program was typed without `--app`: it says only what belongs to the program.
///
/// # Errors
/// As [`all`].
pub fn of_program(typed: &OsStr, home: Option<&Path>) -> Result<Option<Preset>> {
    Ok(all(home)?.into_iter().find(|preset| preset.starts(typed)))
}

/// Where users' presets are, the lowest layer first.
fn directories(home: Option<&Path>) -> [PathBuf; 2] {
    [PathBuf::from("/etc/thaw/apps"), user_directory(home)]
}

fn user_directory(home: Option<&Path>) -> PathBuf {
    if let Some(home) = home {
        return home.join(".config/thaw/apps");
    }
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".config");
    config.unwrap_or_else(home).join("thaw/apps")
}

fn load(directories: &[PathBuf]) -> Result<Vec<Preset>> {
    let mut presets = BTreeMap::new();
    for (name, text) in BUILT_IN {
        let fields = toml::from_str(text).map_err(|error| Error::bug(format!("built-in preset {name}: {error}")))?;
        add_layer(&mut presets, name, "built in".into(), fields);
    }
    for directory in directories {
        for path in toml_files(directory)? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let unreadable = |error| Error::on(Exit::Usage, "cannot read the preset", &path).because(error);
            let text = std::fs::read_to_string(&path).map_err(unreadable)?;
            let fields = toml::from_str(&text).map_err(|error| {
                Error::on(Exit::Usage, "this is not a preset", &path)
                    .because(error.to_string().trim_end().to_owned())
                    .hint("`thaw presets firefox-esr` shows one with all its fields")
            })?;
            add_layer(&mut presets, &name, path.display().to_string(), fields);
        }
    }
    Ok(presets.into_values().collect())
}

fn toml_files(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        // A user without own presets, or one whose home is not ours to look into.
        Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Error::on(Exit::Usage, "cannot list the presets", directory).because(error)),
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension() == Some(OsStr::new("toml")));
    paths.sort();
    Ok(paths)
}

fn add_layer(presets: &mut BTreeMap<String, Preset>, name: &str, source: String, upper: Fields) {
    let empty = || Preset { name: name.to_owned(), sources: Vec::new(), fields: Fields::default() };
    let preset = presets.entry(name.to_owned()).or_insert_with(empty);
    preset.sources.push(source);
    let lower = &mut preset.fields;
    let take = |lower: &mut Option<Vec<String>>, upper: Option<Vec<String>>| {
        if upper.is_some() {
            *lower = upper;
        }
    };
    if upper.program.is_some() {
        lower.program = upper.program;
    }
    take(&mut lower.args, upper.args);
    take(&mut lower.args_as_root, upper.args_as_root);
    take(&mut lower.beacon_args, upper.beacon_args);
    take(&mut lower.own, upper.own);
    take(&mut lower.restore, upper.restore);
    take(&mut lower.ready, upper.ready);
    take(&mut lower.packages, upper.packages);
    lower.env.extend(upper.env);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(presets: &'a [Preset], name: &str) -> &'a Preset {
        presets.iter().find(|preset| preset.name == name).unwrap()
    }

    #[test]
    fn the_built_in_presets_are_whole() {
        for preset in load(&[]).unwrap() {
            assert!(!preset.program().unwrap().is_empty());
            assert!(preset.fields.packages.is_some(), "{} must say what `make demo` installs", preset.name);
            assert!(preset.args(true, false).concat().contains("{beacon}"));
            assert!(!preset.args(false, false).concat().contains("{beacon}"));
        }
    }

    #[test]
    fn only_root_gives_up_the_sandbox() {
        let presets = load(&[]).unwrap();
        let chromium = named(&presets, "chromium");
        assert!(chromium.args(false, true).contains(&"--no-sandbox".to_owned()));
        assert!(!chromium.args(false, false).contains(&"--no-sandbox".to_owned()));
    }

    #[test]
    fn a_users_file_overrides_the_fields_that_it_has() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("chromium.toml"), "own = [\"/opt/x\"]\n[env]\nA = \"1\"\n").unwrap();
        std::fs::write(scratch.path().join("mine.toml"), "program = \"/opt/mine\"\n").unwrap();
        std::fs::write(scratch.path().join("README"), "no preset").unwrap();
        let presets = load(&[scratch.path().to_owned(), scratch.path().join("missing")]).unwrap();
        let chromium = named(&presets, "chromium");
        assert_eq!(chromium.program().unwrap(), "chromium");
        assert_eq!(chromium.fields.own.as_deref().unwrap(), ["/opt/x"]);
        assert_eq!(chromium.fields.env["A"], "1");
        assert!(chromium.fields.env.contains_key("HOME"), "variables are merged one by one");
        assert_eq!(chromium.sources.len(), 2);
        assert_eq!(named(&presets, "mine").args(false, true), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_field_is_named() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("bad.toml"), "programme = \"x\"\n").unwrap();
        let error = load(&[scratch.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains("programme"), "{error}");
        assert_eq!(error.exit, Exit::Usage);
    }

    #[test]
    fn a_typed_program_is_known_by_its_file_name() {
        let presets = load(&[]).unwrap();
        assert!(named(&presets, "firefox-esr").starts(OsStr::new("/usr/bin/firefox-esr")));
        assert!(!named(&presets, "firefox-esr").starts(OsStr::new("/usr/bin/firefox")));
    }
}
