//! `thaw archive`: looks at zip archives and lays them out by the order of use.

use crate::args::archive::{
    ArchiveArgs, ArchiveVerb, Directory, OrderFrom, PackArgs, ReorderArgs, Shape as TypedShape, StatArgs, UnpackArgs,
};
use crate::{output, text};
use layout::archive::{DirectoryPlace, Signed, Target};
use model::{Exit, Result};
use std::path::Path;
use work::archives::{self, Data, Shape, Told};

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

fn told(order: &OrderFrom) -> Told<'_> {
    match (&order.from, &order.log) {
        (Some(recording), _) => Told::Recording(recording, order.variant.as_deref()),
        (None, Some(log)) => Told::Log(log),
        (None, None) => Told::Nobody,
    }
}

fn shape(typed: &TypedShape, signed: Signed) -> Shape<'_> {
    Shape {
        data: match (typed.store, typed.deflate, typed.auto) {
            (true, ..) => Data::Store,
            (_, true, _) => Data::Deflate,
            (.., true) => Data::Fastest(&typed.disk),
            _ => Data::Keep,
        },
        directory: typed.directory.map(|place| match place {
            Directory::Both => DirectoryPlace::Both,
            Directory::Front => DirectoryPlace::Front,
            Directory::End => DirectoryPlace::End,
        }),
        align: typed.align,
        signed,
    }
}

fn target(path: &Path, force: bool) -> Target<'_> {
    if force { Target::Replace(path) } else { Target::New(path) }
}

fn stat(args: &StatArgs) -> Result<Exit> {
    let document = archives::stat(&args.file, told(&args.order))?;
    output::answer(args.json, &document, || {
        text::archive::stat(&document, args.rows.most(), text::width::of_terminal())
    })?;
    Ok(Exit::Done)
}

fn reorder(args: &ReorderArgs) -> Result<Exit> {
    let signed = if args.signed { Signed::Accept } else { Signed::Refuse };
    let (shape, target) = (shape(&args.shape, signed), target(&args.output, args.force));
    let document = archives::reorder(&args.file, told(&args.order), &shape, target)?;
    output::answer(args.json, &document, || text::archive::reorder(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn pack(args: &PackArgs) -> Result<Exit> {
    let (shape, target) = (shape(&args.shape, Signed::Refuse), target(&args.output, args.force));
    let document = archives::pack(&args.tree, told(&args.order), &shape, target)?;
    output::answer(args.json, &document, || text::archive::pack(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn unpack(args: &UnpackArgs) -> Result<Exit> {
    let document = archives::unpack(&args.file, &args.output)?;
    output::answer(args.json, &document, || text::archive::unpack(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}
