//! What watched starts touched, as columns: the pages of each file and the functions that were called. Pure. What a
//! column holds is in `docs/view-format.md`; `viewer/src/logic/touched.ts` reads it.

use crate::TouchOf;
use crate::columns::{Rising, Texts, columns};
use crate::events::{Names, Table, micros, missed};
use model::{Nanos, TouchEngine};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use touch::Detail;

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
    let mut read = RisingRanges::default();
    for file in &program.details {
        file.read.iter().for_each(|(offset, len)| read.push(file.line as u64, offset.0, len.0));
    }
    let mut touched = BTreeMap::new();
    for engine in [TouchEngine::Page, TouchEngine::Probe, TouchEngine::Byte] {
        touched.extend(touches(&program.details, engine).map(|table| (engine.name(), table)));
    }
    PackedTouch {
        variant: program.variant.to_owned(),
        report: program.report.clone(),
        names: Texts::pack(names.list.iter().map(String::as_str)),
        read: read.table(Vec::new()),
        touched,
        functions,
    }
}

/// Columns of ranges of files in the making; a file is a line of the report. A range is predicted to begin where the
/// one before of the same file ended.
struct RisingRanges {
    count: usize,
    ends: HashMap<u64, u64>,
    file: Rising,
    offset: Rising,
    len: Rising,
}

impl Default for RisingRanges {
    fn default() -> Self {
        let (file, offset, len) = (Rising::delta(), Rising::signed(), Rising::plain());
        Self { count: 0, ends: HashMap::new(), file, offset, len }
    }
}

impl RisingRanges {
    fn push(&mut self, file: u64, offset: u64, len: u64) {
        self.count += 1;
        let end = self.ends.insert(file, offset.saturating_add(len)).unwrap_or(0);
        self.file.push(file);
        self.offset.push_signed(missed(offset, end));
        self.len.push(len);
    }

    /// With more columns of the same rows.
    fn table(self, mut more: Vec<(&'static str, Rising)>) -> Table {
        more.extend([("file", self.file), ("offset", self.offset), ("len", self.len)]);
        Table { count: self.count, columns: columns(more) }
    }
}

/// What an engine saw; `None`: nothing.
fn touches(details: &[Detail<'_>], engine: TouchEngine) -> Option<Table> {
    let (mut ranges, mut at, mut order) = (RisingRanges::default(), Rising::delta(), Rising::delta());
    for file in details {
        for row in file.touched.iter().filter(|row| row.engine == engine) {
            ranges.push(file.line as u64, row.offset.0, row.len.0);
            at.push(time(row.at_ns));
            order.push(row.order.map_or(0, |order| u64::from(order) + 1));
        }
    }
    (ranges.count > 0).then(|| ranges.table(vec![("at", at), ("order", order)]))
}

/// Microseconds plus one; 0: not known.
fn time(at: Option<Nanos>) -> u64 {
    at.map_or(0, |at| micros(at) + 1)
}

fn functions(details: &[Detail<'_>], names: &mut Names) -> Table {
    let known = |bytes: Option<model::Bytes>| bytes.map_or(0, |bytes| bytes.0 + 1);
    let mut ranges = RisingRanges::default();
    let (mut at, mut order, mut name) = (Rising::delta(), Rising::delta(), Rising::plain());
    let (mut read, mut needed, mut lonely) = (Rising::plain(), Rising::plain(), Rising::plain());
    for file in details {
        for call in &file.calls {
            ranges.push(file.line as u64, call.offset, call.len.0);
            at.push(micros(call.at_ns));
            order.push(call.order.into());
            name.push(call.name.as_deref().map_or(0, |name| names.number(name) + 1));
            read.push(known(call.read));
            needed.push(known(call.needed));
            lonely.push(call.lonely_pages);
        }
    }
    ranges.table(vec![
        ("at", at),
        ("order", order),
        ("name", name),
        ("read", read),
        ("needed", needed),
        ("lonely", lonely),
    ])
}
