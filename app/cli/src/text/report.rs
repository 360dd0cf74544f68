//! `thaw report` and the end of `thaw record`: the answer first, the tables behind it, the warnings last.

use super::table::{Align, Table};
use super::{Page, growth, harmless, trace, units};
use bench::report::{Cell, Contrast, NoiseFloor, Overhead, Report};
use work::report::ReportDocument;

/// The whole report, with this many rows in each table of files.
pub fn page(document: &ReportDocument, top: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for sentence in &document.answer {
        page.paragraph(&harmless(sentence));
    }
    let statistics = &document.statistics;
    states(&mut page, statistics, document.variants.len() > 1);
    milestones(&mut page, statistics);
    contrasts(&mut page, statistics);
    document.growth.iter().for_each(|swept| growth::table(&mut page, swept));
    if let Some(floor) = &statistics.noise_floor {
        noise_floor(&mut page, floor);
    }
    for one in &document.traces {
        trace::sections(&mut page, one, document.traces.len() > 1, top);
    }
    overhead(&mut page, statistics);
    rejected(&mut page, statistics);
    machine(&mut page, document);
    page.end(&document.warnings, &document.next);
    page
}

fn states(page: &mut Page, report: &Report, several: bool) {
    if report.cells.is_empty() {
        return;
    }
    page.heading("Times until ready");
    let mut table = Table::new([
        ("", Align::Left),
        ("state", Align::Left),
        ("runs", Align::Right),
        ("median", Align::Right),
        ("[95 %]", Align::Left),
        ("mean", Align::Right),
        ("[95 %]", Align::Left),
        ("user", Align::Right),
        ("kernel", Align::Right),
        ("read", Align::Right),
        ("requests", Align::Right),
        ("memory", Align::Right),
    ]);
    for cell in &report.cells {
        table.row([
            if several { harmless(&cell.variant_name) } else { String::new() },
            cell.state.to_string(),
            cell.runs.to_string(),
            units::seconds(cell.median_s.value),
            units::interval_s(&cell.median_s).unwrap_or_default(),
            units::seconds(cell.mean_s.value),
            units::interval_s(&cell.mean_s).unwrap_or_default(),
            units::seconds(cell.user_s.value),
            units::seconds(cell.system_s.value),
            cell.read_bytes.map(units::bytes_f).unwrap_or_default(),
            cell.read_requests.map(units::count_f).unwrap_or_default(),
            units::bytes_f(cell.max_rss_bytes),
        ]);
    }
    page.table(&table.without_empty_columns());
    counters(page, &report.cells);
}

/// Faults and, where the machine counts them, instructions: they hold still on a busy machine.
fn counters(page: &mut Page, cells: &[Cell]) {
    for cell in cells {
        let mut parts = vec![
            format!("{} faults in memory", units::count_f(cell.minor_faults)),
            format!("{} on disk", units::count_f(cell.major_faults)),
        ];
        parts.extend(cell.instructions.map(|count| format!("{:.3} billion instructions", count / 1e9)));
        parts.extend(cell.cycles.map(|count| format!("{:.3} billion cycles", count / 1e9)));
        let name = if cells.iter().any(|other| other.variant != cell.variant) {
            format!("{} {}", harmless(&cell.variant_name), cell.state)
        } else {
            cell.state.to_string()
        };
        page.remark(&format!("{name}: {} (medians)", parts.join(", ")));
    }
}

fn milestones(page: &mut Page, report: &Report) {
    // With a single probe the milestone is the time of the table above.
    if report.cells.iter().all(|cell| cell.milestones.len() < 2) {
        return;
    }
    page.heading("Milestones (medians)");
    let mut table = Table::new([
        ("", Align::Left),
        ("state", Align::Left),
        ("milestone", Align::Elastic),
        ("time", Align::Right),
        ("[95 %]", Align::Left),
        ("runs", Align::Right),
    ]);
    let several = report.cells.iter().any(|cell| cell.variant != 0);
    for cell in &report.cells {
        for milestone in &cell.milestones {
            table.row([
                if several { harmless(&cell.variant_name) } else { String::new() },
                cell.state.to_string(),
                harmless(&milestone.name),
                units::seconds(milestone.median_s.value),
                units::interval_s(&milestone.median_s).unwrap_or_default(),
                milestone.runs.to_string(),
            ]);
        }
    }
    page.table(&table.without_empty_columns());
}

fn contrasts(page: &mut Page, report: &Report) {
    if !report.contrasts.is_empty() {
        page.heading("Ratios");
        let mut table = Table::new([
            ("", Align::Elastic),
            ("of medians", Align::Right),
            ("[95 %]", Align::Left),
            ("in pairs", Align::Right),
            ("[95 %]", Align::Left),
            ("", Align::Left),
            ("pairs", Align::Right),
        ]);
        for contrast in &report.contrasts {
            table.row(contrast_row(contrast));
        }
        page.table(&table);
    }
    for difference in &report.differences {
        page.line(&format!("{}: {}", harmless(&difference.what), units::difference_s(&difference.difference_s)));
    }
}

