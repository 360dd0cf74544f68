//! `thaw preload`: read what a start needs before the program asks for it.

pub mod needed;
pub mod target;

use crate::args::preload::{
    EngineChoice, GapChoice, InstallArgs, MakeArgs, OrderChoice, Place, PreloadArgs, PreloadVerb, RunArgs, StatusArgs,
    UninstallArgs, WindowChoice,
};
use crate::{output, text};
use model::{Bytes, Error, Exit, Result, shown};
use os::user::Account;
use preload::exec::{NoProgram, Program};
use preload::install::{Scope, Subject};
use preload::manifest::{About, Manifest};
use preload::plan::{Gap, Order, Plan};
use preload::run::{Engine, Prepared, Report, Window};
use serde::Serialize;
use std::ffi::OsString;

/// `thaw.preload-plan/1`: what `make` made.
#[derive(Debug, Serialize)]
pub struct PlanDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The manifest's file.
    pub manifest: String,
    /// Where it comes from.
    pub about: About,
    /// Files in it.
    pub files: usize,
    /// Reads in it.
    pub reads: usize,
    /// Bytes of all reads.
    pub bytes: Bytes,
    /// Of those, needed by any of the recorded starts.
    pub needed: Bytes,
    /// How many recorded starts tell what is needed.
    pub starts: usize,
    /// How long the disk takes for all of it, seconds.
    pub disk_s: f64,
    /// Files of the recording that are not in the manifest.
    pub lost: Vec<LostDocument>,
}

/// A file of the recording that is not in the manifest.
#[derive(Debug, Serialize)]
pub struct LostDocument {
    /// Its path, or that it is metadata.
    pub path: String,
    /// Why.
    #[serde(flatten)]
    pub why: preload::Stale,
}

/// `thaw.preload/1`: a manifest and how it fits.
#[derive(Debug, Serialize)]
pub struct StatusDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// The manifest's file.
    pub manifest: String,
    /// Where it comes from.
    pub about: About,
    /// This machine's name.
    pub host: String,
    /// Reads in it.
    pub reads: usize,
    /// What was found.
    pub report: Report,
}

/// All verbs.
///
/// # Errors
/// See each one.
pub fn run(args: &PreloadArgs) -> Result<Exit> {
    match &args.verb {
        PreloadVerb::Make(args) => make(args),
        PreloadVerb::Run(args) => start(args),
        PreloadVerb::Status(args) => status(args),
        PreloadVerb::Install(args) => install(args),
        PreloadVerb::Uninstall(args) => uninstall(args),
    }
}

/// Writes a manifest.
///
/// # Errors
/// The recording holds no cold start, or nothing of what it needed is as it was.
fn make(args: &MakeArgs) -> Result<Exit> {
    let mut needed = needed::of(&args.recordings, args.variant.as_deref())?;
    let recordings: Vec<String> =
        args.recordings.iter().map(|path| shown(&std::path::absolute(path).unwrap_or_else(|_| path.clone()))).collect();
    let (wanted, lost) = preload::make::look(std::mem::take(&mut needed.files));
    if wanted.is_empty() {
        let recordings = recordings.join(", ");
        return Err(Error::new(Exit::No, "nothing that this start needed is as it was recorded:", recordings)
            .hint("record it again on this machine, then `thaw preload make`"));
    }
    let disk = target::disk(args.disk.as_deref(), &needed, wanted.iter().map(|file| &*file.entry.path))?;
    let order = match args.order {
        OrderChoice::Auto => target::order(&disk),
        OrderChoice::Disk => Order::Disk,
        OrderChoice::FirstUse => Order::FirstUse,
    };
    let gap = match args.gap {
        GapChoice::Auto => Gap::Fastest,
        GapChoice::UpTo(size) => Gap::UpTo(size),
    };
    let about = target::about(recordings.join(", "), needed.source, &disk);
    let starts = needed.starts;
    let Plan { manifest, needed, time } = target::plan(wanted, gap, order, &disk, about);
    manifest.write(&args.output, args.force.existing())?;
    let document = PlanDocument {
        schema: "thaw.preload-plan/1",
        manifest: shown(&args.output),
        files: manifest.files.len(),
        reads: manifest.reads.len(),
        bytes: manifest.bytes(),
        about: manifest.about,
        needed,
        starts,
        disk_s: time.seconds(),
        lost: lost.into_iter().map(|lost| LostDocument { path: lost.shown, why: lost.why }).collect(),
    };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::preload::plan(&document, text::width::of_terminal()))?,
    }
    Ok(Exit::Done)
}

