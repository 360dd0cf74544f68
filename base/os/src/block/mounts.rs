//! The mount table, and what a file system rests on.

use crate::machine::Fact;
use crate::proc::mountinfo;
use model::{Error, Exit, Result};
use std::borrow::Cow;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

pub use crate::proc::mountinfo::Mount;

/// What a file system's bytes rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Blocks of one device, at the offsets that FIEMAP tells.
    Disk,
    /// Disks, but FIEMAP's offsets are not device offsets: btrfs, bcachefs, zfs.
    Volume,
    /// Memory: tmpfs, ramfs, hugetlbfs.
    Memory,
    /// Another machine, or a process: NFS, SMB, 9p, FUSE.
    Remote,
    /// Other mounts: overlayfs, ecryptfs.
    Stacked,
    /// The kernel itself: proc, sysfs, cgroup.
    Kernel,
}

impl Backing {
    /// By the name in the mount table. What is not known counts as a disk.
    pub fn of_fstype(name: &str) -> Self {
        match name {
            "tmpfs" | "ramfs" | "hugetlbfs" | "devtmpfs" | "rootfs" => Self::Memory,
            "btrfs" | "bcachefs" | "zfs" => Self::Volume,
            "overlay" | "overlayfs" | "ecryptfs" | "aufs" | "unionfs" => Self::Stacked,
            "nfs" | "nfs4" | "cifs" | "smb3" | "smbfs" | "9p" | "ceph" | "virtiofs" | "afs" | "coda" | "lustre"
            | "vboxsf" | "prl_fs" | "orangefs" | "fuse" | "fuseblk" => Self::Remote,
            "proc" | "sysfs" | "cgroup" | "cgroup2" | "debugfs" | "tracefs" | "securityfs" | "bpf" | "pstore"
            | "configfs" | "devpts" | "mqueue" | "binfmt_misc" | "autofs" | "fusectl" | "efivarfs" | "selinuxfs"
            | "nsfs" | "pipefs" | "sockfs" | "rpc_pipefs" | "nfsd" => Self::Kernel,
            other if other.starts_with("fuse.") => Self::Remote,
            _ => Self::Disk,
        }
    }

    /// By `f_type` of `statfs(2)` (linux/magic.h). What is not known counts as a disk.
    pub fn of_magic(magic: u64) -> Self {
        Self::of_fstype(name_of_magic(magic))
    }
}

/// Name of a file system by `f_type` of `statfs(2)` (linux/magic.h); `?` for disks' and unknown ones.
pub fn name_of_magic(magic: u64) -> &'static str {
    // The field is signed and 32 bits wide on some architectures.
    match magic & 0xffff_ffff {
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x9584_58f6 => "hugetlbfs",
        0x9123_683e => "btrfs",
        0xca45_1a4e => "bcachefs",
        0x2fc1_2fc1 => "zfs",
        0x794c_7630 => "overlay",
        0xf15f => "ecryptfs",
        0x6969 => "nfs",
        0x517b => "smbfs",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb3",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        0x6573_5546 => "fuse",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x0bd0_0bd0 => "lustre",
        0x786f_4256 => "vboxsf",
        0x9fa0 => "proc",
        0x6265_6572 => "sysfs",
        0x0027_e0eb => "cgroup",
        0x6367_7270 => "cgroup2",
        0x6462_6720 => "debugfs",
        0x7472_6163 => "tracefs",
        0x7363_6673 => "securityfs",
        0xcafe_4a11 => "bpf",
        0x6165_676c => "pstore",
        0x6265_6570 => "configfs",
        0x1cd1 => "devpts",
        0x1980_0202 => "mqueue",
        0x4249_4e4d => "binfmt_misc",
        0x0187 => "autofs",
        0x6573_5543 => "fusectl",
        0xde5e_81e4 => "efivarfs",
        0xf97c_ff8c => "selinuxfs",
        0x6e73_6673 => "nsfs",
        0x5049_5045 => "pipefs",
        0x534f_434b => "sockfs",
        _ => "?",
    }
}

impl Mount {
    /// What its bytes rest on.
    pub fn backing(&self) -> Backing {
        Backing::of_fstype(&self.fstype)
    }

    /// tmpfs, ramfs and the like.
    pub fn is_memory(&self) -> bool {
        self.backing() == Backing::Memory
    }

    /// The block device under it, packed by `makedev`; of a file system on several devices, the one that was named
    /// when it was mounted.
    pub fn block_device(&self) -> Option<u64> {
        if libc::major(self.dev) != 0 {
            return Some(self.dev);
        }
        let source = self.source.metadata().ok().filter(|_| self.source.is_absolute())?;
        source.file_type().is_block_device().then(|| source.rdev())
    }

    /// Facts for the recording, subject `filesystem:POINT`.
    pub fn facts(&self) -> Vec<Fact> {
        let subject = format!("filesystem:{}", model::shown(&self.point));
        let fact = |key: &str, value: String| (subject.clone(), key.to_owned(), value);
        let mut facts = vec![
            fact("type", self.fstype.clone()),
            fact("source", model::shown(&self.source)),
            fact("options", self.options.clone()),
        ];
        if let Ok(space) = rustix::fs::statvfs(&self.point) {
            facts.push(fact("size_bytes", (space.f_blocks * space.f_frsize).to_string()));
            facts.push(fact("free_bytes", (space.f_bavail * space.f_frsize).to_string()));
            facts.push(fact("block_bytes", space.f_frsize.to_string()));
        }
        facts
    }
}

