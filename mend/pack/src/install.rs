//! Packing files where they lie: one path in, one rename out. Every step before the rename can be cut short without a
//! trace in the target; the one place where the oracle is asked is here, between writing and renaming.

use crate::apply::Built;
use crate::canvas::Canvas;
use crate::files::{Mapping, failed, paint, punch};
use crate::fix::{self, Fix};
use crate::image::Image;
use crate::loaders;
use crate::options::{Backend, Options, Space, Target};
use crate::packing;
use crate::report::{Fixed, Outcome, Packed, Reason, Refusal, Restored, Standing};
use crate::stop::{Stop, refuse, refuse_with_hint};
use crate::store::{Kept, Store, Sum};
use crate::surroundings;
use model::{Bytes, Error, Exit, Result, shown};
use os::replace::{Existing, Fresh, Rights, Strictness};
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
        let real = os::replace::real_path(path).map_err(open)?;
        if *target == Target::InPlace {
            // What a killed thaw kept may be another name of this file.
            Store::open()?.tidy(&real)?;
        }
        let file = os::file::open_real(&real).map_err(open)?;
        let about = file.metadata().map_err(open)?;
        if !about.is_file() {
            return Err(Error::on(Exit::Usage, "cannot pack what is not a regular file:", path));
        }
        let bytes = Mapping::of(&file, &real)?;
        Ok(Self { path: real, file, about, bytes })
    }

    /// What a file gets that stands in for it.
    fn rights(&self, strictness: Strictness) -> Rights<'_> {
        Rights::Like { file: &self.file, about: &self.about, strictness }
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
    let debug = options.debug_file.as_ref().map(|path| Input::open(path, target)).transpose()?;
    let debug_bytes = debug.as_ref().map(|debug| (debug.path.as_path(), &*debug.bytes));
    let prepared = packing::prepare(&input.bytes, options)?;
    let (packed, built) = prepared.pack(options, debug_bytes)?;
    if options.backend == Backend::Relr {
        loaders::judge(&Image::parse(&input.bytes)?, packed.loader, packed.version_need, &options.home)?;
    }
    write(input, debug.as_ref(), &built, target, options)?;
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
        built.iter().try_for_each(|built| write(&input, None, built, target, options))?;
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

/// Writes the new file, and its debug file, to their targets. Both are whole before either gets its name.
fn write(
    input: &Input,
    debug: Option<&Input>,
    built: &Built<'_>,
    target: &Target,
    options: &Options,
) -> std::result::Result<(), Stop> {
    let debug = debug.zip(built.debug.as_deref());
    match target {
        Target::PlanOnly => Ok(()),
        Target::Copy(to) | Target::CopyOver(to) => {
            let existing = Existing::forced(matches!(target, Target::CopyOver(_)));
            let fresh = fresh_copy(input, to, existing)?;
            fill(&fresh, input, built, options)?;
            fresh.grant(input.rights(Strictness::AsAllowed))?;
            let debug = debug.map(|(debug, bytes)| -> Result<_> {
                // Debuggers look for it beside the file, by its own name.
                let to = to.with_file_name(debug.path.file_name().unwrap_or_default());
                let fresh = fresh_copy(debug, &to, existing)?;
                fill_plain(&fresh, bytes)?;
                fresh.grant(debug.rights(Strictness::AsAllowed))?;
                Ok(fresh)
            });
            let debug = debug.transpose()?;
            fresh.place()?;
            debug.map_or(Ok(()), Fresh::place)?;
            Ok(())
        }
        Target::InPlace => {
            let store = Store::open()?;
            let _lock = store.lock()?;
            let main = Pending::prepare(input, |fresh| fill(fresh, input, built, options))?;
            let debug = debug.map(|(debug, bytes)| Pending::prepare(debug, |fresh| Ok(fill_plain(fresh, bytes)?)));
            let debug = debug.transpose()?;
            main.place(&store, debug.as_ref().map(|debug| debug.input.path.as_path()))?;
            debug.into_iter().try_for_each(|debug| debug.place(&store, None))?;
            Ok(())
        }
    }
}

