//! Runs a program and prints how often the functions were called whose names match a pattern; what it cost goes to
//! stderr: `cargo run -p touch --example counts -- PATTERN,PATTERN PROGRAM ARGS`. With `--native` in place of the
//! patterns it is not watched.

use os::spawn::{Launch, spawn_gated};
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
    let (patterns, words) = words.split_first().expect("PATTERNS PROGRAM ARGS");
    let launch = Launch::new(words);
    if patterns == "--native" {
        let mut running = spawn_gated(launch)?.release()?;
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
    engine.count(patterns.to_string_lossy().split(',').map(str::to_owned).collect())?;
    let gated = spawn_gated(launch)?;
    engine.attach(gated.pid())?;
    let mut running = gated.release()?;
    let ended = running.wait()?;
    let rows = engine.stop(running.t0_ns())?;
    let counts = engine.counts().expect("it was requested");
    for function in &counts.functions {
        println!(
            "{:10} {:4} threads {:10} stops {} {}+{:#x} {}",
            function.calls,
            function.threads,
            function.stops,
            function.name,
            function.file,
            function.offset,
            function.breakpoint.as_deref().unwrap_or_default()
        );
        function.remarks.iter().for_each(|remark| println!("           {remark}"));
        for caller in function.callers.iter().take(5) {
            let place = &caller.place;
            println!(
                "{:21} by {}+{:#x} {}+{:#x}",
                caller.calls,
                place.function.as_deref().unwrap_or("?"),
                place.within.unwrap_or_default(),
                place.file.as_deref().unwrap_or("?"),
                place.at
            );
        }
    }
    let calls: u64 = counts.functions.iter().map(|function| function.calls).sum();
    let stops: u64 = counts.functions.iter().map(|function| function.stops).sum();
    eprintln!(
        "watched_ms {:.1} planting_ms {:.1} stops {} functions {} calls {calls} stopped {stops}",
        (ended.at_ns - running.t0_ns()) as f64 / 1e6,
        engine.planting().seconds() * 1e3,
        rows.info.records,
        counts.functions.len(),
    );
    eprintln!("ended {:?} {:?}", ended.code, ended.signal);
    counts.patterns.iter().for_each(|it| eprintln!("{} functions match '{}'", it.functions, it.pattern));
    counts.cannot.iter().for_each(|it| eprintln!("cannot: {it}"));
    Ok(())
}
