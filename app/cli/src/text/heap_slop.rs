//! `thaw heap slop` as text: what each allocator would waste, where, and what to ask for instead.

use super::heap::names;
use super::table::{Align, Table};
use super::{Page, harmless, units};
use heap::slop::{Cause, Certainty, Clownshoes, Given, ProcessSlop, Report, Slop};
use heap::symbols::Frame;
use model::Bytes;

/// Processes that are printed.
const MOST: usize = 3;
/// Sizes of a place that are printed.
const SIZES: usize = 4;
/// Columns of a function's name in a place.
const NAME: usize = 60;

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
        page.remark(&format!("and {rest} that requested less (--json)"));
    }
    super::heap::look::warnings(&mut page, &report.warnings);
    page
}

fn one(page: &mut Page, process: &ProcessSlop, rows: usize) {
    page.heading(&format!("Process {} ({})", process.pid, harmless(&process.exe)));
    page.line(&format!(
        "{} requested {}, at most {} at a time",
        units::plural(process.blocks, "block", "blocks"),
        units::bytes(process.requested_bytes),
        units::bytes(process.peak_requested_bytes)
    ));
    page.gap();
    page.table(&what_if(process));
    page.gap();
    let by = match process.given {
        Given::Recorded => "as the allocator said it".to_owned(),
        Given::Modelled => format!("as {} would give", process.model.name()),
    };
    page.line(&format!("By size of the block, {by}:"));
    page.table(&classes(process, rows));
    page.gap();
    page.line(&format!("By place, {by}:"));
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
    let mut add = |name: String, slop: &Slop| {
        table.row([
            name,
            units::bytes(slop.slop_bytes),
            share(slop.slop_bytes, process.requested_bytes),
            units::bytes(slop.peak_slop_bytes),
            share(slop.peak_slop_bytes, process.peak_requested_bytes),
        ]);
    };
    if let Some(recorded) = &process.recorded {
        let file = process.allocator.rsplit('/').next().filter(|file| !file.is_empty()).unwrap_or("its own");
        add(format!("{} (in use, recorded)", harmless(file)), recorded);
    }
    for row in &process.what_if {
        let used = if process.allocator_model == Some(row.model) { " (model of the one in use)" } else { " (model)" };
        add(format!("{}{used}", row.model.name()), &row.slop);
    }
    table
}

fn classes(process: &ProcessSlop, rows: usize) -> Table {
    let mut table = Table::new([
        ("", Align::Left),
        ("class", Align::Right),
        ("blocks", Align::Right),
        ("requested", Align::Right),
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

/// A place in a line: functions where they have names, else object and address. Allocation functions are told: they may
/// be what asks for too much.
pub fn place(site: &[Frame]) -> String {
    if site.is_empty() {
        return "(no stack)".into();
    }
    let frame = |frame: &Frame| match &frame.function {
        Some(function) => {
            let place = frame.place();
            format!("{} ({})", harmless(&names::shorter(function, NAME)), harmless(&place))
        }
        None => harmless(&frame.label()),
    };
    site.iter().map(frame).collect::<Vec<_>>().join(" < ")
}
