//! `thaw image`: a program's directory as one compressed image in the order of its start.

use crate::args::image::{ExtractArgs, FileArgs, ImageArgs, ImageVerb, MakeArgs, RunArgs, VerifyArgs};
use crate::text::width::of_terminal as width;
use crate::verbs::preload::{no_program, scope};
use crate::{output, text};
use image::check::Of;
use model::{Error, Exit, Result};
use work::images::start::{self, Besides, Start};
use work::images::{self, Order, Wanted, installing};

/// Does what was typed.
///
/// # Errors
/// See each one.
pub fn run(args: &ImageArgs) -> Result<Exit> {
    // What becomes a program leaves its signals alone.
    if !matches!(args.verb, ImageVerb::Run(_)) {
        os::interrupt::install()?;
    }
    match &args.verb {
        ImageVerb::Make(args) => make(args),
        ImageVerb::Stat(args) => stat(args),
        ImageVerb::Verify(args) => verify(args),
        ImageVerb::Extract(args) => extract(args),
        ImageVerb::Run(args) => start(args),
        ImageVerb::Install(args) => {
            let installed = installing::install(&args.image, args.subject().as_ref(), scope(args.system))?;
            installed.iter().try_for_each(|it| output::page(&text::preload::installed(it, width())))?;
            Ok(Exit::Done)
        }
        ImageVerb::Uninstall(args) => {
            let subject = args.subject().ok_or_else(|| Error::bug("nothing is named"))?;
            let removed = installing::uninstall(&subject, scope(args.system))?;
            removed.iter().try_for_each(|it| output::page(&text::preload::uninstalled(&it.0, &it.1, width())))?;
            Ok(if removed.iter().all(|it| it.1.is_empty()) { Exit::Done } else { Exit::No })
        }
        ImageVerb::Status(args) => {
            let document = installing::status()?;
            output::answer(args.json, &document, || text::image::status(&document, width()))?;
            Ok(if document.is_well() { Exit::Done } else { Exit::No })
        }
        ImageVerb::Mount(args) => said(&text::image::mounted(&installing::mount(&args.image, args.remake)?, width())),
        ImageVerb::Unmount(args) => said(&text::image::unmounted(&installing::unmount(&args.image)?, width())),
    }
}

fn said(page: &text::Page) -> Result<Exit> {
    output::page(page)?;
    Ok(Exit::Done)
}

fn make(args: &MakeArgs) -> Result<Exit> {
    let wanted = Wanted {
        directory: &args.directory,
        trees: &args.tree,
        order: match &args.like {
            Some(older) => Order::Like(older),
            None => Order::Recorded { recordings: &args.from, variant: args.variant.as_deref() },
        },
        compression: args.compression,
    };
    let document = images::make(&wanted, &args.output, args.force.existing())?;
    output::answer(args.json, &document, || text::image::image(&document, width()))?;
    Ok(Exit::Done)
}

fn stat(args: &FileArgs) -> Result<Exit> {
    let document = images::stat(&args.image)?;
    output::answer(args.json, &document, || text::image::image(&document, width()))?;
    Ok(Exit::Done)
}

fn verify(args: &VerifyArgs) -> Result<Exit> {
    let document = images::verify(&args.image, args.against.as_deref())?;
    output::answer(args.json, &document, || text::image::verify(&document, width()))?;
    Ok(if document.agrees() { Exit::Done } else { Exit::No })
}

fn extract(args: &ExtractArgs) -> Result<Exit> {
    let document = images::extract(&args.image, &args.output)?;
    output::answer(args.json, &document, || text::image::extract(&document, width()))?;
    Ok(Exit::Done)
}

/// Becomes the program. Returns only where there is none.
fn start(args: &RunArgs) -> Result<Exit> {
    become_program(&Start {
        image: &args.image,
        command: &args.command,
        user: args.run_as.choice(),
        keeps_environment: false,
        check_all: args.check,
        of: match (args.copied, args.unchanged) {
            (true, _) => Of::Copy,
            (_, true) => Of::Unchanged,
            _ => Of::Directory,
        },
        also: args.preload.as_deref(),
        besides: Besides::default(),
    })
}

/// Becomes a program, from an image if that is possible. Returns only where there is none.
pub(super) fn become_program(asked: &Start<'_>) -> Result<Exit> {
    let complain = |error: &_| output::complain(&text::image::started_without(error));
    match start::start(asked, &complain) {
        Ok(failed) => no_program(asked.command, failed),
        Err(error) => {
            output::complain(&text::errors::error(&error));
            // As for every program that cannot be started: thaw's own codes are not for its place.
            std::process::exit(126)
        }
    }
}
