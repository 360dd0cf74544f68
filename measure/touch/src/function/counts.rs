//! Counted calls with the names of their callers: the room's public result.

use super::seen::{Seen, SeenCall, SeenCount, SeenPlace};
use super::starts::{Function, Names, function_starts};
use model::Nanos;
use os::mapped::Mapped;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;
use symbols::plain_name;

/// What was counted in one run. Times are since just before exec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// How many programs and libraries were mapped, in which functions were looked for.
    pub files: u64,
    /// What was looked for.
    pub patterns: Vec<PatternCount>,
    /// Functions that match, those that were called most often first.
    pub functions: Vec<FunctionCount>,
    /// What was not seen, one sentence each.
    pub cannot: Vec<String>,
}

/// A pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternCount {
    /// As it was typed.
    pub pattern: String,
    /// How many functions of all files match.
    pub functions: u64,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FunctionCount {
    /// Without parameters, as people type it.
    pub name: String,
    /// As the linker knows it.
    pub symbol: String,
    /// Its file; bytes that are not UTF-8 are shown as U+FFFD.
    pub file: String,
    /// Where it begins in the file.
    pub offset: u64,
    /// How often it was called.
    pub calls: u64,
    /// How many of these stopped for a breakpoint.
    pub stops: u64,
    /// Why a breakpoint counts it, if that is its own nature.
    pub breakpoint: Option<String>,
    /// What its count means, where it is not just its calls, one sentence each.
    pub remarks: Vec<String>,
    /// Threads that called it, one in each process at least.
    pub threads: u64,
    /// The first call.
    pub first_ns: Option<Nanos>,
    /// The last one.
    pub last_ns: Option<Nanos>,
    /// Who called it, the most frequent first.
    pub callers: Vec<CallerCount>,
    /// Calls of which neither caller nor thread was noted: there were too many different ones before.
    pub without_caller: u64,
    /// The first calls, one by one.
    pub noted: Vec<NotedCall>,
}

/// Where calls return to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallerCount {
    /// How many calls.
    pub calls: u64,
    /// Where.
    #[serde(flatten)]
    pub place: Caller,
}

/// A place behind a call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Caller {
    /// The function; `None`: no table names it.
    pub function: Option<String>,
    /// Bytes from its begin.
    pub within: Option<u64>,
    /// The file; `None`: the code is of none, as what is made at run time.
    pub file: Option<String>,
    /// Offset in the file, or an address.
    pub at: u64,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotedCall {
    /// When.
    pub at_ns: Nanos,
    /// The thread.
    pub tid: u32,
    /// Index into the function's callers.
    pub caller: usize,
}

/// A file in which callers are.
struct Looked {
    path: String,
    bytes: Option<Mapped>,
    functions: Vec<Function>,
}

/// What was seen, with names.
pub fn counts(seen: &Seen, patterns: &[String], t0_ns: u64) -> Counts {
    let mut files: HashMap<u32, Looked> = HashMap::new();
    for place in seen.counted.iter().flat_map(|count| &count.callers) {
        let Some((number, file)) = place.place.file.and_then(|at| Some((at, seen.files.get(at as usize)?))) else {
            continue;
        };
        files.entry(number).or_insert_with(|| {
            let path = Path::new(&file.path);
            let bytes = std::fs::File::open(path).ok().and_then(|file| Mapped::of(&file));
            let bytes = bytes.filter(|bytes| bytes.len() as u64 == file.size);
            let functions = bytes.as_deref().and_then(|bytes| function_starts(bytes).ok());
            let functions = functions.map(|starts| starts.functions).unwrap_or_default();
            Looked { path: model::shown(path), bytes, functions }
        });
    }
    let names: HashMap<u32, Names<'_>> =
        files.iter().filter_map(|(number, looked)| Some((*number, Names::of(looked.bytes.as_deref()?)))).collect();
    let caller = |place: SeenPlace| {
        let Some(looked) = place.file.and_then(|file| files.get(&file)) else {
            return Caller { at: place.at, ..Caller::default() };
        };
        // A call that never returns may be the last instruction of its function.
        let after = looked.functions.partition_point(|function| function.offset < place.at);
        let function = after.checked_sub(1).map(|last| looked.functions[last]);
        let function = function.filter(|it| it.len == 0 || place.at <= it.offset + it.len);
        let symbol = function.zip(place.file.and_then(|file| names.get(&file)));
        let symbol = symbol.and_then(|(function, names)| names.get(function.offset));
        Caller {
            function: symbol.map(|symbol| plain_name(&symbol).unwrap_or(symbol)),
            within: function.map(|function| place.at - function.offset),
            file: Some(looked.path.clone()),
            at: place.at,
        }
    };
    let mut functions: Vec<FunctionCount> =
        seen.counted.iter().map(|count| function(count, seen, t0_ns, &caller)).collect();
    functions.sort_by(|one, other| {
        (other.calls, &one.name, &one.file, one.offset).cmp(&(one.calls, &other.name, &other.file, other.offset))
    });
    let patterns = patterns.iter().zip(seen.found.iter().copied().chain(std::iter::repeat(0)));
    Counts {
        files: seen.looked,
        patterns: patterns.map(|(pattern, functions)| PatternCount { pattern: pattern.clone(), functions }).collect(),
        functions,
        cannot: seen.notes.clone(),
    }
}

fn function(count: &SeenCount, seen: &Seen, t0_ns: u64, caller: &dyn Fn(SeenPlace) -> Caller) -> FunctionCount {
    let since = |at: u64| Nanos(at.saturating_sub(t0_ns));
    let file = seen.files.get(count.file as usize).map(|file| model::shown(Path::new(&file.path))).unwrap_or_default();
    let places: HashMap<SeenPlace, usize> =
        count.callers.iter().enumerate().map(|(number, caller)| (caller.place, number)).collect();
    let mut callers: Vec<CallerCount> =
        count.callers.iter().map(|it| CallerCount { calls: it.calls, place: caller(it.place) }).collect();
    let mut noted = Vec::with_capacity(count.noted.len());
    let mut more: HashMap<SeenPlace, usize> = HashMap::new();
    for SeenCall { at_ns, tid, place } in count.noted.iter().copied() {
        // The cells were full when it came.
        let number = places.get(&place).copied().unwrap_or_else(|| {
            *more.entry(place).or_insert_with(|| {
                callers.push(CallerCount { calls: 0, place: caller(place) });
                callers.len() - 1
            })
        });
        noted.push(NotedCall { at_ns: since(at_ns), tid: tid.cast_unsigned(), caller: number });
    }
    let mut remarks = Vec::new();
    if count.loops {
        remarks.push("a jump inside of it leads to its begin: each time counts as a call".to_owned());
    }
    if count.chooses {
        remarks.push(
            "the loader calls it to choose the function that others call by its name; calls of that one are not counted"
                .to_owned(),
        );
    }
    FunctionCount {
        name: count.name.clone(),
        symbol: count.symbol.clone(),
        file,
        offset: count.offset,
        calls: count.calls,
        stops: count.stops,
        breakpoint: count.because.clone(),
        remarks,
        threads: count.threads,
        first_ns: count.first_ns.map(since),
        last_ns: count.last_ns.map(since),
        callers,
        without_caller: count.others,
        noted,
    }
}
