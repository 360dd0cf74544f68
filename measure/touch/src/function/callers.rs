//! Counted calls as the tracer knows them: those that stopped for it, and where in which file each caller is.

use super::counted::Code;
use super::library::Library;
use super::module::ModuleId;
use super::seen::{SeenCall, SeenCaller, SeenCount, SeenPlace};
use super::tally::{Thread, Total};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// So many stops of a function are noted one by one.
const NOTED: usize = 1024;

/// Code that an address space has, or has had.
#[derive(Clone, Copy, Debug)]
struct Placed {
    code: Code,
    since_ns: u64,
}

/// A call that stopped.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Number of the address space.
    pub space: u32,
    /// Where it returns to.
    pub back: u64,
    /// The thread.
    pub tid: i32,
    /// When.
    pub at_ns: u64,
}

/// Stops at one function.
#[derive(Debug, Default)]
struct Stops {
    calls: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
    tids: HashSet<i32>,
    callers: HashMap<SeenPlace, u64>,
    noted: Vec<SeenCall>,
}

/// All of it.
#[derive(Debug, Default)]
pub struct Callers {
    stops: HashMap<(ModuleId, usize), Stops>,
    /// By number of the address space, in the order of their mapping.
    places: HashMap<u32, Vec<Placed>>,
}

impl Callers {
    /// What an address space has mapped by now.
    pub fn look(&mut self, space: u32, mapped: impl Iterator<Item = Code>, now_ns: u64) {
        let known = self.places.entry(space).or_default();
        for code in mapped {
            let last = known.iter().rev().find(|known| known.code.start == code.start);
            let is_known = last.is_some_and(|last| {
                (last.code.end, last.code.offset, last.code.module) == (code.end, code.offset, code.module)
            });
            if !is_known {
                known.push(Placed { code, since_ns: now_ns });
            }
        }
    }

    /// A child has what its parent has.
    pub fn fork(&mut self, parent: u32, child: u32) {
        let known = self.places.get(&parent).cloned().unwrap_or_default();
        self.places.insert(child, known);
    }

    /// Notes a call that stopped.
    pub fn stopped(&mut self, module: ModuleId, number: usize, stop: Stop) {
        let Stop { space, back, tid, at_ns } = stop;
        let place = self.place(space, back, at_ns);
        let stops = self.stops.entry((module, number)).or_default();
        stops.calls += 1;
        stops.first_ns.get_or_insert(at_ns);
        stops.last_ns = Some(at_ns);
        stops.tids.insert(tid);
        *stops.callers.entry(place).or_default() += 1;
        if stops.noted.len() < NOTED {
            stops.noted.push(SeenCall { at_ns, tid, place });
        }
    }

    /// Where an address was at a time.
    fn place(&self, space: u32, address: u64, at_ns: u64) -> SeenPlace {
        // What follows a call that never returns may be another function's, or another file's.
        let inside = address.wrapping_sub(1);
        let places = self.places.get(&space).map(Vec::as_slice).unwrap_or_default();
        let mut here = places.iter().rev().filter(|placed| (placed.code.start..placed.code.end).contains(&inside));
        let found = here.clone().find(|placed| placed.since_ns <= at_ns).or_else(|| here.next());
        found.map_or(SeenPlace { file: None, at: address }, |Placed { code, .. }| SeenPlace {
            file: Some(code.module.0),
            at: code.offset + (address - code.start),
        })
    }

    /// Everything that was counted, by file and place. `thread` says whose an FS register was in an address space at a
    /// time.
    pub fn seen(&self, library: &Library, thread: impl Fn(u32, u64, u64) -> i32) -> Vec<SeenCount> {
        let mut seen = Vec::new();
        for (id, module) in library.all().filter(|(_, module)| !module.chosen.is_empty()) {
            let mut totals = library.tally(id).map(|tally| tally.totals()).unwrap_or_default().into_iter();
            for (number, chosen) in module.chosen.iter().enumerate() {
                let total = totals.next().unwrap_or_default();
                let stops = self.stops.get(&(id, number));
                seen.push(SeenCount {
                    file: id.0,
                    offset: module.functions[chosen.function].offset,
                    name: chosen.name.clone(),
                    symbol: chosen.symbol.clone(),
                    because: chosen.jump.as_ref().err().map(|why| (*why).to_owned()),
                    loops: chosen.loops,
                    chooses: chosen.chooses,
                    ..self.summed(&total, stops, &thread)
                });
            }
        }
        seen
    }

    fn summed(&self, total: &Total, stops: Option<&Stops>, thread: impl Fn(u32, u64, u64) -> i32) -> SeenCount {
        let counted: u64 = total.counted.iter().map(|cell| cell.count).sum();
        let mut callers: HashMap<SeenPlace, u64> = stops.map(|stops| stops.callers.clone()).unwrap_or_default();
        let mut tids: HashSet<i32> = stops.map(|stops| stops.tids.clone()).unwrap_or_default();
        for cell in &total.counted {
            *callers.entry(self.place(cell.space, cell.back, cell.last_ns)).or_default() += cell.count;
            tids.insert(match cell.thread {
                Thread::Base(base) => thread(cell.space, base, cell.last_ns),
                Thread::Id(tid) => tid,
            });
        }
        let mut noted: Vec<SeenCall> = stops.map(|stops| stops.noted.clone()).unwrap_or_default();
        noted.extend(total.noted.iter().map(|call| SeenCall {
            at_ns: call.at_ns,
            tid: thread(call.space, call.base, call.at_ns),
            place: self.place(call.space, call.back, call.at_ns),
        }));
        noted.sort_by_key(|call| call.at_ns);
        let mut callers: Vec<SeenCaller> =
            callers.into_iter().map(|(place, calls)| SeenCaller { place, calls }).collect();
        callers.sort_by_key(|caller| (Reverse(caller.calls), caller.place));
        let stopped = stops.map_or(0, |stops| stops.calls);
        let firsts = total.counted.iter().map(|cell| cell.first_ns).chain(stops.and_then(|stops| stops.first_ns));
        let lasts = total.counted.iter().map(|cell| cell.last_ns);
        let lasts = lasts.chain(stops.and_then(|stops| stops.last_ns)).chain(total.others_last_ns);
        SeenCount {
            calls: counted + total.others + stopped,
            stops: stopped,
            threads: tids.len() as u64,
            first_ns: firsts.min(),
            last_ns: lasts.max(),
            callers,
            others: total.others,
            noted,
            ..SeenCount::default()
        }
    }
}
