//! Zip archives looked at and laid out in the order of their use, which a recording or a list tells.

pub mod used;

use disk::preset::Presets;
use layout::archive::{
    self, Compression, Costs, DirectoryPlace, Form, Format, Options, Packed, Reads, Signed, Stat, Target, Unpacked,
    Verified, Zip,
};
use model::{Bytes, DiskOffset, Error, Exit, Result, Warning, shown};
use serde::Serialize;
use std::path::Path;
use used::{Order, Seen};

/// `thaw.archive-stat/1`
#[derive(Serialize)]
pub struct StatDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The file.
    pub file: String,
    /// Where the order of use comes from; `None`: not asked.
    pub order: Option<Seen>,
    /// What it is like.
    pub archive: Stat,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// `thaw.archive-reorder/1`
#[derive(Serialize)]
pub struct ReorderDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The archive.
    pub file: String,
    /// The new one.
    pub output: String,
    /// Where the order of use comes from.
    pub order: Seen,
    /// Entries that are used.
    pub used: u64,
    /// All entries.
    pub entries: u64,
    /// Size of the archive.
    pub size_before: Bytes,
    /// Size of the new one.
    pub size_after: Bytes,
    /// Where its directory is.
    pub directory: DirectoryPlace,
    /// Its read-ahead hint.
    pub hint: Bytes,
    /// Entries that are stored now and were deflated.
    pub now_stored: u64,
    /// Entries that are deflated now and were stored.
    pub now_deflated: u64,
    /// The figures for `--auto`.
    pub costs: Option<Costs>,
    /// Reading what is used, before.
    pub reads_before: Reads,
    /// Reading what is used, now.
    pub reads_after: Reads,
    /// What was compared.
    pub verified: Verified,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// `thaw.archive-pack/1`
#[derive(Serialize)]
pub struct PackDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The directory.
    pub directory: String,
    /// The archive.
    pub output: String,
    /// What was packed.
    #[serde(flatten)]
    pub packed: Packed,
    /// Doubts.
    pub warnings: Vec<Warning>,
}

/// `thaw.archive-unpack/1`
#[derive(Serialize)]
pub struct UnpackDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The archive.
    pub file: String,
    /// The new directory.
    pub output: String,
    /// What was written.
    #[serde(flatten)]
    pub unpacked: Unpacked,
}

/// The bytes of an archive.
fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|cause| Error::on(Exit::Usage, "cannot read", path).because(cause))
}

/// Names the file in an error about its content.
fn about<T>(path: &Path, result: Result<T>) -> Result<T> {
    result.map_err(|error| match error.object.is_empty() {
        true => Error { what: format!("{}: {}", shown(path), error.what), ..error },
        false => error,
    })
}

/// Who tells the order of use.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// A recording: of this program of it, or of the first.
    Recording(&'a Path, Option<&'a str>),
    /// A list of names.
    Log(&'a Path),
    /// Nobody.
    Nobody,
}

/// What is done to the data of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// They stay as they are.
    Keep,
    /// Entries that are used are stored.
    Store,
    /// They are deflated.
    Deflate,
    /// Whichever takes less time on the disk of this name, inflating as this machine does.
    Fastest(&'a str),
}

/// What a new archive is to be like.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// What is done to the data of entries.
    pub data: Data<'a>,
    /// Where the directory goes; `None`: where programs that read such archives look for it.
    pub directory: Option<DirectoryPlace>,
    /// Data of stored entries begin at multiples of this, in bytes.
    pub align: u16,
    /// Whether archives with signatures are rewritten.
    pub signed: Signed,
}

fn used(told: Told<'_>, zip: &Zip<'_>, file: &Path) -> Result<Option<Order>> {
    match told {
        Told::Recording(recording, variant) => used::from_recording(zip, file, recording, variant).map(Some),
        Told::Log(log) => used::from_log(zip, file, log).map(Some),
        Told::Nobody => Ok(None),
    }
}

/// Looks at an archive.
///
/// # Errors
/// It is none; a recording or list that does not tell.
pub fn stat(file: &Path, told: Told<'_>) -> Result<StatDocument> {
    let bytes = read(file)?;
    let zip = about(file, archive::parse(&bytes))?;
    let order = used(told, &zip, file)?;
    let archive = archive::stat(&zip, order.as_ref().map(|order| &order.uses));
    let (order, warnings) = order.map_or((None, Vec::new()), |order| (Some(order.seen), order.warnings));
    Ok(StatDocument { schema: "thaw.archive-stat/1", file: shown(file), order, archive, warnings })
}

