//! The part of a report that a trace tells: sums, files, ELF sections, fragmentation, syncs, opens, processes.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use work::report::TraceDocument;

use io::{FileReport, Report};
use model::{Bytes, FileKind, Owner, OwnerRule};

/// Below this many extents a file is not called fragmented.
const FRAGMENTED: u32 = 4;

/// All tables of one trace.
pub fn sections(page: &mut Page, trace: &TraceDocument, several: bool, top: usize) {
    let whose = if several { format!(" of {}", harmless(&trace.variant)) } else { String::new() };
    page.heading(&format!("What a traced {} start{whose} read (run {})", trace.state, trace.run.0));
    let report = &trace.report;
    totals(page, report);
    if let Some(disks) = &trace.disks {
        other_disks(page, disks);
    }
    costliest_files(page, report, top);
    elf_sections(page, report);
    fragmented(page, report, top);
    synced(page, report, top);
    opened_often(page, report, top);
    processes(page, report, top);
    how_it_was_taken(page, trace);
}

fn totals(page: &mut Page, report: &Report) {
    let totals = &report.totals;
    if totals.requests > 0 {
        page.paragraph(&format!(
            "{} came into memory by {} ({} for metadata) that brought {}; {} over {} of disk; at least one request \
             was in flight for {}. {} of the requests were attributed to a file or to metadata.",
            units::bytes(totals.filled),
            units::plural(totals.requests, "read request", "read requests"),
            units::count(totals.metadata_requests),
            units::bytes(totals.read_from_disk),
            units::plural(totals.seeks, "seek", "seeks"),
            units::bytes(totals.seek_distance),
            units::nanos(totals.waiting),
            format_args!("{:.1} %", totals.attributed_share * 100.0),
        ));
    } else {
        page.paragraph(&format!("{} came into memory.", units::bytes(totals.filled)));
    }
    if let Some(needed) = totals.needed {
        page.paragraph(&need(totals, needed));
    }
    let causes: Vec<String> = report
        .by_cause
        .iter()
        .filter(|cause| cause.filled.0 > 0)
        .map(|cause| format!("{} {}", cause.cause.name(), units::bytes(cause.filled)))
        .collect();
    let owners: Vec<String> = report
        .by_owner
        .iter()
        .map(|owner| {
            let whose = if owner.owner == Owner::App { "its own" } else { "the system's" };
            format!("{whose} {} {}", units::plural(owner.files, "file", "files"), units::bytes(owner.filled))
        })
        .collect();
    let own = report.by_owner.iter().filter(|owner| owner.owner == Owner::App);
    let rules: Vec<String> = own.flat_map(|owner| by_rules(&owner.rules)).collect();
    for (label, parts) in [("by cause: ", causes), ("by owner: ", owners), ("its own by: ", rules)] {
        if !parts.is_empty() {
            page.labelled("", label, &parts.join(", "));
        }
    }
}

/// What it needs of what came into memory, and of how many files nobody can know. Without metadata, which is no file's.
fn need(totals: &io::Totals, needed: Bytes) -> String {
    let read = totals.needed_of.unwrap_or_default();
    let share = units::percent((needed.0 as f64 / read.0.max(1) as f64).min(1.0));
    let known = match totals.need_unknown_files {
        0 => "Of its files".to_owned(),
        _ => "Of the files that no other process maps".to_owned(),
    };
    let mut text = format!(
        "{known} it needs {} of the {} read ({share}): the rest was read ahead.",
        units::bytes(needed),
        units::bytes(read)
    );
    if totals.need_unknown_files > 0 {
        let files = units::plural(totals.need_unknown_files, "file", "files");
        text.push_str(&format!(
            " What it needs of {files} is unknown: other processes map them, so their pages stay in memory."
        ));
    }
    text
}

/// What is needed of a file, or why that is unknown.
fn needed_of(file: &FileReport) -> String {
    match (&file.held_by, file.needed) {
        (Some(held), _) => {
            let processes = units::plural(held.processes.into(), "process", "processes");
            format!("unknown (mapped by {processes})")
        }
        (None, needed) => needed.map(units::bytes).unwrap_or_default(),
    }
}

