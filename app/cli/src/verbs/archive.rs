//! `thaw archive`: looks at zip archives and lays them out by the order of use.

use crate::args::archive::{
    ArchiveArgs, ArchiveVerb, Directory, OrderFrom, PackArgs, ReorderArgs, Shape, StatArgs, UnpackArgs,
};
use crate::verbs::archive_used::{self, Order, Seen};
use crate::{output, text};
use disk::preset::Presets;
use layout::archive::{
    self, Compression, Costs, DirectoryPlace, Form, Format, Options, Packed, Plan, Reads, Signed, Stat, Target,
    Unpacked, Verified, Zip,
};
use model::{Bytes, DiskOffset, Error, Exit, Result, Warning, shown};
use serde::Serialize;
use std::path::Path;

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

/// Does what was typed.
///
/// # Errors
/// No archive, or one that is refused; a recording that does not tell; a target that is there.
pub fn run(args: &ArchiveArgs) -> Result<Exit> {
    os::interrupt::install()?;
    match &args.verb {
        ArchiveVerb::Stat(args) => stat(args),
        ArchiveVerb::Reorder(args) => reorder(args),
        ArchiveVerb::Pack(args) => pack(args),
        ArchiveVerb::Unpack(args) => unpack(args),
    }
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

fn used(order: &OrderFrom, zip: &Zip<'_>, file: &Path) -> Result<Option<Order>> {
    match (&order.from, &order.log) {
        (Some(recording), _) => archive_used::from_recording(zip, file, recording, order.variant.as_deref()).map(Some),
        (None, Some(log)) => archive_used::from_log(zip, file, log).map(Some),
        (None, None) => Ok(None),
    }
}

fn stat(args: &StatArgs) -> Result<Exit> {
    let bytes = read(&args.file)?;
    let zip = about(&args.file, archive::parse(&bytes))?;
    let order = used(&args.order, &zip, &args.file)?;
    let archive = archive::stat(&zip, order.as_ref().map(|order| &order.uses));
    let (order, warnings) = order.map_or((None, Vec::new()), |order| (Some(order.seen), order.warnings));
    let document = StatDocument { schema: "thaw.archive-stat/1", file: shown(&args.file), order, archive, warnings };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::archive::stat(&document, args.rows.most(), text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

/// What the words on the command line mean; `--auto` measures how fast this machine inflates.
fn options(shape: &Shape, signed: bool, zip: Option<&Zip<'_>>) -> Result<Options> {
    let compression = match (shape.store, shape.deflate, shape.auto) {
        (true, ..) => Compression::Store,
        (_, true, _) => Compression::Deflate,
        (.., true) => Compression::Auto(costs(&shape.disk, zip)?),
        _ => Compression::Keep,
    };
    let directory = match shape.directory {
        Some(Directory::Both) => DirectoryPlace::Both,
        Some(Directory::Front) => DirectoryPlace::Front,
        Some(Directory::End) => DirectoryPlace::End,
        None if zip.is_none_or(|zip| Format::of(zip).bears_front()) => DirectoryPlace::Both,
        None => DirectoryPlace::End,
    };
    let signed = if signed { Signed::Accept } else { Signed::Refuse };
    Ok(Options { directory, compression, align: shape.align, signed })
}

fn costs(disk: &str, zip: Option<&Zip<'_>>) -> Result<Costs> {
    let presets = Presets::builtin();
    let disk_rate = presets.get(disk)?.model.rate_at(DiskOffset(0));
    let measured = zip.map(archive::inflate_rate).transpose()?.flatten();
    // Without anything to inflate it does not matter; what is packed measures for itself.
    Ok(Costs { disk_rate, inflate_rate: measured.unwrap_or(f64::INFINITY) })
}

fn target<'p>(path: &'p Path, force: bool) -> Target<'p> {
    if force { Target::Replace(path) } else { Target::New(path) }
}

fn reorder(args: &ReorderArgs) -> Result<Exit> {
    let bytes = read(&args.file)?;
    let zip = about(&args.file, archive::parse(&bytes))?;
    // Refused archives are refused before a recording is looked for.
    let order = used(&args.order, &zip, &args.file);
    let options = about(&args.file, options(&args.shape, args.signed, Some(&zip)))?;
    let plan_of = |uses| about(&args.file, archive::plan(&zip, uses, &options));
    let order = match order {
        Ok(order) => order.ok_or_else(|| Error::bug("clap lets nobody leave out both --from and --log"))?,
        Err(error) => {
            plan_of(&archive::Uses::default())?;
            return Err(error);
        }
    };
    let plan = plan_of(&order.uses)?;
    let verified = about(&args.file, archive::apply(&zip, &plan, &args.file, target(&args.output, args.force)))?;
    let document = document(args, &zip, &plan, &options, order, verified);
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::archive::reorder(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

fn document(
    args: &ReorderArgs,
    zip: &Zip<'_>,
    plan: &Plan,
    options: &Options,
    order: Order,
    verified: Verified,
) -> ReorderDocument {
    let now = |wanted: fn(&Form) -> bool| plan.entries.iter().filter(|placed| wanted(&placed.form)).count() as u64;
    let costs = match options.compression {
        Compression::Auto(costs) => Some(costs),
        _ => None,
    };
    ReorderDocument {
        schema: "thaw.archive-reorder/1",
        file: shown(&args.file),
        output: shown(&args.output),
        used: plan.used as u64,
        entries: zip.entries.len() as u64,
        size_before: Bytes(zip.bytes.len() as u64),
        size_after: plan.len,
        directory: plan.directory,
        hint: plan.hint,
        now_stored: now(|form| *form == Form::Stored),
        now_deflated: now(|form| matches!(form, Form::Deflated(_))),
        costs,
        reads_before: archive::reads_now(zip, &order.uses),
        reads_after: archive::reads_planned(plan),
        verified,
        order: order.seen,
        warnings: order.warnings,
    }
}

fn pack(args: &PackArgs) -> Result<Exit> {
    let (names, warnings) = match (&args.order.from, &args.order.log) {
        (Some(recording), _) => archive_used::names_below(&args.tree, recording, args.order.variant.as_deref())?,
        (None, Some(log)) => (archive_used::names_in_log(log)?, Vec::new()),
        (None, None) => (Vec::new(), Vec::new()),
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let options = options(&args.shape, false, None)?;
    let packed = archive::pack(&args.tree, &names, &options, target(&args.output, args.force))?;
    let (directory, output_path) = (shown(&args.tree), shown(&args.output));
    let document = PackDocument { schema: "thaw.archive-pack/1", directory, output: output_path, packed, warnings };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::archive::pack(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}

fn unpack(args: &UnpackArgs) -> Result<Exit> {
    let bytes = read(&args.file)?;
    let unpacked = about(&args.file, archive::parse(&bytes).and_then(|zip| archive::unpack(&zip, &args.output)))?;
    let (file, output_path) = (shown(&args.file), shown(&args.output));
    let document = UnpackDocument { schema: "thaw.archive-unpack/1", file, output: output_path, unpacked };
    if args.json {
        output::json(&document)?;
    } else {
        output::page(&text::archive::unpack(&document, text::width::of_terminal()))?;
    }
    Ok(Exit::Done)
}
