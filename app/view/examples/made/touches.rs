//! What a made-up start touches: the pages that it read or faulted in, and calls of functions of its largest library.

use model::*;
use stats::Random;
use std::collections::HashSet;

/// Functions that the library has.
const FUNCTIONS: u64 = 273_834;

/// The run without read-ahead: each page once, in the order of its first read or fault.
pub fn pages(rows: &TraceRows) -> TraceRows {
    let reads = rows.reads.iter().map(|read| (read.at_ns, read.tid, read.file, read.offset, read.len));
    let missed = rows.faults.iter().filter(|fault| fault.missed);
    let faults = missed.map(|fault| (fault.at_ns, fault.tid, fault.file, fault.offset, fault.len));
    let mut asked: Vec<_> = reads.chain(faults).collect();
    asked.sort_by_key(|(at, ..)| *at);
    let mut seen = HashSet::new();
    let mut touches = Vec::new();
    for (at, tid, file, offset, len) in asked {
        for page in offset.0 / PAGE..(offset.0 + len.0).div_ceil(PAGE) {
            if seen.insert((file, page)) {
                touches.push(TouchRow {
                    file,
                    offset: FileOffset(page * PAGE),
                    len: Bytes(PAGE),
                    order: Some(touches.len() as u32),
                    at_ns: Some(at),
                    tid: Some(tid),
                    engine: TouchEngine::Page,
                    name: None,
                });
            }
        }
    }
    TraceRows { files: rows.files.clone(), sections: rows.sections.clone(), touches, ..TraceRows::default() }
}

/// The run whose functions were watched: those that the library's `.text` has, some of them called. Every third has a
/// name.
pub fn functions(rows: &TraceRows) -> TraceRows {
    let mut random = Random::from_seed(11);
    let mut below = |limit: u64| random.below(limit as usize) as u64;
    let texts = rows.sections.iter().filter(|section| section.name == ".text");
    let text = texts.max_by_key(|section| section.len).expect("there are libraries");
    let file = text.file;
    let (mut at, end) = (text.offset.0, text.offset.0 + text.len.0);
    // Called functions stand in groups, with other code between them; groups are called one after the other.
    let mut groups: Vec<(u64, Vec<(u64, u64)>)> = Vec::new();
    while at < end {
        let mut group = Vec::new();
        for _ in 0..1 + below(24) {
            let len = 16 + below(32) * below(48);
            group.push((at, len));
            at += (len + below(300)).next_multiple_of(16);
        }
        groups.push((below(1 << 40), group));
        at += below(60_000) / 16 * 16;
    }
    groups.sort();
    let calls: Vec<(u64, u64)> =
        groups.into_iter().flat_map(|(_, group)| group).filter(|(at, len)| at + len < end).collect();
    let name =
        |number: usize| number.is_multiple_of(3).then(|| format!("_ZN7mozilla4made{}Part{number}Ev", number % 90));
    let touch = |(number, (offset, len)): (usize, &(u64, u64))| TouchRow {
        file,
        offset: FileOffset(*offset),
        len: Bytes(*len),
        order: Some(number as u32),
        at_ns: Some(Nanos(40_000_000 + number as u64 * 41_000)),
        tid: Some(4100),
        engine: TouchEngine::Function,
        name: name(number),
    };
    TraceRows {
        files: rows.files.clone(),
        sections: rows.sections.clone(),
        touches: calls.iter().enumerate().map(touch).collect(),
        watched: vec![WatchedRow { file, functions: FUNCTIONS, len: text.len, starts: StartsFrom::Unwind }],
        ..TraceRows::default()
    }
}
