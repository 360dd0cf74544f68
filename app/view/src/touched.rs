//! What watched starts touched, as columns: the pages of each file and the functions that were called. Pure. What a
//! column holds is in `docs/view-format.md`; `viewer/src/logic/touched.ts` reads it.

use crate::TouchOf;
use crate::columns::{Column, Texts};
use crate::events::{Names, Table, micros, missed};
use model::{Nanos, TouchEngine, TouchRow};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use touch::{CallReport, Detail};

/// Version of what a page holds of touched bytes.
pub const TOUCHED_SCHEMA: &str = "thaw.touched/1";

/// All programs that were watched.
#[derive(Debug, Serialize)]
pub struct Touched<'a> {
    schema: &'static str,
    programs: &'a [PackedTouch],
}

impl<'a> Touched<'a> {
    pub fn of(programs: &'a [PackedTouch]) -> Self {
        Self { schema: TOUCHED_SCHEMA, programs }
    }
}

/// One of them. Column `file` is always a line of `report.files`.
#[derive(Debug, Serialize)]
pub struct PackedTouch {
    variant: String,
    report: touch::Report,
    /// Names of functions, by number.
    names: Texts,
    read: Table,
    /// By the name of the engine that saw it.
    touched: BTreeMap<&'static str, Table>,
    functions: Table,
}

/// Packs what was seen of a program.
pub fn pack(program: &TouchOf<'_>) -> PackedTouch {
    let mut names = Names::default();
    let functions = functions(&program.details, &mut names);
    let read = program.details.iter().flat_map(|file| {
        file.read.iter().map(|(offset, len)| FileRange { file: file.line as u64, offset: offset.0, len: len.0 })
    });
    let mut touched = BTreeMap::new();
    for engine in [TouchEngine::Page, TouchEngine::Probe, TouchEngine::Byte] {
        touched.extend(touches(&program.details, engine).map(|table| (engine.name(), table)));
    }
    PackedTouch {
        variant: program.variant.to_owned(),
        report: program.report.clone(),
        names: Texts::pack(names.list.iter().map(String::as_str)),
        read: file_ranges(&read.collect::<Vec<_>>()),
        touched,
        functions,
    }
}

/// A range of a file; `file` is a line of the report.
struct FileRange {
    file: u64,
    offset: u64,
    len: u64,
}

/// A range is predicted to begin where the one before of the same file ended.
fn file_ranges(list: &[FileRange]) -> Table {
    let mut ends: HashMap<u64, u64> = HashMap::new();
    let ends = |it: &FileRange| ends.insert(it.file, it.offset.saturating_add(it.len)).unwrap_or(0);
    let offset: Vec<i64> = list.iter().map(ends).zip(list).map(|(end, it)| missed(it.offset, end)).collect();
    Table {
        count: list.len(),
        columns: BTreeMap::from([
            ("file", Column::delta(&list.iter().map(|it| it.file).collect::<Vec<_>>())),
            ("offset", Column::signed(&offset)),
            ("len", Column::plain(&list.iter().map(|it| it.len).collect::<Vec<_>>())),
        ]),
    }
}

/// What an engine saw; `None`: nothing.
fn touches(details: &[Detail<'_>], engine: TouchEngine) -> Option<Table> {
    let all = details.iter().flat_map(|file| file.touched.iter().map(|row| (file.line as u64, *row)));
    let rows: Vec<(u64, &TouchRow)> = all.filter(|(_, row)| row.engine == engine).collect();
    let list: Vec<FileRange> =
        rows.iter().map(|(file, row)| FileRange { file: *file, offset: row.offset.0, len: row.len.0 }).collect();
    if list.is_empty() {
        return None;
    }
    let mut table = file_ranges(&list);
    let at: Vec<u64> = rows.iter().map(|(_, row)| time(row.at_ns)).collect();
    let order: Vec<u64> = rows.iter().map(|(_, row)| row.order.map_or(0, |order| u64::from(order) + 1)).collect();
    table.columns.extend([("at", Column::delta(&at)), ("order", Column::delta(&order))]);
    Some(table)
}

/// Microseconds plus one; 0: not known.
fn time(at: Option<Nanos>) -> u64 {
    at.map_or(0, |at| micros(at) + 1)
}

fn functions(details: &[Detail<'_>], names: &mut Names) -> Table {
    let calls: Vec<(u64, &CallReport)> =
        details.iter().flat_map(|detail| detail.calls.iter().map(|call| (detail.line as u64, call))).collect();
    let list: Vec<FileRange> =
        calls.iter().map(|(file, call)| FileRange { file: *file, offset: call.offset, len: call.len.0 }).collect();
    let column = |each: &dyn Fn(&CallReport) -> u64| calls.iter().map(|(_, call)| each(call)).collect::<Vec<u64>>();
    let known = |bytes: Option<model::Bytes>| bytes.map_or(0, |bytes| bytes.0 + 1);
    let name: Vec<u64> =
        calls.iter().map(|(_, call)| call.name.as_deref().map_or(0, |name| names.number(name) + 1)).collect();
    let mut table = file_ranges(&list);
    table.columns.extend([
        ("at", Column::delta(&column(&|call| micros(call.at_ns)))),
        ("order", Column::delta(&column(&|call| call.order.into()))),
        ("name", Column::plain(&name)),
        ("read", Column::plain(&column(&|call| known(call.read)))),
        ("needed", Column::plain(&column(&|call| known(call.needed)))),
        ("lonely", Column::plain(&column(&|call| call.lonely_pages))),
    ]);
    table
}
