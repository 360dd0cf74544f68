//! The machine as a whole: its name, its clock, and what two recordings must share to be compared.

use crate::proc::value::{active, read_value};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Subject (`machine`, `cpu`, `disk:vda`, `filesystem:/`), key, value.
pub type Fact = (String, String, String);

/// Its name, for people.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Nanoseconds since 1970; 0 where the clock is before that.
pub fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Kernel, distribution, memory, virtualisation, and settings that change how programs start. What cannot be read
/// is left out.
pub fn facts() -> Vec<Fact> {
    let root = Path::new("/");
    let mut facts = Facts::new("machine");
    let uname = rustix::system::uname();
    facts.add("kernel", Some(uname.release().to_string_lossy().into_owned()));
    facts.add("kernel_build", Some(uname.version().to_string_lossy().into_owned()));
    facts.add("architecture", Some(uname.machine().to_string_lossy().into_owned()));
    facts.add("distribution", distribution(root));
    facts.add("boot_id", read_value(&root.join("proc/sys/kernel/random/boot_id")));
    facts.add("page_bytes", Some(rustix::param::page_size().to_string()));
    facts.add("memory_bytes", meminfo(root, "MemTotal"));
    facts.add("swap_bytes", meminfo(root, "SwapTotal"));
    facts.add("virtualisation", virtualisation(root));
    for name in SYSCTLS {
        facts.add(name, read_value(&root.join("proc/sys").join(name.replace('.', "/"))));
    }
    for name in ["enabled", "defrag", "shmem_enabled"] {
        let choice = read_value(&root.join("sys/kernel/mm/transparent_hugepage").join(name));
        facts.add(&format!("transparent_hugepage.{name}"), choice.map(|choice| active(&choice).to_owned()));
    }
    facts.done()
}

/// Settings that change what a start costs or what can be measured of it.
const SYSCTLS: [&str; 9] = [
    "kernel.perf_event_paranoid",
    "kernel.kptr_restrict",
    "kernel.randomize_va_space",
    "kernel.yama.ptrace_scope",
    "vm.swappiness",
    "vm.vfs_cache_pressure",
    "vm.overcommit_memory",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
];

/// Collects facts of one subject.
pub(crate) struct Facts {
    subject: String,
    facts: Vec<Fact>,
}

impl Facts {
    pub(crate) fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), facts: Vec::new() }
    }
    /// Adds a fact if it is known.
    pub(crate) fn add(&mut self, key: &str, value: Option<String>) {
        self.facts.extend(value.map(|value| (self.subject.clone(), key.to_owned(), value)));
    }
    pub(crate) fn done(self) -> Vec<Fact> {
        self.facts
    }
}

/// What the distribution calls itself: `PRETTY_NAME` of os-release(5).
fn distribution(root: &Path) -> Option<String> {
    release(root, "PRETTY_NAME=")
}

/// What programs call the distribution: `ID` of os-release(5).
pub fn distribution_id() -> Option<String> {
    release(Path::new("/"), "ID=")
}

fn release(root: &Path, key: &str) -> Option<String> {
    let text = read_value(&root.join("etc/os-release")).or_else(|| read_value(&root.join("usr/lib/os-release")))?;
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned())
}

/// Bytes that nobody can guess.
///
/// # Errors
/// The kernel gives none.
pub fn by_chance<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut bytes)?;
    Ok(bytes)
}

/// A line of `/proc/meminfo`, in bytes.
fn meminfo(root: &Path, key: &str) -> Option<String> {
    let text = read_value(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((kib * 1024).to_string())
}

/// What this machine seems to run in: a hint, not a proof. `none` when nothing points to a guest or container.
fn virtualisation(root: &Path) -> Option<String> {
    let mut signs = Vec::new();
    let dmi = |name: &str| read_value(&root.join("sys/class/dmi/id").join(name));
    let cpuinfo = read_value(&root.join("proc/cpuinfo")).unwrap_or_default();
    let is_guest = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("flags"))
        .is_some_and(|flags| flags.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    let hypervisor = read_value(&root.join("sys/hypervisor/type"));
    if is_guest || hypervisor.is_some() {
        let maker = [hypervisor, dmi("sys_vendor"), dmi("product_name")].into_iter().flatten().collect::<Vec<_>>();
        signs.push(format!("guest {}", maker.join(" ")).trim_end().to_owned());
    }
    if let Some(container) = read_value(&root.join("run/systemd/container")) {
        signs.push(format!("container {container}"));
    } else if root.join(".dockerenv").exists() {
        signs.push("container docker".to_owned());
    } else if root.join("run/.containerenv").exists() {
        signs.push("container podman".to_owned());
    }
    Some(if signs.is_empty() { "none".to_owned() } else { signs.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn names_the_distribution_and_the_memory() {
        let root = machine(&[
            ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            ("proc/meminfo", "MemTotal:       24684096 kB\nMemFree: 1 kB\n"),
        ]);
        assert_eq!(distribution(root.path()).as_deref(), Some("Debian GNU/Linux 12 (bookworm)"));
        assert_eq!(meminfo(root.path(), "MemTotal").as_deref(), Some("25276514304"));
        assert_eq!(meminfo(root.path(), "Mem"), None);
        assert_eq!(meminfo(root.path(), "SwapTotal"), None);
    }

    #[test]
    fn tells_guests_and_containers_from_bare_metal() {
        let bare = machine(&[("proc/cpuinfo", "flags\t\t: fpu vme\n"), ("sys/class/dmi/id/sys_vendor", "LENOVO\n")]);
        assert_eq!(virtualisation(bare.path()).as_deref(), Some("none"));
        let guest =
            machine(&[("proc/cpuinfo", "flags\t\t: fpu hypervisor vme\n"), ("sys/class/dmi/id/sys_vendor", "QEMU\n")]);
        assert_eq!(virtualisation(guest.path()).as_deref(), Some("guest QEMU"));
        let both = machine(&[("proc/cpuinfo", "flags : hypervisor\n"), (".dockerenv", "")]);
        assert_eq!(virtualisation(both.path()).as_deref(), Some("guest, container docker"));
    }

    #[test]
    fn this_machine_has_a_kernel_and_memory() {
        let facts = facts();
        let get = |key: &str| facts.iter().find(|fact| fact.1 == key).map(|fact| fact.2.as_str());
        assert!(facts.iter().all(|fact| fact.0 == "machine" && !fact.2.is_empty()));
        assert!(get("kernel").unwrap().contains('.'));
        assert!(get("memory_bytes").unwrap().parse::<u64>().unwrap() > 64 << 20);
    }
}
