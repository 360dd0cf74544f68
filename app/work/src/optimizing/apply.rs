//! What helped a copy is done to the program itself, and undone.
//!
//! What will be changed is written down first. Each file is replaced by one rename, with its original kept by `pack` or
//! `optimize::kept`; so a run that was cut short is undone like a whole one. Nothing is undone unless all of it can be.

use super::archives;
use super::build::{PRELOAD, moved};
use crate::shell::command_line;
use model::{Error, Exit, Result, shown};
use optimize::applied::{
    Applied, AppliedCache, AppliedEnvironment, AppliedFile, AppliedPreload, Reordered, Standing, environment_file,
    kept_original, preload_manifest,
};
use optimize::files;
use optimize::kept::{keep, place, put_back};
use optimize::manifest::{Changed, Directory, Manifest, SCHEMA};
use optimize::remedy::Remedy;
use os::installed::Subject;
use os::installed::places::Scope;
use os::records::remove;
use os::replace::{Existing, Rights, write_whole};
use pack::{Options, Outcome, Target, pack_file, restore_file};
use preload::manifest::{Kind, Manifest as Reads};
use serde::Serialize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// `thaw.optimize-applied/1`: what was applied or undone.
#[derive(Debug, Serialize)]
pub struct AppliedDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// `false`: it was undone.
    pub applied: bool,
    /// What.
    #[serde(flatten)]
    pub what: Applied,
    /// Files that others changed meanwhile, and were left.
    pub kept: Vec<String>,
    /// The image of the result, which is not applied; `None`: it has none.
    pub image: Option<PathBuf>,
}

/// Does to the program what its copy has.
///
/// # Errors
/// The manifest is of another machine, the program has changed since, it is applied already, or a file cannot be
/// written.
pub fn apply(directory: &Path, desktop: Option<&str>, scope: Scope) -> Result<AppliedDocument> {
    let directory = files::absolute(directory)?;
    let manifest = Manifest::read(&directory)?;
    manifest.check_machine()?;
    if manifest.kept.is_empty() {
        return Err(Error::on(Exit::No, "nothing helped, so there is nothing to apply from", &directory));
    }
    if Applied::read(&directory)?.is_some() {
        return Err(Error::on(Exit::Usage, "it is applied already:", &directory)
            .hint(format!("thaw optimize --undo {}", shown(&directory))));
    }
    let image = manifest.image.as_ref().and_then(|image| image.kept.as_ref()).map(|kept| directory.join(kept));
    if let (true, Some(image)) = (manifest.kept.len() == 1, &image) {
        return Err(Error::on(Exit::No, "what helped is an image, which changes no file of the program:", image)
            .hint(format!("sudo thaw image install {} --system", command_line(&[image.clone().into()]))));
    }
    let with_preload = manifest.kept.contains(&Remedy::Preload);
    if desktop.is_some() && !with_preload {
        return Err(Error::on(
            Exit::Usage,
            "a desktop entry has nothing to read ahead: preload is not kept in",
            &directory,
        )
        .hint("leave --desktop out"));
    }
    // Taking back what was begun must not take away what somebody else installed.
    if let Some(name) = desktop
        && preload::install::find(&Subject::Launcher(name.into()), scope)?.is_some()
    {
        return Err(Error::new(Exit::Usage, "this launcher reads something ahead already:", name)
            .hint(format!("thaw preload uninstall --desktop {name}")));
    }
    let reads = with_preload.then(|| Reads::read(&directory.join(PRELOAD))).transpose()?;
    let preload = with_preload.then(|| -> Result<AppliedPreload> {
        Ok(AppliedPreload {
            manifest: preload_manifest(&directory)?,
            desktop: desktop.map(str::to_owned),
            system: scope == Scope::System,
        })
    });
    let changed_by = |by: Remedy| {
        let files = manifest.files.iter().filter(move |file| file.by == by);
        files.map(|file| AppliedFile { path: file.original(&manifest), before: file.before, after: file.after })
    };
    let mut number = 0..;
    let mut next_original = || kept_original(&directory, number.next().unwrap_or_default());
    let reordered: Vec<Reordered> = changed_by(Remedy::Archive)
        .map(|file| Ok(Reordered { original: next_original()?, file }))
        .collect::<Result<_>>()?;
    let built = manifest.directories.iter().flat_map(|of| of.files.iter().map(|file| (of.path.join(&file.name), file)));
    let caches = built.map(|(path, file)| {
        let original = file.before.map(|_| next_original()).transpose()?;
        Ok(AppliedCache { path, before: file.before, after: file.after, original })
    });
    let caches: Vec<AppliedCache> = caches.collect::<Result<_>>()?;
    let variables = manifest.environment.clone();
    let environment = (!variables.is_empty())
        .then(|| Ok(AppliedEnvironment { file: environment_file(&directory)?, variables }))
        .transpose()?;
    let applied = Applied {
        schema: SCHEMA.into(),
        directory: directory.clone(),
        root: manifest.root.clone(),
        made_unix_ns: os::machine::now_unix_ns(),
        packed: changed_by(Remedy::Pack).collect(),
        reordered,
        caches,
        environment,
        preload: preload.transpose()?,
    };
    for (path, standing) in applied.standings() {
        check_no_link(path)?;
        if standing != Standing::Original {
            return Err(Error::on(Exit::Data, "this file is not the one that was measured:", path)
                .because("it was changed or removed since, say by an upgrade")
                .hint("record the program again, then `thaw optimize RECORDING -o DIR --force`"));
        }
    }
    applied.write()?;
    if let Err(error) = perform(&applied, reads, &manifest) {
        // What was done so far is taken back; where that fails the record stays, and its hint says how to go on.
        let back = take_back(&applied).and_then(|_| applied.forget());
        let hint = back.err().map(|_| format!("some of it is done: thaw optimize --undo {}", shown(&directory)));
        return Err(match hint {
            Some(hint) => error.hint(hint),
            None => error,
        });
    }
    Ok(AppliedDocument { schema: "thaw.optimize-applied/1", applied: true, what: applied, kept: Vec::new(), image })
}

