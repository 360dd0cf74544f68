//! `thaw optimize`: plan, build, measure, keep what helped; and what is done with a result.

use crate::args::optimize::OptimizeArgs;
use crate::args::preload::{EngineChoice, RunArgs, WindowChoice};
use crate::args::user::UserArgs;
use crate::plan::FromWords;
use crate::verbs::preload;
use crate::{output, text};
use ::optimize::environment::with_users;
use ::optimize::files;
use ::optimize::manifest::Manifest;
use ::optimize::remedy::Remedy;
use image::check::Of;
use model::{Error, Exit, Result, shown};
use os::installed::places::Scope;
use os::replace::Existing;
use std::ffi::OsString;
use std::path::Path;
use work::images::start::{Besides, Start};
use work::optimizing::apply::{self, AppliedDocument, Since};
use work::optimizing::source::{Told, Wishes};
use work::optimizing::{Job, PRELOAD, run};

/// Plans, builds, measures; or applies, or undoes, or starts a program with what helped. [`Exit::No`]: nothing helped.
///
/// # Errors
/// No program or no traced start in the recording; a place that makes no sense; no room; a program that does not start.
pub fn optimize_or_apply(args: &OptimizeArgs, quiet: bool) -> Result<Exit> {
    if let Some(directory) = &args.run {
        return start(directory, &args.words);
    }
    os::interrupt::install()?;
    if let Some(directory) = &args.apply {
        let scope = if args.system { Scope::System } else { Scope::User };
        applied(apply::apply(directory, args.desktop.as_deref(), scope)?, args.json)?;
        return Ok(Exit::Done);
    }
    if let Some(directory) = &args.undo {
        let document = apply::undo(directory, if args.force { Since::Leave } else { Since::Refuse })?;
        let exit = if document.kept.is_empty() { Exit::Done } else { Exit::No };
        applied(document, args.json)?;
        return Ok(exit);
    }
    let recording = args.recording.as_deref().ok_or_else(|| Error::bug("the arguments need a recording"))?;
    let out = args.output.as_deref().map(files::absolute).transpose()?.filter(|_| !args.plan);
    let mut job = Job::plan(recording, out.clone(), wishes(args, quiet), &FromWords)?;
    let width = text::width::of_terminal();
    let Some(out) = out else {
        match args.json {
            true => output::json(&job.manifest)?,
            false => output::page(&text::optimize::plan_alone(&job.manifest, width))?,
        }
        return Ok(Exit::Done);
    };
    match (args.json, job.is_nothing()) {
        (true, true) => output::json(&job.manifest)?,
        (true, false) => {}
        (false, _) => output::page(&text::optimize::plan(&job.manifest, width))?,
    }
    if job.is_nothing() {
        return Ok(Exit::No);
    }
    job.run(&FromWords)?;
    match args.json {
        true => output::json(&job.manifest)?,
        false => output::page(&text::optimize::result(&job.manifest, &out, text::width::of_terminal()))?,
    }
    Ok(if job.manifest.kept.is_empty() { Exit::No } else { Exit::Done })
}

fn wishes(args: &OptimizeArgs, quiet: bool) -> Wishes {
    Wishes {
        root: args.root.clone(),
        variant: args.variant.clone(),
        check: args.check.clone(),
        state: args.state,
        runs: args.runs,
        disk: args.disk.clone(),
        readahead: args.readahead,
        existing: Existing::forced(args.force),
        runs_told: if quiet { Told::Quiet } else { Told::Loud },
    }
}

fn applied(document: AppliedDocument, json: bool) -> Result<()> {
    match json {
        true => output::json(&document),
        false => output::page(&text::optimize::applied(&document, text::width::of_terminal())),
    }
}

/// `--run`: becomes the program of a result, with the copies of its files that were measured to help over the
/// originals, or from the image of them, and with what it needs read before. Nothing keeps it from starting: what
/// cannot be done is said, and it starts without. Returns only where there is none.
///
/// # Errors
/// The result is damaged, so that nobody knows the program.
fn start(directory: &Path, words: &[OsString]) -> Result<Exit> {
    let directory = files::absolute(directory)?;
    let manifest = Manifest::read(&directory)?;
    let program = manifest.start.clone().unwrap_or_else(|| manifest.root.join(&manifest.program));
    let warn = |why: &str| {
        let text = format!("{} starts without the changed copies of its files: {why}", shown(&program));
        let hint = "without root this needs user namespaces; after an upgrade: record it again, then `thaw optimize`";
        output::complain(&text::errors::warning_line(&text, Some(hint)));
    };
    let besides = run::besides(&manifest, &directory).unwrap_or_else(|why| {
        warn(&why);
        Besides::default()
    });
    let variables = with_users(&manifest.environment, |name| std::env::var_os(name));
    if let Err(error) = os::spawn::set_variables(&variables) {
        output::complain(&text::errors::warning_line(&error.to_string(), None));
    }
    let command: Vec<OsString> =
        std::iter::once(program.clone().into_os_string()).chain(words.iter().cloned()).collect();
    let reads = manifest.kept.contains(&Remedy::Preload).then(|| directory.join(PRELOAD));
    if let Some(image) = run::image(&manifest, &directory) {
        let (image, also) = (&*image, reads.as_deref());
        let user = UserArgs::default().choice();
        let (check_all, keeps_environment) = (false, false);
        return super::image::become_program(&Start {
            image,
            command: &command,
            user,
            keeps_environment,
            check_all,
            of: Of::Directory,
            also,
            besides,
        });
    }
    besides.without_image().unwrap_or_else(|cause| warn(&cause.to_string()));
    let Some(manifest) = reads else { preload::become_program(command) };
    let (engine, window) = (EngineChoice::Auto, WindowChoice::Auto);
    preload::start(&RunArgs { manifest, command, engine, window, verbose: false, run_as: UserArgs::default() })
}
