//! `thaw archive` as text.

use super::table::{Align, Table};
use super::{Page, YELLOW, errors, harmless, units};
use layout::archive::{DirectoryPlace, Method, Reads, Stat, StatEntry};
use model::Bytes;
use work::archives::used::{How, Seen};
use work::archives::{PackDocument, ReorderDocument, StatDocument, UnpackDocument};

/// An archive, what is used of it, and its entries.
pub fn stat(document: &StatDocument, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let archive = &document.archive;
    page.line(&format!(
        "{}: {}, {}",
        harmless(&document.file),
        units::bytes(archive.size),
        units::plural(archive.entries, "entry", "entries")
    ));
    page.line(&compression(archive));
    page.line(&format!(
        "directory: {}, {}{}{}",
        place(archive.directory),
        units::bytes(archive.directory_size),
        if archive.directory == DirectoryPlace::Both { " each" } else { "" },
        archive.hint.map(|hint| format!("; read-ahead hint {}", units::bytes(hint))).unwrap_or_default()
    ));
    if let (Some(used), Some(seen)) = (&archive.used, &document.order) {
        page.gap();
        page.line(&format!(
            "A start uses {} of {} ({}).",
            units::plural(used.entries, "entry", "entries"),
            units::bytes(used.size),
            source(seen)
        ));
        page.table(&reads(&[("as it is", Some(used.before)), ("reordered", used.after)]));
        page.remark(
            "Requests of 128 KiB around each page that is not in memory, the directory first; a model, not a \
         measurement.",
        );
    }
    entries(&mut page, archive, rows);
    for obstacle in archive.obstacles.iter().take(rows) {
        page.labelled(YELLOW, "not rewritten: ", &harmless(&obstacle.text));
    }
    errors::warnings(&mut page, &document.warnings);
    page
}

fn compression(archive: &Stat) -> String {
    let stored = format!("{} stored ({})", units::count(archive.stored), units::bytes(archive.stored_size));
    let deflated = format!(
        "{} deflated ({} of {})",
        units::count(archive.deflated),
        units::bytes(archive.deflated_size),
        units::bytes(archive.deflated_content)
    );
    format!("{stored}, {deflated}")
}

fn place(place: DirectoryPlace) -> &'static str {
    match place {
        DirectoryPlace::End => "at the end",
        DirectoryPlace::Front => "in front (as Mozilla's packager writes it; unzip warns)",
        DirectoryPlace::Both => "in front and at the end",
    }
}

fn source(seen: &Seen) -> String {
    let how = match seen.how {
        How::Pages => "touched pages",
        How::Asked => "what was requested",
        How::Cached => "what was in memory",
        How::List => "a list",
    };
    format!("{how}, {}", harmless(&seen.source))
}

fn reads(rows: &[(&str, Option<Reads>)]) -> Table {
    let head = [
        ("", Align::Left),
        ("requests", Align::Right),
        ("read", Align::Right),
        ("stretches", Align::Right),
        ("wanted", Align::Right),
    ];
    let mut table = Table::new(head);
    for (name, reads) in rows {
        let Some(reads) = reads else { continue };
        table.row([
            (*name).to_owned(),
            units::count(reads.requests),
            units::bytes(reads.bytes),
            units::count(reads.stretches),
            units::bytes(reads.wanted),
        ]);
    }
    table
}