/// A link must not lead a change elsewhere.
fn check_no_link(path: &Path) -> Result<()> {
    // A cache that is not there yet is to be in its directory.
    let real = match path.symlink_metadata() {
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => {
            let (above, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
            above.canonicalize().map(|above| above.join(name))
        }
        _ => path.canonicalize(),
    };
    let real = real.map_err(|cause| Error::on(Exit::Data, "cannot find", path).because(cause))?;
    match real == path {
        true => Ok(()),
        false => Err(Error::on(Exit::Data, "there is a link on the way to this file:", path)
            .because(format!("it leads to {}", shown(&real)))),
    }
}

fn perform(applied: &Applied, reads: Option<Reads>, manifest: &Manifest) -> Result<()> {
    let directory = &*applied.directory;
    for file in &applied.packed {
        os::interrupt::check()?;
        match pack_file(&file.path, &Target::InPlace, &Options::default())? {
            Outcome::Packed(_) if file.standing() == Standing::Applied => {}
            Outcome::Packed(_) => {
                return Err(Error::on(
                    Exit::Data,
                    "packing gives another file than the one that was measured:",
                    &file.path,
                )
                .hint("it was measured with another version of thaw: run `thaw optimize` again"));
            }
            Outcome::Refused(refusal) => {
                let error = Error::on(Exit::No, "cannot pack in place:", &file.path).because(refusal.to_string());
                return Err(match refusal.hint {
                    Some(hint) => error.hint(hint),
                    None => error,
                });
            }
        }
    }
    for Reordered { file, original } in &applied.reordered {
        os::interrupt::check()?;
        let of_path = |changed: &&Changed| changed.original(manifest) == file.path;
        let changed = manifest.files.iter().find(of_path).ok_or_else(|| Error::bug("a file that nobody changed"))?;
        keep(&file.path, file.before, original)?;
        archives::apply(original, &changed.copy(directory), file.after, &file.path)?;
    }
    write_caches(applied, manifest)?;
    if let Some(environment) = &applied.environment {
        let lines = environment.variables.iter().map(|it| format!("{}={}\n", it.name, it.value));
        write_whole(&environment.file, lines.collect::<String>().as_bytes(), Rights::Usual, Existing::Replace)?;
    }
    let (Some(reads), Some(preload)) = (reads, &applied.preload) else { return Ok(()) };
    // In results of before the copies were started from where they lie.
    let mut reads = moved(reads, &directory.join("tree"), &applied.root);
    for entry in &mut reads.files {
        // The file that stands for the file system has another number than in the copy.
        if entry.kind == Kind::Device
            && let Ok(meta) = std::fs::metadata(&entry.path)
        {
            entry.ino = meta.ino();
        }
    }
    reads.write(&preload.manifest, Existing::Replace)?;
    if let Some(name) = &preload.desktop {
        preload::install::install(&reads, &Subject::Launcher(name.clone()), scope_of(preload.system))?;
    }
    Ok(())
}

/// Puts the files of caches where they were measured to help.
fn write_caches(applied: &Applied, manifest: &Manifest) -> Result<()> {
    for cache in &applied.caches {
        os::interrupt::check()?;
        let of_path = |of: &&Directory| cache.path.starts_with(&of.path);
        let of = manifest.directories.iter().find(of_path).ok_or_else(|| Error::bug("a cache without a directory"))?;
        let made = files::moved(&cache.path, &of.path, &applied.directory.join(&of.copy));
        if let (Some(before), Some(original)) = (cache.before, &cache.original) {
            keep(&cache.path, before, original)?;
        }
        place(&made, cache.after, &cache.path)?;
    }
    Ok(())
}

fn scope_of(system: bool) -> Scope {
    if system { Scope::System } else { Scope::User }
}

/// What becomes of files that were changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Since {
    /// Nothing is undone because of them.
    Refuse,
    /// They stay as they are.
    Leave,
}

