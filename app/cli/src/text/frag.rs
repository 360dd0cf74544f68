//! `thaw frag` as text.

use super::table::{Align, Table};
use super::{Page, YELLOW, harmless, units, without_numbers};
use layout::frag::{FileLayout, LeftOut, Outcome};
use model::{Bytes, shown};
use work::scattered::{FixOutcome, FragDocument};

/// The table, the summary, and what was mended.
pub fn page(document: &FragDocument, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let summary = document.survey.summary;
    page.paragraph(&format!(
        "{} of {} {} in {}; {} in more than one, {} with others between.",
        units::plural(summary.files, "file", "files"),
        units::bytes(summary.size),
        if summary.files == 1 { "lies" } else { "lie" },
        units::plural(summary.pieces, "piece", "pieces"),
        units::count(summary.scattered),
        units::count(summary.interleaved)
    ));
    if summary.scattered > 0 {
        page.line(&format!(
            "Jumping between the pieces costs {} on {}.",
            units::nanos(summary.jumps_cost),
            harmless(&document.disk)
        ));
    }
    files(&mut page, &document.survey.files, rows);
    match &document.fixed {
        Some(outcomes) => fixed(&mut page, outcomes),
        None if summary.scattered > 0 => page.remark("thaw frag --fix PATH puts together what is in pieces."),
        None => {}
    }
    left_out(&mut page, &document.survey.left_out, rows);
    page
}

fn files(page: &mut Page, files: &[FileLayout], rows: usize) {
    let scattered: Vec<&FileLayout> = files.iter().filter(|file| file.pieces > 1).collect();
    if scattered.is_empty() {
        return;
    }
    let mut table = Table::new([
        ("pieces", Align::Right),
        ("size", Align::Right),
        ("over", Align::Right),
        ("jumps", Align::Right),
        ("others between", Align::Right),
        ("file", Align::Elastic),
    ]);
    for file in scattered.iter().take(rows) {
        table.row([
            units::count(file.pieces),
            units::bytes(file.size),
            units::bytes(file.span),
            units::nanos(file.jumps_cost),
            if file.between > Bytes(0) { units::bytes(file.between) } else { String::new() },
            harmless(&shown(&file.path)),
        ]);
    }
    page.gap();
    page.table(&table.without_empty_columns());
    if scattered.len() > rows {
        page.remark(&format!("and {} more (--all lists them)", units::count((scattered.len() - rows) as u64)));
    }
    if let Some((file, other)) = scattered.iter().find_map(|file| Some((file, file.neighbours.first()?))) {
        page.remark(&format!(
            "Between the pieces of {} lie {} of {}.",
            harmless(&shown(&file.path)),
            units::bytes(other.bytes),
            harmless(&shown(&other.path))
        ));
    }
}

fn fixed(page: &mut Page, outcomes: &[FixOutcome]) {
    page.gap();
    if outcomes.is_empty() {
        page.line("Nothing to put together.");
    }
    for outcome in outcomes {
        match outcome {
            FixOutcome::Tried(Outcome::Fixed(fixed)) => {
                let how = match fixed.blocks {
                    Some(blocks) => units::plural(blocks, "block exchanged", "blocks exchanged"),
                    None => "copied".to_owned(),
                };
                let (before, after) = (units::count(fixed.pieces_before), units::count(fixed.pieces_after));
                page.line(&format!("{}: {before} -> {after} ({how})", harmless(&shown(&fixed.path))));
            }
            FixOutcome::Tried(Outcome::Refused(refusal)) => page.line(&without_numbers(&harmless(&refusal.sentence))),
            FixOutcome::Failed { error } => page.labelled(YELLOW, "failed: ", &without_numbers(&harmless(error))),
        }
    }
}

fn left_out(page: &mut Page, left_out: &LeftOut, rows: usize) {
    let parts: Vec<String> = [
        (left_out.symlinks, "symbolic link", "symbolic links"),
        (left_out.hard_links, "further name of a file", "further names of files"),
        (left_out.special, "device, pipe or socket", "devices, pipes and sockets"),
        (left_out.mount_points, "directory with another file system", "directories with other file systems"),
        (left_out.untold, "file whose file system does not tell", "files whose file system does not tell"),
        (
            left_out.nowhere,
            "file without a place on the disk (empty, or not written yet: sync)",
            "files without a place on the disk (empty, or not written yet: sync)",
        ),
    ]
    .into_iter()
    .filter(|(count, ..)| *count > 0)
    .map(|(count, one, many)| units::plural(count, one, many))
    .collect();
    if !parts.is_empty() {
        page.gap();
        page.remark(&format!("Not counted: {}.", parts.join(", ")));
    }
    for unreadable in left_out.unreadable.iter().take(rows) {
        let reason = without_numbers(&harmless(&unreadable.reason));
        page.remark(&format!("Cannot read {}: {reason}.", harmless(&shown(&unreadable.path))));
    }
    if left_out.interrupted {
        page.line("Interrupted: the rest was not looked at.");
    }
}
