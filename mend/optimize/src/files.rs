//! The program's directory: found, surveyed, copied. The original is only read.

use model::{Bytes, Error, Exit, Result};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// What a tree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Everything below the root, by path relative to it.
    pub entries: Vec<Seen>,
}

/// An entry of a tree as it was seen: equal if nobody has changed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Below the root.
    pub path: PathBuf,
    mode: u32,
    size: u64,
    ino: u64,
    mtime: (i64, i64),
}

impl Survey {
    /// Bytes of the regular files: what a copy takes at most.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.entries.iter().filter(|seen| seen.is_file()).map(|seen| seen.size).sum())
    }

    /// Files that run with rights of their own.
    pub fn privileged(&self) -> Vec<&Path> {
        self.entries.iter().filter(|seen| seen.is_file() && seen.mode & 0o6000 != 0).map(|seen| &*seen.path).collect()
    }
}

impl Seen {
    fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

fn failed(what: &str, path: &Path, cause: impl Into<io::Error>) -> Error {
    Error::on(Exit::Machine, what, path).because(cause.into())
}

/// The directory of a program: the one that was typed, or the one that it was installed into.
///
/// # Errors
/// There is no such directory, the program is not below it, or the program shares its directory with others.
pub fn root_of(program: &Path, typed: Option<&Path>) -> Result<PathBuf> {
    let Some(typed) = typed else {
        return os::install::directory_of(program).ok_or_else(|| {
            Error::on(Exit::Usage, "the program has no directory of its own:", program)
                .hint("--root DIR names the directory to copy; a script's interpreter is not the program")
        });
    };
    let root = typed
        .canonicalize()
        .map_err(|cause| Error::on(Exit::Usage, "cannot find the directory", typed).because(cause))?;
    match root.is_dir() {
        true => Ok(root),
        false => Err(Error::on(Exit::Usage, "this is no directory:", typed)),
    }
}

/// The absolute path of a place that need not be there yet, its parent's links followed.
///
/// # Errors
/// Its parent is not there.
pub fn absolute(place: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(place).map_err(|cause| failed("cannot find", place, cause))?;
    if let Ok(real) = absolute.canonicalize() {
        return Ok(real);
    }
    let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
        return Err(Error::on(Exit::Usage, "this is no place for a directory:", place));
    };
    let parent = parent.canonicalize().map_err(|cause| {
        Error::on(Exit::Usage, "cannot find the directory", parent)
            .because(cause)
            .hint("make it first, or choose another place")
    })?;
    Ok(parent.join(name))
}

/// Neither lies in the other.
///
/// # Errors
/// One does.
pub fn check_apart(root: &Path, out: &Path) -> Result<()> {
    let what = match (out.starts_with(root), root.starts_with(out)) {
        (true, _) => "the copy would lie inside of the program's directory:",
        (_, true) => "the program's directory lies inside of the place for the copy:",
        _ => return Ok(()),
    };
    Err(Error::on(Exit::Usage, what, out).hint("choose a directory elsewhere: -o DIR"))
}

/// There is room for this many more bytes where a path lies.
///
/// # Errors
/// There is not.
pub fn check_room(beside: &Path, wanted: Bytes) -> Result<()> {
    let about =
        rustix::fs::statvfs(beside).map_err(|cause| failed("cannot look at the file system of", beside, cause))?;
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    if free >= wanted.0 {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let because =
        format!("the copies take {} MiB while they are measured, and {} MiB are free", mib(wanted.0), mib(free));
    Err(Error::on(Exit::Machine, "there is not enough room beside", beside)
        .because(because)
        .hint("choose a directory on another file system: -o DIR"))
}

/// Looks at everything below a directory.
///
/// # Errors
/// Something cannot be looked at; interrupted.
pub fn survey(root: &Path) -> Result<Survey> {
    let mut survey = Survey::default();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        os::interrupt::check()?;
        let place = root.join(&folder);
        for entry in fs::read_dir(&place).map_err(|cause| failed("cannot list", &place, cause))? {
            let entry = entry.map_err(|cause| failed("cannot list", &place, cause))?;
            let path = folder.join(entry.file_name());
            let meta = entry.metadata().map_err(|cause| failed("cannot look at", &entry.path(), cause))?;
            if meta.is_dir() {
                folders.push(path.clone());
            }
            let mtime = (meta.mtime(), meta.mtime_nsec());
            survey.entries.push(Seen { path, mode: meta.mode(), size: meta.len(), ino: meta.ino(), mtime });
        }
    }
    survey.entries.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(survey)
}

/// Copies a surveyed tree to a place that does not exist: with modes, owners, times, links and attributes, but without the rights to run as
/// somebody else. Links to places inside stay inside, links to places outside lead there from the copy too. On the disk when this returns.
///
/// # Errors
/// Something cannot be read or written; interrupted. What was copied until then stays.
pub fn copy(root: &Path, survey: &Survey, to: &Path) -> Result<()> {
    os::interrupt::check()?;
    os::tree::copy(root, to)?;
    for seen in &survey.entries {
        let (from, place) = (root.join(&seen.path), to.join(&seen.path));
        if seen.is_file() {
            take_rights(&place, seen)?;
        } else if let Ok(target) = fs::read_link(&from)
            && let Some(other) = redirected(root, &seen.path, &target)
        {
            let replaced = fs::remove_file(&place).and_then(|()| std::os::unix::fs::symlink(other, &place));
            replaced.map_err(|cause| failed("cannot create the link", &place, cause))?;
        }
    }
    let directory = fs::File::open(to).map_err(|cause| failed("cannot open", to, cause))?;
    rustix::fs::syncfs(&directory).map_err(|cause| failed("cannot write", to, cause))
}

