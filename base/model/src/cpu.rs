//! Who ran where and when in one start, who woke whom, and where threads were: the nouns of `measure/cpu`, which the
//! recording keeps.
//!
//! Times are nanoseconds since just before exec. Thread number 0 is the idle task of a CPU.

use crate::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// One start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The process that was started; its first thread has the same number.
    pub root: u32,
    /// When it was ready.
    pub ready: Nanos,
    /// The thread that made it ready, where that is known: the one that wrote the mark, ended, or mapped the window.
    pub ready_by: Option<u32>,
    /// How many CPUs are online.
    pub cpus: u32,
    /// All threads that are named below, by their beginning.
    pub threads: Vec<Thread>,
    /// What CPUs went over to, by time.
    pub switches: Vec<Switch>,
    /// Who made whom runnable, by time.
    pub wakes: Vec<Wake>,
    /// Where threads of the tree were when the clock ticked, by time.
    pub samples: Vec<Sample>,
    /// The stacks of all of them.
    pub stacks: Stacks,
    /// So much CPU time stands between two samples of a thread.
    pub tick: Nanos,
    /// Records that were lost of where threads were and of what became of them.
    pub lost: u64,
    /// Records that were lost, or that the kernel does not tell, of who ran where and who woke whom.
    pub lost_switches: u64,
    /// CPU time that thaw's threads had meanwhile, which read what the kernel took down.
    pub own: Nanos,
    /// What cannot be known, one sentence each.
    pub cannot: Vec<String>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its process; of threads outside of the tree unknown: the same as `tid`.
    pub pid: u32,
    /// Its last name.
    pub name: String,
    /// Whether it is of the tree that was started; if not, another program's or the kernel's.
    pub of_tree: bool,
    /// The thread that made it, if seen.
    pub made_by: Option<u32>,
    /// When it began; 0: before.
    pub start: Nanos,
    /// When it ended, if it did.
    pub end: Option<Nanos>,
}

/// How a thread left its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Went {
    /// It could go on: another one was to run.
    Preempted,
    /// It waits, and a signal would end the wait.
    Asleep,
    /// It waits for something of the kernel's: a disk, a lock of the kernel.
    Held,
    /// It ended.
    Ended,
}

/// A CPU went over to another thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// When.
    pub at: Nanos,
    /// Which CPU.
    pub cpu: u32,
    /// Which thread it left.
    pub from: u32,
    /// How that went.
    pub went: Went,
    /// Which thread it went over to.
    pub to: u32,
    /// Where the thread that was left was: kernel functions innermost, then the program's. Of threads of the tree only.
    pub stack: Option<StackId>,
}

/// Who made a thread runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Waker {
    /// This thread.
    Thread(u32),
    /// An interrupt: a timer, a device.
    Interrupt,
}

/// A thread was made runnable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wake {
    /// When.
    pub at: Nanos,
    /// By whom.
    pub by: Waker,
    /// Who.
    pub woken: u32,
    /// Whether it is a thread that has never run.
    pub new: bool,
    /// Where the waker was.
    pub stack: Option<StackId>,
}

/// Where a thread was when the clock of its CPU time ticked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// Thread.
    pub tid: u32,
    /// Whether it was in the kernel.
    pub in_kernel: bool,
    /// Where.
    pub stack: Option<StackId>,
}

/// A frame of [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FrameId(pub u32);

/// A stack of [`Stacks`]: its innermost frame, which leads to its callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackId(pub u32);

/// A place in a program or in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function, demangled; `None`: nothing names it.
    pub function: Option<String>,
    /// The object's path; [`Frame::KERNEL`]; empty: code made at run time.
    pub object: String,
    /// `file:line`, where debug data tell.
    pub source: Option<String>,
    /// Whether the compiler put it into its caller.
    pub inlined: bool,
    /// Where in the object, for what has no name; else 0.
    pub address: u64,
}

impl Frame {
    /// The object of the kernel's functions.
    pub const KERNEL: &str = "[kernel]";

    /// Whether it is of the kernel.
    pub fn is_kernel(&self) -> bool {
        self.object == Self::KERNEL
    }

    /// The source file, without the line.
    pub fn file(&self) -> Option<&str> {
        self.source.as_deref().map(|source| source.rsplit_once(':').map_or(source, |(file, _)| file))
    }

    /// The object's file name.
    pub fn object_name(&self) -> &str {
        match self.object.rsplit('/').next() {
            Some(name) if !name.is_empty() => name,
            _ => "(no file)",
        }
    }

