//! `thaw why` as text: who owns the milliseconds of a start.

use super::table::{Align, Table};
use super::units::ns as time;
use super::{Page, harmless, units, why_helps, why_loader};
use cpu::{Changed, Confidence, OffPath, Shared};
use work::why::difference::{Explained, StartsDiffer, WhyDifferenceDocument};
use work::why::{Start, WhyDocument};

/// So many threads that ran beside the way are shown.
const MOST_BESIDE: usize = 6;

/// What is to be said of how it is known: nothing where it is measured.
fn known(owner: &Shared) -> String {
    let interval = match (owner.low_ns, owner.high_ns) {
        (Some(low), Some(high)) => format!(" [{}, {}]", time(low), time(high)),
        _ => String::new(),
    };
    let how = match owner.confidence {
        Confidence::Measured | Confidence::Sampled | Confidence::Unknown => "",
        Confidence::Inferred => " (concluded)",
    };
    format!("{interval}{how}")
}

/// The answer, with so many owners.
pub fn page(document: &WhyDocument, most: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for start in &document.starts {
        of(&mut page, start, most);
    }
    for share in &document.loader {
        why_loader::of(&mut page, share);
    }
    page.end(&document.warnings, &document.next);
    page
}

/// Why starts take another time than before, with so many owners.
pub fn difference(document: &WhyDifferenceDocument, most: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for starts in &document.why.starts {
        page.gap();
        differ(&mut page, starts, most);
        page.heading("By owner");
        changed(&mut page, &starts.difference.owners, most);
    }
    page.end(&document.why.warnings, &document.next);
    page
}

/// So many causes are shown where the starts' times are what is asked for.
const MOST_CAUSES: usize = 5;

/// Why they take another time, in an answer that says by how much. Its warnings are the caller's to print.
pub fn explained(page: &mut Page, why: &Explained) {
    if !why.starts.is_empty() {
        page.heading("Why, by traced starts");
    }
    for (place, starts) in why.starts.iter().enumerate() {
        if place > 0 {
            page.gap();
        }
        differ(page, starts, MOST_CAUSES);
    }
    if let Some(unknown) = &why.unknown {
        page.gap();
        page.remark(&sentence(unknown));
    }
}

/// `Why the time differs is not known: ...`
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", harmless(letters.as_str()))
}

/// `app cold`, `old -> new cold`
fn name(starts: &StartsDiffer) -> String {
    let after = harmless(&starts.variant_name);
    match starts.before_name == starts.variant_name {
        true => format!("{after} {}", starts.state),
        false => format!("{} -> {after} {}", harmless(&starts.before_name), starts.state),
    }
}

/// A difference of times, with its sign.
fn signed(ns: i64) -> String {
    format!("{}{}", if ns < 0 { "-" } else { "+" }, time(ns.unsigned_abs()))
}

fn differ(page: &mut Page, starts: &StartsDiffer, most: usize) {
    let difference = &starts.difference;
    page.paragraph(&format!("{}: {}", name(starts), harmless(&difference.text)));
    let interval = match (difference.low_ns, difference.high_ns) {
        (Some(low), Some(high)) => format!(", at 95 % between {} and {}", signed(low), signed(high)),
        _ => ", and how much starts differ by themselves is not known".to_owned(),
    };
    page.paragraph(&format!(
        "It was ready after {} in {} before, and is after {} in {} now{interval}.",
        time(difference.before_ns),
        units::plural(starts.before_runs.len() as u64, "traced start", "traced starts"),
        time(difference.after_ns),
        units::plural(starts.after_runs.len() as u64, "traced start", "traced starts"),
    ));
    page.heading("By cause");
    changed(page, &difference.causes, most);
}

fn changed(page: &mut Page, rows: &[Changed], most: usize) {
    // Of what is as it was there is nothing to say.
    let rows = || rows.iter().filter(|row| row.ns != 0);
    for row in rows().take(most) {
        let interval = match (row.low_ns, row.high_ns) {
            (Some(low), Some(high)) => format!(" [{}, {}]", signed(low), signed(high)),
            _ => String::new(),
        };
        let (before, after) = (time(row.before_ns), time(row.after_ns));
        let text = format!("{} {}: {before}, now {after}{interval}", row.thread, row.text);
        page.labelled("", &format!("{:>10}  ", signed(row.ns)), harmless(&text).trim_start());
    }
    let left = rows().count().saturating_sub(most);
    if left > 0 {
        let ns: i64 = rows().skip(most).map(|row| row.ns).sum();
        page.labelled("", &format!("{:>10}  ", signed(ns)), &format!("{left} more together: --most"));
    }
}

