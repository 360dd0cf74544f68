//! Makes a folder of segments of a fleet whose truths are known: `made_fleet DIR MACHINES PINGS SEED [CHANGE]`.
//!
//! Twelve classes of hardware, five versions, log-normal times around a median of the class; machines differ by 8 %
//! (one standard deviation), starts of one machine by 15 %. Of the starts 8 % are cold (2.2 times as long), 10 % warm
//! (1.4 times). Preload makes starts 8 % faster, packing changes nothing. Version 5 starts 4 % (CHANGE) slower than
//! version 4 on machines of class [`SLOWER`] alone, where it also reads 30 % more bytes.

use stats::Random;
use std::f64::consts::TAU;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Class, with the median of a hot start without remedies, in µs.
const CLASSES: [(&str, &str, &str, f64); 12] = [
    ("2", "<4G", "hdd", 2.9e6),
    ("2", "4-8G", "hdd", 2.6e6),
    ("2", "4-8G", "ssd", 1.5e6),
    ("3-4", "4-8G", "ssd", 1.3e6),
    ("3-4", "8-16G", "ssd", 1.2e6),
    ("3-4", "8-16G", "nvme", 1.0e6),
    ("5-8", "8-16G", "ssd", 1.1e6),
    ("5-8", "8-16G", "nvme", 0.9e6),
    ("5-8", "16-32G", "nvme", 0.8e6),
    ("9-16", "16-32G", "nvme", 0.7e6),
    ("9-16", ">=32G", "nvme", 0.65e6),
    ("17+", ">=32G", "virtual", 0.9e6),
];
/// The class that version 5 is slower on.
const SLOWER: usize = 3;
/// How much more it reads there, in parts of CHANGE: 30 % for 4 %.
const READS_MORE: f64 = 7.5;
const VERSIONS: [&str; 5] = ["1", "2", "3", "4", "5"];
const DAYS: usize = 10;
/// Lines of a segment, at most.
const LINES: usize = 250_000;

struct Machine {
    token: String,
    class: usize,
    factor: f64,
    preload: bool,
    packed: bool,
    kernel: &'static str,
    distribution: &'static str,
}

fn uniform(random: &mut Random) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - uniform(random)).ln()).sqrt();
    radius * (TAU * uniform(random)).cos()
}

fn token(random: &mut Random) -> String {
    format!("{:016x}{:016x}", random.next_u64(), random.next_u64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let typed: Vec<String> = std::env::args().skip(1).collect();
    let [folder, machines, pings, seed, rest @ ..] = typed.as_slice() else {
        return Err("made_fleet DIR MACHINES PINGS SEED [CHANGE]".into());
    };
    let (machines, pings): (usize, usize) = (machines.parse()?, pings.parse()?);
    let change: f64 = rest.first().map_or(Ok(0.04), |change| change.parse())?;
    Ok(make(Path::new(folder), machines, pings, seed.parse()?, change)?)
}

/// Makes the folder.
pub fn make(folder: &Path, machines: usize, pings: usize, seed: u64, change: f64) -> std::io::Result<()> {
    let mut random = Random::from_seed(seed);
    let machines: Vec<Machine> = (0..machines)
        .map(|at| Machine {
            token: token(&mut random),
            class: at % CLASSES.len(),
            factor: (0.08 * normal(&mut random)).exp(),
            preload: uniform(&mut random) < 0.3,
            packed: uniform(&mut random) < 0.2,
            kernel: ["6.1", "6.12", "6.18"][random.below(3)],
            distribution: ["debian", "fedora", "ubuntu"][random.below(3)],
        })
        .collect();
    let mut line = String::new();
    for day in 0..DAYS {
        let of_day = pings * (day + 1) / DAYS - pings * day / DAYS;
        let directory = folder.join(format!("dt=2026-11-{:02}/app=demo", 10 + day));
        std::fs::create_dir_all(&directory)?;
        let mut left = of_day;
        for part in 0..of_day.div_ceil(LINES) {
            let file = std::fs::File::create_new(directory.join(format!("{part:04}.ndjson.zst")))?;
            let mut out = zstd::stream::write::Encoder::new(file, 1)?;
            for _ in 0..left.min(LINES) {
                let machine = &machines[random.below(machines.len())];
                ping(&mut line, &mut random, machine, day, change).map_err(std::io::Error::other)?;
                out.write_all(line.as_bytes())?;
            }
            left -= left.min(LINES);
            out.finish()?;
        }
    }
    Ok(())
}

/// Writes one line.
fn ping(line: &mut String, random: &mut Random, machine: &Machine, day: usize, change: f64) -> std::fmt::Result {
    let (cpus, memory, disk, median) = CLASSES[machine.class];
    let version = day * VERSIONS.len() / DAYS;
    let is_slower = version == 4 && machine.class == SLOWER;
    let (state, state_factor, read, faults) = match uniform(random) {
        draw if draw < 0.08 => ("cold", 2.2, 120e6, 900.0),
        draw if draw < 0.18 => ("warm", 1.4, 20e6, 150.0),
        draw if draw < 0.20 => ("unknown", 1.0, 0.5e6, 3.0),
        _ => ("hot", 1.0, 0.5e6, 3.0),
    };
    let wall = median
        * machine.factor
        * state_factor
        * (0.15 * normal(random)).exp()
        * if machine.preload { 0.92 } else { 1.0 }
        * if is_slower { 1.0 + change } else { 1.0 };
    let cpu = median * machine.factor * (0.1 * normal(random)).exp();
    let read = read * (0.2 * normal(random)).exp() * if is_slower { 1.0 + READS_MORE * change } else { 1.0 };
    let faults = faults * (0.2 * normal(random)).exp();
    let remedies = match (machine.packed, machine.preload) {
        (true, true) => r#"["packed","preload"]"#,
        (true, false) => r#"["packed"]"#,
        (false, true) => r#"["preload"]"#,
        (false, false) => "[]",
    };
    line.clear();
    write!(
        line,
        r#"{{"schema":"thaw.ping/1","id":"{}","machine":"{}","app":"demo","version":"{}","day":"2026-11-{:02}","#,
        token(random),
        machine.token,
        VERSIONS[version],
        10 + day
    )?;
    write!(
        line,
        r#""state":"{state}","ready":"exit","wall_us":{:.0},"user_us":{:.0},"system_us":{:.0},"#,
        wall,
        cpu * 0.6,
        cpu * 0.15
    )?;
    write!(line, r#""minor_faults":{:.0},"major_faults":{faults:.0},"#, 20_000.0 + cpu / 100.0)?;
    match state {
        "unknown" => line.push_str(r#""read_bytes":null,"#),
        _ => write!(line, r#""read_bytes":{read:.0},"#)?,
    }
    write!(line, r#""max_rss_bytes":{:.0},"milestones":{{}},"#, 300e6 * (0.1 * normal(random)).exp())?;
    write!(line, r#""cpus":"{cpus}","memory":"{memory}","disk":"{disk}","kernel":"{}","#, machine.kernel)?;
    writeln!(line, r#""distribution":"{}","remedies":{remedies}}}"#, machine.distribution)
}