    /// The function, or object and address.
    pub fn label(&self) -> String {
        self.function.clone().unwrap_or_else(|| format!("{}+{:#x}", self.object_name(), self.address))
    }
}

/// Stacks, each kept once with its callers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stacks {
    frames: Vec<Frame>,
    frame_numbers: HashMap<Frame, FrameId>,
    nodes: Vec<(Option<StackId>, FrameId)>,
    node_numbers: HashMap<(Option<StackId>, FrameId), StackId>,
}

impl Stacks {
    /// Stacks as they were stored: by number, each with the stack of its caller, which comes before it, and its
    /// innermost frame.
    ///
    /// # Errors
    /// What points to something that is not there, as the end of a sentence about the stacks.
    pub fn stored(frames: Vec<Frame>, nodes: Vec<(Option<StackId>, FrameId)>) -> Result<Self, String> {
        for (number, (caller, frame)) in (0..).zip(&nodes) {
            if caller.is_some_and(|caller| caller.0 >= number) || frame.0 as usize >= frames.len() {
                return Err(format!("stack {number} points to what is not there"));
            }
        }
        let numbered = |count: usize| 0..count as u32;
        Ok(Self {
            frame_numbers: frames.iter().cloned().zip(numbered(frames.len()).map(FrameId)).collect(),
            node_numbers: nodes.iter().copied().zip(numbered(nodes.len()).map(StackId)).collect(),
            frames,
            nodes,
        })
    }

    /// A frame's number; the same for the same frame.
    pub fn frame(&mut self, frame: Frame) -> FrameId {
        if let Some(number) = self.frame_numbers.get(&frame) {
            return *number;
        }
        let number = FrameId(self.frames.len() as u32);
        self.frames.push(frame.clone());
        self.frame_numbers.insert(frame, number);
        number
    }

    /// The stack of these frames, innermost first; `None`: there are none.
    pub fn stack(&mut self, innermost_first: &[FrameId]) -> Option<StackId> {
        innermost_first.iter().rev().fold(None, |caller, frame| {
            let next = StackId(self.nodes.len() as u32);
            let number = *self.node_numbers.entry((caller, *frame)).or_insert(next);
            if number == next {
                self.nodes.push((caller, *frame));
            }
            Some(number)
        })
    }

    /// What a number stands for.
    pub fn get(&self, frame: FrameId) -> &Frame {
        &self.frames[frame.0 as usize]
    }

    /// All frames, by number.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// All stacks by number: the stack of the caller, and the innermost frame.
    pub fn nodes(&self) -> &[(Option<StackId>, FrameId)] {
        &self.nodes
    }

    /// The frames of a stack, innermost first.
    pub fn walk(&self, stack: Option<StackId>) -> impl Iterator<Item = &Frame> {
        let mut at = stack;
        std::iter::from_fn(move || {
            let (caller, frame) = self.nodes[at?.0 as usize];
            at = caller;
            Some(self.get(frame))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_kept_once_and_walked_from_within() {
        let mut stacks = Stacks::default();
        let named = |name: &str| Frame { function: Some(name.into()), ..Frame::default() };
        let [main, work, lock] = ["main", "work", "lock"].map(|name| stacks.frame(named(name)));
        let one = stacks.stack(&[lock, work, main]);
        assert_eq!(stacks.stack(&[lock, work, main]), one);
        assert_eq!(stacks.nodes().len(), 3);
        let work_alone = stacks.stack(&[work, main]);
        assert_eq!(stacks.nodes().len(), 3, "it is the caller of the first");
        assert_ne!(work_alone, one);
        let walked: Vec<String> = stacks.walk(one).map(Frame::label).collect();
        assert_eq!(walked, ["lock", "work", "main"]);
        assert_eq!(stacks.stack(&[]), None);
        assert_eq!(stacks.walk(None).count(), 0);
        let stored = Stacks::stored(stacks.frames().to_vec(), stacks.nodes().to_vec()).unwrap();
        assert_eq!(stored, stacks);
    }

    #[test]
    fn stored_stacks_lead_to_stacks_before_them() {
        let frame = vec![Frame::default()];
        assert!(Stacks::stored(frame.clone(), vec![(Some(StackId(0)), FrameId(0))]).is_err(), "it would call itself");
        assert!(Stacks::stored(frame, vec![(None, FrameId(1))]).is_err());
    }
}
