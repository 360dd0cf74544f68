//! `thaw preload`: read what a start needs before the program asks for it.

use crate::args::preload::{
    EngineChoice, GapChoice, InstallArgs, MakeArgs, OrderChoice, Place, PreloadArgs, PreloadVerb, RunArgs, StatusArgs,
    UninstallArgs, WindowChoice,
};
use crate::{output, text};
use model::{Error, Exit, Result};
use os::installed::places::Scope;
use os::installed::{By, Subject};
use os::user::Account;
use preload::exec::{NoProgram, Program};
use preload::manifest::Manifest;
use preload::plan::{Gap, Order};
use preload::run::{Engine, Prepared, Window};
use std::ffi::OsString;
use work::ahead;

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
fn make(args: &MakeArgs) -> Result<Exit> {
    let wanted = ahead::Wanted {
        recordings: &args.recordings,
        variant: args.variant.as_deref(),
        disk: args.disk.as_deref(),
        order: match args.order {
            OrderChoice::Auto => None,
            OrderChoice::Disk => Some(Order::Disk),
            OrderChoice::FirstUse => Some(Order::FirstUse),
        },
        gap: match args.gap {
            GapChoice::Auto => Gap::Fastest,
            GapChoice::UpTo(size) => Gap::UpTo(size),
        },
    };
    let document = ahead::make(&wanted, &args.output, args.force.existing())?;
    output::answer(args.json, &document, || text::preload::plan(&document, text::width::of_terminal()))?;
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
pub(super) fn no_program(command: &[OsString], failed: NoProgram) -> ! {
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
fn status(args: &StatusArgs) -> Result<Exit> {
    let document = ahead::status(&args.manifest)?;
    output::answer(args.json, &document, || text::preload::status(&document, text::width::of_terminal()))?;
    Ok(if document.report.nothing_fits() { Exit::No } else { Exit::Done })
}

/// One of the two is there: the arguments need it.
fn subject(place: &Place) -> Result<Subject> {
    place.subject().ok_or_else(|| Error::bug("neither a launcher nor a unit is named"))
}

pub(super) fn scope(system: bool) -> Scope {
    if system { Scope::System } else { Scope::User }
}

/// Installs a launcher or a unit.
///
/// # Errors
/// There is no such desktop entry, something is installed there already, or a file cannot be written.
fn install(args: &InstallArgs) -> Result<Exit> {
    preload::install::check_manifest(&args.manifest, scope(args.system))?;
    let manifest = Manifest::read(&args.manifest)?;
    let installation = preload::install::install(&manifest, &subject(&args.place)?, scope(args.system))?;
    output::page(&text::preload::installed(&installation, text::width::of_terminal()))?;
    Ok(Exit::Done)
}

/// Takes it away.
///
/// # Errors
/// It is not installed, or a file cannot be removed.
fn uninstall(args: &UninstallArgs) -> Result<Exit> {
    let installation = os::installed::expect(By::Preload, &subject(&args.place)?, scope(args.system))?;
    let kept = os::installed::uninstall(&installation)?;
    output::page(&text::preload::uninstalled(&installation, &kept, text::width::of_terminal()))?;
    Ok(if kept.is_empty() { Exit::Done } else { Exit::No })
}
