//! Whose a file is: the program's own, or the system's. It decides what the `app` and `boot` states keep.
//!
//! Pure: paths only, no file is looked at. A file is the program's if it is the program, or lies below the directory of any
//! binary that its tree executed (unless other programs live there too, as in `/usr/bin`), below a preset's
//! `own` directories, below a `--restore` directory, in `$HOME` or in a directory for temporary files.

use model::{FileKind, Owner, TraceRows};
use os::install;
use std::path::{Path, PathBuf};

/// What is known to be the program's before it is traced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ownership {
    roots: Vec<PathBuf>,
}

impl Ownership {
    /// From the program's file (as found and with its symlinks followed) and from directories that are its own by decree: a
    /// preset's, `--restore`, `$HOME`, temporary ones.
    pub fn new(program: &[PathBuf], decreed: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut ownership = Self::default();
        for path in program {
            ownership.add_executed(path);
            ownership.add(path.clone());
        }
        for root in decreed {
            ownership.add(root);
        }
        ownership
    }

    /// All roots: files and directories.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Whose a path is.
    pub fn owner(&self, path: &Path) -> Owner {
        if self.roots.iter().any(|root| path.starts_with(root)) { Owner::App } else { Owner::System }
    }

    /// Gives each file of a trace its owner, once its executed binaries are known. Metadata is of the
    /// system: inode tables and directories hold everybody's files.
    pub fn assign(&self, rows: &mut TraceRows) {
        let mut all = self.clone();
        for exe in rows.processes.iter().filter_map(|process| process.exe.as_deref()) {
            all.add_executed(exe);
        }
        for file in &mut rows.files {
            file.owner = if file.kind == FileKind::Metadata { Owner::System } else { all.owner(&file.path) };
        }
    }

    /// The directory of a binary that ran, if it is not shared.
    fn add_executed(&mut self, exe: &Path) {
        if let Some(directory) = install::directory_of(exe) {
            self.add(directory);
        }
    }

    fn add(&mut self, root: PathBuf) {
        // A home of / (user nobody) would make the whole machine the program's.
        let sensible = root.is_absolute() && !install::is_shared(&root);
        if sensible && !self.roots.contains(&root) {
            self.roots.push(root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, FileRow, Nanos, ProcessRow};

    fn file(path: &str, kind: FileKind) -> FileRow {
        FileRow {
            path: path.into(),
            kind,
            owner: Owner::System,
            dev: 0,
            ino: 0,
            size: Bytes(0),
            extents: None,
            build_id: None,
        }
    }

    fn ran(exe: &str) -> ProcessRow {
        ProcessRow { pid: 1, parent: 0, comm: String::new(), exe: Some(exe.into()), start_ns: Nanos(0), end_ns: None }
    }

    /// The files of this list that are the program's.
    fn own<'a>(ownership: &Ownership, executed: &[&str], paths: &[&'a str]) -> Vec<&'a str> {
        let mut rows = TraceRows {
            processes: executed.iter().map(|exe| ran(exe)).collect(),
            files: paths.iter().map(|path| file(path, FileKind::Regular)).collect(),
            ..TraceRows::default()
        };
        ownership.assign(&mut rows);
        paths.iter().zip(&rows.files).filter(|(_, file)| file.owner == Owner::App).map(|(path, _)| *path).collect()
    }

    #[test]
    fn a_browser_owns_its_directory_and_its_profile_but_no_library() {
        let program = ["/usr/bin/firefox-esr".into(), "/usr/lib/firefox-esr/firefox-esr".into()];
        let ownership = Ownership::new(&program, ["/var/tmp/thaw-1/profile".into()]);
        let paths = [
            "/usr/bin/firefox-esr",
            "/usr/lib/firefox-esr/libxul.so",
            "/var/tmp/thaw-1/profile/prefs.js",
            "/usr/lib/x86_64-linux-gnu/libc.so.6",
            "/usr/bin/lsb_release",
            "/usr/share/fonts/x.ttf",
        ];
        assert_eq!(own(&ownership, &[], &paths), &paths[..3]);
    }

    #[test]
    fn helpers_in_shared_directories_are_the_systems() {
        let ownership = Ownership::new(&["/usr/bin/gimp".into()], []);
        let paths = ["/usr/bin/gimp", "/usr/bin/dash", "/usr/lib/gimp/plug-in", "/usr/lib/x86_64-linux-gnu/ld.so"];
        let executed = ["/usr/bin/dash", "/usr/lib/gimp/plug-in", "/usr/lib/x86_64-linux-gnu/ld.so"];
        assert_eq!(own(&ownership, &executed, &paths), ["/usr/bin/gimp", "/usr/lib/gimp/plug-in"]);
    }

    #[test]
    fn a_program_below_opt_owns_what_lies_beside_its_bin_directory() {
        let ownership = Ownership::new(&["/opt/studio/bin/studio".into()], []);
        assert_eq!(own(&ownership, &[], &["/opt/studio/lib/a.jar", "/opt/other/x"]), ["/opt/studio/lib/a.jar"]);
        let mine = Ownership::new(&["/root/.local/bin/tool".into()], []);
        assert_eq!(own(&mine, &[], &["/root/.local/bin/tool", "/root/.local/share/x"]), ["/root/.local/bin/tool"]);
    }

    #[test]
    fn a_home_of_slash_makes_nothing_its_own() {
        let ownership = Ownership::new(&[], ["/".into(), "relative".into(), "/home/me".into()]);
        assert_eq!(ownership.roots(), [Path::new("/home/me")]);
    }

    #[test]
    fn metadata_is_the_systems_wherever_the_program_lies() {
        let mut rows = TraceRows { files: vec![file("/dev/vda", FileKind::Metadata)], ..TraceRows::default() };
        Ownership::new(&["/dev/x".into()], ["/dev/vda".into()]).assign(&mut rows);
        assert_eq!(rows.files[0].owner, Owner::System);
    }
}
