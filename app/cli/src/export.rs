//! The answer for other programs: JSON as hyperfine writes it with more arrays, CSV with a line per run,
//! tables in Markdown, AsciiDoc and Org mode.
//!
//! Made from the report document; nothing is computed in here.

use crate::args::record::ExportArgs;
use crate::text::compare::markdown_cell;
use crate::text::query::csv_line;
use crate::text::{harmless, units};
use bench::report::{Cell, Sample};
use model::{Bytes, Error, Exit, Milestone, Result, RunRow};
use os::replace::{Existing, Rights};
use serde_json::{Value, json};
use std::path::Path;
use work::report::ReportDocument;

/// Whether the files that are asked for can be written: found out before the program is measured, not after.
///
/// # Errors
/// One is there and may not be replaced.
pub fn check(wanted: &ExportArgs, existing: Existing) -> Result<()> {
    let ExportArgs { export_json, export_csv, export_markdown, export_asciidoc, export_orgmode, .. } = wanted;
    let paths = [export_json, export_csv, export_markdown, export_asciidoc, export_orgmode];
    let files = paths.into_iter().flatten().filter(|path| !os::replace::is_sent_to(path));
    files.into_iter().try_for_each(|path| os::replace::check(path, existing))
}

/// Writes the files that were asked for.
///
/// # Errors
/// A file that cannot be written; the hint says how to write it later.
pub fn write(document: &ReportDocument, wanted: &ExportArgs, existing: Existing) -> Result<()> {
    if let Some(path) = &wanted.export_json {
        let text = serde_json::to_string_pretty(&hyperfine(document)).map_err(|error| Error::bug(error.to_string()))?;
        put(path, &format!("{text}\n"), document, existing)?;
    }
    if let Some(path) = &wanted.export_csv {
        put(path, &csv(&document.runs, document), document, existing)?;
    }
    let forms: [fn(&[Row]) -> String; 3] = [markdown, asciidoc, orgmode];
    for (path, form) in
        [&wanted.export_markdown, &wanted.export_asciidoc, &wanted.export_orgmode].into_iter().zip(forms)
    {
        if let Some(path) = path {
            put(path, &form(&rows(document, wanted.reference.as_deref())?), document, existing)?;
        }
    }
    Ok(())
}

fn put(path: &Path, text: &str, document: &ReportDocument, existing: Existing) -> Result<()> {
    os::replace::write_or_send(path, text.as_bytes(), Rights::Usual, existing).map_err(|error| {
        let again = format!("the recording is safe: `thaw report {} --export-...` writes it", document.recording.file);
        let hint = error.hint.as_ref().map_or(again.clone(), |hint| format!("{hint}; {again}"));
        error.hint(hint)
    })
}

/// hyperfine's document (`results[]` with command, mean, stddev, median, user, system, min, max, times, exit_codes,
/// memory_usage_byte) and, beside it, arrays of every other figure of each run.
pub fn hyperfine(document: &ReportDocument) -> Value {
    let results: Vec<Value> = document.statistics.cells.iter().map(|cell| result(cell, document)).collect();
    json!({ "schema": "thaw.hyperfine/1", "results": results })
}

fn result(cell: &Cell, document: &ReportDocument) -> Value {
    let array = |figure: fn(&Sample) -> Value| cell.samples.iter().map(figure).collect::<Vec<_>>();
    json!({
        "command": format!("{} [{}]", command(cell, document), cell.state),
        "mean": cell.mean_s.value,
        "stddev": cell.stddev_s,
        "median": cell.median_s.value,
        "user": cell.user_s.value,
        "system": cell.system_s.value,
        "min": cell.min_s,
        "max": cell.max_s,
        "times": array(|run| json!(run.wall_s)),
        "exit_codes": array(|run| json!(run.exit_code)),
        "memory_usage_byte": array(|run| json!(run.max_rss_bytes)),
        "parameters": { "state": cell.state, "variant": cell.variant_name },
        "state": cell.state,
        "variant": cell.variant_name,
        "mean_interval": cell.mean_s.interval,
        "median_interval": cell.median_s.interval,
        "runs": array(|run| json!(run.run)),
        "blocks": array(|run| json!(run.block)),
        "user_times": array(|run| json!(run.user_s)),
        "system_times": array(|run| json!(run.system_s)),
        "minor_faults": array(|run| json!(run.minor_faults)),
        "major_faults": array(|run| json!(run.major_faults)),
        "read_bytes": array(|run| json!(run.read_bytes)),
        "read_requests": array(|run| json!(run.read_requests)),
        "written_bytes": array(|run| json!(run.written_bytes)),
        "instructions": array(|run| json!(run.instructions)),
        "cycles": array(|run| json!(run.cycles)),
        "others_cpu_share": array(|run| json!(run.others_cpu_share)),
        "others_io_pressure": array(|run| json!(run.others_io_pressure)),
    })
}

fn command(cell: &Cell, document: &ReportDocument) -> String {
    let variant = document.variants.get(cell.variant as usize);
    variant.map_or_else(|| cell.variant_name.clone(), |variant| variant.argv.join(" "))
}