fn options(shape: &Shape<'_>, zip: Option<&Zip<'_>>) -> Result<Options> {
    let compression = match shape.data {
        Data::Store => Compression::Store,
        Data::Deflate => Compression::Deflate,
        Data::Fastest(disk) => Compression::Auto(costs(disk, zip)?),
        Data::Keep => Compression::Keep,
    };
    let directory = match shape.directory {
        Some(place) => place,
        None if zip.is_none_or(|zip| Format::of(zip).bears_front()) => DirectoryPlace::Both,
        None => DirectoryPlace::End,
    };
    Ok(Options { directory, compression, align: shape.align, signed: shape.signed })
}

fn costs(disk: &str, zip: Option<&Zip<'_>>) -> Result<Costs> {
    let presets = Presets::builtin();
    let disk_rate = presets.get(disk)?.model.rate_at(DiskOffset(0));
    let measured = zip.map(archive::inflate_rate).transpose()?.flatten();
    // Without anything to inflate it does not matter; what is packed measures for itself.
    Ok(Costs { disk_rate, inflate_rate: measured.unwrap_or(f64::INFINITY) })
}

/// Writes an archive in the order of use.
///
/// # Errors
/// No archive, or one that is refused; a recording that does not tell; a target that is there.
pub fn reorder(file: &Path, told: Told<'_>, shape: &Shape<'_>, target: Target<'_>) -> Result<ReorderDocument> {
    let output = place(target);
    let bytes = read(file)?;
    let zip = about(file, archive::parse(&bytes))?;
    // Refused archives are refused before a recording is looked for.
    let order = used(told, &zip, file);
    let options = about(file, options(shape, Some(&zip)))?;
    let plan_of = |uses| about(file, archive::plan(&zip, uses, &options));
    let order = match order {
        Ok(order) => order.ok_or_else(|| Error::bug("nobody tells the order"))?,
        Err(error) => {
            plan_of(&archive::Uses::default())?;
            return Err(error);
        }
    };
    let plan = plan_of(&order.uses)?;
    let verified = about(file, archive::apply(&zip, &plan, file, target))?;
    let now = |wanted: fn(&Form) -> bool| plan.entries.iter().filter(|placed| wanted(&placed.form)).count() as u64;
    let costs = match options.compression {
        Compression::Auto(costs) => Some(costs),
        _ => None,
    };
    Ok(ReorderDocument {
        schema: "thaw.archive-reorder/1",
        file: shown(file),
        output,
        used: plan.used as u64,
        entries: zip.entries.len() as u64,
        size_before: Bytes(zip.bytes.len() as u64),
        size_after: plan.len,
        directory: plan.directory,
        hint: plan.hint,
        now_stored: now(|form| *form == Form::Stored),
        now_deflated: now(|form| matches!(form, Form::Deflated(_))),
        costs,
        reads_before: archive::reads_now(&zip, &order.uses),
        reads_after: archive::reads_planned(&plan),
        verified,
        order: order.seen,
        warnings: order.warnings,
    })
}

/// Packs a directory, what is used first.
///
/// # Errors
/// A recording or list that does not tell; a file that cannot be packed; a target that is there.
pub fn pack(tree: &Path, told: Told<'_>, shape: &Shape<'_>, target: Target<'_>) -> Result<PackDocument> {
    let output = place(target);
    let (names, warnings) = match told {
        Told::Recording(recording, variant) => used::names_below(tree, recording, variant)?,
        Told::Log(log) => (used::names_in_log(log)?, Vec::new()),
        Told::Nobody => (Vec::new(), Vec::new()),
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let packed = archive::pack(tree, &names, &options(shape, None)?, target)?;
    Ok(PackDocument { schema: "thaw.archive-pack/1", directory: shown(tree), output, packed, warnings })
}

/// Unpacks an archive.
///
/// # Errors
/// No archive, or a directory that has something in it.
pub fn unpack(file: &Path, output: &Path) -> Result<UnpackDocument> {
    let bytes = read(file)?;
    let unpacked = about(file, archive::parse(&bytes).and_then(|zip| archive::unpack(&zip, output)))?;
    Ok(UnpackDocument { schema: "thaw.archive-unpack/1", file: shown(file), output: shown(output), unpacked })
}

fn place(target: Target<'_>) -> String {
    match target {
        Target::New(path) | Target::Replace(path) | Target::InPlaceOf(path) => shown(path),
    }
}