fn contrast_row(contrast: &Contrast) -> [String; 7] {
    let (value, interval) = units::ratio(&contrast.ratio);
    let (paired, paired_interval) = contrast.in_pairs.as_ref().map(units::ratio).unwrap_or_default();
    let pairs = contrast.pairs.to_string();
    [harmless(&contrast.what), value, interval, paired, paired_interval, units::p_value(contrast.p), pairs]
}

fn noise_floor(page: &mut Page, floor: &NoiseFloor) {
    page.heading("Noise floor: the program against itself");
    let mut table = Table::new([
        ("state", Align::Left),
        ("ratio", Align::Right),
        ("[95 %]", Align::Left),
        ("", Align::Left),
        ("pairs", Align::Right),
        ("smallest change that shows", Align::Right),
    ]);
    for state in &floor.states {
        let (value, interval) = units::ratio(&state.ratio);
        table.row([
            state.state.to_string(),
            value,
            interval,
            units::p_value(state.p),
            state.pairs.to_string(),
            state.smallest_change.map(units::percent).unwrap_or_else(|| "too few pairs".into()),
        ]);
    }
    page.table(&table);
}

fn overhead(page: &mut Page, report: &Report) {
    let lines: Vec<String> = report.overhead.iter().filter_map(overhead_line).collect();
    if !lines.is_empty() {
        page.heading("The tracer's own cost");
        lines.iter().for_each(|line| page.paragraph(line));
    }
}

fn overhead_line(overhead: &Overhead) -> Option<String> {
    let part = |what: &str, ratio: &Option<stats::Estimate>| {
        ratio.as_ref().map(|ratio| format!("{what} {}", units::change_estimate(ratio)))
    };
    let parts: Vec<String> = [part("CPU time", &overhead.cpu_ratio), part("wall time", &overhead.wall_ratio)]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| {
        format!(
            "{} {}: {} ({} traced against {} timed)",
            harmless(&overhead.variant_name),
            overhead.state,
            parts.join(", "),
            overhead.traced_runs,
            overhead.timed_runs
        )
    })
}

fn rejected(page: &mut Page, report: &Report) {
    if report.rejected.is_empty() {
        return;
    }
    page.heading("Runs that do not count");
    let mut table = Table::new([
        ("run", Align::Right),
        ("state", Align::Left),
        ("try", Align::Right),
        ("because", Align::Sentence),
    ]);
    const SHOWN: usize = 10;
    for run in report.rejected.iter().take(SHOWN) {
        table.row([run.run.0.to_string(), run.state.to_string(), run.attempt.to_string(), harmless(&run.because)]);
    }
    page.table(&table);
    if report.rejected.len() > SHOWN {
        page.remark(&format!("and {} more", report.rejected.len() - SHOWN));
    }
}

/// One line: kernel, disk, read-ahead, governor, clock source.
fn machine(page: &mut Page, document: &ReportDocument) {
    let fact = |subject: &str, key: &str| {
        document.facts.get(subject).and_then(|facts| facts.get(key)).map(|text| harmless(text))
    };
    let mut parts: Vec<String> = Vec::new();
    parts.extend(fact("machine", "kernel").map(|kernel| format!("kernel {kernel}")));
    parts.extend(fact("cpu", "model"));
    parts.extend(fact("cpu", "online").map(|cpus| format!("CPUs {cpus}")));
    parts.push(fact("cpu", "governor").map_or_else(|| "no governor".into(), |governor| format!("governor {governor}")));
    parts.extend(fact("cpu", "clocksource").map(|source| format!("clock {source}")));
    for (subject, facts) in document.facts.iter().filter(|(subject, _)| subject.starts_with("disk:")) {
        let mut disk = subject.replacen("disk:", "disk ", 1);
        if let Some(kib) = facts.get("read_ahead_kb") {
            disk.push_str(&format!(", read-ahead {} KiB", harmless(kib)));
        }
        parts.push(disk);
    }
    let asked = &document.asked;
    let limits: Vec<String> = [
        asked.throttle_iops.map(|iops| format!("{iops} requests/s")),
        asked.throttle_bps.map(|bps| format!("{}/s", model::Bytes(bps))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !limits.is_empty() {
        parts.push(format!("slowed to {}", limits.join(" and ")));
    }
    page.gap();
    page.remark(&format!("{}.", parts.join("; ")));
    page.remark(&format!("Recording: {} (seed {}).", harmless(&document.recording.file), document.recording.seed));
}