/// By which rules files are the program's own, as parts of a list: the first few, and how many there are more.
fn by_rules(rules: &[io::RuleReport]) -> Vec<String> {
    const SHOWN: usize = 4;
    let line = |rule: &io::RuleReport| {
        let what = rule.by.what.as_deref().map(harmless).unwrap_or_default();
        let by = match rule.by.rule {
            OwnerRule::Program => "the program's file".to_owned(),
            OwnerRule::Argument if what.is_empty() => "named by an argument".to_owned(),
            OwnerRule::Argument => format!("below the argument {what}"),
            OwnerRule::Option => format!("--own {what}"),
            OwnerRule::Preset => format!("preset, {what}"),
            OwnerRule::Restored => format!("put back before each run, {what}"),
            OwnerRule::Package => match &rule.by.because {
                Some(because) => format!("package {what}, {}", harmless(because)),
                None => format!("package {what}"),
            },
            OwnerRule::Directory => format!("below {what}, where a program of it lies"),
            OwnerRule::Home | OwnerRule::Temporary => format!("below {what}"),
            OwnerRule::Metadata | OwnerRule::Other | OwnerRule::Unknown => "no rule".to_owned(),
        };
        format!("{} {} ({by})", units::plural(rule.files, "file", "files"), units::bytes(rule.filled))
    };
    let mut lines: Vec<String> = rules.iter().take(SHOWN).map(line).collect();
    if rules.len() > SHOWN {
        let files = rules.iter().skip(SHOWN).map(|rule| rule.files).sum();
        lines.push(format!("and {} by other rules", units::plural(files, "file", "files")));
    }
    lines
}

/// What the same requests would have cost on other disks, in both orders.
fn other_disks(page: &mut Page, report: &disk::report::Report) {
    for disk in &report.disks {
        page.paragraph(&format!(
            "On {} ({}) the requests would have taken {}, sorted {}: {:.1}x.",
            harmless(&disk.disk),
            harmless(&disk.title),
            units::nanos(disk.as_is_ns),
            units::nanos(disk.sorted_ns),
            disk.ratio
        ));
    }
}

/// The files that cost most: by waiting, then by bytes.
fn costliest_files(page: &mut Page, report: &Report, top: usize) {
    let mut files: Vec<&FileReport> =
        report.files.iter().filter(|file| file.filled.0 > 0 || file.requests > 0).collect();
    files.sort_by_key(|file| std::cmp::Reverse((file.waiting, file.bytes_from_disk, file.filled)));
    if files.is_empty() {
        return;
    }
    page.gap();
    page.line(&format!("The files that cost most ({} of {}):", files.len().min(top), units::count(files.len() as u64)));
    let mut table = Table::new([
        ("disk wait", Align::Right),
        ("in memory", Align::Right),
        ("needed", Align::Right),
        ("requested", Align::Right),
        ("read directly", Align::Right),
        ("requests", Align::Right),
        ("file", Align::Elastic),
        ("", Align::Left),
    ]);
    for file in files.into_iter().take(top) {
        table.row([
            if file.waiting.0 > 0 { units::nanos(file.waiting) } else { String::new() },
            units::bytes(file.filled),
            needed_of(file),
            work::answer::asked_share(file, report).map(units::percent).unwrap_or_default(),
            if file.direct.0 > 0 { units::bytes(file.direct) } else { String::new() },
            if file.requests > 0 { units::count(file.requests) } else { String::new() },
            name(file),
            if file.owner == Owner::App { String::new() } else { "system".into() },
        ]);
    }
    page.table(&table.without_empty_columns());
}

/// Sections of the three ELF files that were waited for longest.
fn elf_sections(page: &mut Page, report: &Report) {
    const FILES: usize = 3;
    const SECTIONS: usize = 5;
    /// Sections below this share of their file say nothing.
    const WORTH_A_LINE: f64 = 0.02;
    let mut files: Vec<&FileReport> = report.files.iter().filter(|file| file.sections.len() > 1).collect();
    files.sort_by_key(|file| std::cmp::Reverse((file.waiting, file.filled)));
    let mut table = Table::new([
        ("disk wait", Align::Right),
        ("in memory", Align::Right),
        ("needed", Align::Right),
        ("of", Align::Right),
        ("section", Align::Left),
        ("file", Align::Elastic),
    ]);
    for file in files.into_iter().take(FILES) {
        let worth = |filled: u64, waiting: u64| {
            filled as f64 > WORTH_A_LINE * file.filled.0 as f64 || waiting as f64 > WORTH_A_LINE * file.waiting.0 as f64
        };
        let mut sections: Vec<_> =
            file.sections.iter().filter(|section| worth(section.filled.0, section.waiting.0)).collect();
        sections.sort_by_key(|section| std::cmp::Reverse((section.waiting, section.filled)));
        for section in sections.into_iter().take(SECTIONS) {
            table.row([
                if section.waiting.0 > 0 { units::nanos(section.waiting) } else { String::new() },
                units::bytes(section.filled),
                section.needed.map(units::bytes).unwrap_or_default(),
                units::bytes(section.size),
                harmless(&section.name),
                harmless(&file.path),
            ]);
        }
    }
    if !table.is_empty() {
        page.gap();
        page.line("Their ELF sections:");
        page.table(&table.without_empty_columns());
    }
}

