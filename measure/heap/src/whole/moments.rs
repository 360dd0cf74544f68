//! What each stack held over time, in steps of equal length, while events come in: nobody knows yet how long that will
//! be.

use crate::modes::Split;
use heapfile::event::ThreadId;
use heapfile::figures::Held;
use heapfile::ledger::Block;
use heapfile::stack::{Quick, StackId};
use model::Nanos;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Most steps of a process. Readers want fewer; the more there are, the better these fit.
const MOST_STEPS: u64 = 4096;
/// Most changes of a process, 24 bytes each.
const MOST_CHANGES: usize = 4 << 20;
/// First length of a step, nanoseconds.
const FIRST: u64 = 1 << 10;
const NONE: u32 = u32::MAX;

/// What came to a stack in a step, less what went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Number of the step; step 0 begins with the process.
    pub step: u64,
    /// Bytes that the program asked for, less those that it gave back.
    pub bytes: i64,
    /// Blocks made, less those given back.
    pub blocks: i64,
}

/// One step of a stack; those of a stack are a list, the last one first.
#[derive(Clone, Copy, Debug)]
struct Change {
    bytes: i64,
    blocks: i64,
    step: u32,
    before: u32,
}

/// What the stacks of a process held.
#[derive(Debug)]
pub struct Moments {
    step_ns: u64,
    split: Split,
    changes: Vec<Change>,
    /// Changes that are not used any more, a list.
    unused: u32,
    used: usize,
    most: usize,
    /// By stack (0: blocks without one) or, if sites are told apart by threads, in the order of first blocks: the last
    /// change.
    last: Vec<u32>,
    threads: HashMap<(u32, u64), u32, BuildHasherDefault<Quick>>,
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn number(stack: Option<StackId>) -> u32 {
    stack.map_or(0, |stack| stack.0.saturating_add(1))
}

impl Moments {
    pub(super) fn new(split: Split) -> Self {
        Self {
            step_ns: FIRST,
            split,
            changes: Vec::new(),
            unused: NONE,
            used: 0,
            most: MOST_CHANGES,
            last: Vec::new(),
            threads: HashMap::default(),
        }
    }

    /// Length of a step; the first begins with the process.
    pub fn step_ns(&self) -> Nanos {
        Nanos(self.step_ns)
    }

    /// What a site held, by its stack and part, the last step first. Steps without a change are not there.
    pub fn of(&self, stack: Option<StackId>, part: u64) -> impl Iterator<Item = Step> + '_ {
        let line = match self.split {
            Split::Thread => self.threads.get(&(number(stack), part)).copied(),
            Split::Stack | Split::Size => Some(number(stack)),
        };
        let mut at = line.and_then(|line| self.last.get(line as usize).copied()).unwrap_or(NONE);
        let each = std::iter::from_fn(move || {
            let change = self.changes.get(at as usize)?;
            at = change.before;
            Some(Step { step: change.step.into(), bytes: change.bytes, blocks: change.blocks })
        });
        each.filter(|step| step.bytes != 0 || step.blocks != 0)
    }

    pub(super) fn comes(&mut self, block: &Block, at: Nanos) {
        self.add((block.stack, block.thread), at, signed(block.bytes()), signed(block.count));
    }

    pub(super) fn goes(&mut self, block: &Block, at: Nanos) {
        self.add((block.stack, block.thread), at, -signed(block.bytes()), -signed(block.count));
    }

    /// What a stack held goes over to what it holds at this moment; for sites that are not told apart by threads.
    pub(super) fn changes(&mut self, stack: Option<StackId>, at: Nanos, (held, holds): (Held, Held)) {
        let by = |of: fn(&Held) -> u64| signed(of(&holds)).saturating_sub(signed(of(&held)));
        self.add((stack, ThreadId(0)), at, by(|it| it.bytes), by(|it| it.blocks));
    }

