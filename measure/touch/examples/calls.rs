//! Runs a program and prints the functions that it calls, in the order of their first call; what it cost goes to
//! stderr: `cargo run -p touch --example calls -- PROGRAM ARGS`. With `--native` before the program it is not watched.
//! PREPARE=FILE:FILE makes files ready before it begins.

use os::spawn::{Launch, spawn_gated};
use std::io::Write;
use touch::Trace;
use touch::function::{Functions, Helper};

const HELPER: &str = "--serve-as-tracer";

fn main() -> model::Result<()> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    if words.first().is_some_and(|word| word == HELPER) {
        use std::os::fd::AsFd;
        let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a socket");
        touch::function::serve(socket.into()).expect("a socket that works");
        return Ok(());
    }
    if words.first().is_some_and(|word| word == "--native") {
        let mut running = spawn_gated(Launch::new(words.into_iter().skip(1)))?.release()?;
        let ended = running.wait()?;
        eprintln!("native_ms {:.1}", (ended.at_ns - running.t0_ns()) as f64 / 1e6);
        return Ok(());
    }
    let helper = Helper {
        program: std::env::current_exe().expect("this program"),
        arguments: vec![HELPER.into()],
        environment: Vec::new(),
    };
    let mut engine = Functions::new(&helper)?;
    if let Some(files) = std::env::var_os("PREPARE") {
        let before = cpu_ms_of(engine.helper());
        engine.prepare(std::env::split_paths(&files).collect())?;
        eprintln!("prepared_cpu_ms {:.1}", cpu_ms_of(engine.helper()) - before);
    }
    let gated = spawn_gated(Launch::new(words))?;
    engine.attach(gated.pid())?;
    let mut running = gated.release()?;
    let ended = running.wait()?;
    let rows = engine.stop(running.t0_ns())?;
    // Tens of thousands of lines.
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for touch in &rows.touches {
        let file = model::shown(&rows.files[touch.file.0 as usize].path);
        writeln!(
            out,
            "{:9.3} ms {:6} {file}+{:#x} {} {}",
            touch.at_ns.unwrap_or_default().seconds() * 1e3,
            touch.tid.unwrap_or_default(),
            touch.offset.0,
            touch.len.0,
            touch.name.as_deref().unwrap_or("?")
        )
        .expect("stdout that takes it");
    }
    out.flush().expect("stdout that takes it");
    for watched in &rows.watched {
        let called = rows.touches.iter().filter(|touch| touch.file == watched.file).count();
        let file = model::shown(&rows.files[watched.file.0 as usize].path);
        eprintln!("{called:6} of {:7} ({:?}) {file}", watched.functions, watched.starts);
    }
    eprintln!(
        "watched_ms {:.1} planting_ms {:.1} planted_mb {:.1} stops {} calls {}",
        (ended.at_ns - running.t0_ns()) as f64 / 1e6,
        engine.planting().seconds() * 1e3,
        rows.info.bytes.0 as f64 / 1e6,
        rows.info.records,
        rows.touches.len()
    );
    rows.info.cannot.iter().for_each(|it| eprintln!("cannot: {it}"));
    Ok(())
}

/// What a process has used of the CPUs.
fn cpu_ms_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) * 10.0
}
