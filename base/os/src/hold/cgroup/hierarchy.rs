//! Which hierarchies of control groups there are, and where in them a new group may go.

use super::control::read;
use crate::proc::mountinfo::{self, Mount};
use model::{Error, Exit, Result};
use std::path::{Path, PathBuf};

/// A mounted hierarchy and where we are in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// Where it is mounted.
    pub(super) mount: PathBuf,
    /// Controllers by name; empty for the unified one.
    pub(super) controllers: Vec<String>,
    /// The one of version 2.
    pub(super) unified: bool,
    /// Directory of the group that thaw itself is in, if it is visible below the mount.
    pub(super) own: Option<PathBuf>,
}

impl Hierarchy {
    /// Where a new group may go, the best place first: below the root nobody else's limits apply.
    pub(super) fn places(&self, name: &str) -> Vec<PathBuf> {
        let mut places = vec![self.mount.join(name)];
        places.extend(self.own.as_ref().filter(|own| **own != self.mount).map(|own| own.join(name)));
        places
    }

    /// Whether a controller that a run needs is in it.
    pub(super) fn is_of_use(&self) -> bool {
        let useful = |name: &String| matches!(name.as_str(), "memory" | "cpuacct" | "blkio" | "freezer");
        self.unified || self.controllers.iter().any(useful)
    }

    pub(super) fn has(&self, controller: &str) -> bool {
        self.controllers.iter().any(|name| name == controller)
    }
}

/// Those that this process sees.
///
/// # Errors
/// There is no `/proc`.
pub(super) fn hierarchies() -> Result<Vec<Hierarchy>> {
    of(&read(Path::new("/proc/self/cgroup"))?)
}

/// The same, with where another process is in them, by the text of its `/proc/PID/cgroup`.
///
/// # Errors
/// There is no `/proc`.
pub(super) fn of(own: &str) -> Result<Vec<Hierarchy>> {
    let mounts = mountinfo::own()
        .map_err(|cause| Error::new(Exit::Machine, "cannot read", "/proc/self/mountinfo").because(cause))?;
    Ok(find(&mounts, own))
}

/// `own` is the text of `/proc/self/cgroup`.
fn find(mounts: &[Mount], own: &str) -> Vec<Hierarchy> {
    let own: Vec<(&str, &str)> = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).collect();
    let mut found: Vec<Hierarchy> = Vec::new();
    for mount in mounts.iter().filter(|mount| matches!(mount.fstype.as_str(), "cgroup" | "cgroup2")) {
        let unified = mount.fstype == "cgroup2";
        let words = mount.super_options.split(',').filter(|word| !unified && !matches!(*word, "rw" | "ro"));
        let controllers: Vec<String> = words.map(str::to_owned).collect();
        let mine = own.iter().find(|(names, _)| match unified {
            true => names.is_empty(),
            false => names.split(',').any(|name| controllers.iter().any(|other| other == name)),
        });
        let own = mine.and_then(|(_, path)| Path::new(path).strip_prefix(&mount.root).ok());
        let own = own.map(|below| mount.point.join(below));
        // The same hierarchy may be mounted several times; the first one will do.
        if !found.iter().any(|other| other.unified == unified && other.controllers == controllers) {
            found.push(Hierarchy { mount: mount.point.clone(), controllers, unified, own });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIXED: &[u8] = b"\
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/one /sys/fs/cgroup/memory rw,relatime shared:7 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw
";

    #[test]
    fn hierarchies_are_found_with_our_own_place_in_them() {
        let own = "4:memory:/docker/one/two\n2:cpu,cpuacct:/\n8:pids:/user\n0::/user.slice/a.scope\n";
        let found = find(&mountinfo::parse(MIXED), own);
        let picture: Vec<_> = found.iter().map(|one| (one.controllers.join("+"), one.places("thaw-x"))).collect();
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(
            picture,
            [
                ("cpu+cpuacct".to_owned(), paths(&["/sys/fs/cgroup/cpu,cpuacct/thaw-x"])),
                ("memory".to_owned(), paths(&["/sys/fs/cgroup/memory/thaw-x", "/sys/fs/cgroup/memory/two/thaw-x"])),
                ("pids".to_owned(), paths(&["/sys/fs/cgroup/pids/thaw-x", "/sys/fs/cgroup/pids/user/thaw-x"])),
                (
                    String::new(),
                    paths(&["/sys/fs/cgroup/uni fied/thaw-x", "/sys/fs/cgroup/uni fied/user.slice/a.scope/thaw-x"])
                ),
            ]
        );
        assert_eq!(found.iter().map(Hierarchy::is_of_use).collect::<Vec<_>>(), [true, true, false, true]);
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_not_used() {
        let found = find(&mountinfo::parse(MIXED), "4:memory:/../other\n");
        assert!(found.iter().all(|one| one.own.is_none()));
    }
}
