//! `thaw preload` as text.

use super::table::{Align, Table};
use super::{Page, YELLOW, errors, harmless, units, without_numbers};
use model::{Error, shown};
use os::installed::{By, Installation, Kept};
use preload::run::Report;
use std::path::{Path, PathBuf};
use work::ahead::{PlanDocument, StatusDocument};
use work::shell::command_line;

/// Files shown in a list.
const SHOWN: usize = 20;

/// What was planned.
pub fn plan(document: &PlanDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let about = &document.about;
    let (needed, gap) = (units::bytes(document.needed), units::bytes(about.gap));
    let by = units::plural(document.starts as u64, "recorded start", "recorded starts");
    let what = match document.needed == document.bytes {
        true => format!("all of it was needed by {by}"),
        false => format!(
            "{needed} of it were needed by {by}, the rest are gaps of up to {gap} that cost less than a request"
        ),
    };
    page.paragraph(&format!(
        "{}: {} in {} of {}; {what}.",
        harmless(&document.manifest),
        units::bytes(document.bytes),
        units::plural(document.reads as u64, "read", "reads"),
        units::plural(document.files as u64, "file", "files"),
    ));
    page.paragraph(&format!(
        "Order: {}. Planned for the disk {}, which takes {} for all of it.",
        if about.order == preload::plan::Order::Disk { "by place on the disk" } else { "as the program needs it" },
        harmless(&about.disk),
        units::seconds(document.disk_s),
    ));
    page.paragraph(match about.source.as_str() {
        "exact" => "What is needed is known exactly: nothing was read ahead while it was recorded.",
        "asked" => {
            "What is needed is what was read and what was mapped around faults: up to 16 pages for one. A recording \
             with --readahead 0 knows it exactly."
        }
        _ => {
            "What is needed is what was in memory after a start, and in which order is not known. As root, the trace \
         tells more."
        }
    });
    if !document.lost.is_empty() {
        page.gap();
        page.paragraph(&format!(
            "Not in it: {} of the recording.",
            units::plural(document.lost.len() as u64, "file", "files")
        ));
        let lost = document.lost.iter().map(|lost| (lost.path.as_str(), lost.why.to_string()));
        list(&mut page, lost.collect());
    }
    page.gap();
    let manifest = command_line(&[document.manifest.clone().into()]);
    page.next(&format!("thaw preload run {} -- PROGRAM", harmless(&manifest)), "reads it, then becomes the program");
    page
}

/// How a manifest fits.
pub fn status(document: &StatusDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let report = &document.report;
    page.paragraph(&format!(
        "{}: {} in {} of {}, made on {} from {}.",
        harmless(&document.manifest),
        units::bytes(report.bytes),
        units::plural(document.reads as u64, "read", "reads"),
        units::plural(report.files as u64, "file", "files"),
        harmless(&document.about.host),
        harmless(&document.about.recording),
    ));
    page.paragraph(&format!("In memory now: at least {} of it.", units::bytes(report.resident)));
    if let Some((what, hint)) = report.misfit(&document.about, Path::new(&document.manifest)) {
        page.labelled(YELLOW, "warning: ", &harmless(&what));
        page.labelled("", "   hint: ", &harmless(&hint));
        list(&mut page, report.stale.iter().map(|stale| (stale.path.as_str(), stale.why.to_string())).collect());
    }
    page
}

fn list(page: &mut Page, files: Vec<(&str, String)>) {
    let mut table = Table::new([("file", Align::Elastic), ("because", Align::Left)]);
    for (path, why) in files.iter().take(SHOWN) {
        table.row([harmless(path), without_numbers(&harmless(why))]);
    }
    page.table(&table);
    if files.len() > SHOWN {
        page.remark(&format!("and {} more (--json lists all)", units::count((files.len() - SHOWN) as u64)));
    }
}

/// A line on files that are left out.
pub fn misfit((text, hint): (String, String)) -> String {
    errors::warning_line(&text, Some(&hint))
}

/// The engine that was chosen does not work.
pub fn other_engine(error: &std::io::Error) -> String {
    let text = format!("the engine does not work here ({error}); posix_fadvise took its place");
    errors::warning_line(&without_numbers(&text), Some("leave --engine out"))
}

/// For `-v`.
pub fn asked(report: &Report) -> String {
    let mut out = format!(
        "thaw preload: asking for {} in {}; {} are in memory",
        units::bytes(report.asked),
        units::plural(report.calls as u64, "read", "reads"),
        units::bytes(report.resident)
    );
    if let Some(short) = &report.short {
        out.push_str(&format!("; less than the {} of the manifest: {short}", units::bytes(report.bytes)));
    }
    out.push('\n');
    out
}

/// The manifest is no good; the program starts all the same.
pub fn started_without(error: &Error) -> String {
    errors::warning_line(&without_numbers(&error.to_string()), error.hint.as_deref())
}

/// What was installed.
pub fn installed(installation: &Installation, width: usize) -> Page {
    let mut page = Page::new(width);
    page.line("Installed:");
    for path in installation.paths() {
        page.line(&format!("  {}", harmless(&shown(path))));
    }
    for note in &installation.notes {
        let lines: Vec<String> = note.lines().map(harmless).collect();
        page.labelled("", "note: ", &lines.join("; "));
    }
    page.paragraph(&format!("`{}` takes it away.", harmless(&installation.undo_command())));
    page
}

/// What was taken away, and what was not.
pub fn uninstalled(installation: &Installation, kept: &[Kept], width: usize) -> Page {
    let mut page = Page::new(width);
    let is_kept = |path: &PathBuf| kept.iter().any(|kept| kept.path == *path);
    page.line("Removed, or put back as it was:");
    for path in installation.paths().filter(|path| !is_kept(path)) {
        page.line(&format!("  {}", harmless(&shown(path))));
    }
    for kept in kept {
        page.labelled(YELLOW, "kept: ", &format!("{}: {}", harmless(&shown(&kept.path)), harmless(&kept.why)));
    }
    if !kept.is_empty() {
        let what = match installation.by {
            By::Preload => "where it calls `thaw-preload`, the manifest is gone",
            By::Image => "where it calls `thaw-image`, it starts without the image",
        };
        page.labelled("", "hint: ", &format!("what is kept is yours now; {what}"));
    }
    page
}
