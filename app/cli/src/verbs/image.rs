//! `thaw image`: a program's directory as one compressed image in the order of its start.

use crate::args::image::{ExtractArgs, FileArgs, ImageArgs, ImageVerb, MakeArgs, RunArgs, VerifyArgs};
use crate::verbs::preload::no_program;
use crate::{output, text};
use model::{Exit, Result};
use work::images::{self, Start, Wanted};

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
    }
}

fn make(args: &MakeArgs) -> Result<Exit> {
    let wanted = Wanted {
        directory: &args.directory,
        recordings: &args.from,
        variant: args.variant.as_deref(),
        compression: args.compression,
    };
    let document = images::make(&wanted, &args.output, args.force.existing())?;
    output::answer(args.json, &document, || text::image::image(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn stat(args: &FileArgs) -> Result<Exit> {
    let document = images::stat(&args.image)?;
    output::answer(args.json, &document, || text::image::image(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

fn verify(args: &VerifyArgs) -> Result<Exit> {
    let document = images::verify(&args.image, args.against.as_deref())?;
    output::answer(args.json, &document, || text::image::verify(&document, text::width::of_terminal()))?;
    Ok(if document.agrees() { Exit::Done } else { Exit::No })
}

fn extract(args: &ExtractArgs) -> Result<Exit> {
    let document = images::extract(&args.image, &args.output)?;
    output::answer(args.json, &document, || text::image::extract(&document, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// Becomes the program. Returns only where there is none.
fn start(args: &RunArgs) -> Result<Exit> {
    let asked = Start { image: &args.image, command: &args.command, user: args.run_as.choice(), check_all: args.check };
    let complain = |error: &_| output::complain(&text::image::started_without(error));
    match images::start(&asked, &complain) {
        Ok(failed) => no_program(&args.command, failed),
        Err(error) => {
            output::complain(&text::errors::error(&error));
            // As for every program that cannot be started: thaw's own codes are not for its place.
            std::process::exit(126)
        }
    }
}
