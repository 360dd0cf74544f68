//! Packing files where they lie: one path in, one rename out. Every step before the rename can be cut short without a
//! trace in the target; the one place where the oracle is asked is here, between writing and renaming.

use crate::apply::Built;
use crate::files::{Dress, Fresh, Mapping, failed, fresh_name};
use crate::fix::{self, Fix};
use crate::image::Image;
use crate::options::{Backend, Options, Space, Target};
use crate::packing;
use crate::refuse::{Stop, refuse_with_hint};
use crate::report::{Fixed, Outcome, Packed, Reason, Refusal, Restored};
use crate::store::{Kept, Store, Sum};
use crate::surroundings;
use crate::verify::{self, Expected};
use model::{Bytes, Error, Exit, Result, shown};
use os::journal::{self, Undo};
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file to pack, open and mapped.
struct Input {
    /// Without symbolic links.
    path: PathBuf,
    file: File,
    about: Metadata,
    bytes: Mapping,
}

impl Input {
    fn open(path: &Path, target: &Target) -> Result<Self> {
        let open = |cause| failed("cannot open", path, cause);
        let real = path.canonicalize().map_err(open)?;
        if *target == Target::InPlace {
            // What a killed thaw kept may be another name of this file.
            Store::open()?.tidy(&real)?;
        }
        let file = File::open(&real).map_err(open)?;
        let about = file.metadata().map_err(open)?;
        if !about.is_file() {
            return Err(Error::on(Exit::Usage, "cannot pack what is not a regular file:", path));
        }
        let bytes = Mapping::of(&file, &real)?;
        Ok(Self { path: real, file, about, bytes })
    }

    /// Nobody has changed it since it was opened.
    fn check_unchanged(&self) -> Result<()> {
        let now = self.path.symlink_metadata().map_err(|cause| failed("cannot look at", &self.path, cause))?;
        let id = |about: &Metadata| (about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec());
        if id(&now) != id(&self.about) {
            return Err(Error::on(Exit::Data, "something changed while it was read:", &self.path));
        }
        Ok(())
    }
}

pub fn pack(input: &Path, target: &Target, options: &Options) -> Result<Outcome> {
    let input = Input::open(input, target)?;
    match pack_input(&input, target, options) {
        Ok(packed) => Ok(Outcome::Packed(Box::new(packed))),
        Err(Stop::Refused(refusal)) => {
            let sentence = format!("{} is not packed: {}", shown(&input.path), refusal.sentence);
            Ok(Outcome::Refused(Refusal { sentence, ..refusal }))
        }
        Err(Stop::Failed(error)) => Err(error),
    }
}

fn pack_input(input: &Input, target: &Target, options: &Options) -> std::result::Result<Packed, Stop> {
    surroundings::judge(&input.path, &input.file, &input.about, target, options)?;
    let prepared = packing::prepare(&input.bytes, options)?;
    let (packed, built) = prepared.pack(options)?;
    if *target == Target::InPlace && options.backend == Backend::Relr {
        surroundings::judge_loader(&Image::parse(&input.bytes)?, packed.loader)?;
    }
    write(input, &built, target, options)?;
    Ok(packed)
}

