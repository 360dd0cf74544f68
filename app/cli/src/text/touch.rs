//! `thaw touch` as text: what was read against what is needed, and the functions that were called.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use model::{Bytes, FileKind, PAGE};
use std::collections::BTreeSet;
use touch::{ByteReport, CallReport, FileReport, FunctionReport, Relaid, Report, Staying, Stays, Totals};
use work::shell::command_line;
use work::watch::document::{Laid, LaidDocument, ProgramDocument, TouchDocument};

/// Everything, with this many rows in each table.
pub fn page(document: &TouchDocument, top: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    for program in &document.programs {
        page.heading(&format!("What a start of {} touches", harmless(&program.variant)));
        match &program.calls {
            Some(calls) => one_file(&mut page, program, calls, top),
            None => {
                all_files(&mut page, &program.report, top);
                laid_files(&mut page, &program.laid, top);
                next(&mut page, &program.report.totals, &document.recording.file);
            }
        }
        limits(&mut page, &program.report);
    }
    page
}

fn all_files(page: &mut Page, report: &Report, top: usize) {
    if report.totals.touched.is_none() || looked_at_pages(&report.totals) {
        page.paragraph(&sums(&report.totals));
    }
    if let Some(touched) = &report.totals.touched {
        page.paragraph(&of_bytes(touched));
    }
    if let Some(functions) = &report.totals.functions {
        page.paragraph(&of_functions(functions));
    }
    let mut table = Table::new([
        ("size", Align::Right),
        ("read", Align::Right),
        ("needed", Align::Right),
        ("resident", Align::Right),
        ("touched", Align::Right),
        ("on pages", Align::Right),
        ("called", Align::Right),
        ("of functions", Align::Right),
        ("bytes", Align::Right),
        ("pages now", Align::Right),
        ("packed", Align::Right),
        ("lonely", Align::Right),
        ("file", Align::Elastic),
    ]);
    let files: Vec<&FileReport> = report.files.iter().filter(|file| says_something(file)).collect();
    for file in files.iter().take(top) {
        let called = |show: fn(&FunctionReport) -> String| file.functions.as_ref().map(show).unwrap_or_default();
        table.row([
            if file.kind == FileKind::Metadata { String::new() } else { units::bytes(file.size) },
            bytes(file.read),
            bytes(file.needed),
            bytes(file.resident),
            bytes(file.touched.map(|touched| touched.bytes)),
            file.touched.map(|touched| units::count(touched.pages)).unwrap_or_default(),
            called(|functions| units::count(functions.called)),
            called(|functions| units::count(functions.total)),
            called(|functions| units::bytes(functions.called_bytes)),
            called(|functions| units::count(functions.pages)),
            called(|functions| units::count(functions.packed_pages)),
            called(|functions| units::count(functions.lonely_pages)),
            name(file),
        ]);
    }
    page.gap();
    page.table(&table.without_empty_columns());
    and_more(page, files.len(), top);
    if let Some(file) = files.iter().find(|file| file.sections.iter().any(is_used)) {
        page.gap();
        page.line(&format!("ELF sections of {}:", harmless(&file.path)));
        sections(page, file, WORTH_A_LINE);
    }
}

/// A file that nothing was read, needed or called of says nothing.
fn says_something(file: &FileReport) -> bool {
    let some = |bytes: Option<Bytes>| bytes.is_some_and(|bytes| bytes.0 > 0);
    let called = file.functions.is_some_and(|functions| functions.called > 0);
    let touched = file.touched.map(|touched| touched.bytes);
    some(file.read) || some(file.needed) || some(file.resident) || some(touched) || called
}

/// What the recording is good for now.
fn next(page: &mut Page, totals: &Totals, recording: &str) {
    let recording = harmless(&command_line(&[recording.into()]));
    let mut table = Table::new([("next", Align::Left), ("", Align::Sentence)]);
    table.row([format!("thaw touch {recording} --file PATH"), "one file: all its sections, its functions".into()]);
    if totals.functions.is_some_and(|functions| functions.called > 0) {
        table.row([format!("thaw order {recording} -o app.order"), "the order for the linker".into()]);
    }
    if totals.needed.is_some() || totals.resident.is_some() {
        let what = "reads it before the program asks";
        table.row([format!("thaw preload make {recording} -o app.preload"), what.into()]);
    }
    table.row([format!("thaw report {recording} -o app.html"), "a map of each file".into()]);
    page.gap();
    page.table(&table);
}

