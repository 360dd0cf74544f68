//! `thaw order` as text: what an order file would bring, and lists of functions.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use crate::args::order::{Linker, List};
use crate::verbs::touch::order::{OrderDocument, listed};
use model::{Bytes, PAGE, Result, shown};
use std::path::Path;

/// What was written, and how to use it.
pub fn page(document: &OrderDocument, target: &Path, linker: Linker, width: usize) -> Page {
    let mut page = Page::new(width);
    let called = document.order.len() as u64;
    page.paragraph(&format!(
        "{} of {} are called by {}.",
        units::plural(called, "function", "functions"),
        harmless(&document.file),
        units::plural(document.workloads.len() as u64, "workload", "workloads"),
    ));
    page.paragraph(&format!(
        "They lie on {} now; side by side they take {} ({}).",
        units::plural(document.pages, "page", "pages"),
        units::count(document.packed_pages),
        units::bytes(Bytes(document.packed_pages.saturating_mul(PAGE))),
    ));
    if let Some(never) = &document.never {
        let bytes = never.iter().fold(0, |sum: u64, function| sum.saturating_add(function.bytes));
        page.paragraph(&format!(
            "{} ({}) are called by none (--list never).",
            units::plural(never.len() as u64, "other function", "other functions"),
            units::bytes(Bytes(bytes))
        ));
    }
    if document.unnamed > 0 {
        page.paragraph(&format!(
            "{} have no name and are not in the order (--symbols FILE).",
            units::plural(document.unnamed, "called function", "called functions")
        ));
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

/// A list: bytes, workloads, name.
///
/// # Errors
/// What nobody calls may not be known.
pub fn list(document: &OrderDocument, list: List, width: usize) -> Result<Page> {
    let mut page = Page::new(width);
    let mut table = Table::new([
        ("bytes", Align::Right),
        ("workloads", Align::Right),
        ("offset", Align::Right),
        ("function", Align::Elastic),
    ]);
    for function in listed(document, list)? {
        table.row([
            units::count(function.bytes),
            if list == List::Cold { function.workloads.to_string() } else { String::new() },
            format!("{:#x}", function.offset),
            function.name.as_deref().map(harmless).unwrap_or_else(|| "(no name)".into()),
        ]);
    }
    page.table(&table.without_empty_columns());
    Ok(page)
}
