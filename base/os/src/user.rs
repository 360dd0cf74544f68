//! Whom a program runs as, when thaw itself is root: the account from the user database, what a login would give it,
//! and what it may reach.
//!
//! Root is needed to measure, not to be the program: a browser has its sandbox only as a user, and a profile belongs to
//! one. Not a login: no PAM, no new limits, no session.

use crate::spawn::{Launch, User};
use model::{Error, Exit, Result, shown};
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The first part of a path that somebody else than root can change, and who: each directory and link on the way to
/// what it leads to, and that itself. `None`: only root can, as far as the mode bits say. What is not there yet is as
/// its directory is.
pub fn who_else_changes(path: &Path) -> Option<(PathBuf, String)> {
    who_changes_but(path, None)
}

/// As [`who_else_changes`]; what this user, who may do what root may, can change too is no matter.
pub fn who_changes_but(path: &Path, trusted: Option<&Account>) -> Option<(PathBuf, String)> {
    /// As many links as the kernel follows.
    const LINKS: u32 = 40;
    let names = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).filter(|name| name != "/").collect()
    };
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    let mut rest = names(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
    let mut about = fs::symlink_metadata(&at).ok()?;
    loop {
        if let Some(who) = who_changes(&about, trusted) {
            return Some((at, who));
        }
        let name = rest.pop()?;
        if name == ".." {
            at.pop();
        } else {
            let next = at.join(name);
            about = fs::symlink_metadata(&next).ok()?;
            match fs::read_link(&next) {
                Ok(_) if about.uid() != 0 && trusted.is_none_or(|user| user.uid != about.uid()) => {
                    return Some((next, format!("it belongs to user {}", about.uid())));
                }
                Ok(target) if links < LINKS => {
                    links += 1;
                    rest.extend(names(&target));
                    if target.is_absolute() {
                        at = "/".into();
                    }
                }
                _ => at = next,
            }
        }
        about = fs::symlink_metadata(&at).ok()?;
    }
}

fn who_changes(about: &Metadata, trusted: Option<&Account>) -> Option<String> {
    // In a sticky directory others can only remove what is theirs.
    let is_open = |bit: u32| about.mode() & bit != 0 && !(about.is_dir() && about.mode() & 0o1000 != 0);
    match () {
        () if about.uid() != 0 && trusted.is_none_or(|user| user.uid != about.uid()) => {
            Some(format!("it belongs to user {}", about.uid()))
        }
        () if is_open(0o002) => Some("everybody may write it".into()),
        // Root's own group is root; a user's first one is mostly the user's alone.
        () if is_open(0o020) && about.gid() != 0 && trusted.is_none_or(|user| user.gid != about.gid()) => {
            Some(format!("its group {} may write it", about.gid()))
        }
        () => None,
    }
}

/// The name of the user as whom this process runs; the number of one without.
pub fn own_name() -> String {
    let uid = rustix::process::geteuid().as_raw();
    Account::of(uid).ok().flatten().map_or_else(|| uid.to_string(), |account| account.name)
}

/// Variables of root's own session that are not for another user.
const NOT_INHERITED: [&str; 12] = [
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "MAIL",
    "SUDO_COMMAND",
    "SUDO_USER",
    "SUDO_UID",
    "SUDO_GID",
    "SUDO_HOME",
];

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Name, or the number of one that has none.
    pub name: String,
    /// The number of the user.
    pub uid: u32,
    /// The number of the primary group.
    pub gid: u32,
    /// All groups, the first among them.
    pub groups: Vec<u32>,
    /// The home directory, whether it is there or not.
    pub home: PathBuf,
    /// The program that logging in starts.
    pub shell: PathBuf,
}

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Who called sudo; without sudo, as thaw.
    #[default]
    Caller,
    /// This user: a name or a number.
    Named(String),
    /// As thaw, also under sudo.
    Same,
}

impl Choice {
    /// The account to run programs as; `None`: as thaw runs.
    ///
    /// # Errors
    /// There is no such user; only root may run programs as somebody else.
    pub fn account(&self) -> Result<Option<Account>> {
        let account = match self {
            Self::Same => return Ok(None),
            Self::Caller => caller()?,
            Self::Named(name) => Some(Account::named(name)?),
        };
        let ours = rustix::process::geteuid();
        match account {
            Some(account) if account.uid == ours.as_raw() => Ok(None),
            Some(account) if !ours.is_root() => {
                Err(Error::new(Exit::Machine, "only root can run a program as the user", account.name)
                    .hint("run thaw with sudo, or without --user"))
            }
            account => Ok(account),
        }
    }
}

