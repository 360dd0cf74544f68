//! The spool: where a user's pings lie until they are sent. `SPOOL/APP/machine` is the machine's token for a program,
//! there if the user has agreed; beside it lie the pings, one file each.

use crate::{Ping, is_allowed};
use model::{Error, Exit, Result};
use os::replace::{Existing, Rights, write_whole};
use std::path::{Path, PathBuf};

/// Pings that are kept of a program; the oldest make room.
pub const MOST: usize = 1000;
/// The file of the token.
const TOKEN: &str = "machine";
/// How a ping's file ends.
const ENDING: &str = "ping";

/// A program's place in the spool.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
}

impl Spool {
    /// That of a program.
    ///
    /// # Errors
    /// Usage: this is no name that a ping can have.
    pub fn of(root: &Path, app: &str) -> Result<Self> {
        if !is_allowed("app", app) {
            return Err(Error::new(Exit::Usage, "this is no name of a program in a ping:", app)
                .hint("small letters, digits and ._-, 32 at most"));
        }
        Ok(Self { directory: root.join(app) })
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The machine's token; `None`: the user has not agreed.
    pub fn token(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.directory.join(TOKEN)).ok()?;
        let token = text.trim();
        is_allowed("machine", token).then(|| token.to_owned())
    }

    /// The user agrees: from now on starts are measured. A token that is there stays.
    ///
    /// # Errors
    /// The spool cannot be written.
    pub fn agree(&self) -> Result<()> {
        if self.token().is_some() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.directory)
            .map_err(|cause| Error::on(Exit::Machine, "cannot make the spool", &self.directory).because(cause))?;
        write_whole(&self.directory.join(TOKEN), by_chance()?.as_bytes(), Rights::Private, Existing::Replace)
    }

    /// The user does not agree any more: the token and what was not sent are thrown away.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn forget(&self) -> Result<()> {
        os::tree::remove(&self.directory)
    }

    /// The files of the pings, the oldest first.
    ///
    /// # Errors
    /// The spool cannot be listed.
    pub fn files(&self) -> Result<Vec<PathBuf>> {
        let cannot = |cause| Error::on(Exit::Machine, "cannot list the spool", &self.directory).because(cause);
        match std::fs::read_dir(&self.directory) {
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => Ok(pings(entries.map_err(cannot)?)),
        }
    }

    /// Keeps a ping; how many older ones had to make room.
    ///
    /// # Errors
    /// The disk is full.
    pub fn keep(&self, ping: &Ping) -> Result<usize> {
        let name = format!("{:020}-{}.{ENDING}", os::machine::now_unix_ns(), &ping.id[..8]);
        write_whole(&self.directory.join(name), ping.to_line().as_bytes(), Rights::Private, Existing::Keep)?;
        let files = self.files()?;
        let many = files.len().saturating_sub(MOST);
        // One that somebody has just sent is gone already, which is as well.
        files[..many].iter().for_each(|file| drop(std::fs::remove_file(file)));
        Ok(many)
    }
}

/// The files of all pings of all programs, the oldest of each first.
///
/// # Errors
/// The spool cannot be listed.
pub fn all(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let programs = std::fs::read_dir(root)?.flatten();
    let mut found: Vec<PathBuf> =
        programs.filter_map(|program| std::fs::read_dir(program.path()).ok()).flat_map(pings).collect();
    found.sort();
    Ok(found)
}

fn pings(entries: std::fs::ReadDir) -> Vec<PathBuf> {
    let is_ping = |path: &PathBuf| path.extension().is_some_and(|ending| ending == ENDING);
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_ping).collect();
    files.sort();
    files
}

/// 32 hexadecimal digits that nobody can guess.
///
/// # Errors
/// The kernel gives no random bytes.
pub fn by_chance() -> Result<String> {
    let bytes: [u8; 16] = os::machine::by_chance()
        .map_err(|cause| Error::new(Exit::Machine, "there are no random bytes", "").because(cause))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Where the pings of this user lie: `$THAW_PINGS`, or `thaw/pings` below `$XDG_STATE_HOME` (`~/.local/state`).
///
/// # Errors
/// Usage: there is no home.
pub fn usual_root() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(root) = variable("THAW_PINGS") {
        return Ok(root);
    }
    let state = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
    let state = state.ok_or_else(|| {
        Error::new(Exit::Usage, "there is no home for pings: neither HOME nor XDG_STATE_HOME is set", "")
            .hint("say where: --spool DIR")
    })?;
    Ok(state.join("thaw/pings"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cpus, Day, Disk, Memory, State};

    fn made(spool: &Spool) -> Ping {
        Ping {
            schema: crate::SCHEMA.to_owned(),
            id: by_chance().unwrap(),
            machine: spool.token().unwrap(),
            app: "app".to_owned(),
            version: "1".to_owned(),
            day: Day::today().to_string(),
            state: State::Hot,
            ready: crate::Ready::File,
            wall_us: 1,
            user_us: 1,
            system_us: 1,
            minor_faults: 1,
            major_faults: 1,
            read_bytes: None,
            max_rss_bytes: 1,
            milestones: Default::default(),
            cpus: Cpus::One,
            memory: Memory::Below4,
            disk: Disk::Unknown,
            kernel: "6.1".to_owned(),
            distribution: "debian".to_owned(),
            remedies: Vec::new(),
        }
    }

    #[test]
    fn nothing_is_there_before_the_user_agrees_and_after_it_is_forgotten() {
        let room = tempfile::tempdir().unwrap();
        let spool = Spool::of(room.path(), "app").unwrap();
        assert_eq!((spool.token(), spool.files().unwrap().len()), (None, 0));
        spool.agree().unwrap();
        let token = spool.token().unwrap();
        spool.agree().unwrap();
        assert_eq!(spool.token().unwrap(), token, "it stays");
        assert_eq!(spool.keep(&made(&spool)).unwrap(), 0);
        let line = std::fs::read(&spool.files().unwrap()[0]).unwrap();
        assert!(Ping::parse(line.trim_ascii_end(), Day::today()).is_ok());
        spool.forget().unwrap();
        assert_eq!((spool.token(), room.path().join("app").exists()), (None, false));
        spool.agree().unwrap();
        assert_ne!(spool.token().unwrap(), token, "another machine");
    }

    #[test]
    fn the_oldest_make_room() {
        let room = tempfile::tempdir().unwrap();
        let spool = Spool::of(room.path(), "app").unwrap();
        spool.agree().unwrap();
        for number in 0..MOST {
            std::fs::write(spool.directory().join(format!("{number:020}-x.ping")), "").unwrap();
        }
        assert_eq!(spool.keep(&made(&spool)).unwrap(), 1);
        let files = spool.files().unwrap();
        assert_eq!(files.len(), MOST);
        assert!(files[0].ends_with(format!("{:020}-x.ping", 1)), "{:?}", files[0]);
    }

    #[test]
    fn names_that_are_paths_are_refused() {
        for wrong in ["", "..", "../x", "a/b", "A", "-a", ".a", &"a".repeat(33)] {
            assert!(Spool::of(Path::new("/tmp"), wrong).is_err(), "{wrong}");
        }
    }
}