/// One line per run, counted or not, in the order taken. Times in seconds, sizes in bytes; empty: not known.
pub fn csv(runs: &[(RunRow, Vec<Milestone>)], document: &ReportDocument) -> String {
    const HEAD: [&str; 27] = [
        "run",
        "variant",
        "state",
        "kind",
        "block",
        "attempt",
        "accepted",
        "rejected_because",
        "started_unix_ns",
        "wall_s",
        "exit_s",
        "user_s",
        "system_s",
        "max_rss_bytes",
        "minor_faults",
        "major_faults",
        "read_bytes",
        "read_requests",
        "written_bytes",
        "instructions",
        "cycles",
        "exit_code",
        "exit_signal",
        "others_cpu_share",
        "others_io_pressure",
        "own_resident_share",
        "system_resident_share",
    ];
    let mut out = csv_line(HEAD);
    for (run, _) in runs {
        let name = document.variants.get(run.variant as usize).map_or("", |variant| variant.name.as_str());
        let cells = csv_cells(run, name);
        debug_assert_eq!(cells.len(), HEAD.len());
        out.push_str(&csv_line(cells.iter().map(String::as_str)));
    }
    out
}

fn csv_cells(run: &RunRow, variant: &str) -> Vec<String> {
    fn known<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let bytes = |value: Option<Bytes>| known(value.map(|bytes| bytes.0));
    vec![
        run.id.0.to_string(),
        variant.to_owned(),
        run.state.to_string(),
        run.kind.name().to_owned(),
        run.block.to_string(),
        run.attempt.to_string(),
        run.accepted.to_string(),
        known(run.rejected_because.as_ref()),
        run.started_unix_ns.to_string(),
        known(run.wall_ns.map(|wall| wall.seconds())),
        known(run.exit_ns.map(|exit| exit.seconds())),
        run.user_ns.seconds().to_string(),
        run.system_ns.seconds().to_string(),
        run.max_rss.0.to_string(),
        run.minor_faults.to_string(),
        run.major_faults.to_string(),
        bytes(run.read_bytes),
        known(run.read_requests),
        bytes(run.written_bytes),
        known(run.instructions),
        known(run.cycles),
        known(run.exit_code),
        known(run.exit_signal),
        known(run.others_cpu_share),
        known(run.others_io_pressure),
        known(run.own_resident_share),
        known(run.system_resident_share),
    ]
}

/// Heads of the columns of a table for people.
const COLUMNS: [&str; 12] = [
    "Program",
    "State",
    "Runs",
    "Median [95 %]",
    "Mean [95 %]",
    "Min",
    "Max",
    "User",
    "System",
    "Read",
    "Requests",
    "Relative [95 %]",
];
/// So many of them, from the left, are words.
const WORDS: usize = 2;

/// The cells of a line of such a table.
type Row = [String; COLUMNS.len()];

/// The lines of the table, as text without markup.
///
/// # Errors
/// The reference is no variant.
fn rows(document: &ReportDocument, reference: Option<&str>) -> Result<Vec<Row>> {
    let cells = &document.statistics.cells;
    if let Some(name) = reference.filter(|name| !cells.iter().any(|cell| cell.variant_name == *name)) {
        let names: Vec<&str> = document.variants.iter().map(|variant| variant.name.as_str()).collect();
        return Err(Error::new(Exit::Usage, "there is no variant", name)
            .hint(format!("--reference names one of: {}", names.join(", "))));
    }
    let unknown = || "?".to_owned();
    let relative = bench::analyze::relative(cells, reference);
    Ok(cells
        .iter()
        .zip(relative)
        .map(|(cell, ratio)| {
            [
                harmless(&cell.variant_name),
                cell.state.to_string(),
                cell.runs.to_string(),
                units::estimate_s(&cell.median_s),
                units::estimate_s(&cell.mean_s),
                units::seconds(cell.min_s),
                units::seconds(cell.max_s),
                units::seconds(cell.user_s.value),
                units::seconds(cell.system_s.value),
                cell.read_bytes.map_or_else(unknown, units::bytes_f),
                cell.read_requests.map_or_else(unknown, units::count_f),
                ratio.map_or_else(unknown, |ratio| {
                    let (value, interval) = units::ratio(&ratio);
                    format!("{value} {interval}").trim_end().to_owned()
                }),
            ]
        })
        .collect())
}

/// A table for a README or a CI summary.
fn markdown(rows: &[Row]) -> String {
    let rule: Vec<&str> = (0..COLUMNS.len()).map(|at| if at < WORDS { ":---" } else { "---:" }).collect();
    let mut out = format!("| {} |\n|{}|\n", COLUMNS.join(" | "), rule.join("|"));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.each_ref().map(|cell| markdown_cell(cell)).join(" | ")));
    }
    out
}

/// The same table in AsciiDoc.
fn asciidoc(rows: &[Row]) -> String {
    let columns: Vec<&str> = (0..COLUMNS.len()).map(|at| if at < WORDS { "<" } else { ">" }).collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().map(|cell| format!("| {}\n", cell.replace('|', "\\|")));
        cells.collect::<String>()
    };
    let head = line(&COLUMNS.map(str::to_owned));
    let body: Vec<String> = rows.iter().map(|row| line(row)).collect();
    format!("[cols=\"{}\", options=\"header\"]\n|===\n{head}\n{}|===\n", columns.join(","), body.join("\n"))
}

/// The same table for Org mode, whose cells cannot hold a bar but by its entity.
fn orgmode(rows: &[Row]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\vert{}")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = format!("|{}|\n", vec!["--"; COLUMNS.len()].join("+"));
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{rule}{body}", line(&COLUMNS.map(str::to_owned)))
}