/// Who called sudo; `None`: nobody, or root. What sudo says is believed of root's environment only, and checked against
/// the user database.
///
/// # Errors
/// The variables name no user of this machine.
pub fn caller() -> Result<Option<Account>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let Some(typed) = std::env::var_os("SUDO_UID").filter(|uid| !uid.is_empty()) else { return Ok(None) };
    let wrong = |why: String| {
        Error::new(Exit::Usage, "the environment names a caller of sudo who cannot be", shown(Path::new(&typed)))
            .because(why)
            .hint("say whom to run the program as: --user NAME, or --as-root")
    };
    let uid: u32 = typed
        .to_str()
        .and_then(|uid| uid.parse().ok())
        .ok_or_else(|| wrong("SUDO_UID is no number of a user".into()))?;
    if uid == 0 {
        return Ok(None);
    }
    let account = Account::of(uid)?.ok_or_else(|| wrong(format!("the user database has no user {uid}")))?;
    match std::env::var_os("SUDO_USER") {
        Some(name) if name != OsStr::new(&account.name) => {
            Err(wrong(format!("user {uid} is {}, and SUDO_USER says {}", account.name, shown(Path::new(&name)))))
        }
        _ => Ok(Some(account)),
    }
}

impl Account {
    /// The user of this name or number. A number without an account has no home and no groups but the one of the same
    /// number.
    ///
    /// # Errors
    /// There is no such user, or the user database cannot be read.
    pub fn named(name: &str) -> Result<Self> {
        let unknown = || Error::new(Exit::Usage, "there is no user", name).hint("users are listed by: getent passwd");
        let text = CString::new(name).map_err(|_| unknown())?;
        // SAFETY: `look_up` passes buffers of the lengths that it says; the name is zero-terminated.
        let found = look_up(|entry, buffer, length, result| unsafe {
            libc::getpwnam_r(text.as_ptr(), entry, buffer, length, result)
        })
        .map_err(|cause| unknown().because(cause))?;
        if let Some(account) = found {
            return Ok(account);
        }
        let uid: u32 = name.parse().map_err(|_| unknown())?;
        if uid == u32::MAX {
            return Err(unknown());
        }
        Ok(Self::of(uid)?.unwrap_or_else(|| Self {
            name: name.to_owned(),
            uid,
            gid: uid,
            groups: vec![uid],
            home: "/".into(),
            shell: "/bin/sh".into(),
        }))
    }

    /// The user of this number.
    ///
    /// # Errors
    /// The user database cannot be read.
    pub fn of(uid: u32) -> Result<Option<Self>> {
        // SAFETY: as above.
        look_up(|entry, buffer, length, result| unsafe { libc::getpwuid_r(uid, entry, buffer, length, result) })
            .map_err(|cause| Error::new(Exit::Machine, "cannot look up the user", uid).because(cause))
    }

    /// The user as [`crate::spawn::Launch`] takes it.
    pub fn user(&self) -> User {
        User { uid: self.uid, gid: self.gid, groups: self.groups.clone() }
    }

    /// Makes a program run as this user: ids, environment (what the launch says itself stays), and a directory that the
    /// user may enter.
    pub fn run(&self, launch: &mut Launch) {
        launch.user = Some(self.user());
        launch.env.splice(0..0, self.environment());
        launch.cwd = launch.cwd.take().or_else(|| self.other_directory());
    }

    /// Makes this process the user's, for good: ids and directory. The environment is for the program that it becomes:
    /// [`Account::environment`].
    ///
    /// # Errors
    /// The kernel forbids it.
    pub fn become_it(&self) -> Result<()> {
        let failed =
            |cause: io::Error| Error::new(Exit::Machine, "cannot run a program as the user", &self.name).because(cause);
        // SAFETY: the list of groups is valid for reads; the others take plain numbers.
        let done = unsafe {
            libc::setgroups(self.groups.len(), self.groups.as_ptr()) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
        };
        if !done {
            return Err(failed(io::Error::last_os_error()));
        }
        self.other_directory().map_or(Ok(()), |directory| std::env::set_current_dir(directory).map_err(failed))
    }

    /// What of thaw's environment is otherwise for this user: a login's variables, the runtime directory and the
    /// session's bus if they are there and the user's own, nothing of root's session.
    pub fn environment(&self) -> Vec<(OsString, Option<OsString>)> {
        let mut changes: Vec<(OsString, Option<OsString>)> =
            NOT_INHERITED.iter().map(|name| (OsString::from(name), None)).collect();
        let mut set = |name: &str, value: OsString| {
            changes.retain(|(other, _)| other != name);
            changes.push((name.into(), Some(value)));
        };
        set("HOME", self.home.clone().into());
        set("USER", self.name.clone().into());
        set("LOGNAME", self.name.clone().into());
        set("SHELL", self.shell.clone().into());
        let runtime = PathBuf::from(format!("/run/user/{}", self.uid));
        let is_theirs = |meta: &Metadata| meta.uid() == self.uid;
        if runtime.symlink_metadata().is_ok_and(|meta| meta.is_dir() && is_theirs(&meta)) {
            let bus = runtime.join("bus");
            if bus.symlink_metadata().is_ok_and(|meta| meta.file_type().is_socket() && is_theirs(&meta)) {
                let mut address = OsString::from("unix:path=");
                address.push(&bus);
                set("DBUS_SESSION_BUS_ADDRESS", address);
            }
            set("XDG_RUNTIME_DIR", runtime.into());
        }
        changes
    }

