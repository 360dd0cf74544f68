//! `thaw store` as text.

use super::table::{Align, Table};
use super::{Page, RED, harmless, units};
use work::stores::bench::BenchDocument;
use work::stores::contents::{Area, Contents, CookieRow, Holds, Item, Said};
use work::stores::import::Imported;
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

/// What is in the files.
pub fn contents(documents: &[Contents], rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for document in documents {
        page.gap();
        let (heading, mut table, left) = match &document.holds {
            Holds::WebStorage(area) => (storage(area), pairs(area, rows), area.pairs.len()),
            Holds::Session(all) => (units::plural(all.len() as u64, "item", "items"), items(all, rows), all.len()),
            Holds::Cookies(all) => {
                (units::plural(all.len() as u64, "cookie", "cookies"), cookies(all, rows), all.len())
            }
        };
        page.heading(&format!("{}: {heading}", harmless(&document.name)));
        if left > 0 {
            table = table.without_empty_columns();
            page.table(&table);
        }
        if left > rows {
            page.remark(&format!("{} more: --all shows them.", units::count((left - rows) as u64)));
        }
        if document.unread > 0 {
            page.remark("Not all of it can be read: thaw store verify says what.");
        }
    }
    page
}

fn storage(area: &Area) -> String {
    let keys = units::plural(area.pairs.len() as u64, "key", "keys");
    let of = if area.partition.is_empty() { String::new() } else { format!(" in {}", harmless(&area.partition)) };
    format!("{keys} of {}{of}", harmless(&area.origin))
}

/// As much of a value as is read at a glance.
fn short(said: &Said) -> String {
    const LONGEST: usize = 200;
    let text = said.lossy();
    let cut = text.char_indices().nth(LONGEST).map(|(at, _)| at);
    cut.map_or_else(|| harmless(&text), |at| format!("{}…", harmless(&text[..at])))
}

fn pairs(area: &Area, rows: usize) -> Table {
    let mut table = Table::new([("key", Align::Left), ("value", Align::Elastic)]);
    area.pairs.iter().take(rows).for_each(|(key, value)| table.row([short(key), short(value)]));
    table
}

fn items(all: &[Item], rows: usize) -> Table {
    let mut table =
        Table::new([("item", Align::Left), ("", Align::Left), ("title", Align::Elastic), ("of", Align::Left)]);
    for item in all.iter().take(rows) {
        // Deep trees are cut, not their titles.
        let indent = "  ".repeat(item.depth.min(20) as usize);
        let seen = if item.visible { "visible" } else { "" };
        table.row([
            format!("{indent}{}", harmless(&item.kind)),
            seen.into(),
            harmless(&item.title),
            harmless(&item.origin),
        ]);
    }
    table
}

fn cookies(all: &[CookieRow], rows: usize) -> Table {
    let mut table = Table::new([
        ("domain", Align::Left),
        ("path", Align::Left),
        ("name", Align::Left),
        ("value", Align::Elastic),
        ("", Align::Left),
    ]);
    for cookie in all.iter().take(rows) {
        let words = [
            (cookie.host_only, "host only"),
            (cookie.secure, "secure"),
            (cookie.http_only, "HTTP only"),
            (cookie.expires_unix_us.is_none(), "of the session"),
        ];
        let words: Vec<&str> = words.into_iter().filter(|(is_so, _)| *is_so).map(|(_, word)| word).collect();
        table.row([
            harmless(&cookie.domain),
            short(&cookie.path),
            short(&cookie.name),
            short(&cookie.value),
            words.join(", "),
        ]);
    }
    table
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

/// What was taken over.
pub fn imported(document: &Imported, width: usize) -> Page {
    let mut page = Page::new(width);
    page.paragraph(&format!(
        "{} with {} and {} of history, and {} taken over from {}.",
        units::plural(document.windows, "window", "windows"),
        units::plural(document.tabs, "tab", "tabs"),
        units::plural(document.entries, "page", "pages"),
        units::plural(document.cookies, "cookie", "cookies"),
        if document.browser == "firefox" { "Firefox" } else { "Chromium" }
    ));
    document.left_out.iter().for_each(|what| page.labelled(RED, "left out: ", &harmless(what)));
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
            Some(aside) if file.made_anew => {
                format!(
                    "{name}: made anew from what could be read, without {cut}; kept as it was in {}",
                    harmless(aside)
                )
            }
            Some(aside) => format!("{name}: {cut} cut off and kept in {}", harmless(aside)),
            None => format!("{name}: {cut} cut off, of a write that did not end"),
        });
    }
    page
}

/// What calls cost.
pub fn bench(document: &BenchDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let directory = harmless(&document.directory.to_string_lossy());
    let filesystem = harmless(&document.filesystem);
    page.paragraph(&format!("Web storage in {directory} ({filesystem}, {}).", harmless(&document.options)));
    page.paragraph(&format!("After a power cut there is {}.", document.durable));
    let mut table = Table::new([
        ("call", Align::Left),
        ("median", Align::Right),
        ("lowest", Align::Right),
        ("highest", Align::Right),
    ]);
    for row in &document.rows {
        let call = match row.call {
            "set" => "set of 100 units",
            "longest_set" => "the longest set of 20,000",
            "get" => "get",
            "flush" => "flush of one change",
            "first_access_preloaded" => "first access of 2 MB, in memory",
            "first_access_cached" => "first access of 2 MB, in the page cache",
            "first_access_cold" => "first access of 2 MB, on the disk alone",
            other => other,
        };
        let time = units::seconds;
        table.row([call.to_owned(), time(row.median_s), time(row.lowest_s), time(row.highest_s)]);
    }
    page.table(&table);
    page.remark(&format!("Of {} rounds; of set and get, the mean of each round.", units::count(document.rounds)));
    if let Some(why) = &document.not_cold {
        page.labelled(RED, "not measured: ", &format!("a first access from the disk alone: {}", harmless(why)));
    }
    if document.unoptimized {
        page.labelled(RED, "slower than it is: ", "this thaw was built without optimization");
    }
    page
}
