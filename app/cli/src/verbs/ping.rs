//! `thaw ping`: becomes a program, and has its start looked at if the user has agreed.

use super::preload::no_program;
use crate::args::ping::PingArgs;
use crate::{output, text};
use ::ping::Remedy;
use ::ping::spool::{Spool, usual_root};
use bench::ready::Ready;
use model::{Error, Exit, Result};
use preload::exec::Program;
use std::path::PathBuf;
use work::pings::{self, Looked, Wanted};

/// Starts the program, or looks after the spool.
///
/// # Errors
/// A spool that cannot be written; a program's errors are its own.
pub fn run(args: &PingArgs) -> Result<Exit> {
    if args.command.is_empty() {
        let spool = spool(args)?;
        match (args.enable, args.forget) {
            (true, _) => spool.agree()?,
            (_, true) => spool.forget()?,
            _ => {
                for file in spool.files()? {
                    let line = std::fs::read(&file)
                        .map_err(|cause| Error::on(Exit::Machine, "cannot read", &file).because(cause))?;
                    output::bytes(&line)?;
                }
            }
        }
        return Ok(Exit::Done);
    }
    let program = Program::find(&args.command).unwrap_or_else(|failed| no_program(&args.command, failed));
    // What is wrong with the measurement is said, and keeps no program from starting.
    let looked = wanted(args).and_then(pings::prepare).unwrap_or_else(|error| {
        output::complain(&text::errors::error(&error));
        None
    });
    let failed = match looked {
        None => program.start(|| ()),
        Some((looked, variables)) => {
            let program = if variables.is_empty() { program } else { program.with_changes(&variables) };
            program.start(|| look(looked))
        }
    };
    no_program(&args.command, failed)
}

fn look(looked: Looked) {
    if let Err(error) = looked.look_from_beside() {
        output::complain(&text::errors::error(&error));
    }
}

fn spool(args: &PingArgs) -> Result<Spool> {
    let root = args.spool.clone().map_or_else(usual_root, Ok)?;
    Spool::of(&root, &args.app)
}

/// Each once, in the order that a ping has them in.
fn remedies(args: &PingArgs) -> Vec<Remedy> {
    Remedy::ALL.iter().copied().filter(|remedy| args.remedy.contains(remedy)).collect()
}

fn wanted(args: &PingArgs) -> Result<Wanted> {
    let parse = |word: &String| {
        let ready = word.parse::<Ready>();
        ready.map_err(|cause| Error::new(Exit::Usage, "this is no readiness probe", word).because(cause))
    };
    Ok(Wanted {
        spool: spool(args)?,
        app: args.app.clone(),
        version: args.app_version.clone(),
        ready: args.ready.iter().map(parse).collect::<Result<_>>()?,
        remedies: remedies(args),
        timeout: args.timeout,
        program: os::spawn::resolve_program(&args.command[0]).unwrap_or_else(|_| PathBuf::from(&args.command[0])),
    })
}
