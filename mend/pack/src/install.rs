//! Packing files where they lie: one path in, one rename out. Every step before the rename can be cut short without a
//! trace in the target; the one place where the oracle is asked is here, between writing and renaming.

use crate::apply::Built;
use crate::files::{Dress, Fresh, Mapping, failed, fresh_name};
use crate::fix::{self, Fix};
use crate::image::Image;
use crate::options::{Backend, Options, Space, Target};
use crate::packing;
use crate::refuse::Stop;
use crate::report::{Fixed, Outcome, Packed, Refusal, Restored};
use crate::store::{Store, Sum};
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
    fn open(path: &Path) -> Result<Self> {
        let open = |cause| failed("cannot open", path, cause);
        let real = path.canonicalize().map_err(open)?;
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
    let input = Input::open(input)?;
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
    let (packed, built) = packing::pack(&input.bytes, options)?;
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
    let input = Input::open(input)?;
    let judged = surroundings::judge(&input.path, &input.file, &input.about, target, options);
    let fixed = match judged {
        Ok(()) => {
            let (fixed, built) = fix_bytes(&input.bytes)?;
            if let Some(built) = built {
                write(&input, &built, target, options)?;
            }
            fixed
        }
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
fn write(input: &Input, built: &Built<'_>, target: &Target, options: &Options) -> Result<()> {
    match target {
        Target::PlanOnly => Ok(()),
        Target::Copy(to) => {
            if to.canonicalize().is_ok_and(|to| to == input.path) {
                let error = Error::on(Exit::Usage, "the copy would replace its original", to);
                return Err(error.hint("`--in-place` does that, and keeps the original"));
            }
            let fresh = Fresh::create(fresh_name(to))?;
            fill(&fresh, input, built, options)?;
            fresh.dress(&input.file, &input.about, Dress::AsAllowed)?;
            fresh.place(to)
        }
        Target::InPlace => in_place(input, built, options),
    }
}

/// Writes the bytes of the new file, and has them verified as a reader of the file sees them.
fn fill(fresh: &Fresh, input: &Input, built: &Built<'_>, options: &Options) -> Result<Mapping> {
    fresh.paint(&built.canvas)?;
    if options.space == Space::Punch {
        fresh.punch(&built.freed)?;
    }
    let written = Mapping::of(&fresh.file, &fresh.path)?;
    prove(&input.path, &input.bytes, &written, &built.expected)?;
    Ok(written)
}

/// Asks the oracle. There is no way around it.
fn prove(path: &Path, original: &[u8], packed: &[u8], expected: &Expected) -> Result<()> {
    let verdict = verify::offline_expecting(original, packed, expected)?;
    if verdict.agrees() {
        return Ok(());
    }
    let first: Vec<String> = verdict.differences.iter().take(3).map(ToString::to_string).collect();
    Err(Error::on(Exit::Bug, "the packed file would not be equivalent, and was not written:", path)
        .because(format!("{} differences: {}", verdict.total, first.join("; ")))
        .hint("this is a bug in thaw: please report it with the file"))
}

fn in_place(input: &Input, built: &Built<'_>, options: &Options) -> Result<()> {
    let store = Store::open()?;
    let _lock = store.lock()?;
    store.tidy(&input.path)?;
    let name = fresh_name(&input.path);
    let mut fresh = None;
    // A name that a killed thaw leaves is removed by `thaw doctor --mend`; after the rename there is none.
    let entry = journal::hold(Undo::RemoveTree { path: name.clone() }, || {
        let file = Fresh::create(name.clone())?;
        let packed = Sum::of(&*fill(&file, input, built, options)?);
        file.dress(&input.file, &input.about, Dress::Exactly)?;
        fresh = Some((file, packed));
        Ok(())
    })?;
    let Some((fresh, packed)) = fresh else { return Err(Error::bug("the packed file was not written")) };
    input.check_unchanged()?;
    let kept = store.keep(&input.path, (&input.file, &input.about), (Sum::of(&input.bytes), packed))?;
    if let Err(error) = fresh.place(&input.path) {
        // What could not be removed either is recognised as needless by the next one.
        let _ = kept.forget();
        return Err(error);
    }
    entry.undo()
}

pub fn restore(path: &Path) -> Result<Restored> {
    // A file that is gone has no real path; its original is found by the path as it was given.
    let path = path.canonicalize().or_else(|_| std::path::absolute(path));
    let path = path.map_err(|cause| failed("cannot find", Path::new("."), cause))?;
    Store::open()?.restore(&path)
}
