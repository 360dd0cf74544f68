//! `thaw touch --calls` as text: how often functions were called, when, and by whom.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use model::Nanos;
use std::path::Path;
use touch::function::{CallerCount, FunctionCount};
use work::watch::calls::CallsDocument;

/// Callers of each function.
const CALLERS: usize = 5;
/// Names in a sentence.
const NAMES: usize = 12;

/// Everything, with this many functions.
pub fn page(document: &CallsDocument, top: usize, width: usize) -> Page {
    let mut page = Page::new(width);
    page.heading(&format!("Calls during a start of {}", harmless(&document.command)));
    let functions = &document.counts.functions;
    let called: Vec<&FunctionCount> = functions.iter().filter(|function| function.calls > 0).collect();
    page.paragraph(&summary(document, &called));
    if !called.is_empty() {
        page.gap();
        page.table(&table(&called, top));
    }
    if called.len() > top {
        let more = units::count((called.len() - top) as u64);
        page.remark(&format!("and {more} more functions (--top N, --json lists all)"));
    }
    let never: Vec<&FunctionCount> = functions.iter().filter(|function| function.calls == 0).collect();
    if !never.is_empty() {
        page.gap();
        page.paragraph(&format!("Not called: {}.", names(&never)));
    }
    remarks(&mut page, functions);
    page.gap();
    for cannot in &document.counts.cannot {
        page.remark(&format!("not known: {}", harmless(cannot)));
    }
    page
}

fn summary(document: &CallsDocument, called: &[&FunctionCount]) -> String {
    let calls = called.iter().map(|function| function.calls).sum();
    let ready = match document.ready_ns {
        Some(ready) => format!("It is ready after {}, watched.", units::nanos(ready)),
        None => "It did not get ready.".to_owned(),
    };
    format!(
        "{} of {} of the {} of {} that match. {ready}",
        units::plural(calls, "call", "calls"),
        units::count(called.len() as u64),
        units::plural(document.counts.functions.len() as u64, "function", "functions"),
        units::plural(document.counts.files, "program or library", "programs and libraries"),
    )
}

fn table(called: &[&FunctionCount], top: usize) -> Table {
    let mut table = Table::new([
        ("calls", Align::Right),
        ("threads", Align::Right),
        ("first", Align::Right),
        ("last", Align::Right),
        ("function and its callers", Align::Elastic),
    ]);
    let time = |time: Option<Nanos>| time.map(units::nanos).unwrap_or_default();
    for function in called.iter().take(top) {
        let most = if function.without_caller > 0 { "+" } else { "" };
        table.row([
            units::count(function.calls),
            format!("{}{most}", units::count(function.threads)),
            time(function.first_ns),
            time(function.last_ns),
            format!("{} in {}", harmless(&function.name), file_name(&function.file)),
        ]);
        let callers = function.callers.iter().filter(|caller| caller.calls > 0);
        for caller in callers.clone().take(CALLERS) {
            table.row(["", "", "", "", &format!("  {} by {}", units::count(caller.calls), place(caller))]);
        }
        let rest: u64 = callers.skip(CALLERS).map(|caller| caller.calls).sum();
        if rest > 0 {
            table.row(["", "", "", "", &format!("  {} by others (--json lists them)", units::count(rest))]);
        }
        if function.without_caller > 0 {
            let count = units::count(function.without_caller);
            table.row(["", "", "", "", &format!("  {count} by callers that were not noted: there were too many")]);
        }
    }
    table
}

/// `main+0x12 in app`, `app+0x1234`, or an address.
fn place(caller: &CallerCount) -> String {
    let place = &caller.place;
    match (&place.function, place.within, &place.file) {
        (Some(function), Some(within), Some(file)) => {
            format!("{}+{within:#x} in {}", harmless(function), file_name(file))
        }
        (_, _, Some(file)) => format!("{}+{:#x}", file_name(file), place.at),
        (_, _, None) => format!("code of no file at {:#x}", place.at),
    }
}

fn file_name(path: &str) -> String {
    harmless(&Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy()))
}

fn names(functions: &[&FunctionCount]) -> String {
    let shown: Vec<String> = functions.iter().take(NAMES).map(|function| harmless(&function.name)).collect();
    match functions.len().checked_sub(NAMES).filter(|more| *more > 0) {
        Some(more) => format!("{} and {} more", shown.join(", "), units::count(more as u64)),
        None => shown.join(", "),
    }
}

/// What a count means, or how it was had.
fn remarks(page: &mut Page, functions: &[FunctionCount]) {
    let mut said: Vec<(String, Vec<&FunctionCount>)> = Vec::new();
    for function in functions {
        let stopped = (function.stops > 0).then(|| match &function.breakpoint {
            Some(why) => format!("counted by a breakpoint, some microseconds for each call, because {why}"),
            None => "counted by a breakpoint in some processes, some microseconds for each call".to_owned(),
        });
        for remark in function.remarks.iter().cloned().chain(stopped) {
            match said.iter_mut().find(|(known, _)| *known == remark) {
                Some((_, of)) => of.push(function),
                None => said.push((remark, vec![function])),
            }
        }
    }
    if !said.is_empty() {
        page.gap();
    }
    for (remark, of) in said {
        page.remark(&format!("{}: {remark}", names(&of)));
    }
}
