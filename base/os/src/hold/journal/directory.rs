//! Where journals are.

use crate::file::{of_user, of_variable};
use model::{Error, Exit, Result};
use std::path::PathBuf;

/// thaw's state directory: `$THAW_STATE_DIR`, else `/var/lib/thaw` for root, else `$XDG_STATE_HOME/thaw`,
/// else `~/.local/state/thaw`.
///
/// # Errors
/// None of them is set and the user is not root.
pub fn state_dir() -> Result<PathBuf> {
    if let Some(chosen) = of_variable("THAW_STATE_DIR") {
        return Ok(chosen);
    }
    if rustix::process::geteuid().is_root() {
        return Ok("/var/lib/thaw".into());
    }
    of_user("XDG_STATE_HOME", ".local/state").map(|state| state.join("thaw")).ok_or_else(|| {
        Error::new(Exit::Machine, "there is no place for thaw's state: neither HOME nor XDG_STATE_HOME is set", "")
            .hint("set THAW_STATE_DIR to a directory that you can write")
    })
}

/// Where the journal of settings of the whole machine is, and where turns on its caches are taken: `/run/thaw`, or
/// `$THAW_MACHINE_DIR` (for tests). The same for all users and all state directories, since the machine is the same.
pub fn machine_dir() -> PathBuf {
    std::env::var_os("THAW_MACHINE_DIR")
        .filter(|value| !value.is_empty())
        .map_or_else(|| PathBuf::from("/run/thaw"), PathBuf::from)
}
