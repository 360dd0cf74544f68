//! What the caller chooses. Every choice has a name; nothing is a bare bool.

use crate::home::Home;
use crate::passes::{Later, Pass};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Who applies the packed table when the program starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// The loader (DT_RELR): glibc from 2.36, musl from 1.2.4.
    #[default]
    Relr,
    /// Code put into the file, for loaders that do not know DT_RELR.
    Init,
}

/// What happens with the room that becomes free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// What follows moves up by whole pages: the file gets smaller.
    #[default]
    Shrink,
    /// Nothing moves in the file; the free bytes become zero.
    Keep,
    /// As [`Space::Keep`], and the blocks of the free bytes are given back to the file system (a hole).
    Punch,
}

/// Whether set-user-id, set-group-id and file-capability programs are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setuid {
    /// They are refused.
    #[default]
    Refuse,
    /// They are packed as any other, and keep their rights.
    Pack,
}

/// Whether the packed file keeps its name in the world of debuggers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildId {
    /// The build ID stays: separate debug files match, caches by build ID that hold the old file are stale.
    #[default]
    Keep,
    /// A new one, made from the old one and the packed bytes.
    New,
}

/// Whether programs may copy exported data of a library while they are relocated (R_*_COPY). An initialiser runs too
/// late for the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Copies {
    /// They may: relocations inside exported objects are not packed.
    #[default]
    MayHappen,
    /// No program that uses the library does.
    Never,
}

/// What the section header of the packed table says. Old tools stop at a type that they do not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SectionType {
    /// SHT_RELR.
    #[default]
    Relr,
    /// SHT_PROGBITS.
    Progbits,
}

/// Further rewrites, each on its own; none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passes {
    /// The rewrites that are done, each once.
    pub wanted: BTreeSet<Pass>,
    /// Every program and library of the closed world, for [`Pass::Symbolic`].
    pub closed_set: Vec<PathBuf>,
    /// Whether libraries from outside the closed set may be loaded later.
    pub later: Later,
}

/// All choices; the default packs for the loader of this system and makes the file smaller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// Who applies the table.
    pub backend: Backend,
    /// What happens with the free room.
    pub space: Space,
    /// What [`Backend::Init`] may take for granted about programs.
    pub copies: Copies,
    /// Rewrites beside packing; none by default.
    pub passes: Passes,
    /// Programs with rights of their own.
    pub setuid: Setuid,
    /// Whether the build ID stays.
    pub build_id: BuildId,
    /// A separate debug file to keep in step (offsets, headers, build ID). [`Target::Copy`] writes it beside the copy,
    /// under its own name; [`Target::InPlace`] in place, and restores it with the file.
    pub debug_file: Option<PathBuf>,
    /// The section header of the table.
    pub section_type: SectionType,
    /// Where the packed file will run: with [`Backend::Relr`], its loader must apply DT_RELR. Files only, not bytes.
    pub home: Home,
}

/// Where the packed file goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Into this file, which is not there yet.
    Copy(PathBuf),
    /// As [`Target::Copy`], in place of what is there.
    CopyOver(PathBuf),
    /// Into the place of the original, which is kept for [`restore_file`](crate::restore_file).
    InPlace,
    /// Nowhere: only say what would be done.
    PlanOnly,
}