    /// Where to start a program, if the user may not be where thaw is: at home, else in `/`.
    pub fn other_directory(&self) -> Option<PathBuf> {
        if std::env::current_dir().is_ok_and(|here| self.may_enter(&here)) {
            return None;
        }
        let home = Some(self.home.clone()).filter(|home| home.is_dir() && self.may_enter(home));
        Some(home.unwrap_or_else(|| "/".into()))
    }

    /// Whether the user may enter a directory, by the mode bits of it and of all directories above.
    pub fn may_enter(&self, directory: &Path) -> bool {
        self.closed(directory).is_none()
    }

    /// The first directory on the way to here, itself included, that is closed to the user.
    pub fn closed<'a>(&self, directory: &'a Path) -> Option<&'a Path> {
        let is_closed = |above: &&Path| fs::metadata(above).is_ok_and(|meta| !self.may_search(&meta));
        directory.ancestors().filter(is_closed).last()
    }

    fn may_search(&self, meta: &Metadata) -> bool {
        let bit = match () {
            () if meta.uid() == self.uid => 0o100,
            () if self.groups.contains(&meta.gid()) => 0o010,
            () => 0o001,
        };
        meta.mode() & bit != 0
    }

    /// Gives the user what thaw has made: a file or a directory, not what is in it. Whatever else has the name by now
    /// stays as it is.
    ///
    /// # Errors
    /// It is not there, not root's, or has further names.
    pub fn take_over(&self, path: &Path) -> Result<()> {
        let cannot = |cause: io::Error| Error::on(Exit::Machine, "cannot give the user", path).because(cause);
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|cause| cannot(cause.into()))?;
        let file = File::from(fd);
        let about = file.metadata().map_err(cannot)?;
        let ours = rustix::process::geteuid().as_raw();
        if about.uid() == self.uid {
            return Ok(());
        }
        if about.uid() != ours || !(about.is_dir() || about.is_file() && about.nlink() == 1) {
            return Err(cannot(io::Error::other("it is not what thaw made")));
        }
        let (user, group) = (rustix::fs::Uid::from_raw(self.uid), rustix::fs::Gid::from_raw(self.gid));
        rustix::fs::chownat(&file, "", Some(user), Some(group), rustix::fs::AtFlags::EMPTY_PATH)
            .map_err(|cause| cannot(cause.into()))
    }
}

type PasswdEntry = libc::passwd;

/// Calls a function of the C library that looks somebody up, with more and more room.
fn look_up(
    mut ask: impl FnMut(*mut PasswdEntry, *mut libc::c_char, usize, *mut *mut PasswdEntry) -> i32,
) -> io::Result<Option<Account>> {
    let mut buffer: Vec<libc::c_char> = vec![0; 4096];
    loop {
        let mut entry = std::mem::MaybeUninit::<PasswdEntry>::zeroed();
        let mut result = std::ptr::null_mut();
        match ask(entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &raw mut result) {
            libc::ERANGE if buffer.len() < 1 << 20 => buffer.resize(2 * buffer.len(), 0),
            libc::EINTR => {}
            0 | libc::ENOENT | libc::ESRCH if result.is_null() => return Ok(None),
            0 => {
                // SAFETY: the call succeeded, so it filled the entry, whose texts are in the buffer.
                let entry = unsafe { entry.assume_init() };
                // SAFETY: as above: zero-terminated texts.
                let text = |text: *const libc::c_char| unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
                let name = text(entry.pw_name);
                return Ok(Some(Account {
                    groups: groups_of(&name, entry.pw_gid),
                    name: String::from_utf8_lossy(&name).into_owned(),
                    uid: entry.pw_uid,
                    gid: entry.pw_gid,
                    home: path_or(text(entry.pw_dir), "/"),
                    shell: path_or(text(entry.pw_shell), "/bin/sh"),
                }));
            }
            failed => return Err(io::Error::from_raw_os_error(failed)),
        }
    }
}

fn path_or(text: Vec<u8>, other: &str) -> PathBuf {
    if text.is_empty() { other.into() } else { OsString::from_vec(text).into() }
}

