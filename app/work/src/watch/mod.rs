//! Starts of which an engine of the room `touch` tells what they touch, one for each engine, into a recording.

pub mod byte;
pub mod calls;
pub mod document;

use crate::plan::RecordPlan;
use crate::progress::Tell;
use crate::start::head::{header, warm_up, write_head};
use crate::start::sink::Recorder;
use crate::start::stage::Stage;
use crate::start::watch::{FillTracer, Place, exact_pages, watch};
use bench::conduct::{Host, Sink};
use bench::record::Lab;
use byte::Inside;
use io::{EngineChoice, EngineOptions};
use model::{CacheState, Error, Exit, Result, RunKind, TouchEngine, Warning, WarningKind};
use recording::{Reader, Replace, Starts, Writer};
use std::path::{Path, PathBuf};
use touch::byte::Tool;
use touch::function::{Functions, Helper};

/// What is wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// What works here.
    Auto,
    /// This engine.
    Engine(TouchEngine),
}

/// How to watch.
pub struct Watch<'a> {
    /// With which engines.
    pub wishes: &'a [Wish],
    /// The byte engine's tool, if that one is wished for.
    pub tool: Option<Tool>,
    /// The process that traces for the function engine.
    pub helper: &'a dyn Fn() -> Result<Helper>,
}

/// Starts the program once for each engine; the recording, and [`Exit::Interrupted`] if not all engines had their turn:
/// what was seen is kept.
///
/// # Errors
/// A program that fails; an engine that does not work here; a recording that is not of this program.
pub fn look(plan: &RecordPlan, how: Watch<'_>, mut progress: Box<dyn Tell>) -> Result<(PathBuf, Exit)> {
    let stage = Stage::set(plan)?;
    warm_up(&stage, &mut *progress)?;
    let inside = how.tool.map(|tool| Inside::set(tool, &stage)).transpose()?;
    let programs = stage.programs.iter().cloned().chain(inside.iter().map(|inside| inside.program.clone())).collect();
    let (mut lab, warnings) = Lab::open(programs, stage.lab.clone())?;
    let engines = choose(how.wishes, &lab);
    let there = plan.output.exists() && plan.replace == Replace::Never;
    let (writer, variant) = if there { add_to(plan)? } else { (make(plan, &stage, &warnings)?, 0) };
    let mut recorder = Recorder::new(writer, Default::default(), &stage, progress);
    let mut seen = 0;
    let mut trouble = None;
    for engine in engines.wanted {
        let with = With { plan, stage: &stage, inside: inside.as_ref(), helper: how.helper, variant };
        let looked = look_with(engine, &with, &mut lab, &mut recorder);
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
        Some(error) if seen > 0 && error.exit == Exit::Interrupted => Ok((plan.output.clone(), Exit::Interrupted)),
        Some(error) if seen == 0 || !engines.auto => {
            if seen == 0 && !there && !has_touches(&plan.output) {
                // It says nothing; if it cannot be removed, the next run adds to it.
                let _ = std::fs::remove_file(&plan.output);
            }
            Err(error)
        }
        _ => Ok((plan.output.clone(), Exit::Done)),
    }
}

/// What is to be used.
struct Chosen {
    wanted: Vec<TouchEngine>,
    /// What does not work is left out.
    auto: bool,
}

/// `auto`: what works here; the fast one first, so that a mistake in the command line shows soon.
fn choose(wishes: &[Wish], lab: &Lab) -> Chosen {
    let mut wanted = Vec::new();
    let mut add = |engine| {
        if !wanted.contains(&engine) {
            wanted.push(engine);
        }
    };
    for wish in wishes {
        match wish {
            Wish::Engine(engine) => add(*engine),
            Wish::Auto => {
                if cfg!(target_arch = "x86_64") {
                    add(TouchEngine::Function);
                }
                let exact = lab.learning_state() == CacheState::Cold && !lab.disks().is_empty();
                add(if exact { TouchEngine::Page } else { TouchEngine::Probe });
            }
        }
    }
    Chosen { wanted, auto: wishes.contains(&Wish::Auto) }
}

/// What every engine is given.
struct With<'a> {
    plan: &'a RecordPlan,
    stage: &'a Stage,
    inside: Option<&'a Inside>,
    helper: &'a dyn Fn() -> Result<Helper>,
    variant: u32,
}

fn look_with(engine: TouchEngine, with: &With<'_>, lab: &mut Lab, recorder: &mut Recorder) -> Result<()> {
    let With { plan, stage, inside, helper, variant } = *with;
    let options =
        EngineOptions { program: stage.program_files.first().cloned(), app_dirs: stage.app_dirs(), wakes: false };
    let place = |state| Place { program: 0, inside: None, variant, state, kind: RunKind::Touch };
    match engine {
        TouchEngine::Function => {
            let mut engine = Functions::new(&helper()?)?;
            engine.prepare(own_files(stage))?;
            watch(plan, lab, recorder, place(CacheState::Hot), "a hot start, functions watched", &mut engine)
        }
        TouchEngine::Page => {
            let mut tracer = fill_tracer(&options)?;
            if !has_usual_trace(&plan.output, variant)? {
                let usual = Place { kind: RunKind::Trace, ..place(CacheState::Cold) };
                let mut trace = FillTracer::new(tracer.as_mut());
                watch(plan, lab, recorder, usual, "a cold start with read-ahead", &mut trace)?;
                recorder.warn_all(trace.warnings)?;
            }
            exact_pages(plan, lab, recorder, place(CacheState::Cold), FillTracer::new(tracer.as_mut()))
        }
        TouchEngine::Probe => {
            let (mut tracer, _) = io::open_engine(EngineChoice::Probe, &options)?;
            let mut engine = touch::Probed(FillTracer::new(tracer.as_mut()));
            watch(plan, lab, recorder, place(CacheState::App), "a start, page cache probed", &mut engine)?;
            recorder.warn_all(engine.0.warnings)
        }
        TouchEngine::Byte => {
            let inside = inside.ok_or_else(|| Error::bug("the byte engine was not made ready"))?;
            let place = Place { inside: Some(stage.programs.len() as u32), ..place(CacheState::App) };
            watch(plan, lab, recorder, place, "a start inside Valgrind", &mut inside.engine())
        }
    }
}

/// Large files that the program is likely to run: its own, and those in its directories. What they are is for the
/// engine to say.
fn own_files(stage: &Stage) -> Vec<PathBuf> {
    const LARGE: u64 = 1 << 20;
    let inside =
        |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    let in_dirs = stage.app_dirs().into_iter().flat_map(inside);
    let all = stage.program_files.iter().cloned().chain(in_dirs);
    let is_large = |path: &PathBuf| std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() >= LARGE);
    all.filter(is_large).collect()
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

fn make(plan: &RecordPlan, stage: &Stage, warnings: &[Warning]) -> Result<Writer> {
    let mut writer = Writer::create(&plan.output, &header(plan, stage)?, Replace::Recording)?;
    write_head(&mut writer, stage, warnings)?;
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