/// Whether a section was read, needed, touched or called.
fn is_used(section: &touch::SectionReport) -> bool {
    let some = |bytes: Option<Bytes>| bytes.is_some_and(|bytes| bytes.0 > 0);
    some(section.read) || some(section.needed) || some(section.touched) || section.called.is_some_and(|count| count > 0)
}

/// Whether there is anything to say about pages.
fn looked_at_pages(totals: &Totals) -> bool {
    totals.read.is_some() || totals.needed.is_some() || totals.resident.is_some()
}

fn sums(totals: &Totals) -> String {
    match (totals.read, totals.needed, totals.resident) {
        (Some(read), Some(needed), _) => format!(
            "A cold start reads {} with the read-ahead of the recording and needs {} of it ({}).",
            units::bytes(read),
            units::bytes(needed),
            units::percent((needed.0 as f64 / read.0.max(1) as f64).min(1.0))
        ),
        (None, Some(needed), _) => format!("A cold start needs {}, in whole pages.", units::bytes(needed)),
        (_, None, Some(resident)) => {
            format!("After a start {} of its files are in memory, touched or read ahead.", units::bytes(resident))
        }
        (Some(read), None, None) => format!("A cold start reads {}.", units::bytes(read)),
        (None, None, None) => "What it reads was not looked at (--engine page, as root).".into(),
    }
}

fn of_bytes(touched: &ByteReport) -> String {
    format!(
        "It touches {} of the files that it maps. They lie on {} ({}).",
        units::bytes(touched.bytes),
        units::plural(touched.pages, "page", "pages"),
        pages(touched.pages),
    )
}

fn of_functions(functions: &FunctionReport) -> String {
    let lonely = match functions.lonely_pages {
        0 => String::new(),
        pages => format!("; on {} a single one of them lies alone", units::plural(pages, "page", "pages")),
    };
    format!(
        "It calls {} of {} functions: {} of {}. They lie on {} ({}) and would take {} ({}) side by side{lonely}.",
        units::count(functions.called),
        units::count(functions.total),
        units::bytes(functions.called_bytes),
        units::bytes(functions.bytes),
        units::plural(functions.pages, "page", "pages"),
        pages(functions.pages),
        units::count(functions.packed_pages),
        pages(functions.packed_pages),
    )
}

fn pages(count: u64) -> String {
    units::bytes(Bytes(count.saturating_mul(PAGE)))
}

/// Sections below this share of what the file needs say nothing in the list of all files.
const WORTH_A_LINE: f64 = 0.01;

fn sections(page: &mut Page, file: &FileReport, worth: f64) {
    let mut table = Table::new([
        ("size", Align::Right),
        ("read", Align::Right),
        ("needed", Align::Right),
        ("", Align::Right),
        ("touched", Align::Right),
        ("called", Align::Right),
        ("section", Align::Left),
    ]);
    let weight = |section: &touch::SectionReport| {
        section.needed.or(section.read).or(section.touched).unwrap_or(section.size).0 as f64
    };
    let all: f64 = file.sections.iter().map(weight).sum();
    let is_worth = |section: &&touch::SectionReport| worth == 0.0 || is_used(section) && weight(section) >= worth * all;
    for section in file.sections.iter().filter(is_worth) {
        let share = |needed: Bytes| units::percent(needed.0 as f64 / section.size.0.max(1) as f64);
        table.row([
            units::bytes(section.size),
            bytes(section.read),
            bytes(section.needed),
            section.needed.map(share).unwrap_or_default(),
            bytes(section.touched),
            section.called.filter(|called| *called > 0).map(units::count).unwrap_or_default(),
            harmless(&section.name),
        ]);
    }
    page.table(&table.without_empty_columns());
}