/// The mount table, in the kernel's order: a later mount lies over an earlier one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mounts(pub Vec<Mount>);

impl Mounts {
    /// The mounts that this process sees.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub fn load() -> Result<Self> {
        mountinfo::own().map(Self).map_err(|cause| {
            Error::new(Exit::Machine, "cannot read the mount table", "/proc/self/mountinfo")
                .because(cause)
                .hint("thaw needs /proc: mount it with `mount -t proc proc /proc`")
        })
    }

    /// The mounts that another process sees. `None`: it is gone, or not for this user to look at.
    pub fn of_process(pid: u32) -> Option<Self> {
        mountinfo::of(pid).ok().map(Self)
    }

    /// Parses the text of a mountinfo file; lines that make no sense are left out.
    pub fn parse(text: &[u8]) -> Self {
        Self(mountinfo::parse(text))
    }

    /// The mount of a super block's device. Of several, one that is not covered, shows the file system's own root,
    /// and has the shortest path.
    pub fn of_dev(&self, dev: u64) -> Option<&Mount> {
        self.0
            .iter()
            .filter(|mount| mount.dev == dev)
            .min_by_key(|mount| (self.is_covered(mount), mount.root.as_os_str().len(), mount.point.as_os_str().len()))
    }

    /// Whether something is mounted in a directory, below it.
    pub fn has_below(&self, directory: &Path) -> bool {
        self.0.iter().any(|mount| mount.point != directory && mount.point.starts_with(directory))
    }

    /// The mount that a path is on (of its nearest existing ancestor, if there is nothing yet). Symbolic links are
    /// followed.
    pub fn of_path(&self, path: &Path) -> Option<&Mount> {
        let path: Cow<Path> = match std::path::absolute(path) {
            Ok(absolute) => absolute.into(),
            Err(_) => path.into(),
        };
        let there = path.ancestors().find_map(|ancestor| ancestor.canonicalize().ok())?;
        self.of_mount_id(&there).or_else(|| self.of_prefix(&there))
    }

    /// By the mount number that the kernel tells (since 5.8).
    fn of_mount_id(&self, path: &Path) -> Option<&Mount> {
        use rustix::fs::{AtFlags, CWD, StatxFlags};
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let stat = rustix::fs::statx(CWD, path, flags, StatxFlags::MNT_ID).ok()?;
        if stat.stx_mask & StatxFlags::MNT_ID.bits() == 0 {
            return None;
        }
        self.0.iter().find(|mount| mount.id == stat.stx_mnt_id)
    }

    /// By the longest mount point above an absolute path without symbolic links; of equal ones, the last.
    fn of_prefix(&self, path: &Path) -> Option<&Mount> {
        self.0
            .iter()
            .filter(|mount| path.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.components().count())
    }

    /// Whether another mount lies right over this one.
    fn is_covered(&self, mount: &Mount) -> bool {
        self.0.iter().any(|over| over.parent == mount.id && over.id != mount.id && over.point == mount.point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::mountinfo::tests::TABLE;

    #[test]
    fn knows_what_file_systems_rest_on() {
        let mounts = Mounts::parse(TABLE);
        let backing: Vec<_> = mounts.0.iter().map(Mount::backing).collect();
        use Backing::*;
        assert_eq!(backing, [Kernel, Disk, Memory, Memory, Disk, Volume, Stacked, Disk, Remote]);
        assert!(mounts.0[2].is_memory() && !mounts.0[1].is_memory());
        assert_eq!(mounts.0[1].block_device(), Some(libc::makedev(254, 0)));
        assert_eq!(mounts.0[2].block_device(), None);
        assert_eq!(Backing::of_magic(0x0102_1994), Memory);
        assert_eq!(Backing::of_magic(0xffff_ffff_9123_683e), Volume, "sign-extended");
        assert_eq!(Backing::of_magic(0xef53), Disk, "ext4");
    }

    #[test]
    fn finds_mounts_by_device_and_by_prefix() {
        let mounts = Mounts::parse(TABLE);
        assert_eq!(mounts.of_dev(libc::makedev(254, 0)).map(|mount| mount.id), Some(27), "not the bind mount");
        assert_eq!(mounts.of_dev(libc::makedev(9, 9)), None);
        assert_eq!(mounts.of_prefix(Path::new("/dev/shm/x")).map(|mount| mount.id), Some(30), "the upper one");
        assert_eq!(mounts.of_prefix(Path::new("/homestead")).map(|mount| mount.id), Some(27), "not /home");
        assert_eq!(mounts.of_prefix(Path::new("/home/me/f")).map(|mount| mount.id), Some(41));
        assert!(mounts.is_covered(&mounts.0[2]) && !mounts.is_covered(&mounts.0[3]));
    }
}
