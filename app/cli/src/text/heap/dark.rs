//! `thaw heap dark` as text: the sections of dmd.py.

use super::look::{self, share};
use super::names;
use crate::text::table::{Align, Table};
use crate::text::{Page, YELLOW, harmless, units};
use heap::dark::{Dark, ReportedAs, Section, Sum, Unclassified, Why, Wrong};
use heap::symbols::Frame;
use model::Bytes;
use work::heaps::dark::DarkDocument;

/// Different sizes that are written out for a row.
const MOST_SIZES: usize = 6;

/// All processes.
pub fn page(document: &DarkDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for dark in &document.processes {
        process(&mut page, dark, width);
    }
    page
}

fn process(page: &mut Page, dark: &Dark, width: usize) {
    page.heading(&harmless(&format!("Dark matter of process {} ({})", dark.pid, dark.exe)));
    page.line(&format!(
        "{} after the beginning, reporters took {}; the heap had {}",
        units::nanos(dark.at_ns),
        units::nanos(dark.took_ns),
        sum(&dark.heap)
    ));
    section(page, "Reported more than once", &dark.reported_again, &dark.heap, width);
    section(page, "Unreported", &dark.unreported, &dark.heap, width);
    section(page, "Reported once", &dark.reported_once, &dark.heap, width);
    if !dark.wrong_pointers.is_empty() {
        page.heading("Wrong pointers");
        dark.wrong_pointers.iter().for_each(|one| wrong(page, one, width));
    }
    summary(page, dark);
    look::warnings(page, &dark.warnings);
}

fn sum(sum: &Sum) -> String {
    format!(
        "{} ({} requested / {} slop) in {}",
        units::bytes(Bytes(sum.usable_bytes)),
        units::bytes(Bytes(sum.requested_bytes)),
        units::bytes(Bytes(sum.slop_bytes())),
        units::plural(sum.blocks, "block", "blocks")
    )
}

fn section(page: &mut Page, title: &str, section: &Section, heap: &Sum, width: usize) {
    let of_heap = |bytes| units::percent(share(bytes, heap.usable_bytes));
    page.heading(&format!("{title}: {}, {} of the heap", sum(&section.sum), of_heap(section.sum.usable_bytes)));
    let mut so_far = 0;
    for (number, row) in section.rows.iter().enumerate() {
        so_far += row.sum.usable_bytes;
        page.gap();
        page.line(&format!("{}. {}", number + 1, sum(&row.sum)));
        let shares = format!(
            "{} of the heap ({} cumulative); {} of this section",
            of_heap(row.sum.usable_bytes),
            of_heap(so_far),
            units::percent(share(row.sum.usable_bytes, section.sum.usable_bytes)),
        );
        page.labelled("", "   ", &shares);
        if row.sizes.len() > 1 || row.sum.blocks > 1 {
            let mut sizes: Vec<String> = row.sizes.iter().take(MOST_SIZES).map(sized).collect();
            if row.sizes.len() > MOST_SIZES {
                sizes.push(format!(
                    "and {} more",
                    units::plural((row.sizes.len() - MOST_SIZES) as u64, "size", "sizes")
                ));
            }
            page.labelled("", "   ", &format!("sizes: {}", sizes.join(", ")));
        }
        for report in &row.reports {
            page.line(&format!("   reported by {}", reported(report)));
        }
        stack(page, &row.frames, width);
    }
    let rest = section.sites - section.rows.len() as u64;
    if rest > 0 {
        page.gap();
        page.remark(&format!("and {} (--top)", units::plural(rest, "more site", "more sites")));
    }
}

fn sized(size: &heap::dark::Sized) -> String {
    format!("{} x {}", units::count(size.requested_bytes), units::count(size.blocks))
}

fn reported(report: &ReportedAs) -> String {
    harmless(&format!("{} as {}", report.reporter, report.path))
}

fn stack(page: &mut Page, frames: &[Frame], width: usize) {
    if frames.is_empty() {
        page.line("     (no stack)");
    }
    for frame in frames {
        page.line(&format!("     {}", names::frame(frame, width.saturating_sub(5))));
    }
}

fn wrong(page: &mut Page, wrong: &Wrong, width: usize) {
    let pointers = units::plural(wrong.pointers, "pointer", "pointers");
    let what = match wrong.why {
        Why::Interior => format!("into the middle of a block ({} bytes in)", units::count(wrong.example_offset)),
        Why::Freed => "to a block that was freed before".into(),
        Why::Reused => "to a block that was freed before; another one is there now".into(),
        Why::NoBlock => "to no block that the recording knows".into(),
        Why::NotRecorded => "to a block from before the recording, or of the parent".into(),
    };
    page.gap();
    let text = format!("{} measured {pointers} {what} (such as {:#x})", reported(&wrong.report), wrong.example);
    page.labelled(YELLOW, "wrong: ", &text);
    if !wrong.frames.is_empty() {
        page.line("   the block was made by");
        stack(page, &wrong.frames, width);
    }
}

fn summary(page: &mut Page, dark: &Dark) {
    page.heading("Summary");
    let heads = ["bytes", "of the heap", "requested", "slop", "blocks"].map(|head| (head, Align::Right));
    let mut table = Table::new([("", Align::Left)].into_iter().chain(heads));
    for (name, part) in [
        ("unreported", &dark.unreported.sum),
        ("reported once", &dark.reported_once.sum),
        ("reported more than once", &dark.reported_again.sum),
        ("freed meanwhile", &dark.went_meanwhile),
        ("all", &dark.heap),
    ] {
        table.row([
            name.to_owned(),
            units::count(part.usable_bytes),
            units::percent(share(part.usable_bytes, dark.heap.usable_bytes)),
            units::count(part.requested_bytes),
            units::count(part.slop_bytes()),
            units::count(part.blocks),
        ]);
    }
    page.table(&table);
    let off =
        dark.reporters.iter().map(|one| (one, one.reported_heap_bytes.saturating_sub_unsigned(one.measured_bytes)));
    for (reporter, more) in off.filter(|(reporter, more)| *more != 0 && reporter.measured_bytes > 0) {
        page.gap();
        let word = if more > 0 { "more" } else { "less" };
        let text = format!("reports {} {word} than it measures", units::bytes(Bytes(more.unsigned_abs())));
        page.labelled(YELLOW, &format!("{}: ", harmless(&reporter.name)), &text);
    }
    if let Some(parts) = &dark.unclassified {
        page.gap();
        page.table(&unclassified(parts));
    }
}

fn unclassified(parts: &Unclassified) -> Table {
    let mut table = Table::new([("heap-unclassified", Align::Left), ("bytes", Align::Right)]);
    for (name, bytes) in [
        ("blocks that nobody reported", parts.unreported_bytes),
        ("blocks that were reported again", parts.reported_again_bytes),
        ("sums that are too small or too large", parts.misreported_bytes),
        ("what the allocator adds, and the rest", parts.rest_bytes),
        ("all", parts.bytes),
    ] {
        let sign = if bytes < 0 { "-" } else { "" };
        table.row([name.to_owned(), format!("{sign}{}", units::count(bytes.unsigned_abs()))]);
    }
    table
}
