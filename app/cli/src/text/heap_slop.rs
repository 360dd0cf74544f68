//! `thaw heap slop` as text: what each allocator would waste, where, and what to ask for instead.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use heap::site::SiteFrame;
use heap::slop::{Cause, Certainty, Clownshoes, ProcessSlop, Report};
use model::Bytes;

/// Processes that are printed.
const MOST: usize = 3;
/// Sizes of a place that are printed.
const SIZES: usize = 4;

/// The answer.
pub fn page(report: &Report, rows: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    let mut processes: Vec<&ProcessSlop> = report.processes.iter().collect();
    processes.sort_by_key(|process| std::cmp::Reverse(process.requested_bytes));
    for process in processes.iter().take(MOST) {
        one(&mut page, process, rows);
    }
    if processes.len() > MOST {
        page.gap();
        let rest = units::plural((processes.len() - MOST) as u64, "process", "processes");
        page.remark(&format!("and {rest} that asked for less (--json)"));
    }
    super::heap::look::warnings(&mut page, &report.warnings);
    page
}

fn one(page: &mut Page, process: &ProcessSlop, rows: usize) {
    page.heading(&format!("Process {} ({})", process.pid, harmless(&process.exe)));
    page.line(&format!(
        "{} asked for {}, at most {} at a time",
        units::plural(process.blocks, "block", "blocks"),
        units::bytes(process.requested_bytes),
        units::bytes(process.peak_requested_bytes)
    ));
    page.gap();
    page.table(&what_if(process));
    page.gap();
    page.line(&format!("By size class of {}:", process.model.name()));
    page.table(&classes(process, rows));
    page.gap();
    page.line(&format!("By place, with {}:", process.model.name()));
    for site in process.sites.iter().filter(|site| site.slop_bytes.0 > 0) {
        let text = format!(
            "{} wasted of {} in {}: {}",
            units::bytes(site.slop_bytes),
            units::bytes(Bytes(site.requested_bytes.0.saturating_add(site.slop_bytes.0))),
            units::plural(site.blocks, "block", "blocks"),
            place(&site.site)
        );
        page.labelled("", "  ", &text);
    }
    page.gap();
    if process.clownshoes.is_empty() {
        page.line("No place asks for a little more than a power of two.");
        return;
    }
    page.line("Places that ask for a little more than a power of two:");
    for shoes in &process.clownshoes {
        clownshoes(page, shoes);
    }
}

fn what_if(process: &ProcessSlop) -> Table {
    let mut table = Table::new([
        ("allocator", Align::Left),
        ("wasted, all blocks", Align::Right),
        ("", Align::Right),
        ("at the peak", Align::Right),
        ("", Align::Right),
    ]);
    let share = |slop: Bytes, of: Bytes| {
        let given = slop.0.saturating_add(of.0);
        units::percent(if given == 0 { 0.0 } else { slop.0 as f64 / given as f64 })
    };
    for row in &process.what_if {
        let used = if process.allocator_model == Some(row.model) { " (in use)" } else { "" };
        table.row([
            format!("{}{used}", row.model.name()),
            units::bytes(row.slop_bytes),
            share(row.slop_bytes, process.requested_bytes),
            units::bytes(row.peak_slop_bytes),
            share(row.peak_slop_bytes, process.peak_requested_bytes),
        ]);
    }
    table
}

fn classes(process: &ProcessSlop, rows: usize) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("class", Align::Right),
        ("blocks", Align::Right),
        ("asked for", Align::Right),
        ("wasted", Align::Right),
    ]);
    for class in process.classes.iter().take(rows) {
        table.row([
            class.category.name().to_owned(),
            units::count(class.usable),
            units::count(class.blocks),
            units::bytes(class.requested_bytes),
            units::bytes(class.slop_bytes),
        ]);
    }
    table
}

fn clownshoes(page: &mut Page, shoes: &Clownshoes) {
    let sizes: Vec<String> = shoes
        .shoes
        .iter()
        .take(SIZES)
        .map(|shoe| format!("{} \u{d7} {} ({} too many)", units::count(shoe.blocks), shoe.request, shoe.over))
        .collect();
    let more = shoes.shoes.len().saturating_sub(SIZES);
    let more = if more > 0 { format!(", and {more} more sizes") } else { String::new() };
    page.labelled("", "  ", &format!("{}{more}: {}", sizes.join(", "), place(&shoes.site)));
    let cause = match shoes.cause {
        Cause::Terminator => "the end of a string, added after rounding",
        Cause::StoredWord => "a word stored beside the block, as its size",
        Cause::Header => "a header before the payload, as of an arena's chunk",
        Cause::Unclear => "unclear",
    };
    let certainty = match shoes.certainty {
        Certainty::Strong => "the same excess at several sizes",
        Certainty::Probable => "probable",
    };
    let ask = shoes.shoes.first().map(|shoe| (shoe.ask, shoe.payload)).unwrap_or_default();
    page.labelled(
        "",
        "    ",
        &format!("cause: {cause} ({certainty}); ask for {}: a payload of {}", units::count(ask.0), units::count(ask.1)),
    );
    let waste: Vec<String> =
        shoes.waste.iter().map(|waste| format!("{} {}", waste.model.name(), units::bytes(waste.bytes))).collect();
    page.labelled("", "    ", &format!("wasted, all blocks: {}", waste.join(", ")));
}

/// A place in a line: symbols where there are some, else object and address.
pub fn place(site: &[SiteFrame]) -> String {
    if site.is_empty() {
        return "(no stack)".into();
    }
    let frame = |frame: &SiteFrame| {
        let module = frame.module.as_deref().unwrap_or("(no file)");
        let name = module.rsplit('/').next().unwrap_or(module);
        match &frame.symbol {
            Some(symbol) => format!("{} ({}+{:#x})", harmless(symbol), harmless(name), frame.address),
            None => format!("{}+{:#x}", harmless(name), frame.address),
        }
    };
    site.iter().map(frame).collect::<Vec<_>>().join(" < ")
}
