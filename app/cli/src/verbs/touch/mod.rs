//! `thaw touch`: one start for each engine, into a recording; then what the recording says.

mod byte;
mod document;
pub mod order;
pub mod watch;

pub use document::{ProgramDocument, TouchDocument, watched};

use crate::args::record::RecordArgs;
use crate::args::touch::{TouchArgs, TouchEngine};
use crate::plan::{self, RecordPlan};
use crate::progress::Progress;
use crate::verbs::record::{self, sink::Recorder, stage::Stage};
use crate::{output, text};
use bench::conduct::{Host, Sink};
use bench::record::Lab;
use byte::Inside;
use io::{EngineChoice, EngineOptions};
use model::{CacheState, Error, Exit, Result, RunKind, Warning, WarningKind};
use recording::{Reader, Replace, Starts, Writer};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use touch::function::{Functions, Helper};
use watch::{FillTracer, Place, watch};

/// Watches a program, or shows what was seen.
///
/// # Errors
/// A file that is no recording or says nothing about this; a program that fails; an engine that does not work here.
pub fn run(args: TouchArgs, quiet: bool) -> Result<Exit> {
    let (file, json, top) = (args.file.clone(), args.json, args.top);
    let (recording, exit) = match (&args.recording, args.command.is_empty() && args.app.is_none()) {
        (Some(recording), _) => (recording.clone(), Exit::Done),
        (None, true) => {
            let usual = args.output.clone().unwrap_or_else(default_output);
            if !usual.exists() {
                return Err(Error::on(Exit::Usage, "there is no program to watch, and no recording", &usual)
                    .hint("thaw touch -o FILE -- PROGRAM ARGS, or thaw touch RECORDING"));
            }
            (usual, Exit::Done)
        }
        (None, false) => look(args, quiet)?,
    };
    let document = document::read(&recording, file.as_deref())?;
    if json {
        output::json(&document)?;
    } else {
        output::page(&text::touch::page(&document, top, text::width::of_terminal()))?;
    }
    Ok(exit)
}

