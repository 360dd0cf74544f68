//! Which processes belong to a run.
//!
//! With a control group: those in it, and nobody can leave it. Without: the descendants of the first process, and
//! orphans that came to thaw (it is a subreaper) after the run began.

use os::cgroup::RunCgroup;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The processes of a run.
pub(crate) struct Tree {
    /// The first process.
    pub main: u32,
    /// The group that they are in.
    pub cgroup: Option<Rc<RunCgroup>>,
    /// Below whom its processes are, where there is no group.
    root: u32,
    /// Thaw's own children before the run: not of it. Only filled where there is no group.
    before: BTreeSet<u32>,
}

impl Tree {
    /// Children of thaw now, to be told from those of a run that is about to begin.
    pub fn children_of_thaw(cgroup: Option<&Rc<RunCgroup>>) -> BTreeSet<u32> {
        match cgroup {
            Some(_) => BTreeSet::new(),
            None => os::process::descendants(std::process::id()).into_iter().collect(),
        }
    }

    /// The tree that grows from `main`.
    pub fn new(main: u32, cgroup: Option<Rc<RunCgroup>>, before: BTreeSet<u32>) -> Self {
        Self { main, cgroup, root: std::process::id(), before }
    }

    /// A program that is not thaw's: `main` and all below it. Orphans of it are lost from sight.
    pub fn below(main: u32) -> Self {
        Self { main, cgroup: None, root: main, before: BTreeSet::new() }
    }

    /// Its living processes.
    pub fn pids(&self) -> Vec<u32> {
        if let Some(group) = &self.cgroup
            && let Ok(pids) = group.procs()
        {
            return pids;
        }
        let alive = |pid: &u32| os::process::stat(*pid).is_some_and(|stat| stat.state != 'Z' && stat.state != 'X');
        let own = (self.root == self.main).then_some(self.main).into_iter();
        let all = own.chain(os::process::descendants(self.root));
        all.filter(|pid| !self.before.contains(pid)).filter(alive).collect()
    }

    /// Whether a living process is one of them.
    pub fn contains(&self, pid: u32) -> bool {
        pid == self.main || self.pids().contains(&pid)
    }

    /// Whether nobody is left.
    pub fn is_gone(&self) -> bool {
        // Without a group, one look may miss a process whose parent ends while `/proc` is being read.
        let looks = if self.cgroup.is_some() { 1 } else { 3 };
        (0..looks).all(|_| self.pids().is_empty())
    }
}
