//! Unwinds what a debugger took down of stopped programs: `cargo run -p cpu --example unwind -- DIRECTORY`. Of each
//! stop there are `N.state` (process, `rip`, `rsp`, `rbp`, `rbx`, in decimal), `N.stack` (memory from `rsp` on) and
//! `N.maps` (the text of /proc/PID/maps). Prints a line for each: N, `whole` or `part`, then addresses, innermost
//! first.

use cpu::{RawMapping, Unwinder, UserState};
use model::Nanos;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    let directory = std::env::args_os().nth(1).ok_or_else(|| io::Error::other("DIRECTORY is missing"))?;
    let directory = Path::new(&directory);
    let mut numbers: Vec<u64> = std::fs::read_dir(directory)?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_suffix(".state")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    for number in numbers {
        let read = |what: &str| std::fs::read(directory.join(format!("{number}.{what}")));
        let (state, stack, maps) =
            (String::from_utf8_lossy(&read("state")?).into_owned(), read("stack")?, read("maps")?);
        let words: Vec<u64> = state.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [pid, ip, sp, bp, bx] = words[..] else { return Err(io::Error::other(format!("{number}.state: {state}"))) };
        let mut unwinder = Unwinder::new(Path::new("/"));
        for region in os::process::regions(&maps).filter(|region| region.permissions.contains('x')) {
            unwinder.map(&RawMapping {
                at: Nanos(0),
                pid: pid as u32,
                addresses: region.start..region.end,
                offset: region.offset,
                dev: region.dev,
                ino: region.ino,
                path: String::from_utf8_lossy(region.name).into_owned().into(),
            });
        }
        let state = UserState { ip, sp, bp, bx, stack: 0..stack.len() };
        let walked = unwinder.unwind(pid as u32, &state, &stack);
        let places: Vec<String> = walked.places.iter().map(|place| format!("{:x}", place.address)).collect();
        println!("{number} {} {}", if walked.whole { "whole" } else { "part" }, places.join(" "));
    }
    Ok(())
}
