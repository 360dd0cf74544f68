//! What a thread's samples say of it: which label or function it was in, and whether it had used the processor.

use crate::import::json::{self, Piece};
use serde_json::Value;
use std::collections::HashMap;

/// A sample speaks for at most so many intervals of the profiler.
const INTERVALS: f64 = 10.0;
/// So many frames of a stack are looked at; a profile that is broken may have circles.
const DEEPEST: usize = 2048;

/// A time that a sample speaks for, in milliseconds of its process.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub from_ms: f64,
    pub to_ms: f64,
    /// Category and label; `None`: the thread used no processor.
    pub label: Option<String>,
}

/// Rows of a table, and where each of its columns is.
struct Table {
    schema: HashMap<String, usize>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    fn of(piece: Option<Piece<'_>>) -> Self {
        let schema = piece.and_then(|it| it.member("schema")).and_then(Piece::read).unwrap_or_default();
        let rows = piece.and_then(|it| it.member("data")).into_iter().flat_map(Piece::items);
        // A row that is cut stays a row, for others name rows by their places.
        Self { schema, rows: rows.map(|row| row.read().unwrap_or_default()).collect() }
    }

    fn get(&self, row: usize, column: &str) -> Option<&Value> {
        self.rows.get(row)?.get(*self.schema.get(column)?)
    }

    fn index(&self, row: usize, column: &str) -> Option<usize> {
        self.get(row, column)?.as_u64().and_then(|index| usize::try_from(index).ok())
    }
}

/// The stacks of a thread.
struct Stacks<'a> {
    stacks: Table,
    frames: Table,
    texts: &'a [Value],
    categories: &'a [String],
}

impl Stacks<'_> {
    /// Category of the innermost frame that has one, and the innermost frame that is no bare address.
    fn label(&self, stack: usize) -> (Option<&str>, Option<&str>) {
        let (mut category, mut label, mut next) = (None, None, Some(stack));
        for _ in 0..DEEPEST {
            let Some(stack) = next.filter(|_| category.is_none() || label.is_none()) else { break };
            let Some(frame) = self.stacks.index(stack, "frame") else { break };
            let of = self.frames.index(frame, "category").and_then(|index| self.categories.get(index));
            category = category.or(of.map(String::as_str));
            let text = self.frames.index(frame, "location").and_then(|index| self.texts.get(index)?.as_str());
            label = label.or(text.filter(|text| !text.is_empty() && !text.starts_with("0x")));
            next = self.stacks.index(stack, "prefix");
        }
        (category, label)
    }
}

/// The samples of a thread of the gecko format, in the order of time.
pub fn samples(
    thread: &HashMap<&[u8], Piece<'_>>,
    texts: Option<&[Value]>,
    categories: &[String],
    interval_ms: f64,
) -> Vec<Sample> {
    let member = |name: &str| thread.get(name.as_bytes()).copied();
    let Some(piece) = member("samples").filter(|it| it.member("schema").is_some()) else { return Vec::new() };
    let stacks = Stacks {
        stacks: Table::of(member("stackTable")),
        frames: Table::of(member("frameTable")),
        texts: texts.unwrap_or_default(),
        categories,
    };
    let table = Table::of(Some(piece));
    let mut labels: HashMap<Option<usize>, (bool, String)> = HashMap::new();
    let mut all: Vec<Sample> = Vec::new();
    for row in 0..table.rows.len() {
        let Some(at) = table.get(row, "time").and_then(json::number) else { continue };
        let stack = table.index(row, "stack");
        let (is_idle, label) = labels.entry(stack).or_insert_with(|| {
            let (category, label) = stack.map_or((None, None), |stack| stacks.label(stack));
            let category = category.unwrap_or("Other");
            (category == "Idle", format!("{category}: {}", label.unwrap_or("(no label)")))
        });
        let used = table.get(row, "threadCPUDelta").and_then(json::number);
        let is_waiting = used.map_or(*is_idle, |used| used == 0.0);
        let from_ms = all.last().map_or(at - interval_ms, |last| last.to_ms.max(at - INTERVALS * interval_ms));
        if from_ms < at {
            all.push(Sample { from_ms, to_ms: at, label: (!is_waiting).then(|| label.clone()) });
        }
    }
    all
}