/// Adds a missing version need to bytes.
pub fn fix_bytes(original: &[u8]) -> Result<(Fixed, Option<Built<'_>>)> {
    match fix::fix(original) {
        Ok(Fix::Sound(sentence)) => Ok((Fixed::Sound { sentence }, None)),
        Ok(Fix::Added(plan, built)) => {
            let (size_before, size_after) = (Bytes(original.len() as u64), Bytes(built.canvas.len()));
            Ok((Fixed::Added { size_before, size_after, plan }, Some(built)))
        }
        Err(Stop::Refused(refusal)) => Ok((Fixed::Refused(refusal), None)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

pub fn fix(input: &Path, target: &Target, options: &Options) -> Result<Fixed> {
    let input = Input::open(input, target)?;
    let judged = surroundings::judge(&input.path, &input.file, &input.about, target, options);
    let fixed = judged.and_then(|()| {
        let (fixed, built) = fix_bytes(&input.bytes)?;
        built.iter().try_for_each(|built| write(&input, built, target, options))?;
        Ok(fixed)
    });
    let fixed = match fixed {
        Ok(fixed) => fixed,
        Err(Stop::Refused(refusal)) => Fixed::Refused(refusal),
        Err(Stop::Failed(error)) => return Err(error),
    };
    let named = |sentence: &str, what: &str| format!("{} {what}: {sentence}", shown(&input.path));
    Ok(match fixed {
        Fixed::Refused(refusal) => {
            Fixed::Refused(Refusal { sentence: named(&refusal.sentence, "is not changed"), ..refusal })
        }
        Fixed::Sound { sentence } => Fixed::Sound { sentence: named(&sentence, "needs no change") },
        added => added,
    })
}

/// Writes the new file to its target.
fn write(input: &Input, built: &Built<'_>, target: &Target, options: &Options) -> std::result::Result<(), Stop> {
    match target {
        Target::PlanOnly => Ok(()),
        Target::Copy(to) => {
            if to.canonicalize().is_ok_and(|to| to == input.path) {
                let error = Error::on(Exit::Usage, "the copy would replace its original", to);
                return Err(error.hint("`--in-place` does that, and keeps the original").into());
            }
            let fresh = Fresh::create(fresh_name(to))?;
            fill(&fresh, input, built, options)?;
            fresh.dress(&input.file, &input.about, Dress::AsAllowed)?;
            Ok(fresh.place(to)?)
        }
        Target::InPlace => in_place(input, built, options),
    }
}

/// Writes the bytes of the new file, and has them verified as a reader of the file sees them.
fn fill(fresh: &Fresh, input: &Input, built: &Built<'_>, options: &Options) -> std::result::Result<Mapping, Stop> {
    fresh.paint(&built.canvas)?;
    if options.space == Space::Punch {
        fresh.punch(&built.freed)?;
    }
    let written = Mapping::of(&fresh.file, &fresh.path)?;
    prove(&input.bytes, &written, &built.expected)?;
    Ok(written)
}

/// Asks the oracle. There is no way around it.
pub fn prove(original: &[u8], packed: &[u8], expected: &Expected) -> std::result::Result<(), Stop> {
    let why = match verify::offline_expecting(original, packed, expected) {
        Ok(verdict) if verdict.agrees() => return Ok(()),
        Ok(verdict) => {
            let first: Vec<String> = verdict.differences.iter().take(3).map(ToString::to_string).collect();
            format!("{} differences: {}", verdict.total, first.join("; "))
        }
        Err(error) => error.to_string(),
    };
    let sentence = format!("the packed file would not be equivalent ({why})");
    let hint = "if the file works, this is a bug in thaw: please report it with the file";
    Err(refuse_with_hint(Reason::NotProven, sentence, hint))
}

fn in_place(input: &Input, built: &Built<'_>, options: &Options) -> std::result::Result<(), Stop> {
    let store = Store::open()?;
    let _lock = store.lock()?;
    let name = fresh_name(&input.path);
    // A name that a killed thaw leaves is removed by `thaw doctor --mend`; after the rename there is none.
    let entry = journal::hold(Undo::RemoveTree { path: name.clone() }, || Ok(()))?;
    let fresh = Fresh::create(name)?;
    let packed = Sum::of(&fill(&fresh, input, built, options)?);
    fresh.dress(&input.file, &input.about, Dress::Exactly)?;
    input.check_unchanged()?;
    // Originals of what the file was before an upgrade.
    let older = store.of(&input.path)?;
    let kept = store.keep(&input.path, (&input.file, &input.about), (Sum::of(&input.bytes), packed))?;
    if let Err(error) = fresh.place(&input.path) {
        // What could not be removed either is recognised as needless by the next one.
        let _ = kept.forget();
        return Err(error.into());
    }
    older.into_iter().try_for_each(Kept::forget)?;
    Ok(entry.undo()?)
}

pub fn restore(path: &Path) -> Result<Restored> {
    // A file that is gone has no real path; its original is found by the path as it was given.
    let path = path.canonicalize().or_else(|_| std::path::absolute(path));
    let path = path.map_err(|cause| failed("cannot find", Path::new("."), cause))?;
    Store::open()?.restore(&path)
}