fn take_rights(place: &Path, seen: &Seen) -> Result<()> {
    let capability = "security.capability";
    let mut value = [0_u8; 64];
    let is_capable = rustix::fs::lgetxattr(place, capability, &mut value[..]).is_ok();
    if is_capable {
        // An empty value is refused; so it is removed, which needs the rights that giving it needed.
        rustix::fs::lremovexattr(place, capability)
            .map_err(|cause| failed("cannot take the capabilities of", place, cause))?;
    }
    if seen.mode & 0o6000 != 0 {
        let mode = fs::Permissions::from_mode(seen.mode & 0o1777);
        fs::set_permissions(place, mode).map_err(|cause| failed("cannot set the mode of", place, cause))?;
    }
    Ok(())
}

/// Where a link must lead in a copy. `None`: where it leads now. Pure.
fn redirected(root: &Path, link: &Path, target: &Path) -> Option<PathBuf> {
    let folder = link.parent().unwrap_or(Path::new(""));
    if target.is_absolute() {
        // Inside of the tree: from the link's folder up to the root, and down again.
        let inside = target.strip_prefix(root).ok()?;
        let up: PathBuf = folder.components().map(|_| Component::ParentDir).collect();
        return Some(up.join(inside));
    }
    let leads = normal(&root.join(folder).join(target));
    if leads.starts_with(root) { None } else { Some(leads) }
}

/// Without `.` and `..`, as text.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            part => out.push(part),
        }
    }
    out
}

/// The same word with the tree's place exchanged, if it begins with it.
pub fn moved(word: &Path, from: &Path, to: &Path) -> PathBuf {
    match word.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.to_owned(),
        Ok(rest) => to.join(rest),
        Err(_) => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_led() {
        let root = Path::new("/usr/lib/firefox-esr");
        let leads = |link: &str, target: &str| redirected(root, Path::new(link), Path::new(target));
        assert_eq!(leads("firefox-bin", "firefox-esr"), None);
        assert_eq!(leads("browser/up", "../omni.ja"), None);
        let share = Some(PathBuf::from("/usr/share/firefox-esr/browser/chrome"));
        assert_eq!(leads("browser/chrome", "../../../share/firefox-esr/browser/chrome"), share);
        assert_eq!(leads("a/b/link", "/usr/lib/firefox-esr/omni.ja"), Some("../../omni.ja".into()));
        assert_eq!(leads("link", "/etc/firefox-esr"), None, "absolute ones outside are the same from everywhere");
    }

    #[test]
    fn a_copy_has_everything_but_the_rights_of_others_and_the_original_is_untouched() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join("app");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(home.path().join("outside"), "outside").unwrap();
        fs::write(root.join("tool"), "tool").unwrap();
        fs::set_permissions(root.join("tool"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::hard_link(root.join("tool"), root.join("twin")).unwrap();
        std::os::unix::fs::symlink("../../outside", root.join("sub/out")).unwrap();
        std::os::unix::fs::symlink(root.join("tool"), root.join("sub/in")).unwrap();
        let before = survey(&root).unwrap();
        assert_eq!(before.privileged(), [Path::new("tool"), Path::new("twin")]);
        assert_eq!(before.bytes(), Bytes(8));

        let to = home.path().canonicalize().unwrap().join("deeper/and/deeper");
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        copy(&root, &before, &to).unwrap();
        assert_eq!(survey(&root).unwrap(), before);
        let meta = |path: &str| fs::metadata(to.join(path)).unwrap();
        assert_eq!((meta("tool").mode() & 0o7777, meta("tool").nlink()), (0o755, 2));
        assert_eq!(fs::read(to.join("sub/out")).unwrap(), b"outside");
        assert_eq!(fs::read(to.join("sub/in")).unwrap(), b"tool");
        assert_eq!(to.join("sub/in").canonicalize().unwrap(), to.join("tool"));
        assert_eq!(survey(&to).unwrap().privileged(), Vec::<&Path>::new());
        fs::write(root.join("tool"), "TOOL").unwrap();
        assert_ne!(survey(&root).unwrap(), before);
    }

    #[test]
    fn places_that_make_no_sense_are_refused() {
        let wrong = |root: &str, out: &str| check_apart(Path::new(root), Path::new(out)).unwrap_err();
        assert!(wrong("/opt/app", "/opt/app/fast").to_string().contains("inside of the program"));
        assert!(wrong("/opt/app", "/opt").to_string().contains("lies inside of the place"));
        assert!(wrong("/opt/app", "/opt/app").exit == Exit::Usage);
        assert!(check_apart(Path::new("/opt/app"), Path::new("/opt/app2")).is_ok());
        let shared = root_of(Path::new("/usr/bin/python3"), None).unwrap_err();
        assert!(shared.hint.unwrap().contains("--root"));
        assert_eq!(root_of(Path::new("/opt/app/bin/app"), None).unwrap(), Path::new("/opt/app"));
        assert_eq!(root_of(Path::new("/x/y"), Some(Path::new("/dev/null"))).unwrap_err().exit, Exit::Usage);
        let full = check_room(Path::new("/"), Bytes(u64::MAX)).unwrap_err();
        assert_eq!(full.exit, Exit::Machine);
        check_room(Path::new("/"), Bytes(0)).unwrap();
    }

    #[test]
    fn words_move_with_the_tree() {
        let word = |word: &str| moved(Path::new(word), Path::new("/opt/app"), Path::new("/new"));
        assert_eq!(word("/opt/app/bin/x"), Path::new("/new/bin/x"));
        assert_eq!(word("/opt/app"), Path::new("/new"));
        assert_eq!(word("/opt/apple"), Path::new("/opt/apple"));
        assert_eq!(word("--flag"), Path::new("--flag"));
    }
}
