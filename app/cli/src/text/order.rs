//! `thaw order` as text: what an order file would bring, and lists of functions.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use crate::args::order::Linker;
use model::{Bytes, PAGE, shown};
use std::path::Path;
use work::order::{FunctionDocument, ObjectDocument, OrderDocument};

/// What was written, and how to use it.
pub fn page(document: &OrderDocument, target: &Path, linker: Linker, width: usize) -> Page {
    let mut page = Page::new(width);
    let called = document.order.len() as u64;
    page.paragraph(&format!(
        "{} {} of the functions of {}.",
        units::plural(document.workloads.len() as u64, "workload calls", "workloads call"),
        units::count(called),
        harmless(&document.file),
    ));
    page.paragraph(&format!(
        "Now they lie on {}; side by side they take {} ({}).",
        units::plural(document.pages, "page", "pages"),
        units::count(document.packed_pages),
        units::bytes(Bytes(document.packed_pages.saturating_mul(PAGE))),
    ));
    if let Some(never) = &document.never {
        let bytes = never.iter().fold(0, |sum: u64, function| sum.saturating_add(function.bytes));
        page.paragraph(&format!(
            "{} never called, {} in all (--list never).",
            units::plural(never.len() as u64, "other function is", "other functions are"),
            units::bytes(Bytes(bytes))
        ));
    }
    if document.unnamed > 0 {
        page.paragraph(&format!(
            "{} not in the order for want of a name (--symbols FILE).",
            units::plural(document.unnamed, "called function is", "called functions are")
        ));
    }
    if document.shared > 0 {
        let functions =
            units::plural(document.shared, "called function shares its name", "called functions share their names");
        page.paragraph(&match linker {
            Linker::Ld => {
                format!("{functions} with others: they are told by the object file, if it is named as its source.")
            }
            _ => {
                format!("{functions} with others, which this linker puts beside them; --for ld names the object files.")
            }
        });
    }
    let file = harmless(&shown(target));
    let flags = match linker {
        Linker::Lld | Linker::Mold => format!("-fuse-ld=lld -Wl,--symbol-ordering-file={file}"),
        Linker::Gold => format!("-fuse-ld=gold -Wl,--section-ordering-file={file}"),
        Linker::Ld => format!("-fuse-ld=bfd -Wl,-T,{file}"),
    };
    page.gap();
    page.line(&format!("Compile with -ffunction-sections, link with {flags}"));
    page
}

/// Functions: bytes, how many workloads call each, place, name.
pub fn functions<'d>(functions: impl IntoIterator<Item = &'d FunctionDocument>, width: usize) -> Page {
    let mut page = Page::new(width);
    let mut table = Table::new([
        ("bytes", Align::Right),
        ("workloads", Align::Right),
        ("offset", Align::Right),
        ("function", Align::Elastic),
    ]);
    for function in functions {
        table.row([
            units::count(function.bytes),
            units::count(function.workloads.into()),
            format!("{:#x}", function.offset),
            function.name.as_deref().map(harmless).unwrap_or_else(|| "(no name)".into()),
        ]);
    }
    if table.is_empty() {
        page.remark("No function.");
    }
    page.table(&table);
    page
}

/// Object files: how much of each is called.
pub fn objects<'d>(objects: impl IntoIterator<Item = &'d ObjectDocument>, width: usize) -> Page {
    let mut page = Page::new(width);
    let mut table = Table::new([
        ("called", Align::Right),
        ("of functions", Align::Right),
        ("called bytes", Align::Right),
        ("of bytes", Align::Right),
        ("compiled from", Align::Elastic),
    ]);
    for object in objects {
        table.row([
            units::count(object.called),
            units::count(object.functions),
            units::count(object.called_bytes),
            units::count(object.bytes),
            object.source.as_deref().map(harmless).unwrap_or_else(|| "(no debug data)".into()),
        ]);
    }
    page.table(&table);
    page
}