/// All groups of a user.
fn groups_of(name: &[u8], gid: u32) -> Vec<u32> {
    let Ok(name) = CString::new(OsStr::from_bytes(name).as_bytes()) else { return vec![gid] };
    let mut groups = vec![0; 64];
    loop {
        let mut count = groups.len() as i32;
        // SAFETY: the list has room for `count` numbers.
        let got = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &raw mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if got >= 0 {
            groups.truncate(count);
            return groups;
        }
        if count <= groups.len() {
            return vec![gid];
        }
        groups.resize(count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn users_are_found_by_name_and_number() {
        let root = Account::named("root").unwrap();
        assert_eq!((root.uid, root.home.as_path()), (0, Path::new("/root")));
        assert_eq!(Account::named("0").unwrap(), root);
        assert!(root.groups.contains(&0));
        let bare = Account::named("54321").unwrap();
        assert_eq!((bare.uid, bare.gid, bare.groups.as_slice()), (54321, 54321, &[54321][..]));
        for wrong in ["nobody by this name", "-1", "4294967295", "", "a\0b"] {
            let error = Account::named(wrong).unwrap_err();
            assert_eq!(error.exit, Exit::Usage, "{wrong:?}");
        }
    }

    #[test]
    fn a_users_environment_is_none_of_roots() {
        let account = Account { home: "/home/x".into(), ..Account::named("54321").unwrap() };
        let changes = account.environment();
        let of = |name: &str| changes.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()).unwrap();
        assert_eq!(of("HOME"), Some("/home/x".into()));
        assert_eq!(of("USER"), Some("54321".into()));
        for name in ["XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SUDO_UID"] {
            assert_eq!(of(name), None, "{name}");
        }
    }

    #[test]
    fn a_closed_directory_is_not_entered() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("a/b");
        fs::create_dir_all(&below).unwrap();
        let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        open(place.path(), 0o711);
        let account = Account::named("54321").unwrap();
        assert!(account.may_enter(&below));
        open(&place.path().join("a"), 0o770);
        assert_eq!(account.closed(&below), Some(place.path().join("a").as_path()));
        open(&place.path().join("a"), 0o755);
    }

    #[test]
    fn what_others_can_change_is_named() {
        if !testing::root_or_skip() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let place = place.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), "").unwrap();
        let set = |name: &str, mode| fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
        for name in ["a", "a/b", "a/b/file"] {
            std::os::unix::fs::chown(at(name), None, Some(65534)).unwrap();
            set(name, 0o755);
        }
        assert_eq!(who_else_changes(&at("a/b/file")), None);
        assert_eq!(who_else_changes(&at("a/b/not there")), None);
        for (name, mode, why) in [("a/b/file", 0o775, "group"), ("a", 0o777, "everybody"), ("a/b", 0o770, "group")] {
            set(name, mode);
            let (found, who) = who_else_changes(&at("a/b/file")).unwrap();
            assert!(found == at(name) && who.contains(why), "{found:?} {who}");
            set(name, 0o755);
        }
        set("a", 0o1777);
        assert_eq!(who_else_changes(&at("a/b/file")), None);
        let nobody = Account::of(65534).unwrap().unwrap();
        std::os::unix::fs::chown(at("a"), Some(65534), None).unwrap();
        assert!(who_else_changes(&at("a/b")).is_some() && who_changes_but(&at("a/b"), Some(&nobody)).is_none());
        std::os::unix::fs::chown(at("a"), Some(0), None).unwrap();
        // A link from a good place into a bad one, and one that belongs to another user.
        std::os::unix::fs::symlink("a/b/file", at("link")).unwrap();
        assert_eq!(who_else_changes(&at("link")), None);
        set("a/b", 0o777);
        assert_eq!(who_else_changes(&at("link")).unwrap().0, at("a/b"));
        set("a/b", 0o755);
        std::os::unix::fs::lchown(at("link"), Some(65534), None).unwrap();
        assert_eq!(who_else_changes(&at("link")).unwrap().0, at("link"));
    }

    #[test]
    fn only_what_thaw_made_is_given_away() {
        if !testing::root_or_skip() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let account = Account::named("65534").unwrap();
        fs::write(at("mine"), "").unwrap();
        account.take_over(&at("mine")).unwrap();
        assert_eq!(at("mine").metadata().unwrap().uid(), 65534);
        fs::write(at("secret"), "").unwrap();
        std::os::unix::fs::symlink(at("secret"), at("link")).unwrap();
        fs::hard_link(at("secret"), at("second")).unwrap();
        for name in ["link", "second"] {
            assert!(account.take_over(&at(name)).is_err(), "{name}");
        }
        assert_eq!(at("secret").metadata().unwrap().uid(), 0);
    }
}