/// Used entries in their order, or the largest ones.
fn entries(page: &mut Page, archive: &Stat, rows: usize) {
    let mut list: Vec<&StatEntry> = match &archive.used {
        Some(_) => archive.list.iter().filter(|entry| entry.used.is_some()).collect(),
        None => archive.list.iter().collect(),
    };
    match &archive.used {
        Some(_) => list.sort_by_key(|entry| entry.used),
        None => list.sort_by_key(|entry| std::cmp::Reverse(entry.size)),
    }
    if list.is_empty() {
        return;
    }
    let head = [
        (if archive.used.is_some() { "use" } else { "" }, Align::Right),
        ("at", Align::Right),
        ("size", Align::Right),
        ("content", Align::Right),
        ("", Align::Left),
        ("entry", Align::Elastic),
    ];
    let mut table = Table::new(head);
    for entry in list.iter().take(rows) {
        table.row([
            entry.used.map(|number| units::count(u64::from(number) + 1)).unwrap_or_default(),
            units::bytes(Bytes(entry.offset.0)),
            units::bytes(entry.size),
            units::bytes(entry.content),
            method(entry.method),
            harmless(&entry.name),
        ]);
    }
    page.gap();
    page.table(&table.without_empty_columns());
    if list.len() > rows {
        page.remark(&format!("and {} more (--all lists them)", units::count((list.len() - rows) as u64)));
    }
}

fn method(method: Method) -> String {
    match method {
        Method::Stored => "stored".into(),
        Method::Deflated => "deflated".into(),
        Method::Other(number) => format!("method {number}"),
    }
}

/// What was reordered.
pub fn reorder(document: &ReorderDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.line(&format!(
        "{} -> {}: {} of {} first, in the order of their use ({}).",
        harmless(&document.file),
        harmless(&document.output),
        units::count(document.used),
        units::plural(document.entries, "entry", "entries"),
        source(&document.order)
    ));
    page.line(&format!(
        "{} -> {}; directory {}{}",
        units::bytes(document.size_before),
        units::bytes(document.size_after),
        place(document.directory),
        match document.directory {
            DirectoryPlace::End => String::new(),
            _ => format!("; read-ahead hint {}", units::bytes(document.hint)),
        }
    ));
    if let Some(costs) = document.costs {
        page.line(&format!(
            "{} now stored, {} now deflated: the disk gives {} a second, this machine inflates {} a second",
            units::count(document.now_stored),
            units::count(document.now_deflated),
            units::bytes_f(costs.disk_rate),
            units::bytes_f(costs.inflate_rate)
        ));
    } else if document.now_stored + document.now_deflated > 0 {
        let (stored, deflated) = (units::count(document.now_stored), units::count(document.now_deflated));
        page.line(&format!("{stored} now stored, {deflated} now deflated"));
    }
    page.table(&reads(&[("before", Some(document.reads_before)), ("now", Some(document.reads_after))]));
    page.remark(
        "Requests of 128 KiB around each page that is not in memory, the directory first; a model, not a measurement.",
    );
    page.line(&format!(
        "Compared: {}, {} of content, all the same.",
        units::plural(document.verified.entries, "entry", "entries"),
        units::bytes(document.verified.content)
    ));
    errors::warnings(&mut page, &document.warnings);
    page
}

/// What was packed.
pub fn pack(document: &PackDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let packed = &document.packed;
    page.line(&format!(
        "{} -> {}: {}, {} in {}.",
        harmless(&document.directory),
        harmless(&document.output),
        units::plural(packed.entries, "entry", "entries"),
        units::bytes(packed.content),
        units::bytes(packed.size)
    ));
    if packed.used > 0 {
        let hint = units::bytes(packed.hint);
        page.line(&format!("{} in the order of their use first; read-ahead hint {hint}", units::count(packed.used)));
    }
    if let Some(first) = packed.unknown.first() {
        let names = units::plural(packed.unknown.len() as u64, "used name is", "used names are");
        page.remark(&format!("{names} not in the directory, such as {}", harmless(first)));
    }
    errors::warnings(&mut page, &document.warnings);
    page
}

/// What was unpacked.
pub fn unpack(document: &UnpackDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    page.line(&format!(
        "{} -> {}: {}, {}.",
        harmless(&document.file),
        harmless(&document.output),
        units::plural(document.unpacked.files, "file", "files"),
        units::bytes(document.unpacked.content)
    ));
    page
}