fn fresh_copy(input: &Input, to: &Path, existing: Existing) -> Result<Fresh> {
    if to.canonicalize().is_ok_and(|to| to == input.path) {
        let error = Error::on(Exit::Usage, "the copy would replace its original", to);
        return Err(error.hint("`--in-place` does that, and keeps the original; or write to another directory"));
    }
    Fresh::beside(to, existing)
}

fn fill_plain(fresh: &Fresh, bytes: &[u8]) -> Result<Mapping> {
    let mut canvas = Canvas::blank(0);
    canvas.paint(0, bytes);
    paint(fresh, &canvas, None)?;
    Mapping::of(fresh.file(), fresh.path())
}

/// Writes the bytes of the new file, and has them verified.
fn fill(fresh: &Fresh, input: &Input, built: &Built<'_>, options: &Options) -> std::result::Result<Mapping, Stop> {
    paint(fresh, &built.canvas, Some((&input.file, &input.bytes)))?;
    if options.space == Space::Punch {
        punch(fresh, &built.freed)?;
    }
    proven(fresh, input, built)
}

/// The written file, when the oracle has seen it as its readers will: what the writer or the kernel did wrong is found
/// by the same comparison as what the planner did wrong, and by no other.
fn proven(fresh: &Fresh, input: &Input, built: &Built<'_>) -> std::result::Result<Mapping, Stop> {
    let written = Mapping::of(fresh.file(), fresh.path())?;
    prove(&input.bytes, &written, built)?;
    Ok(written)
}

/// Asks the oracle. There is no way around it.
pub fn prove(original: &[u8], packed: &[u8], built: &Built<'_>) -> std::result::Result<(), Stop> {
    let verdict = match &built.original {
        // Further passes make the new file of other bytes; it is proven against the file itself all the same.
        Some(read) if std::ptr::eq(read.bytes(), original) => read.offline_expecting(packed, &built.expected)?,
        _ => verify::offline_expecting(original, packed, &built.expected)?,
    };
    if verdict.agrees() {
        return Ok(());
    }
    if let Some(part) = verify::contradiction(original) {
        return Err(refuse(Reason::Damaged, format!("it is a damaged ELF file ({part})")));
    }
    let first: Vec<String> = verdict.differences.iter().take(3).map(ToString::to_string).collect();
    let sentence =
        format!("the packed file would not be equivalent ({} differences: {})", verdict.total, first.join("; "));
    let hint = "thaw does not understand this file: it stays as it is";
    Err(refuse_with_hint(Reason::NotProven, sentence, hint))
}

/// A file that is written, and about to take the place of its original.
struct Pending<'i> {
    input: &'i Input,
    fresh: Fresh,
    packed: Sum,
}

impl<'i> Pending<'i> {
    fn prepare(
        input: &'i Input,
        fill: impl FnOnce(&Fresh) -> std::result::Result<Mapping, Stop>,
    ) -> std::result::Result<Self, Stop> {
        let fresh = Fresh::in_place_of(&input.path)?;
        let packed = Sum::of(&fill(&fresh)?);
        fresh.grant(input.rights(Strictness::Exactly))?;
        Ok(Self { input, fresh, packed })
    }

    /// Keeps the original, and takes its place.
    fn place(self, store: &Store, companion: Option<&Path>) -> Result<()> {
        let input = self.input;
        input.check_unchanged()?;
        // Originals of what the file was before an upgrade.
        let older = store.of(&input.path)?;
        let sums = (Sum::of(&input.bytes), self.packed);
        let kept = store.keep(&input.path, companion, (&input.file, &input.about), sums)?;
        if let Err(error) = self.fresh.place() {
            // The rename may be done, and what came after it has failed: then what is kept is all that is left of the
            // original. What could not be removed either is recognised as needless by the next one.
            if kept.standing() == Standing::Original {
                let _ = kept.forget();
            }
            return Err(error);
        }
        older.into_iter().try_for_each(Kept::forget)
    }
}