    fn add(&mut self, of: (Option<StackId>, ThreadId), at: Nanos, bytes: i64, blocks: i64) {
        // A change for each stack has to be there.
        while at.0 / self.step_ns >= MOST_STEPS || (self.used >= self.most && at.0 >= self.step_ns) {
            self.halve();
        }
        let step = (at.0 / self.step_ns) as u32;
        let line = self.line(of);
        let before = self.last[line];
        if let Some(change) = self.changes.get_mut(before as usize).filter(|change| change.step == step) {
            change.bytes = change.bytes.saturating_add(bytes);
            change.blocks = change.blocks.saturating_add(blocks);
            return;
        }
        let change = Change { bytes, blocks, step, before };
        self.used += 1;
        self.last[line] = match self.changes.get_mut(self.unused as usize) {
            Some(unused) => {
                let at = std::mem::replace(&mut self.unused, unused.before);
                *unused = change;
                at
            }
            None => {
                self.changes.push(change);
                (self.changes.len() - 1) as u32
            }
        };
    }

    fn line(&mut self, (stack, thread): (Option<StackId>, ThreadId)) -> usize {
        let stack = number(stack);
        let line = match self.split {
            Split::Thread => {
                let fresh = self.last.len() as u32;
                *self.threads.entry((stack, thread.0.into())).or_insert(fresh)
            }
            Split::Stack | Split::Size => stack,
        } as usize;
        if self.last.len() <= line {
            self.last.resize(line + 1, NONE);
        }
        line
    }

    /// Steps become twice as long; what cancels out within one is forgotten.
    fn halve(&mut self) {
        self.step_ns *= 2;
        for line in 0..self.last.len() {
            let mut at = std::mem::replace(&mut self.last[line], NONE);
            // The change that was kept last, whose `before` is still open.
            let mut kept = NONE;
            while at != NONE {
                let mut change = self.changes[at as usize];
                change.step /= 2;
                let mut next = change.before;
                if let Some(other) = self.changes.get(next as usize).filter(|other| other.step / 2 == change.step) {
                    change.bytes = change.bytes.saturating_add(other.bytes);
                    change.blocks = change.blocks.saturating_add(other.blocks);
                    let beyond = other.before;
                    self.forget(next);
                    next = beyond;
                }
                if change.bytes == 0 && change.blocks == 0 {
                    self.forget(at);
                } else {
                    change.before = NONE;
                    self.changes[at as usize] = change;
                    match self.changes.get_mut(kept as usize) {
                        Some(kept) => kept.before = at,
                        None => self.last[line] = at,
                    }
                    kept = at;
                }
                at = next;
            }
        }
    }

    fn forget(&mut self, change: u32) {
        self.changes[change as usize].before = self.unused;
        self.unused = change;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapfile::event::Maker;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn block(stack: u32, thread: u32, size: u64) -> Block {
        let (stack, thread) = (Some(StackId(stack)), ThreadId(thread));
        Block { size, stack, at: Nanos(0), thread, maker: Maker::Malloc, usable: None, count: 1 }
    }

    proptest! {
        /// At the end of each step every stack has what came less what went, whatever was put together on the way.
        #[test]
        fn steps_add_up(
            moves in prop::collection::vec((0u32..5, 0u64..3, 1u64..50, 0u64..400_000), 1..300),
            by_thread: bool,
            most in 8usize..100,
        ) {
            let split = if by_thread { Split::Thread } else { Split::Stack };
            let mut moments = Moments { most, ..Moments::new(split) };
            let (mut at, mut now) = (0, Vec::new());
            for (stack, kind, size, later) in moves {
                at += later;
                let block = block(stack, stack % 2, size);
                if kind == 0 { moments.goes(&block, Nanos(at)) } else { moments.comes(&block, Nanos(at)) }
                now.push((stack, at, if kind == 0 { -(size as i64) } else { size as i64 }));
            }
            for stack in 0..5 {
                let part = if by_thread { u64::from(stack % 2) } else { 0 };
                let mut steps: Vec<Step> = moments.of(Some(StackId(stack)), part).collect();
                prop_assert!(steps.is_sorted_by(|a, b| a.step > b.step));
                steps.reverse();
                let mut expected: BTreeMap<u64, i64> = BTreeMap::new();
                for (_, at, bytes) in now.iter().filter(|(of, ..)| *of == stack) {
                    *expected.entry(at / moments.step_ns).or_default() += bytes;
                }
                let found = steps.iter().filter(|it| it.bytes != 0).map(|it| (it.step, it.bytes));
                let found: BTreeMap<u64, i64> = found.collect();
                expected.retain(|_, bytes| *bytes != 0);
                prop_assert_eq!(found, expected);
            }
            prop_assert!(moments.used <= most && at / moments.step_ns < MOST_STEPS);
        }
    }
}
