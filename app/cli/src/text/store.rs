//! `thaw store` as text.

use super::table::{Align, Table};
use super::{Page, RED, harmless, units};
use work::stores::{RepairDocument, StoreDocument, StoreFile};

/// One line for each file.
pub fn list(document: &StoreDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let mut table = Table::new([
        ("file", Align::Left),
        ("holds", Align::Left),
        ("of", Align::Elastic),
        ("written anew", Align::Right),
        ("records", Align::Right),
        ("size", Align::Right),
        ("", Align::Left),
    ]);
    for file in &document.files {
        table.row([
            harmless(&file.name),
            file.kind.as_deref().map_or_else(|| "unknown".into(), harmless),
            harmless(&file.label),
            units::count(file.generation),
            units::count(file.records),
            units::bytes(file.bytes),
            remark(file).to_owned(),
        ]);
    }
    page.table(&table.without_empty_columns());
    page
}

fn remark(file: &StoreFile) -> &'static str {
    match file {
        StoreFile { is_aside: true, .. } => "kept by a repair",
        StoreFile { kind: None, .. } => "its head cannot be read",
        file if !file.damage.is_empty() => "damaged",
        StoreFile { torn: 1.., .. } => "its last write did not end",
        _ => "",
    }
}

/// What cannot be read.
pub fn verify(document: &StoreDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let files = document.files.iter().filter(|file| !file.is_aside);
    let records = files.clone().map(|file| file.records).sum();
    let broken: Vec<&StoreFile> = files.clone().filter(|file| !file.is_whole()).collect();
    page.paragraph(&format!(
        "{} with {} read; {} damaged.",
        units::plural(files.count() as u64, "file", "files"),
        units::plural(records, "record", "records"),
        units::count(broken.len() as u64)
    ));
    for file in broken {
        let name = harmless(&file.name);
        let Some((from, to)) = file.damage.first() else {
            page.labelled(RED, "damaged: ", &format!("{name}: its head cannot be read"));
            continue;
        };
        let behind = units::plural(file.records_behind, "record", "records");
        let before = units::plural(file.records, "record", "records");
        page.labelled(
            RED,
            "damaged: ",
            &format!("{name}: bytes {from} to {to}; {before} before that can be read, {behind} behind"),
        );
    }
    let unfinished = document.files.iter().filter(|file| file.torn > 0 && !file.is_aside).count() as u64;
    if unfinished > 0 {
        let writes = units::plural(unfinished, "file ends with a write", "files end with a write");
        page.remark(&format!("{writes} that did not end; its store cuts that off."));
    }
    page
}

/// What was cut off.
pub fn repaired(document: &RepairDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    if document.repaired.is_empty() {
        page.paragraph("Nothing was damaged.");
    }
    for file in &document.repaired {
        let (name, cut) = (harmless(&file.name), units::bytes(file.cut));
        page.line(&match &file.aside {
            Some(aside) => format!("{name}: {cut} cut off and kept in {}", harmless(aside)),
            None => format!("{name}: {cut} cut off, of a write that did not end"),
        });
    }
    page
}
