//! What packing a file costs beside copying it: wall, user and system time of each, in turns, in processes of
//! their own.
//! usage: cost FILE DIRECTORY [ROUNDS]
//!
//! `claims/elf-machine` measures the command; this needs no more than the room itself to be built. `cost --memory FILE`
//! packs and proves in memory alone, for what counts instructions (`valgrind --tool=callgrind`).

use pack::{Outcome, Target, pack_bytes, pack_file};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Wall, user and system time of a process.
#[derive(Clone, Copy)]
struct Cost([Duration; 3]);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--pack", file, to] => match pack_file(file.as_ref(), &Target::Copy(to.into()), &Default::default()) {
            Ok(Outcome::Packed(_)) => {}
            other => panic!("{file}: {other:?}"),
        },
        ["--memory", file] => match pack_bytes(&std::fs::read(file).expect("the file"), &Default::default()) {
            Ok((Outcome::Packed(_), _)) => {}
            other => panic!("{file}: {other:?}"),
        },
        [file, directory] => compare(file, directory.as_ref(), 10),
        [file, directory, rounds] => compare(file, directory.as_ref(), rounds.parse().expect("a number of rounds")),
        _ => eprintln!("usage: cost FILE DIRECTORY [ROUNDS]"),
    }
}

fn compare(file: &str, directory: &Path, rounds: usize) {
    let out = directory.join("out");
    let to = out.to_str().expect("a directory whose name is text");
    let own = std::env::current_exe().expect("a path of its own");
    let synced = "cp \"$0\" \"$1\" && sync \"$1\"";
    let ways: [(&str, &[&str]); 3] = [
        ("pack", &[own.to_str().expect("a name that is text"), "--pack", file, to]),
        ("cp", &["cp", file, to]),
        ("cp and sync", &["sh", "-c", synced, file, to]),
    ];
    // The file is in memory for all of them.
    std::fs::read(file).expect("the file");
    let mut costs = [const { Vec::new() }; 3];
    for round in 0..rounds {
        for turn in 0..ways.len() {
            let way = (round + turn) % ways.len();
            let _ = std::fs::remove_file(&out);
            costs[way].push(cost(ways[way].1));
        }
    }
    let _ = std::fs::remove_file(&out);
    println!("{file}, {rounds} rounds, medians in ms:");
    for ((name, _), costs) in ways.iter().zip(&costs) {
        let [wall, user, system] = [0, 1, 2].map(|at| median(costs.iter().map(|cost| millis(cost.0[at]))));
        println!("  {name:<12} wall {wall:7.1}  user {user:7.1}  system {system:7.1}");
    }
    let cpu = |cost: &Cost| millis(cost.0[1] + cost.0[2]);
    let ratio = |other: usize, of: &dyn Fn(&Cost) -> f64| {
        median(costs[0].iter().zip(&costs[other]).map(|(pack, other)| of(pack) / of(other)))
    };
    let wall = |cost: &Cost| millis(cost.0[0]);
    println!("  pack / cp: {:.2} CPU; pack / cp and sync: {:.2} wall", ratio(1, &cpu), ratio(2, &wall));
}

fn cost(command: &[&str]) -> Cost {
    let (before, start) = (children(), Instant::now());
    let status = Command::new(command[0]).args(&command[1..]).status().expect("a process");
    let wall = start.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    let after = children();
    Cost([wall, after[0] - before[0], after[1] - before[1]])
}

/// User and system time of all processes that were waited for.
fn children() -> [Duration; 2] {
    // SAFETY: all zeros is a value of this plain structure, which the call fills.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is ours, and outlives the call.
    let done = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(done, 0, "getrusage");
    let span = |time: libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
    [span(usage.ru_utime), span(usage.ru_stime)]
}

fn millis(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
