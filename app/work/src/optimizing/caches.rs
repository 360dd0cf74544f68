//! Caches that a start lacks: where they belong, and what their tools make in a copy of that directory.

use super::source::Source;
use model::{Bytes, Error, Exit, Result, shown};
use optimize::caches::{Lacking, font_caches, lacking};
use optimize::manifest::{Built, Identity};
use os::covers::Covers;
use os::spawn::{Launch, Stream, spawn_gated};
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

/// A larger directory is not copied for a try.
const LARGEST: Bytes = Bytes(512 << 20);

/// What the recorded start lacks, and why some of it is not tried.
pub fn survey(source: &Source) -> (Vec<Lacking>, Vec<String>) {
    // Each run's own directories are gone; the rest is where it was.
    let files = source.rows.files.iter().map(|file| &*file.path).filter(|path| path.is_file());
    let mut notes = Vec::new();
    let mut found = lacking(files, font_cache(source).as_deref());
    found.retain(|one| {
        let why = if os::spawn::resolve_program(&one.command[0]).is_err() {
            Some(format!("{} is not installed", shown(Path::new(&one.command[0]))))
        } else if size(&one.directory) > LARGEST {
            Some(format!("{} is too large to be copied", shown(&one.directory)))
        } else {
            None
        };
        notes.extend(why.as_ref().map(|why| format!("no cache of {} is built ({why})", one.kind.name())));
        why.is_none()
    });
    (found, notes)
}

/// A variable as the recorded program has it.
fn variable(source: &Source, name: &str) -> Option<OsString> {
    let recorded = source.recorded.env.iter().rev().find(|(known, _)| known == name);
    recorded.map_or_else(|| std::env::var_os(name), |(_, value)| value.clone())
}

/// The first directory of fontconfig's that is there.
fn font_cache(source: &Source) -> Option<PathBuf> {
    let path = variable(source, "FONTCONFIG_FILE").unwrap_or_else(|| "/etc/fonts/fonts.conf".into());
    let text = fs::read_to_string(path).ok()?;
    let home = || variable(source, "HOME").map(|home| Path::new(&home).join(".cache"));
    let xdg = variable(source, "XDG_CACHE_HOME").map(PathBuf::from).or_else(home).unwrap_or_default();
    font_caches(&text, &xdg).into_iter().find(|directory| directory.is_dir())
}

/// Bytes of all files below a directory.
pub fn size(directory: &Path) -> Bytes {
    let mut all = 0;
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(about) if about.is_dir() => folders.push(entry.path()),
                Ok(about) => all += about.len(),
                Err(_) => {}
            }
        }
    }
    Bytes(all)
}

/// Lets the tool build the cache in a copy, which it sees where the original is. What became another file by that.
///
/// # Errors
/// It cannot be started, or fails; it makes what cannot be taken back.
pub fn build(source: &Source, one: &Lacking, plain: &Path, changed: &Path) -> Result<Vec<Built>> {
    let covers = Covers::new([(changed, &*one.directory)])?;
    let failed =
        |because: String| Error::new(Exit::Target, "cannot build the cache of", one.kind.name()).because(because);
    let mut said = tempfile(changed)?;
    let out = said.try_clone().map_err(|cause| failed(cause.to_string()))?;
    let env = source.recorded.env.iter().filter(|(_, value)| !value.as_ref().is_some_and(is_filled)).cloned();
    let launch = Launch {
        env: env.collect(),
        stdout: Stream::Null,
        stderr: Stream::Fd(out.into()),
        covers,
        ..Launch::new(one.command.iter().cloned())
    };
    let ended = spawn_gated(launch)?.release()?.wait()?;
    if ended.code != Some(0) {
        let mut text = String::new();
        let read = said.rewind().and_then(|()| said.read_to_string(&mut text));
        return Err(failed(match (read.is_ok(), text.trim()) {
            (true, text) if !text.is_empty() => text.to_owned(),
            _ => format!("{} failed", shown(Path::new(&one.command[0]))),
        }));
    }
    differences(plain, changed).map_err(failed)
}

/// A value with a placeholder is for each run of the program.
fn is_filled(value: &OsString) -> bool {
    value.to_string_lossy().contains('{')
}

/// A file without a name beside a path.
fn tempfile(beside: &Path) -> Result<fs::File> {
    let path = beside.with_extension("said");
    let made = fs::File::options().read(true).write(true).create_new(true).open(&path);
    let made = made.and_then(|file| fs::remove_file(&path).map(|()| file));
    made.map_err(|cause| Error::on(Exit::Machine, "cannot write", &path).because(cause))
}

/// The files that are others in one directory than in the other.
fn differences(plain: &Path, changed: &Path) -> std::result::Result<Vec<Built>, String> {
    let (old, new) = (names(plain), names(changed));
    let (old, new) = (old.map_err(|cause| cause.to_string())?, new.map_err(|cause| cause.to_string())?);
    if let Some(gone) = old.iter().find(|name| !new.contains(name)) {
        return Err(format!("its tool removes {}", shown(gone)));
    }
    let mut built = Vec::new();
    for name in new {
        let identity = |path: PathBuf| Identity::of(&path).map_err(|cause| format!("{}: {cause}", shown(&path)));
        let before = old.contains(&name).then(|| identity(plain.join(&name))).transpose()?;
        let after = identity(changed.join(&name))?;
        if before == Some(after) {
            continue;
        }
        if name.parent().is_some_and(|parent| !plain.join(parent).is_dir()) {
            return Err(format!("its tool makes the directory of {}", shown(&name)));
        }
        built.push(Built { name, before, after });
    }
    Ok(built)
}

/// The regular files below a directory, by their names there; links are not followed.
fn names(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(directory.join(&folder))? {
            let entry = entry?;
            let (name, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                folders.push(name);
            } else if kind.is_file() {
                names.push(name);
            }
        }
    }
    names.sort();
    Ok(names)
}
