//! Traces one start of a program and prints the report as JSON: the room without the app.
//!
//! `trace [--engine auto|perf|tracefs|probe] [--untraced] [--cold] [--app-dir DIR]... [--rows] [--repeat N] -- PROGRAM
//! ARGS`
//!
//! `--untraced` only runs it, to compare the times. `--cold` drops the machine's caches first, and nothing else does.
//! `--rows` prints the rows instead of the report. What the program prints is thrown away, its errors are not.

use io::{EngineChoice, EngineOptions, Ownership, attribute, open_engine, report, resolve};
use model::{Error, Exit, OwnerRule, Result};
use os::{
    perf::{Count, Counter},
    spawn::{Launch, Stream, spawn_gated},
};
use std::{ffi::OsString, path::PathBuf, time::Instant};

/// What the command line says.
struct Arguments {
    engine: EngineChoice,
    cold: bool,
    untraced: bool,
    rows: bool,
    repeat: u32,
    app_dirs: Vec<PathBuf>,
    argv: Vec<OsString>,
}

fn arguments() -> Result<Arguments> {
    let usage = |what: &str| Error::new(Exit::Usage, what, "").hint("trace [--engine E] [--cold] -- PROGRAM");
    let mut parsed = Arguments {
        engine: EngineChoice::Auto,
        cold: false,
        untraced: false,
        rows: false,
        repeat: 1,
        app_dirs: Vec::new(),
        argv: Vec::new(),
    };
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().and_then(|value| value.into_string().ok());
        match word.to_str() {
            Some("--engine") => {
                let word = value().ok_or_else(|| usage("--engine needs a word"))?;
                parsed.engine = word.parse().map_err(|text: String| usage(&text))?;
            }
            Some("--cold") => parsed.cold = true,
            Some("--untraced") => parsed.untraced = true,
            Some("--rows") => parsed.rows = true,
            Some("--repeat") => {
                parsed.repeat = value().and_then(|n| n.parse().ok()).ok_or_else(|| usage("--repeat needs a number"))?
            }
            Some("--app-dir") => parsed.app_dirs.push(value().ok_or_else(|| usage("--app-dir needs a path"))?.into()),
            Some("--") => parsed.argv = words.by_ref().collect(),
            _ => return Err(usage("unknown option")),
        }
    }
    match parsed.argv.is_empty() {
        true => Err(usage("no program")),
        false => Ok(parsed),
    }
}

fn once(arguments: &Arguments, engine: &mut dyn io::Engine) -> Result<()> {
    let mut launch = Launch::new(&arguments.argv);
    launch.stdout = Stream::Null;
    let gated = spawn_gated(launch)?;
    let began = Instant::now();
    if arguments.cold {
        os::cache::drop_all()?;
    }
    let dropped = began.elapsed();
    let clock = Counter::open(Count::TaskClock, gated.pid()).unwrap_or_default();
    if !arguments.untraced {
        engine.attach(gated.pid())?;
    }
    let attached = began.elapsed() - dropped;
    let mut running = gated.release()?;
    let ended = running.wait()?;
    let cpu = clock.map_or(Ok(0), |clock| clock.read())?;
    let finished = Instant::now();
    eprintln!(
        "trace: wall {:?} cpu {:?} exit {:?}",
        std::time::Duration::from_nanos(ended.at_ns - running.t0_ns()),
        std::time::Duration::from_nanos(cpu),
        ended.code,
    );
    if arguments.untraced {
        return Ok(());
    }
    let raw = engine.stop(running.t0_ns())?;
    let stopped = finished.elapsed();
    let mut ownership = Ownership::of_program([os::spawn::resolve_program(&arguments.argv[0])?]);
    arguments.app_dirs.iter().for_each(|path| ownership.add(path.clone(), OwnerRule::Option));
    let resolved = resolve(&raw);
    let named = finished.elapsed();
    let mut rows = attribute(&raw, &resolved);
    ownership.assign(&mut rows, os::packages::Packages::load().as_mut());
    let joined = finished.elapsed();
    let answer = report(&rows);
    eprintln!(
        "trace: attach {attached:?} stop {stopped:?} resolve {:?} attribute {:?} report {:?}",
        named - stopped,
        joined - named,
        finished.elapsed() - joined,
    );
    let text = match arguments.rows {
        true => serde_json::to_string(&rows),
        false => serde_json::to_string_pretty(&answer),
    };
    println!("{}", text.map_err(|error| Error::bug("cannot write JSON").because(error))?);
    Ok(())
}

fn run() -> Result<()> {
    let arguments = arguments()?;
    let program = os::spawn::resolve_program(&arguments.argv[0])?;
    let options = EngineOptions { program: Some(program), app_dirs: arguments.app_dirs.clone(), wakes: false };
    let (mut engine, warnings) = open_engine(arguments.engine, &options)?;
    for warning in warnings {
        eprintln!("trace: {}", warning.text);
    }
    for _ in 0..arguments.repeat {
        once(&arguments, engine.as_mut())?;
    }
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("trace: {error}");
        if let Some(hint) = &error.hint {
            eprintln!("trace: {hint}");
        }
        std::process::exit(error.exit as i32);
    }
}
