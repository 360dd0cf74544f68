//! A `thaw.report/1` around made-up runs and rows.

use bench::analyze::{Input, Options, analyze};
use model::*;
use serde_json::{Value, json};
use stats::Random;

/// A run of a made-up program, with its milestones.
pub fn run(
    id: i64,
    variant: u32,
    state: CacheState,
    kind: RunKind,
    block: u32,
    wall_s: f64,
) -> (RunRow, Vec<Milestone>) {
    let cold = state == CacheState::Cold || state == CacheState::Boot;
    let row = RunRow {
        id: RunId(id),
        variant,
        state,
        kind,
        block,
        attempt: 1,
        accepted: true,
        rejected_because: None,
        started_unix_ns: 1_795_000_000_000_000_000 + id as u64 * 20_000_000_000,
        wall_ns: Some(Nanos::from_seconds(wall_s)),
        exit_ns: Some(Nanos::from_seconds(wall_s * 1.02)),
        user_ns: Nanos::from_seconds(0.41),
        system_ns: Nanos::from_seconds(if cold { 0.29 } else { 0.12 }),
        max_rss: Bytes(344_000_000),
        minor_faults: 41_000,
        major_faults: if cold { 1_900 } else { 3 },
        read_bytes: Some(Bytes(if cold { 135_200_000 } else { 40_960 })),
        read_requests: Some(if cold { 1_894 } else { 4 }),
        written_bytes: Some(Bytes(1_212_416)),
        instructions: None,
        cycles: None,
        exit_code: Some(0),
        exit_signal: None,
        others_cpu_share: Some(0.04),
        others_io_pressure: Some(0.01),
        own_resident_share: Some(if cold { 0.0 } else { 1.0 }),
        system_resident_share: Some(if cold { 0.0 } else { 1.0 }),
    };
    let milestone =
        |name: &str, share: f64| Milestone { name: name.into(), at_ns: Nanos::from_seconds(wall_s * share) };
    let milestones = vec![milestone("x11:Navigator", 0.71), milestone("beacon:load", 0.93), milestone("exit", 1.0)];
    (row, milestones)
}

/// Twelve blocks of four states, a traced run first, with drift, an outlier and a rejected run.
pub fn runs(cold_s: f64, seed: u64) -> Vec<(RunRow, Vec<Milestone>)> {
    let mut random = Random::from_seed(seed);
    let mut runs = vec![run(1, 0, CacheState::Cold, RunKind::Trace, 0, cold_s * 1.04)];
    let mut id = 2;
    for block in 0..12 {
        let mut states = CacheState::ALL;
        random.shuffle(&mut states);
        for state in states {
            let base = match state {
                CacheState::Hot => 1.9,
                CacheState::App => cold_s * 0.55,
                CacheState::Boot => cold_s * 0.74,
                CacheState::Cold => cold_s,
            };
            let noise = (0..12).map(|_| random.below(1000) as f64 / 1000.0).sum::<f64>() - 6.0;
            let outlier = if block == 7 && state == CacheState::App { 1.35 } else { 1.0 };
            let mut made = run(id, 0, state, RunKind::Timed, block, base * (1.0 + 0.018 * noise) * outlier);
            if block == 3 && state == CacheState::Hot {
                (made.0.accepted, made.0.rejected_because) =
                    (false, Some("not in its state: 91 % of the needed bytes were resident, hot needs 99 %".into()));
            }
            made.0.others_cpu_share = Some(if block == 9 { 0.31 } else { 0.03 });
            runs.push(made);
            id += 1;
        }
    }
    for block in 0..2 {
        runs.push(run(id, 0, CacheState::Cold, RunKind::Trace, block, cold_s * 1.03));
        id += 1;
    }
    runs
}

/// The document of these runs; with the trace of run 1, if there are rows.
pub fn document(name: &str, runs: &[(RunRow, Vec<Milestone>)], rows: Option<&TraceRows>) -> Value {
    let variants = [name.to_owned()];
    let facts = [("disk:vda read_ahead_kb".to_owned(), "128".to_owned())];
    let input = Input { variants: &variants, runs, facts: &facts, options: Options { runs: 12, ..Options::default() } };
    let statistics = analyze(&input);
    let traces: Vec<Value> = rows
        .map(|rows| {
            let end = rows.blocks.iter().filter_map(|block| block.done_ns).max().unwrap_or_default();
            json!({ "run": 1, "variant": name, "state": "cold", "wall_s": end.seconds(), "traced_runs": 3,
                    "report": io::report(rows), "disks": disks(rows, end) })
        })
        .into_iter()
        .collect();
    let warnings = statistics.warnings.clone();
    json!({
        "schema": "thaw.report/1",
        "recording": {
            "file": "ff.thaw", "finished": true, "created_unix_ns": 1_795_000_000_000_000_000_u64,
            "thaw_version": "0.1.0",
            "command_line": ["thaw", "record", "-o", "ff.thaw", "--app", "firefox-esr"], "cwd": "/home/me", "seed": 1
        },
        "asked": { "app": "firefox-esr", "states": ["cold", "boot", "app", "hot"], "runs": 12, "ready": ["exit"],
            "trace_runs": 3, "engine": "auto" },
        "variants": [{ "name": name, "argv": [name, "--headless", "--screenshot", "/tmp/shot.png", "about:blank"] }],
        "answer": answer(&statistics),
        "statistics": statistics,
        "traces": traces,
        "facts": {
            "machine": { "kernel": "6.18.5", "distribution": "Debian GNU/Linux 12 (bookworm)", "memory": "25.1 GB" },
            "cpu": { "model": "AMD EPYC", "cores": "2", "governor": "performance" },
            "disk:vda": { "model": "virtio", "rotational": "0", "read_ahead_kb": "128", "scheduler": "none" }
        },
        "binaries": [{ "path": "/usr/lib/firefox-esr/firefox-esr", "size": 1_003_210,
            "build_id": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" }],
        "warnings": warnings
    })
}

/// The start on the disks of the talk.
fn disks(rows: &TraceRows, length: Nanos) -> Option<disk::report::Report> {
    let presets = disk::preset::Presets::builtin();
    let models = disk::report::TALK.map(|name| &presets.get(name).expect("a disk of the talk").model);
    disk::report::report(&rows.blocks, length, &models)
}

fn answer(statistics: &bench::report::Report) -> Vec<String> {
    let median = |state| statistics.cells.iter().find(|cell| cell.state == state).map(|cell| cell.median_s.value);
    let (Some(cold), Some(hot)) = (median(CacheState::Cold), median(CacheState::Hot)) else {
        return vec!["No timed run was finished, so there is no answer.".into()];
    };
    vec![
        format!(
            "firefox-esr starts in {cold:.2} s cold and in {hot:.2} s hot: cold takes {:.1} times as long.",
            cold / hot
        ),
        format!(
            "A cold start uses 0.70 s of CPU, reads 135.2 MB in 1,894 requests and spends {:.2} s that a hot start \
             does not.",
            cold - hot
        ),
        "What would help most is reading less of /usr/lib/firefox-esr/libxul.so, or reading it in order: 71 % of the \
         88.1 MB that came into memory were not asked for; that can gain at most 6.2 s."
            .into(),
    ]
}
