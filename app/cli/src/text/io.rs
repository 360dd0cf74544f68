//! `thaw io` as text.

use super::table::{Align, Table};
use super::{Page, errors, harmless, units};
use disk::replay::{Passes, Through};
use std::path::{Path, PathBuf};
use work::disks::{DisksDocument, ModelDocument, ModelledStart, ReplayDocument};

/// All disks, as a file that can be read again.
pub fn disks(document: &DisksDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for disk in &document.disks {
        page.gap();
        page.line(disk.to_string().trim_end());
    }
    page
}

/// One table for each start.
pub fn model(document: &ModelDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for start in &document.starts {
        page.heading(&format!(
            "The traced {} start of {} (run {})",
            start.state,
            harmless(&start.variant),
            start.run.0
        ));
        on_disks(&mut page, start);
    }
    if let Some(this) = &document.this {
        page.gap();
        page.remark(&format!(
            "this: {}; the model is {} from its measurements (root mean square), {} at worst.",
            harmless(&this.model.title),
            units::percent(this.error),
            units::percent(this.worst)
        ));
    }
    page
}

fn on_disks(page: &mut Page, start: &ModelledStart) {
    let Some(report) = &start.model else {
        page.paragraph("It made no request to a disk, so no disk would have made a difference.");
        return;
    };
    page.paragraph(&format!(
        "{} for {} in the {} until it was ready, replayed as they came and sorted by place on the disk:",
        units::plural(report.requests, "request", "requests"),
        units::bytes(report.bytes),
        units::nanos(report.length_ns)
    ));
    let mut table = Table::new([
        ("disk", Align::Left),
        ("as it came", Align::Right),
        ("sorted", Align::Right),
        ("ratio", Align::Right),
        ("seeks", Align::Right),
        ("sorted", Align::Right),
        ("travel", Align::Right),
        ("sorted", Align::Right),
        ("bytes", Align::Right),
        ("start", Align::Right),
        ("sorted", Align::Right),
    ]);
    for disk in &report.disks {
        let if_any = |value: u64, text: String| if value == 0 { String::new() } else { text };
        let (came, sorted) = (&disk.as_is, &disk.sorted);
        table.row([
            harmless(&disk.disk),
            units::nanos(disk.as_is_ns),
            units::nanos(disk.sorted_ns),
            format!("{:.2}", disk.ratio),
            if_any(came.seeks, units::count(came.seeks)),
            if_any(came.seeks, units::count(sorted.seeks)),
            if_any(came.travel.0, units::bytes(came.travel)),
            if_any(came.travel.0, units::bytes(sorted.travel)),
            units::bytes(came.bytes),
            units::nanos(came.start_ns),
            units::nanos(sorted.start_ns),
        ]);
    }
    page.table(&table.without_empty_columns());
    if report.elsewhere > 0 {
        let requests = units::plural(report.elsewhere, "request", "requests");
        page.remark(&format!("{requests} for other devices are left out."));
    }
}

/// Both orders.
pub fn replay(document: &ReplayDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let timing = &document.timing;
    page.heading(&format!(
        "The traced {} start of {} (run {}), read again",
        document.state,
        harmless(&document.variant),
        document.run.0
    ));
    let through = match timing.through {
        Through::Device => "from the device",
        Through::Files => "through the files",
    };
    page.paragraph(&format!(
        "Read {through}, past the page cache, with {} in flight, one pass in each order in turn:",
        units::plural(timing.depth.into(), "read", "reads")
    ));
    let mut table = Table::new([
        ("order", Align::Left),
        ("passes", Align::Right),
        ("median", Align::Right),
        ("[95 %]", Align::Left),
        ("reads", Align::Right),
        ("bytes", Align::Right),
        ("one read", Align::Right),
    ]);
    let mut row = |order: &str, passes: &Passes| {
        table.row([
            order.to_owned(),
            passes.samples_s.len().to_string(),
            units::seconds(passes.median_s.value),
            units::interval_s(&passes.median_s).unwrap_or_default(),
            units::count(passes.requests),
            units::bytes(passes.bytes),
            units::seconds(passes.read_s),
        ]);
    };
    row("as it came", &timing.as_came);
    row("sorted", &timing.sorted);
    page.table(&table.without_empty_columns());
    page.paragraph(&format!("As it came takes {} as long as sorted.", units::times(&timing.ratio)));
    let left = &timing.left_out;
    let left_out = [
        (left.writes, "writes and flushes"),
        (left.without_file, "of metadata or of no known file"),
        (left.changed, "of files that are gone or changed"),
    ];
    let said: Vec<String> = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", units::count(*count)))
        .collect();
    if !said.is_empty() {
        page.remark(&format!("Left out: {}.", said.join(", ")));
    }
    if !document.warnings.is_empty() {
        page.gap();
        errors::warnings(&mut page, &document.warnings);
    }
    page
}

/// How to use the log.
pub fn fio(log: &Path, devices: &[PathBuf], width: usize) -> Page {
    let mut page = Page::new(width);
    let names: Vec<String> = devices.iter().map(|device| harmless(&model::shown(device))).collect();
    page.paragraph(&format!(
        "{} holds the requests for {}. To have fio read them:",
        harmless(&model::shown(log)),
        names.join(", ")
    ));
    let option = format!("--read_iolog={}", log.display());
    let words = ["fio", "--name=start", &option, "--ioengine=libaio", "--direct=1", "--iodepth=1", "--readonly"];
    page.line(&harmless(&work::shell::command_line(&words.map(Into::into))));
    page.remark("To read from another disk: --replay_redirect=/dev/DISK. Without the pauses: --replay_no_stall=1.");
    page
}
