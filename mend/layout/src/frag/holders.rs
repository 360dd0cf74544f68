//! Who has a file open: for the sentence that says why it is not rewritten.

use os::process;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Processes that have the file open or mapped, as far as we may see: `firefox-esr 1234`, by number.
pub fn holders(path: &Path) -> Vec<String> {
    let Ok(about) = path.metadata() else { return Vec::new() };
    let id = (about.dev(), about.ino());
    let own = std::process::id();
    let mut mapped = os::cache::who_maps(&[path]).remove(path).unwrap_or_default();
    mapped.retain(|holder| holder.pid != own);
    let mut found: Vec<(u32, String)> = mapped.into_iter().map(|holder| (holder.pid, holder.comm)).collect();
    for pid in process::all().into_iter().filter(|pid| *pid != own) {
        // It may have ended, or be closed to us.
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let has = entries.flatten().any(|entry| fs::metadata(entry.path()).is_ok_and(|it| (it.dev(), it.ino()) == id));
        if has && !found.iter().any(|(known, _)| *known == pid) {
            found.push((pid, process::comm(pid).unwrap_or_else(|| "?".into())));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(pid, comm)| format!("{comm} {pid}")).collect()
}
