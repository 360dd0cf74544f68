//! Prints what the loader does of a program's start: `cargo run -p cpu --example loader -- COMMAND…`

#[cfg(target_arch = "x86_64")]
use cpu::loader::{Loaded, Start, Until, watch};
#[cfg(target_arch = "x86_64")]
use os::spawn::{Launch, Stream};
#[cfg(target_arch = "x86_64")]
use std::time::Duration;

#[cfg(target_arch = "x86_64")]
fn main() {
    let mut launch = Launch::new(std::env::args_os().skip(1));
    launch.stdout = Stream::Null;
    let watched = watch(launch, Until::Enough(&|| false), Duration::from_secs(60)).unwrap_or_else(|error| {
        eprintln!("{error}");
        std::process::exit(1);
    });
    for start in &watched.starts {
        match start {
            Start::Loaded(loaded) => show(loaded),
            Start::Unknown { program, because } => println!("{}: {because}", program.display()),
        }
    }
    println!("\n{:?}", watched.cost);
    println!("exit code {:?}, timed out: {}", watched.code, watched.timed_out);
}

#[cfg(target_arch = "x86_64")]
fn show(loaded: &Loaded) {
    let us = |time: model::Nanos| time.0 as f64 / 1000.0;
    println!("{}", loaded.program.display());
    println!("  {:>10.1} µs exec", loaded.exec.map_or(f64::NAN, us));
    for phase in &loaded.phases {
        println!("  {:>10.1} µs {:?}", us(phase.took), phase.kind);
    }
    println!("  {:>10.1} µs before main", loaded.before_main.map_or(f64::NAN, us));
    println!("mapped");
    for mapped in &loaded.mapped {
        println!(
            "  {:>10.1} µs {}{}",
            us(mapped.took),
            mapped.path.display(),
            if mapped.is_object { "" } else { " (table)" }
        );
    }
    println!("relocated");
    for object in &loaded.relocated {
        let (path, counts) = (object.path.display(), &object.relocations);
        println!("  {:>10.1} µs, {:.1} protecting: {path} {counts:?}", us(object.took), us(object.protecting));
    }
    println!("initialisers");
    for it in &loaded.initialisers {
        let (object, cpu) = (it.object.display(), it.cpu.map_or(f64::NAN, us));
        println!(
            "  {:>10.1} µs, {cpu:.1} CPU, at {:.1}: {object} {:#x} {:?}[{}] within {:?} returned {}",
            us(it.took),
            us(it.began),
            it.address,
            it.table,
            it.place,
            it.within,
            it.returned
        );
    }
    for sentence in &loaded.cannot {
        println!("cannot know: {sentence}");
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    eprintln!("the loader is watched on x86-64 only");
}
