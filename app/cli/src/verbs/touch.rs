//! `thaw touch`: one start for each engine, into a recording; then what the recording says.

use crate::args::TRACER;
use crate::args::touch::{TouchArgs, TouchEngine};
use crate::progress::Progress;
use crate::{output, plan, text};
use model::{Error, Exit, Result};
use std::os::fd::AsFd;
use std::path::PathBuf;
use touch::function::Helper;
use work::watch::{self, Watch, Wish, byte, document};

/// Watches a program, or shows what was seen.
///
/// # Errors
/// A file that is no recording or says nothing about this; a program that fails; an engine that does not work here.
pub fn run(args: TouchArgs, quiet: bool) -> Result<Exit> {
    if !args.calls.is_empty() {
        return calls(args, quiet);
    }
    let (file, json, top) = (args.file.clone(), args.json, args.top);
    let (recording, exit) = match (&args.recording, args.command.is_empty() && args.app.is_none()) {
        (Some(recording), _) => (recording.clone(), Exit::Done),
        (None, true) => {
            let usual = args.output.clone().unwrap_or_else(plan::default_output);
            if !usual.exists() {
                return Err(Error::on(Exit::Usage, "there is no program to watch, and no recording", &usual)
                    .hint("thaw touch -o FILE -- PROGRAM ARGS, or thaw touch RECORDING"));
            }
            (usual, Exit::Done)
        }
        (None, false) => look(args, quiet)?,
    };
    let document = document::read(&recording, file.as_deref())?;
    output::answer(json, &document, || text::touch::page(&document, top, text::width::of_terminal()))?;
    Ok(exit)
}

/// Starts the program once and counts calls. What was counted of a program that failed is printed as well.
fn calls(args: TouchArgs, quiet: bool) -> Result<Exit> {
    os::interrupt::install().and_then(|()| os::spawn::become_subreaper())?;
    let (patterns, json, top) = (args.calls.clone(), args.json, args.top);
    let (plan, told) = (plan::record(plan::as_record(args)?)?, Box::new(Progress::new(quiet)));
    let (document, trouble) = watch::calls::count(&plan, &patterns, &tracing_thaw, told)?;
    output::answer(json, &document, || text::calls::page(&document, top, text::width::of_terminal()))?;
    trouble.map_or(Ok(Exit::Done), Err)
}

/// Starts the program once for each engine. Interrupted after one of them: what it saw is kept.
fn look(args: TouchArgs, quiet: bool) -> Result<(PathBuf, Exit)> {
    os::interrupt::install().and_then(|()| os::spawn::become_subreaper())?;
    let wishes: Vec<Wish> = args.engine.iter().map(wish).collect();
    let is_byte = |wish: &Wish| *wish == Wish::Engine(model::TouchEngine::Byte);
    let tool = wishes.iter().any(is_byte).then(byte::find).transpose()?;
    let plan = plan::record(plan::as_record(args)?)?;
    let how = Watch { wishes: &wishes, tool, helper: &tracing_thaw };
    watch::look(&plan, how, Box::new(Progress::new(quiet)))
}

fn wish(typed: &TouchEngine) -> Wish {
    Wish::Engine(match typed {
        TouchEngine::Auto => return Wish::Auto,
        TouchEngine::Page => model::TouchEngine::Page,
        TouchEngine::Function => model::TouchEngine::Function,
        TouchEngine::Probe => model::TouchEngine::Probe,
        TouchEngine::Byte => model::TouchEngine::Byte,
    })
}

/// This program again, as the tracing process.
fn tracing_thaw() -> Result<Helper> {
    Ok(Helper { program: work::own::file()?, arguments: vec![TRACER.into()], environment: Vec::new() })
}

/// The hidden verb: this process traces for another thaw, which talks to it over standard input.
///
/// # Errors
/// Standard input is no socket.
pub fn trace() -> Result<Exit> {
    let no_socket = |cause| {
        Error::new(Exit::Usage, "this verb is for thaw itself: its standard input is a socket", "").because(cause)
    };
    let socket = std::io::stdin().as_fd().try_clone_to_owned().map_err(no_socket)?;
    serve(socket.into()).map_err(no_socket)?;
    Ok(Exit::Done)
}

#[cfg(target_arch = "x86_64")]
use touch::function::serve;

#[cfg(not(target_arch = "x86_64"))]
fn serve(_socket: std::os::unix::net::UnixStream) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
