//! The loader's share of a start, as text.

use super::table::{Align, Table};
use super::units::ns as time;
use super::{Page, harmless, units};
use model::loader::PhaseKind;
use work::why::loader::{LoadedInitialiser, LoadedObject, LoadedProgram, LoaderCost, LoaderShare};

/// So many objects are shown.
const MOST_OBJECTS: usize = 5;
/// Initialisers that took less are not.
const LEAST_NS: u64 = 100_000;

fn maybe(ns: Option<u64>) -> String {
    ns.map_or_else(String::new, time)
}

fn phrase(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Bootstrap => "the loader relocates itself, reads its environment",
        PhaseKind::Map => "libraries are found and mapped",
        PhaseKind::Prepare => "versions are checked, thread-local storage is laid out",
        PhaseKind::Relocate => "objects are relocated and protected",
        PhaseKind::Finish => "until initialisers begin",
        PhaseKind::Initialise => "initialisers of libraries run",
        PhaseKind::Enter => "from the entry to main, the program's own initialisers included",
    }
}

fn name(phase: PhaseKind) -> &'static str {
    match phase {
        PhaseKind::Bootstrap => "bootstrap",
        PhaseKind::Map => "map",
        PhaseKind::Prepare => "prepare",
        PhaseKind::Relocate => "relocate",
        PhaseKind::Finish => "finish",
        PhaseKind::Initialise => "initialise",
        PhaseKind::Enter => "enter",
    }
}

/// What the loader of a program did.
pub fn of(page: &mut Page, share: &LoaderShare) {
    let (run, variant) = (share.run.0, harmless(&share.variant_name));
    page.heading(&format!("What the loader of {variant} does before main (run {run}: hot, watched, not timed)"));
    if share.programs.is_empty() {
        page.line("not known: no program was seen to be executed");
    }
    for program in &share.programs {
        match &program.because {
            Some(because) => page.paragraph(&harmless(&format!("{}: not known: {because}", program.program))),
            None => loaded(page, program),
        }
    }
    if share.programs.iter().any(|program| program.because.is_none()) {
        cost(page, &share.cost);
    }
}

fn loaded(page: &mut Page, program: &LoadedProgram) {
    page.line(&harmless(&program.program));
    phases(page, program);
    objects(page, &program.objects);
    initialisers(page, &program.initialisers);
    for cannot in &program.cannot {
        page.remark(&harmless(&format!("not known: {cannot}")));
    }
}

fn phases(page: &mut Page, program: &LoadedProgram) {
    let head = [("phase", Align::Left), ("since exec", Align::Right), ("took", Align::Right), ("", Align::Sentence)];
    let mut table = Table::new(head);
    let exec = program.exec_ns.map_or_else(|| "not seen".to_owned(), time);
    table.row(["exec".to_owned(), time(0), exec, "the kernel, until the loader begins".to_owned()]);
    for row in &program.phases {
        let (phase, phrase) = (name(row.phase).to_owned(), phrase(row.phase).to_owned());
        table.row([phase, time(row.from_ns), time(row.took_ns), phrase]);
    }
    let main = program.before_main_ns.map_or_else(|| "not known".to_owned(), time);
    table.row(["main".to_owned(), main, String::new(), "begins".to_owned()]);
    page.table(&table);
}

fn objects(page: &mut Page, objects: &[LoadedObject]) {
    if objects.is_empty() {
        return;
    }
    let head = [
        ("mapped", Align::Right),
        ("relocated", Align::Right),
        ("relative", Align::Right),
        ("looked up", Align::Right),
        ("calls", Align::Right),
        ("IFUNC", Align::Right),
        ("object", Align::Elastic),
    ];
    let mut table = Table::new(head);
    for object in objects.iter().take(MOST_OBJECTS) {
        let calls = match object.bound_at_once {
            _ if object.calls == 0 => units::count(0),
            true => units::count(object.calls),
            false => format!("{} later", units::count(object.calls)),
        };
        table.row([
            maybe(object.mapped_ns),
            maybe(object.relocated_ns),
            units::count(object.relative),
            units::count(object.symbolic + object.thread_local + object.copies),
            calls,
            units::count(object.irelative),
            harmless(&object.path),
        ]);
    }
    page.gap();
    page.table(&table);
    let left = &objects[objects.len().min(MOST_OBJECTS)..];
    if !left.is_empty() {
        let ns: u64 = left.iter().map(LoadedObject::took_ns).sum();
        let files = units::plural(left.len() as u64, "more file", "more files");
        page.remark(&format!("{files}: {} together", time(ns)));
    }
}

fn initialisers(page: &mut Page, rows: &[LoadedInitialiser]) {
    let long = || rows.iter().filter(|row| row.took_ns > LEAST_NS);
    let head = [
        ("took", Align::Right),
        ("CPU", Align::Right),
        ("initialiser", Align::Left),
        ("source", Align::Left),
        ("object", Align::Elastic),
    ];
    let mut table = Table::new(head);
    for row in long() {
        let function = row.function.clone().unwrap_or_else(|| format!("at {:#x}", row.address));
        let end = if row.returned { "" } else { " (did not come back)" };
        table.row([
            time(row.took_ns),
            row.cpu_ns.map_or_else(|| "not known".to_owned(), time),
            harmless(&format!("{function}{end}")),
            harmless(row.source.as_deref().unwrap_or_default()),
            harmless(&row.object),
        ]);
    }
    if !table.is_empty() {
        page.gap();
        page.table(&table.without_empty_columns());
    }
    let short: Vec<u64> = rows.iter().map(|row| row.took_ns).filter(|took| *took <= LEAST_NS).collect();
    if !short.is_empty() {
        let count = units::plural(short.len() as u64, "initialiser", "initialisers");
        let each = if short.len() == 1 { "" } else { " each" };
        let (limit, all) = (time(LEAST_NS), time(short.iter().sum()));
        page.remark(&format!("{count} of at most {limit}{each}: {all} together"));
    }
}

fn cost(page: &mut Page, cost: &LoaderCost) {
    page.remark(&format!(
        "watching stopped it {} times, in which it stood still for {}; {} for the stops themselves are taken out \
         ({} for a breakpoint, {} for a system call), and {} in which it waited for a CPU",
        units::count(cost.stops),
        time(cost.stopped_ns),
        time(cost.subtracted_ns),
        time(cost.breakpoint_ns),
        time(cost.call_ns),
        time(cost.waited_ns),
    ));
    if !cost.goes_first {
        page.remark("the tracer may not go before others here: its own waits for a CPU are in these times");
    }
}