fn fragmented(page: &mut Page, report: &Report, top: usize) {
    let mut files: Vec<&FileReport> =
        report.files.iter().filter(|file| file.extents.is_some_and(|extents| extents >= FRAGMENTED)).collect();
    files.sort_by_key(|file| std::cmp::Reverse((file.extents, file.waiting)));
    list(page, "Fragmented files (extents):", files, top.min(5), |file| units::count(file.extents.unwrap_or(0).into()));
}

fn synced(page: &mut Page, report: &Report, top: usize) {
    if report.synced.is_empty() {
        return;
    }
    page.gap();
    page.line("Files that it synced to disk:");
    let mut table = Table::new([("took", Align::Right), ("times", Align::Right), ("file", Align::Elastic)]);
    for sync in report.synced.iter().take(top) {
        table.row([units::nanos(sync.took), units::count(sync.count), harmless(&sync.path)]);
    }
    page.table(&table);
}

fn opened_often(page: &mut Page, report: &Report, top: usize) {
    const OFTEN: u64 = 10;
    let mut files: Vec<&FileReport> =
        report.files.iter().filter(|file| file.opens.is_some_and(|opens| opens >= OFTEN)).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.opens));
    list(page, "Files opened many times:", files, top.min(5), |file| units::count(file.opens.unwrap_or(0)));
}

fn list(page: &mut Page, title: &str, files: Vec<&FileReport>, top: usize, figure: impl Fn(&FileReport) -> String) {
    if files.is_empty() {
        return;
    }
    page.gap();
    page.line(title);
    let mut table = Table::new([("", Align::Right), ("", Align::Elastic)]);
    let more = files.len().saturating_sub(top);
    for file in files.into_iter().take(top) {
        table.row([figure(file), name(file)]);
    }
    page.table(&table);
    if more > 0 {
        page.remark(&format!("and {} more", units::count(more as u64)));
    }
}

fn processes(page: &mut Page, report: &Report, top: usize) {
    let mut processes: Vec<_> = report.processes.iter().filter(|process| process.filled.0 > 0).collect();
    if processes.len() < 2 {
        return;
    }
    processes.sort_by_key(|process| std::cmp::Reverse((process.waiting, process.filled)));
    page.gap();
    page.line(&format!("Its processes ({} of {}):", processes.len().min(top), report.processes.len()));
    let mut table = Table::new([
        ("disk wait", Align::Right),
        ("in memory", Align::Right),
        ("requests", Align::Right),
        ("pid", Align::Right),
        ("name", Align::Left),
    ]);
    for process in processes.into_iter().take(top) {
        table.row([
            if process.waiting.0 > 0 { units::nanos(process.waiting) } else { String::new() },
            units::bytes(process.filled),
            if process.requests > 0 { units::count(process.requests) } else { String::new() },
            process.pid.to_string(),
            harmless(&process.comm),
        ]);
    }
    page.table(&table.without_empty_columns());
}

fn how_it_was_taken(page: &mut Page, trace: &TraceDocument) {
    let info = &trace.report.info;
    page.gap();
    page.remark(&format!(
        "Traced with {}: {}, {} lost, {}; {} of this program in the recording.",
        info.engine,
        units::plural(info.records, "record", "records"),
        units::count(info.lost),
        units::bytes(info.bytes),
        units::plural(trace.traced_runs as u64, "traced run", "traced runs"),
    ));
    for limit in &info.cannot {
        page.remark(&format!("This engine cannot know: {}", harmless(limit)));
    }
}

fn name(file: &FileReport) -> String {
    match file.kind {
        FileKind::Metadata => format!("{} (metadata)", harmless(&file.path)),
        _ => harmless(&file.path),
    }
}