fn one_file(page: &mut Page, program: &ProgramDocument, calls: &[CallReport], top: usize) {
    for file in &program.report.files {
        page.paragraph(&format!("{}: {}.", harmless(&file.path), units::bytes(file.size)));
        let totals = Totals { read: file.read, needed: file.needed, resident: file.resident, ..Totals::default() };
        if looked_at_pages(&totals) {
            page.paragraph(&sums(&totals).replacen("A cold start", "A cold start of it", 1));
        }
        if let Some(touched) = &file.touched {
            page.paragraph(&of_bytes(touched).replacen("the files that it maps", "it", 1));
        }
        if let Some(functions) = &file.functions {
            page.paragraph(&of_functions(functions));
        }
        for laid in &program.laid {
            page.paragraph(&match &laid.laid {
                Laid::Known(relaid) => of_laid(relaid),
                Laid::Unknown { unknown } => {
                    format!("Whether functions can be moved without a linker is unknown: {}.", harmless(unknown))
                }
            });
        }
        page.gap();
        sections(page, file, 0.0);
    }
    in_order(page, calls, top);
    lonely(page, calls, top);
}

/// Of which files called functions can be laid together without a linker, and what that brings; of the others, why not.
fn laid_files(page: &mut Page, files: &[LaidDocument], top: usize) {
    let known = files.iter().filter_map(|file| match &file.laid {
        Laid::Known(relaid) => Some((&*file.file, relaid)),
        Laid::Unknown { .. } => None,
    });
    let (whole, movable): (Vec<_>, Vec<_>) = known.partition(|(_, relaid)| stays_whole(relaid).is_some());
    let mut table = Table::new([
        ("movable", Align::Right),
        ("called", Align::Right),
        ("must stay", Align::Right),
        ("called", Align::Right),
        ("pages now", Align::Right),
        ("then", Align::Right),
        ("requests now", Align::Right),
        ("then", Align::Right),
        ("file", Align::Elastic),
    ]);
    let count = |count: Option<u64>| count.map(units::count).unwrap_or_default();
    for (file, relaid) in movable.iter().take(top) {
        table.row([
            units::count(relaid.movable),
            units::count(relaid.called_movable),
            units::count(relaid.functions - relaid.movable),
            units::count(relaid.called - relaid.called_movable),
            units::count(relaid.pages),
            count(relaid.pages_then),
            count(relaid.requests),
            count(relaid.requests_then),
            harmless(file),
        ]);
    }
    if !movable.is_empty() {
        page.gap();
        page.line("Functions that could be laid together without a linker (--file says why others must stay):");
        page.table(&table.without_empty_columns());
        and_more(page, movable.len(), top);
    }
    let reasons: BTreeSet<Stays> = whole.iter().filter_map(|(_, relaid)| stays_whole(relaid)).collect();
    for reason in reasons {
        let files = whole.iter().filter(|(_, relaid)| stays_whole(relaid) == Some(reason)).count() as u64;
        page.paragraph(&format!(
            "Of {} no function can be moved without a linker: {}. `thaw order` writes the order for {} linker.",
            units::plural(files, "file", "files"),
            why(reason),
            if files == 1 { "its" } else { "their" },
        ));
    }
    let unknown = files.len() - whole.len() - movable.len();
    if unknown > 0 {
        let files = units::plural(unknown as u64, "file", "files");
        page.paragraph(&format!("Of {files} it is unknown whether functions can be moved (--file says why)."));
    }
}

/// The reason that holds all functions of a file.
fn stays_whole(relaid: &Relaid) -> Option<Stays> {
    match &*relaid.stay {
        [one] if relaid.movable == 0 => Some(one.why),
        _ => None,
    }
}

fn of_laid(relaid: &Relaid) -> String {
    if let Some(reason) = stays_whole(relaid) {
        return format!(
            "No function of it can be moved without a linker: {}. `thaw order --file` writes the order for its linker.",
            why(reason)
        );
    }
    let mut text = format!(
        "Without a linker {} of its {} functions could be moved, {} of the called ones among them.",
        units::count(relaid.movable),
        units::count(relaid.functions),
        units::count(relaid.called_movable),
    );
    if let Some(then) = relaid.pages_then {
        let requests = match (relaid.requests, relaid.requests_then) {
            (Some(now), Some(then)) => {
                format!(" and take {} in place of {}", units::plural(then, "request", "requests"), units::count(now))
            }
            _ => String::new(),
        };
        text += &format!(
            " Laid together in the order of their first call, the called functions would lie on {} ({}) in place of \
             {} ({}){requests}.",
            units::plural(then, "page", "pages"),
            pages(then),
            units::count(relaid.pages),
            pages(relaid.pages),
        );
    }
    if !relaid.stay.is_empty() {
        let reason = |it: &Staying| format!("{} because {}", units::count(it.functions), why(it.why));
        text += &format!(" The others must stay: {}.", relaid.stay.iter().map(reason).collect::<Vec<_>>().join("; "));
    }
    text
}