pub fn restore(path: &Path) -> Result<Restored> {
    // A file that is gone has no real path; its original is found by the path as it was given.
    let path = path.canonicalize().or_else(|_| std::path::absolute(path));
    let path = path.map_err(|cause| failed("cannot find", Path::new("."), cause))?;
    Store::open()?.restore(&path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::Piece;
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    /// A library with more code and constants than are copied in one go, no two blocks of them alike.
    fn library(home: &Path) -> Option<PathBuf> {
        let mut state = 1_u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        })
        .take(3_000_000)
        .collect();
        let words: String = (0..2000).map(|number| format!("\"word {number}\",")).collect();
        let blob = home.join("noise");
        let text = format!(
            "__asm__(\".section .rodata\\n.incbin \\\"{}\\\"\\n.text\\n.incbin \\\"{}\\\"\\n\");\n\
             const char *words[] = {{{words}}};\n",
            blob.display(),
            blob.display()
        );
        std::fs::write(&blob, noise).unwrap();
        std::fs::write(home.join("noise.c"), text).unwrap();
        let path = home.join("noise.so");
        let mut command = Command::new("gcc");
        command.args(["-g", "-shared", "-fPIC", "-o"]).arg(&path).arg(home.join("noise.c"));
        testing::compiled(&mut command).then_some(path)
    }

    /// What a writer may do wrong with a piece: its name, and what does it to the file.
    type Fault = (&'static str, fn(&File, &Piece<'_>));

    fn write(file: &File, bytes: &[u8], at: u64) {
        file.write_all_at(bytes, at).unwrap();
    }

    const FAULTS: [Fault; 8] = [
        ("its first byte", |file, piece| write(file, &[!piece.bytes[0]], piece.at)),
        ("a byte in it", |file, piece| {
            let middle = piece.bytes.len() / 2;
            write(file, &[!piece.bytes[middle]], piece.at + middle as u64);
        }),
        ("its last byte", |file, piece| write(file, &[!piece.bytes[piece.bytes.len() - 1]], piece.end() - 1)),
        ("it was left out", |file, piece| write(file, &vec![0; piece.bytes.len()], piece.at)),
        ("a block of it was left out", |file, piece| write(file, &[0; 4096], piece.at + 65536)),
        ("a block comes from elsewhere", |file, piece| write(file, &piece.bytes[8192..12288], piece.at + 4096)),
        ("it goes a page too far", |file, piece| {
            write(file, &piece.bytes[..piece.bytes.len() - 4096], piece.at + 4096)
        }),
        ("it begins a byte too late", |file, piece| write(file, &piece.bytes[1..], piece.at)),
    ];

    #[test]
    fn whatever_the_writer_does_wrong_is_found_in_the_file() {
        let home = tempfile::tempdir().unwrap();
        let Some(path) = library(home.path()) else { return };
        let input = Input::open(&path, &Target::PlanOnly).unwrap();
        let options = Options::default();
        let prepared = packing::prepare(&input.bytes, &options).unwrap();
        let Ok((_, built)) = prepared.pack(&options, None) else { panic!("it is packed") };
        let big: Vec<&Piece<'_>> = built.canvas.pieces().iter().filter(|piece| piece.bytes.len() > 1 << 20).collect();
        assert!(big.len() > 1, "code and constants");
        let written = |fault: &dyn Fn(&File)| {
            let fresh = Fresh::beside(&home.path().join("packed.so"), Existing::Keep).unwrap();
            paint(&fresh, &built.canvas, Some((&input.file, &input.bytes))).unwrap();
            fault(fresh.file());
            proven(&fresh, &input, &built).map(|written| written.to_vec())
        };
        let Ok(sound) = written(&|_| ()) else { panic!("it is right") };
        assert!(sound == built.canvas.to_vec(), "it is what was planned");
        let found = |name: &str, fault: &dyn Fn(&File)| match written(fault) {
            Err(Stop::Refused(refusal)) => assert_eq!(refusal.reason, Reason::NotProven, "{name}"),
            _ => panic!("nobody sees that {name}"),
        };
        for piece in big {
            for (name, fault) in FAULTS {
                found(name, &|file| fault(file, piece));
            }
        }
        found("the file is too long", &|file| write(file, b"more", built.canvas.len()));
        found("the file is too short", &|file| file.set_len(built.canvas.len() - 4096).unwrap());
    }
}