/// Reads, then becomes the program. Returns only where there is none.
///
/// # Errors
/// Without a program: the manifest cannot be read.
pub fn start(args: &RunArgs) -> Result<Exit> {
    if args.command.is_empty() {
        let manifest = Manifest::read(&args.manifest)?;
        let mut prepared = prepare(args, &manifest);
        ask(&mut prepared);
        return Ok(if prepared.report.nothing_fits() { Exit::No } else { Exit::Done });
    }
    let user = become_user(args);
    let program = Program::find(&args.command).unwrap_or_else(|failed| no_program(&args.command, failed));
    let program = match &user {
        Some(user) => program.with_changes(&user.environment()),
        None => program,
    };
    // Even a bug of ours must not keep the program from starting.
    let failed = std::panic::catch_unwind(|| match Manifest::read(&args.manifest) {
        Ok(manifest) => {
            let mut prepared = prepare(args, &manifest);
            program.start(|| ask(&mut prepared))
        }
        Err(error) => {
            output::complain(&text::preload::started_without(&error));
            program.start(|| ())
        }
    });
    no_program(&args.command, failed.unwrap_or_else(|_| program.start(|| ())))
}

/// Becomes a program without reading anything.
pub fn become_program(command: Vec<OsString>) -> ! {
    let program = Program::find(&command).unwrap_or_else(|failed| no_program(&command, failed));
    no_program(&command, program.start(|| ()))
}

/// The program, and what is read before it, are the user's; without that user there is no program.
fn become_user(args: &RunArgs) -> Option<Account> {
    let become_it = |account: Option<Account>| match account {
        Some(account) => account.become_it().map(|()| Some(account)),
        None => Ok(None),
    };
    args.run_as.choice().account().and_then(become_it).unwrap_or_else(|error| {
        output::complain(&text::errors::error(&error));
        std::process::exit(126);
    })
}

/// As env(1) and shells say it; its exit code is not among those of thaw, because this is the program's place.
fn no_program(command: &[OsString], failed: NoProgram) -> ! {
    let error = Error::new(Exit::Target, "cannot start", command[0].to_string_lossy()).because(failed.cause);
    output::complain(&text::errors::error(&error));
    std::process::exit(failed.exit_code.into())
}

/// Everything but the reads; all that is to say is said before them.
fn prepare<'a>(args: &RunArgs, manifest: &'a Manifest) -> Prepared<'a> {
    let engine = match args.engine {
        EngineChoice::Auto | EngineChoice::Readahead => Engine::ReadAhead,
        EngineChoice::Fadvise => Engine::Fadvise,
        EngineChoice::IoUring => Engine::IoUring,
    };
    let window = match args.window {
        WindowChoice::All => Window::All,
        WindowChoice::Of(size) => Window::Of(size),
        WindowChoice::Auto => Window::usual(manifest.about.order, !args.command.is_empty()),
    };
    let prepared = preload::run::prepare(manifest, engine, window);
    if let Some(misfit) = prepared.report.misfit(&manifest.about, &args.manifest) {
        output::complain(&text::preload::misfit(misfit));
    }
    if args.verbose {
        output::complain(&text::preload::asked(&prepared.report));
    }
    prepared
}

fn ask(prepared: &mut Prepared<'_>) {
    if let Err(error) = prepared.ask() {
        output::complain(&text::preload::other_engine(&error));
    }
}

/// Says how a manifest fits; [`Exit::No`] if nothing of it does.
///
/// # Errors
/// The manifest cannot be read.
fn status(args: &StatusArgs) -> Result<Exit> {
    let manifest = Manifest::read(&args.manifest)?;
    let report = preload::run::look(&manifest);
    let exit = if report.nothing_fits() { Exit::No } else { Exit::Done };
    let document = StatusDocument {
        schema: "thaw.preload/1",
        manifest: shown(&args.manifest),
        about: manifest.about,
        host: os::machine::host(),
        reads: manifest.reads.len(),
        report,
    };
    match args.json {
        true => output::json(&document)?,
        false => output::page(&text::preload::status(&document, text::width::of_terminal()))?,
    }
    Ok(exit)
}

fn subject(place: &Place) -> Subject {
    match (&place.desktop, &place.unit) {
        (Some(name), _) => Subject::Launcher(name.clone()),
        (None, Some(name)) => Subject::Unit(name.clone()),
        (None, None) => unreachable!("the arguments need one of the two"),
    }
}

fn scope(system: bool) -> Scope {
    if system { Scope::System } else { Scope::User }
}

/// Installs a launcher or a unit.
///
/// # Errors
/// There is no such desktop entry, something is installed there already, or a file cannot be written.
fn install(args: &InstallArgs) -> Result<Exit> {
    preload::install::check_manifest(&args.manifest, scope(args.system))?;
    let manifest = Manifest::read(&args.manifest)?;
    let installation = preload::install::install(&manifest, &subject(&args.place), scope(args.system))?;
    output::page(&text::preload::installed(&installation, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// Takes it away.
///
/// # Errors
/// It is not installed, or a file cannot be removed.
fn uninstall(args: &UninstallArgs) -> Result<Exit> {
    let subject = subject(&args.place);
    let installation = preload::install::find(&subject, scope(args.system))?.ok_or_else(|| {
        Error::new(Exit::Usage, "thaw has not installed", subject.name())
            .hint("`thaw doctor` lists what is installed; --system for what is for all users")
    })?;
    let kept = preload::install::uninstall(&installation)?;
    output::page(&text::preload::uninstalled(&installation, &kept, text::width::of_terminal()))?;
    Ok(if kept.is_empty() { Exit::Done } else { Exit::No })
}