/// Behind "because".
fn why(reason: Stays) -> &'static str {
    match reason {
        Stays::Processor => "only code of x86-64 is understood here",
        Stays::NoRelocations => {
            "no relocations of the code were kept (-Wl,--emit-relocs), so references within it cannot be known"
        }
        Stays::NoUnwindData => "no unwind data tell where they end",
        Stays::Borders => "their unwind data overlap, or their symbol has another length",
        Stays::Section => "their section is not for functions alone",
        Stays::Entrance => "a symbol lies inside of them",
        Stays::Data => "data lie among their code, or a relocation meets no operand",
        Stays::RunsOn => "they run on into the next function, or the one before may run on into them",
        Stays::Uncovered => "a branch or an address without a relocation leads out of them or into them",
        Stays::Table => "a table leads to them in a way that is not understood",
        Stays::Unknown => "code without unwind data may lead into them",
    }
}

fn in_order(page: &mut Page, calls: &[CallReport], top: usize) {
    if calls.is_empty() {
        return;
    }
    page.gap();
    page.line("Functions in the order of their first call:");
    let mut table = Table::new([
        ("", Align::Right),
        ("at", Align::Right),
        ("offset", Align::Right),
        ("bytes", Align::Right),
        ("read", Align::Right),
        ("needed", Align::Right),
        ("function", Align::Elastic),
    ]);
    for call in calls.iter().take(top) {
        let count = |bytes: Option<Bytes>| bytes.map(|bytes| units::count(bytes.0)).unwrap_or_default();
        table.row([
            units::count(call.order.into()),
            units::nanos(call.at_ns),
            format!("{:#x}", call.offset),
            units::count(call.len.0),
            count(call.read),
            count(call.needed),
            function(call),
        ]);
    }
    page.table(&table.without_empty_columns());
    and_more(page, calls.len(), top);
}

/// The functions that alone keep pages in memory: those that cost most for what they are.
fn lonely(page: &mut Page, calls: &[CallReport], top: usize) {
    let mut alone: Vec<&CallReport> = calls.iter().filter(|call| call.lonely_pages > 0).collect();
    if alone.is_empty() {
        return;
    }
    alone.sort_by_key(|call| (std::cmp::Reverse(call.lonely_pages), call.len, call.order));
    page.gap();
    page.line("Functions that alone keep pages in memory, those that keep most for their size first:");
    let mut table = Table::new([
        ("pages", Align::Right),
        ("bytes", Align::Right),
        ("offset", Align::Right),
        ("function", Align::Elastic),
    ]);
    for call in alone.iter().take(top) {
        let offset = format!("{:#x}", call.offset);
        table.row([units::count(call.lonely_pages), units::count(call.len.0), offset, function(call)]);
    }
    page.table(&table);
    and_more(page, alone.len(), top);
}

fn function(call: &CallReport) -> String {
    call.name.as_deref().map(harmless).unwrap_or_else(|| "(no name)".into())
}

fn and_more(page: &mut Page, all: usize, top: usize) {
    if all > top {
        page.remark(&format!("and {} more (--top N, --json lists all)", units::count((all - top) as u64)));
    }
}

/// How precise the figures are.
fn limits(page: &mut Page, report: &Report) {
    for engine in &report.engines {
        page.gap();
        page.remark(&format!("{}: {}.", engine.engine.name(), harmless(&engine.precision)));
        for cannot in &engine.cannot {
            page.remark(&format!("{} cannot know: {}", engine.engine.name(), harmless(cannot)));
        }
    }
}

fn bytes(bytes: Option<Bytes>) -> String {
    bytes.map(units::bytes).unwrap_or_default()
}

fn name(file: &FileReport) -> String {
    match file.kind {
        FileKind::Metadata => format!("{} (metadata)", harmless(&file.path)),
        _ => harmless(&file.path),
    }
}
