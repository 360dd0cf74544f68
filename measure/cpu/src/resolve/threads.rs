//! Which threads there were: those of the tree from what became of them, those of other programs from the names that
//! CPUs went over to.

use super::went;
use crate::raw::{Context, Raw, RawTask, What};
use crate::trace::{Thread, Went};
use model::Nanos;
use std::collections::HashMap;

/// Threads; of those with the same number the last one is meant.
#[derive(Debug, Default)]
pub(super) struct Threads {
    all: Vec<Thread>,
    last: HashMap<u32, usize>,
}

impl Threads {
    /// All threads that something names.
    pub(super) fn of(raw: &Raw) -> Self {
        let mut threads = Self::default();
        threads.tree(raw.root, raw.root, Nanos(0));
        for task in &raw.tasks {
            threads.became(raw.root, task);
        }
        for switch in &raw.switches {
            for (tid, name) in [(switch.from, &switch.from_name), (switch.to, &switch.to_name)] {
                threads.named_by_switch(tid, name);
            }
            if switch.from != 0 && went(switch.state) == Went::Ended {
                let thread = threads.any(switch.from);
                thread.end = thread.end.or(Some(switch.at));
            }
        }
        for wake in &raw.wakes {
            for tid in [wake.by, wake.woken].into_iter().filter(|tid| *tid != 0) {
                threads.any(tid);
            }
            let woken = threads.any(wake.woken);
            if wake.new && !woken.of_tree {
                woken.start = wake.at;
                woken.made_by = Some(wake.by).filter(|by| wake.context == Context::Thread && *by != 0);
            }
        }
        threads.all.retain(|thread| thread.tid != 0);
        threads
    }

    fn push(&mut self, thread: Thread) -> usize {
        let index = self.all.len();
        self.last.insert(thread.tid, index);
        self.all.push(thread);
        index
    }

    /// A thread of the tree; made if it is not known: it began before what was taken down.
    fn tree(&mut self, pid: u32, tid: u32, at: Nanos) -> &mut Thread {
        let known = self.last.get(&tid).copied();
        let index = known.unwrap_or_else(|| {
            let name = String::new();
            self.push(Thread { tid, pid, name, of_tree: true, made_by: None, start: at, end: None })
        });
        &mut self.all[index]
    }

    /// A thread; if it is not known, of another program.
    fn any(&mut self, tid: u32) -> &mut Thread {
        let known = self.last.get(&tid).copied();
        let index = known.unwrap_or_else(|| {
            let name = String::new();
            let start = Nanos(0);
            self.push(Thread { tid, pid: tid, name, of_tree: false, made_by: None, start, end: None })
        });
        &mut self.all[index]
    }

    fn became(&mut self, root: u32, task: &RawTask) {
        let RawTask { at, pid, tid, ref what } = *task;
        match what {
            What::Began { parent_tid, .. } => {
                // It has its maker's name until it gets its own.
                let name = self.last.get(parent_tid).map_or_else(String::new, |maker| self.all[*maker].name.clone());
                let made_by = Some(*parent_tid).filter(|_| tid != root);
                let thread = Thread { tid, pid, name, of_tree: true, made_by, start: at, end: None };
                match self.last.get(&tid).copied() {
                    // The root is known from the beginning.
                    Some(index) if tid == root && self.all[index].end.is_none() => self.all[index] = thread,
                    _ => {
                        self.push(thread);
                    }
                }
            }
            What::Named(name) => self.tree(pid, tid, Nanos(0)).name.clone_from(name),
            What::Executed => {
                self.tree(pid, tid, Nanos(0));
            }
            What::Ended => self.tree(pid, tid, Nanos(0)).end = Some(at),
        }
    }

    /// Switches tell the names of all threads: of the tree's, where nothing else did.
    fn named_by_switch(&mut self, tid: u32, name: &str) {
        if tid == 0 {
            return;
        }
        let thread = self.any(tid);
        if thread.name.is_empty() || !thread.of_tree {
            name.clone_into(&mut thread.name);
        }
    }

    /// The numbers of the tree's threads.
    pub(super) fn of_tree(&self) -> impl Iterator<Item = u32> {
        self.all.iter().filter(|thread| thread.of_tree).map(|thread| thread.tid)
    }

    /// All of them, by their beginning.
    pub(super) fn into_threads(self) -> Vec<Thread> {
        let mut all = self.all;
        all.sort_by_key(|thread| thread.start);
        all
    }
}
