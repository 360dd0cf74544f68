//! What memory reporters measured, pointer by pointer: the `blocks` of a report of `embed/memreport` (`thaw memory show
//! --blocks`).

use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who reported a block, and as what.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct ReportedAs {
    /// The reporter's name.
    pub reporter: String,
    /// The path that it reported under.
    pub path: String,
}

/// What one reporter measured, and what it reported of the heap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reporter {
    /// The reporter's name.
    pub name: String,
    /// Usable sizes of what it measured.
    pub measured_bytes: u64,
    /// Sum of its heap reports.
    pub reported_heap_bytes: i64,
}

/// What the report says of the heap as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amounts {
    /// `heap-allocated`.
    pub heap_allocated: i64,
    /// Sum of all heap reports below `explicit`.
    pub reported: i64,
}

/// A pointer that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) address: u64,
    /// 0: the library took it for no block.
    pub(crate) usable: u64,
    /// Index into [`Marks::sets`].
    pub(crate) set: usize,
}

/// All that was measured in one process at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Marks {
    /// The process, in its own namespace.
    pub pid: u32,
    /// Time stamp counter before the first reporter was asked.
    pub began_ticks: u64,
    /// The same after the last one.
    pub ended_ticks: u64,
    /// The reporters.
    pub reporters: Vec<Reporter>,
    /// What the report says of the heap; `None`: its allocator does not tell.
    pub amounts: Option<Amounts>,
    pub(crate) sets: Vec<Vec<ReportedAs>>,
    pub(crate) marks: Vec<Mark>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(default)]
    reporters: Vec<Reporter>,
    blocks: Option<RawBlocks>,
}

#[derive(Deserialize)]
struct RawBlocks {
    pid: u32,
    began: RawMoment,
    ended: RawMoment,
    report_sets: Vec<Vec<(String, String)>>,
    address: Vec<u64>,
    usable_bytes: Vec<u64>,
    report_set: Vec<usize>,
}

#[derive(Deserialize)]
struct RawMoment {
    ticks: Option<u64>,
}

impl Marks {
    /// Reads one value of the list `thaw` of a memory report; `None`: its blocks are not in it. `file` is for messages.
    ///
    /// # Errors
    /// The value is not what `thaw_memreport` writes.
    pub fn parse(value: &Value, amounts: Option<Amounts>, file: &str) -> Result<Option<Self>> {
        let wrong =
            |cause: String| Error::new(Exit::Data, "the blocks of a memory report are damaged:", file).because(cause);
        let raw = Raw::deserialize(value).map_err(|cause| wrong(cause.to_string()))?;
        let Some(blocks) = raw.blocks else { return Ok(None) };
        let (Some(began_ticks), Some(ended_ticks)) = (blocks.began.ticks, blocks.ended.ticks) else {
            return Err(wrong("it has no time stamp counter: it was not written on x86-64".into()));
        };
        if began_ticks > ended_ticks {
            return Err(wrong("it ended before it began".into()));
        }
        let (addresses, sizes, numbers) = (blocks.address, blocks.usable_bytes, blocks.report_set);
        if sizes.len() != addresses.len() || numbers.len() != addresses.len() {
            return Err(wrong("its lists have different lengths".into()));
        }
        if let Some(number) = numbers.iter().find(|number| blocks.report_sets.get(**number).is_none_or(Vec::is_empty)) {
            return Err(wrong(format!("there are no reports with number {number}")));
        }
        let sets = blocks
            .report_sets
            .into_iter()
            .map(|set| set.into_iter().map(|(reporter, path)| ReportedAs { reporter, path }).collect());
        let marks = addresses.into_iter().zip(sizes).zip(numbers);
        Ok(Some(Self {
            pid: blocks.pid,
            began_ticks,
            ended_ticks,
            reporters: raw.reporters,
            amounts,
            sets: sets.collect(),
            marks: marks.map(|((address, usable), set)| Mark { address, usable, set }).collect(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value() -> Value {
        json!({ "reporters": [{ "name": "a", "measured_bytes": 24, "reported_heap_bytes": 24 }], "blocks": {
            "pid": 7, "began": { "ticks": 10, "monotonic_ns": 1 }, "ended": { "ticks": 20, "monotonic_ns": 2 },
            "report_sets": [[["a", "explicit/a"]]], "address": [16], "usable_bytes": [24], "report_set": [0] } })
    }

    #[test]
    fn blocks_are_read_and_damage_is_said() {
        let marks = Marks::parse(&value(), None, "x").unwrap().unwrap();
        assert_eq!((marks.pid, marks.began_ticks, marks.marks[0].usable), (7, 10, 24));
        assert_eq!(marks.sets[0][0].path, "explicit/a");
        assert_eq!(Marks::parse(&json!({ "reporters": [] }), None, "x").unwrap(), None);
        for (pointer, bad, says) in [
            ("/blocks/report_set/0", json!(1), "number 1"),
            ("/blocks/report_set", json!([]), "lengths"),
            ("/blocks/report_sets/0", json!([]), "number 0"),
            ("/blocks/began/ticks", json!(21), "before it began"),
            ("/blocks/ended/ticks", Value::Null, "time stamp counter"),
            ("/blocks/address/0", json!(-1), "invalid value"),
        ] {
            let mut value = value();
            *value.pointer_mut(pointer).unwrap() = bad;
            let error = Marks::parse(&value, None, "x").unwrap_err();
            assert!(error.exit == Exit::Data && error.to_string().contains(says), "{error}");
        }
    }
}