fn of(page: &mut Page, start: &Start, most: usize) {
    page.gap();
    let runs = start.runs.len() as u64;
    let mean = if runs > 1 { ", the mean of all" } else { "" };
    page.paragraph(&format!(
        "{} ({}) is ready after {} in {}{mean}. Of this {} has an owner.",
        harmless(&start.variant_name),
        start.state,
        time(start.ready_ns),
        units::plural(runs, "traced start", "traced starts"),
        units::percent(start.explained_share),
    ));
    owners(page, start, most);
    why_helps::of(page, &start.helps, most);
    links(page, start);
    first(page, start);
    beside(page, &start.report.off_path, start.report.competes_ns);
    page.remark(&format!(
        "thaw's threads that read what the kernel took down had {} of CPU meanwhile (run {}); what the kernel did for \
         that is in the program's own time, and not known apart",
        time(start.report.own_ns),
        start.run.0
    ));
}

fn owners(page: &mut Page, start: &Start, most: usize) {
    page.heading("Who owns the time, from exec to ready");
    for owner in start.owners.iter().take(most) {
        let text = format!("{} {}{}", owner.thread, owner.text, known(owner));
        page.labelled("", &format!("{:>6}  ", units::percent(owner.share)), &harmless(&text));
    }
    let left = start.owners.iter().skip(most).collect::<Vec<_>>();
    if !left.is_empty() {
        let ns: u64 = left.iter().map(|owner| owner.ns).sum();
        let share = left.iter().map(|owner| owner.share).sum();
        let text = format!("{} more own {} together: --most", left.len(), time(ns));
        page.labelled("", &format!("{:>6}  ", units::percent(share)), &text);
    }
}

fn links(page: &mut Page, start: &Start) {
    let waits = start.report.links.iter().filter(|link| link.was_met && link.ns > start.report.ready_ns / 200);
    let sentences: Vec<String> = waits.take(MOST_BESIDE).map(|link| harmless(&link.text)).collect();
    if sentences.is_empty() {
        return;
    }
    page.heading(&format!("Who waited for whom on that way (run {})", start.run.0));
    sentences.iter().for_each(|sentence| page.paragraph(sentence));
}

/// What an inspector of one thread would say: also of waits that the path goes round.
fn first(page: &mut Page, start: &Start) {
    let rows = start.report.blocked.iter().filter(|row| row.is_first && row.ns > start.report.ready_ns / 200);
    let sentences: Vec<String> = rows.take(MOST_BESIDE).map(|row| harmless(&row.text)).collect();
    if sentences.is_empty() {
        return;
    }
    page.heading(&format!("What held up the first thread (run {})", start.run.0));
    sentences.iter().for_each(|sentence| page.paragraph(sentence));
}

fn beside(page: &mut Page, off_path: &[OffPath], competes_ns: u64) {
    let ran: Vec<&OffPath> = off_path.iter().filter(|thread| thread.ran_ns > 1_000_000).take(MOST_BESIDE).collect();
    if ran.is_empty() {
        return;
    }
    let mut table = Table::new([("ran", Align::Right), ("took a CPU", Align::Right), ("thread", Align::Elastic)]);
    for thread in ran {
        let taken = if thread.competes_ns > 0 { time(thread.competes_ns) } else { String::new() };
        table.row([time(thread.ran_ns), taken, harmless(&thread.thread.name)]);
    }
    let is_measured = off_path.iter().any(|thread| thread.confidence == Confidence::Measured);
    page.heading(match is_measured {
        true => "What ran beside it: less of this would not make the start faster",
        false => "What other threads ran; whether they were waited for is not known",
    });
    page.table(&table.without_empty_columns());
    if competes_ns > 0 {
        page.remark(&format!("but for {}, in which it took the CPU from what was waited for", time(competes_ns)));
    }
}
