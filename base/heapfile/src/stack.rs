//! Stacks as a tree: equal stacks have equal numbers, and a stack knows its caller's.

use crate::index::{self, Index};
use crate::module::ModuleId;
use heap_wire::mark;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::hash::Hasher;

/// A stack of one process: a node of its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StackId(pub u32);

/// A return address of one process, together with the object that was loaded there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// Where the call returns to; take one off to be inside the call.
    pub pc: u64,
    /// The object; `None` for code that belongs to none (made at run time).
    pub module: Option<ModuleId>,
}

impl Address {
    /// Whether it stands for frames that are not known: the frame inside of it has no unwind data and no frame pointer.
    pub fn is_gap(self) -> bool {
        self.module.is_none() && self.pc == mark::SKIPPED
    }
}

/// What a gap is called where functions have names.
pub const GAP: &str = "[frames missing: no unwind data]";

/// How the outer end of a stack was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first function of the thread.
    Root,
    /// The depth limit; there are more frames.
    DepthLimit,
    /// The outermost address has no unwind information that is understood.
    NoRule,
    /// The unwind information led out of the stack.
    OutOfStack,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    address: u32,
    /// The stack inside of it that was asked for last: mostly there is only one. 0: none.
    inner: u32,
}

/// All stacks of a process.
#[derive(Debug)]
pub struct Stacks {
    nodes: Vec<Node>,
    children: Index,
    addresses: Vec<Address>,
    numbers: HashMap<Address, u32>,
}

/// The first nodes are the four ends.
const ENDS: u32 = mark::FIRST_PC;

impl Default for Stacks {
    fn default() -> Self {
        let nodes = (0..ENDS).map(|end| Node { parent: end, address: u32::MAX, inner: 0 }).collect();
        Self { nodes, children: Index::default(), addresses: Vec::new(), numbers: HashMap::new() }
    }
}

impl Stacks {
    /// Number of stacks and parts of stacks, the ends among them.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= ENDS as usize
    }

    /// The node of an end.
    pub fn end(mark: u32) -> StackId {
        StackId(mark.min(ENDS - 1))
    }

    /// The number of an address.
    pub fn address(&mut self, address: Address) -> u32 {
        *self.numbers.entry(address).or_insert_with(|| {
            self.addresses.push(address);
            (self.addresses.len() - 1) as u32
        })
    }

    /// The stack that has one more frame, inside.
    pub fn push(&mut self, outer: StackId, address: u32) -> StackId {
        let is = |nodes: &[Node], node: u32| {
            nodes.get(node as usize).is_some_and(|node| (node.parent, node.address) == (outer.0, address))
        };
        let last = self.nodes.get(outer.0 as usize).map_or(0, |outer| outer.inner);
        if last != 0 && is(&self.nodes, last) {
            return StackId(last);
        }
        let fresh = self.nodes.len() as u32;
        let hash = index::hash(outer.0.into(), address.into());
        let node = self.children.find_or(hash, fresh, |node| is(&self.nodes, node));
        if node == fresh {
            self.append(outer, address);
        }
        if let Some(outer) = self.nodes.get_mut(outer.0 as usize) {
            outer.inner = node;
        }
        StackId(node)
    }

    /// Enters an address that is known to be new.
    pub(crate) fn append_address(&mut self, address: Address) {
        self.addresses.push(address);
    }

    /// Enters a stack that is known to be new.
    pub fn append(&mut self, outer: StackId, address: u32) {
        self.nodes.push(Node { parent: outer.0, address, inner: 0 });
    }

    /// The caller's stack and the number of the innermost address; of an end, itself and no address.
    pub fn node(&self, stack: StackId) -> (StackId, u32) {
        self.nodes.get(stack.0 as usize).map_or((stack, u32::MAX), |node| (StackId(node.parent), node.address))
    }

    /// All addresses, each once.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        self.addresses.iter().copied()
    }

    /// Its frames, innermost first: the address that the allocation function returned to comes first.
    pub fn frames(&self, stack: StackId) -> impl Iterator<Item = Address> + '_ {
        let mut at = stack.0;
        std::iter::from_fn(move || {
            let node = self.nodes.get(at as usize).filter(|_| at >= ENDS)?;
            at = node.parent;
            self.addresses.get(node.address as usize).copied()
        })
    }

    /// The stack of its caller; `None` for an end.
    pub fn caller(&self, stack: StackId) -> Option<StackId> {
        (stack.0 >= ENDS).then(|| self.nodes.get(stack.0 as usize).map(|node| StackId(node.parent)))?
    }

    /// Its innermost address; `None` for an end.
    pub fn innermost(&self, stack: StackId) -> Option<Address> {
        self.frames(stack).next()
    }

    /// Whether frames are missing between others of it: see [`Address::is_gap`].
    #[inline]
    pub fn skips(&self, stack: StackId) -> bool {
        self.frames(stack).any(Address::is_gap)
    }

    /// How its outer end was reached.
    #[inline]
    pub fn ended(&self, stack: StackId) -> End {
        let mut at = stack.0;
        while at >= ENDS {
            at = self.nodes.get(at as usize).map_or(0, |node| node.parent);
        }
        match at {
            mark::DEPTH => End::DepthLimit,
            mark::RULE => End::NoRule,
            mark::BOUNDS => End::OutOfStack,
            _ => End::Root,
        }
    }
}

/// A hash for small keys of ours: one multiplication a word. Not for keys that somebody else chooses to collide; the
/// worst is slowness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_stacks_are_one_and_read_inside_out() {
        let mut stacks = Stacks::default();
        let [a, b] = [1, 2].map(|pc| stacks.address(Address { pc, module: None }));
        let main = stacks.push(Stacks::end(mark::ROOT), a);
        let inner = stacks.push(main, b);
        assert_eq!(stacks.push(main, b), inner);
        assert_ne!(stacks.push(Stacks::end(mark::DEPTH), a), main);
        assert_eq!(stacks.frames(inner).map(|address| address.pc).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((stacks.caller(inner), stacks.caller(StackId(0))), (Some(main), None));
        assert_eq!(stacks.ended(inner), End::Root);
        assert_eq!(stacks.len(), 7);
    }
}