fn default_output() -> PathBuf {
    PathBuf::from("thaw.thaw")
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

/// Starts the program once for each engine. Interrupted after one of them: what it saw is kept.
fn look(args: TouchArgs, quiet: bool) -> Result<(PathBuf, Exit)> {
    os::interrupt::install()?;
    os::spawn::become_subreaper()?;
    let engines = args.engine.clone();
    let tool = engines.contains(&TouchEngine::Byte).then(byte::find).transpose()?;
    let replace = args.force;
    let plan = plan::record(as_record(args)?)?;
    let mut progress = Progress::new(quiet);
    let stage = Stage::set(&plan)?;
    record::warm_up(&stage, &mut progress)?;
    let inside = tool.map(|tool| Inside::set(tool, &stage)).transpose()?;
    let programs = stage.programs.iter().cloned().chain(inside.iter().map(|inside| inside.program.clone())).collect();
    let (mut lab, warnings) = Lab::open(programs, stage.lab.clone())?;
    let engines = choose(&engines, &lab);
    let there = plan.output.exists() && !replace;
    let (writer, variant) = if there { add_to(&plan)? } else { (make(&plan, &stage, &warnings)?, 0) };
    let mut recorder = Recorder::new(writer, Default::default(), &stage, progress);
    let mut seen = 0;
    let mut trouble = None;
    for engine in engines.wanted {
        let looked = look_with(engine, &plan, &stage, inside.as_ref(), &mut lab, &mut recorder, variant);
        match looked {
            Ok(()) => seen += 1,
            // With `auto` the other engine may still see something.
            Err(error) if engines.auto && !matches!(error.exit, Exit::Interrupted | Exit::Bug) => {
                let text = format!("the engine {} saw nothing: {error}", engine.name());
                let warning = Warning::new(WarningKind::Engine, text);
                recorder.warning(match &error.hint {
                    Some(hint) => warning.hint(hint.clone()),
                    None => warning,
                })?;
                trouble = Some(error);
            }
            Err(error) => {
                trouble = Some(error);
                break;
            }
        }
    }
    let stays = lab.close();
    recorder.end(&stays, trouble.is_none() && !there)?;
    match trouble {
        Some(error) if seen > 0 && error.exit == Exit::Interrupted => Ok((plan.output, Exit::Interrupted)),
        Some(error) if seen == 0 || !engines.auto => {
            if seen == 0 && !there && !has_touches(&plan.output) {
                // It says nothing; if it cannot be removed, the next run adds to it.
                let _ = std::fs::remove_file(&plan.output);
            }
            Err(error)
        }
        _ => Ok((plan.output, Exit::Done)),
    }
}

/// The arguments of `thaw record` that say the same.
///
/// # Errors
/// The usual ones of `thaw record` cannot be made: a bug.
pub fn as_record(args: TouchArgs) -> Result<RecordArgs> {
    Ok(RecordArgs {
        command: args.command,
        output: args.output.unwrap_or_else(default_output),
        force: args.force,
        app: args.app,
        ready: args.ready,
        timeout: args.timeout,
        grace: args.grace,
        restore: args.restore,
        env: args.env,
        cwd: args.cwd,
        run_as: args.run_as,
        ..RecordArgs::usual()?
    })
}

/// What is to be used.
struct Chosen {
    wanted: Vec<model::TouchEngine>,
    /// What does not work is left out.
    auto: bool,
}

/// `auto`: what works here; the fast one first, so that a mistake in the command line shows soon.
fn choose(typed: &[TouchEngine], lab: &Lab) -> Chosen {
    let mut wanted = Vec::new();
    let mut add = |engine| {
        if !wanted.contains(&engine) {
            wanted.push(engine);
        }
    };
    for engine in typed {
        match engine {
            TouchEngine::Page => add(model::TouchEngine::Page),
            TouchEngine::Function => add(model::TouchEngine::Function),
            TouchEngine::Probe => add(model::TouchEngine::Probe),
            TouchEngine::Byte => add(model::TouchEngine::Byte),
            TouchEngine::Auto => {
                if cfg!(target_arch = "x86_64") {
                    add(model::TouchEngine::Function);
                }
                let exact = lab.learning_state() == CacheState::Cold && !lab.disks().is_empty();
                add(if exact { model::TouchEngine::Page } else { model::TouchEngine::Probe });
            }
        }
    }
    Chosen { wanted, auto: typed.contains(&TouchEngine::Auto) }
}

fn look_with(
    engine: model::TouchEngine,
    plan: &RecordPlan,
    stage: &Stage,
    inside: Option<&Inside>,
    lab: &mut Lab,
    recorder: &mut Recorder,
    variant: u32,
) -> Result<()> {
    let options = EngineOptions { program: stage.program_files.first().cloned(), app_dirs: stage.app_dirs() };
    let place = |state| Place { program: 0, inside: None, variant, state, kind: RunKind::Touch };
    match engine {
        model::TouchEngine::Function => {
            let mut engine = Functions::new(&tracing_thaw()?)?;
            watch(plan, lab, recorder, place(CacheState::Hot), "a hot start, functions watched", &mut engine)
        }
        model::TouchEngine::Page => {
            let mut tracer = fill_tracer(&options)?;
            if !has_usual_trace(&plan.output, variant)? {
                let usual = Place { kind: RunKind::Trace, ..place(CacheState::Cold) };
                let mut trace = FillTracer::new(tracer.as_mut());
                watch(plan, lab, recorder, usual, "a cold start with read-ahead", &mut trace)?;
                recorder.warn_all(trace.warnings)?;
            }
            exact_pages(plan, lab, recorder, place(CacheState::Cold), FillTracer::new(tracer.as_mut()))
        }
        model::TouchEngine::Probe => {
            let (mut tracer, _) = io::open_engine(EngineChoice::Probe, &options)?;
            let mut engine = touch::Probed(FillTracer::new(tracer.as_mut()));
            watch(plan, lab, recorder, place(CacheState::App), "a start, page cache probed", &mut engine)?;
            recorder.warn_all(engine.0.warnings)
        }
        model::TouchEngine::Byte => {
            let inside = inside.ok_or_else(|| Error::bug("the byte engine was not made ready"))?;
            let place = Place { inside: Some(stage.programs.len() as u32), ..place(CacheState::App) };
            watch(plan, lab, recorder, place, "a start inside Valgrind", &mut inside.engine())
        }
    }
}

/// A tracer that sees fills as they come.
fn fill_tracer(options: &EngineOptions) -> Result<Box<dyn io::Engine>> {
    match io::open_engine(EngineChoice::Perf, options) {
        Err(error) if error.exit == Exit::Machine => io::open_engine(EngineChoice::Tracefs, options),
        other => other,
    }
    .map(|(engine, _)| engine)
}

/// Whether a start that failed has left what it touched.
fn has_touches(path: &Path) -> bool {
    let starts = Reader::open(path).and_then(|reader| Starts::of(&reader));
    starts.is_ok_and(|starts| starts.has_touches())
}

/// Whether the recording tells what a start with read-ahead reads.
fn has_usual_trace(path: &Path, variant: u32) -> Result<bool> {
    Ok(Starts::of(&Reader::open(path)?)?.coldest(variant).is_some())
}

/// A cold start without read-ahead, which is put back afterwards.
///
/// # Errors
/// No root; a state that cannot be reached; a program that fails.
pub fn exact_pages(
    plan: &RecordPlan,
    lab: &mut Lab,
    recorder: &mut Recorder,
    place: Place,
    tracer: FillTracer<'_>,
) -> Result<()> {
    let mut engine = touch::Pages(tracer);
    let watched = lab
        .without_read_ahead()
        .and_then(|()| watch(plan, lab, recorder, place, "a cold start without read-ahead", &mut engine));
    lab.with_read_ahead()?;
    watched?;
    recorder.warn_all(engine.0.warnings)
}

/// This program again, as the tracing process.
fn tracing_thaw() -> Result<Helper> {
    let program = std::env::current_exe()
        .map_err(|cause| Error::new(Exit::Machine, "cannot find thaw's own file", "/proc/self/exe").because(cause))?;
    Ok(Helper { program, arguments: vec![crate::args::TRACER.into()], environment: Vec::new() })
}

fn make(plan: &RecordPlan, stage: &Stage, warnings: &[Warning]) -> Result<Writer> {
    let mut writer = Writer::create(&plan.output, &record::header(plan, stage)?, Replace::Recording)?;
    record::write_head(&mut writer, stage, warnings)?;
    Ok(writer)
}

/// The recording, and which of its programs this one is.
fn add_to(plan: &RecordPlan) -> Result<(Writer, u32)> {
    let name = plan.programs.first().map(|program| program.name.as_str()).unwrap_or_default();
    let variant = variant_named(&plan.output, name)?;
    Ok((Writer::open(&plan.output)?, variant))
}

fn variant_named(path: &Path, name: &str) -> Result<u32> {
    let elsewhere = "write to another file with -o FILE";
    let variants = Reader::open(path).map_err(|error| error.hint(elsewhere))?.variants()?;
    if let Some(variant) = variants.iter().find(|variant| variant.name == name) {
        return Ok(variant.index);
    }
    let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
    Err(Error::on(Exit::Usage, format!("the program '{name}' is not in the recording"), path)
        .because(format!("it is of {}", names.join(", ")))
        .hint("write another one with -o FILE, or replace it with --force"))
}
