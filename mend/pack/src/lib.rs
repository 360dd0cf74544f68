//! Rewrites ELF files so that they start faster: relative relocations, most of what the loader reads of a large
//! program before `main`, go from 24 bytes each into the packed table that loaders since 2022 understand (DT_RELR), and
//! the file really shrinks. Not for looking into files (that is `elf` and `elfstat`), and not for linking.
//!
//! Code and data keep their addresses; only the loader's own tables are laid out anew, and bytes of the file move by
//! whole pages. So unwind tables, debug information, and whatever code computed from its own address stay right.
//!
//! Every call ends in one of three ways: [`Outcome::Packed`], [`Outcome::Refused`] with a reason that scripts can
//! rely on, or an error. Nothing leaves this crate that [`verify::offline`] has not compared with the original.
//!
//! ```no_run
//! use pack::{Options, Outcome, Target, pack_file};
//! match pack_file("libbig.so".as_ref(), &Target::Copy("libbig.packed.so".into()), &Options::default())? {
//!     Outcome::Packed(packed) => println!("{} -> {}", packed.size_before, packed.size_after),
//!     Outcome::Refused(refusal) => println!("{refusal}"),
//! }
//! # Ok::<(), model::Error>(())
//! ```

mod apply;
mod canvas;
mod debug;
mod draft;
mod dynamic;
mod facts;
mod files;
mod fix;
mod headers;
mod home;
mod image;
pub mod init;
mod install;
mod layout;
mod loaders;
mod options;
mod packing;
pub mod passes;
mod plan;
mod refuse;
mod relocations;
mod report;
mod room;
mod sections;
mod slots;
mod stack;
mod stop;
mod store;
mod surroundings;
mod tables;
mod versions;

pub use home::{Home, Version};
pub use options::{Backend, BuildId, Copies, Options, Passes, SectionType, Setuid, Space, Target};
pub use report::{
    BlobMove, DynamicEdit, DynamicPlace, Fixed, HeaderSlot, Installed, Kept, Loader, Outcome, Packed, Plan, Reason,
    Refusal, Relocations, Restored, SegmentMove, Standing, VersionNeed, Why,
};
pub use surroundings::has_other_names;

use model::Result;
use std::path::Path;

/// Packs a file that lies in memory: writes no file, and reads none but the closed set of [`Options::passes`], not even
/// [`Options::debug_file`]. The bytes are there if and only if it was packed; the oracle has found them equivalent.
///
/// # Errors
/// A back-end or pass that cannot be had, or a bug.
pub fn pack_bytes(original: &[u8], options: &Options) -> Result<(Outcome, Option<Vec<u8>>)> {
    let (outcome, rewritten) = rewrite(original, options)?;
    Ok((outcome, rewritten.map(|rewritten| rewritten.bytes)))
}

/// A rewritten file, and what differs on purpose.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The whole file, as it is to be written.
    pub bytes: Vec<u8>,
    /// For [`verify::offline_expecting`].
    pub expected: verify::Expected,
}

/// [`pack_bytes`], with what the oracle has to know about what was changed beside the form of relocations.
///
/// # Errors
/// As [`pack_bytes`].
pub fn rewrite(original: &[u8], options: &Options) -> Result<(Outcome, Option<Rewritten>)> {
    let all = || {
        let prepared = packing::prepare(original, options)?;
        let (packed, built) = prepared.pack(options, None)?;
        let bytes = built.canvas.to_vec();
        install::prove(original, &bytes, &built)?;
        let rewritten = Rewritten { bytes, expected: built.expected };
        Ok((packed, rewritten))
    };
    match all() {
        Ok((packed, rewritten)) => Ok((Outcome::Packed(Box::new(packed)), Some(rewritten))),
        Err(stop::Stop::Refused(refusal)) => Ok((Outcome::Refused(refusal), None)),
        Err(stop::Stop::Failed(error)) => Err(error),
    }
}

/// Packs a file: reads, plans, writes a new file beside the target, has it verified, and renames it. Mode, owner,
/// extended attributes and times are those of the original. Killed at any moment, the target is the old or the new
/// file.
///
/// # Errors
/// The file cannot be read, or the target cannot be written.
pub fn pack_file(input: &Path, target: &Target, options: &Options) -> Result<Outcome> {
    install::pack(input, target, options)
}

/// Puts the original of a file that was packed in place back, byte for byte, with its mode, owner, attributes, times.
///
/// # Errors
/// The file was not packed in place by this thaw ([`model::Exit::No`]), or was changed since ([`model::Exit::Data`]).
pub fn restore_file(path: &Path) -> Result<Restored> {
    install::restore(path)
}

/// Removes what a kill or a power cut left of keeping the original of a file that is still the original: nothing lists
/// it, and it would hold the file's blocks when that is upgraded.
///
/// # Errors
/// It cannot be removed.
pub fn forget_unfinished(path: &Path) -> Result<()> {
    store::Store::open()?.tidy(path)
}

/// What was packed in place and can be restored, by time.
///
/// # Errors
/// The state directory cannot be read.
pub fn installed() -> Result<Vec<Installed>> {
    store::Store::open()?.installed()
}

/// Adds the version need GLIBC_ABI_DT_RELR to a file that has DT_RELR without it (old mold, some vendors), which glibc
/// refuses to load. The bytes are there if and only if something was missing; the oracle has found them equivalent.
///
/// # Errors
/// Only a bug of thaw: what cannot be mended is [`Fixed::Refused`].
pub fn fix_relr_bytes(original: &[u8]) -> Result<(Fixed, Option<Vec<u8>>)> {
    let (fixed, built) = install::fix_bytes(original)?;
    let Some(built) = built else { return Ok((fixed, None)) };
    let bytes = built.canvas.to_vec();
    match install::prove(original, &bytes, &built) {
        Ok(()) => Ok((fixed, Some(bytes))),
        Err(stop::Stop::Refused(refusal)) => Ok((Fixed::Refused(refusal), None)),
        Err(stop::Stop::Failed(error)) => Err(error),
    }
}

/// [`fix_relr_bytes`] on a file, verified and written as [`pack_file`] does.
///
/// # Errors
/// As [`pack_file`].
pub fn fix_relr_file(input: &Path, target: &Target) -> Result<Fixed> {
    install::fix(input, target, &Options::default())
}