/// Puts everything back.
///
/// # Errors
/// Nothing was applied from there, or a file was changed since and that is refused: nothing is undone then.
pub fn undo(directory: &Path, since: Since) -> Result<AppliedDocument> {
    // The copy itself, and what it lay in, may be gone.
    let typed = || std::path::absolute(directory);
    let directory = files::absolute(directory).or_else(|error| typed().map_err(|_| error))?;
    let applied = Applied::read(&directory)?.ok_or_else(|| {
        Error::on(Exit::Usage, "thaw has not applied", &directory).hint("`thaw doctor` lists what is applied")
    })?;
    let changed: Vec<(&Path, Standing)> =
        applied.standings().filter(|(_, standing)| matches!(standing, Standing::Changed | Standing::Gone)).collect();
    if let Some((path, standing)) = changed.first().filter(|_| since == Since::Refuse) {
        let why = match standing {
            Standing::Gone => "it is gone",
            _ => "it was changed since, say by an upgrade",
        };
        return Err(Error::on(Exit::Data, "nothing is undone, because of", path).because(why).hint(format!(
            "thaw optimize --undo {} --force leaves such files as they are, undoes the rest, and forgets it",
            shown(&directory)
        )));
    }
    let mut kept: Vec<String> = changed.iter().map(|(path, _)| shown(path)).collect();
    kept.extend(take_back(&applied)?);
    applied.forget()?;
    Ok(AppliedDocument { schema: "thaw.optimize-applied/1", applied: false, what: applied, kept, image: None })
}

/// Undoes what is done of it. The files that others changed meanwhile.
fn take_back(applied: &Applied) -> Result<Vec<String>> {
    let mut kept = Vec::new();
    if let Some(preload) = &applied.preload
        && let Some(name) = &preload.desktop
    {
        let subject = Subject::Launcher(name.clone());
        if let Some(installation) = preload::install::find(&subject, scope_of(preload.system))? {
            kept.extend(os::installed::uninstall(&installation)?.into_iter().map(|kept| shown(&kept.path)));
        }
    }
    for Reordered { file, original } in applied.reordered.iter().filter(|it| it.file.standing() == Standing::Applied) {
        put_back(&file.path, file.before, original)?;
    }
    for cache in applied.caches.iter().filter(|cache| cache.standing() == Standing::Applied) {
        match (cache.before, &cache.original) {
            (Some(before), Some(original)) => put_back(&cache.path, before, original)?,
            _ => remove(&cache.path)?,
        }
    }
    let ours = |it: &pack::Installed| applied.packed.iter().any(|file| file.path == it.path);
    // Also where the original is back by other hands: what is kept of it is to be forgotten.
    let can = |it: &pack::Installed| matches!(it.standing, pack::Standing::Packed | pack::Standing::Original);
    for installed in pack::installed()?.into_iter().filter(|it| ours(it) && can(it)) {
        restore_file(&installed.path)?;
    }
    // What a cut between keeping and writing that down has left, nobody lists.
    let is_original = |file: &&AppliedFile| file.standing() == Standing::Original;
    applied.packed.iter().filter(is_original).try_for_each(|file| pack::forget_unfinished(&file.path))?;
    Ok(kept)
}
