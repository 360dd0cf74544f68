//! The rules on paths and a small package database.

use super::*;
use model::{Bytes, FileRow, Nanos, ProcessRow};
use os::packages::Package;

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

fn rows(executed: &[&str], paths: &[&str]) -> TraceRows {
    TraceRows {
        processes: executed.iter().map(|exe| ran(exe)).collect(),
        files: paths.iter().map(|path| file(path, FileKind::Regular)).collect(),
        ..TraceRows::default()
    }
}

/// The files of this list that are the program's, without a package database.
fn own<'a>(ownership: &Ownership, executed: &[&str], paths: &[&'a str]) -> Vec<&'a str> {
    let mut rows = rows(executed, paths);
    ownership.assign(&mut rows, None);
    paths.iter().zip(&rows.files).filter(|(_, file)| file.owner == Owner::App).map(|(path, _)| *path).collect()
}

/// An editor in three packages, a helper, a library of many.
fn database() -> Packages {
    let package = |name: &str, source: &str, wants: &[&str]| Package {
        name: name.into(),
        source: source.into(),
        wants: wants.iter().map(ToString::to_string).collect(),
        library: name.starts_with("lib"),
        ..Package::default()
    };
    let all = vec![
        package("emacs-nox", "emacs", &["emacs-common", "libc6"]),
        package("emacs-common", "emacs", &["emacsen-common"]),
        package("libc6", "glibc", &[]),
        package("dash", "dash", &["libc6"]),
        package("vim", "vim", &["libc6"]),
    ];
    let lists = [
        ("/usr/bin/emacs-nox", 0),
        ("/usr/lib/emacs/28.2/x86/emacs.pdmp", 0),
        ("/usr/share", 0),
        ("/usr/share", 1),
        ("/usr/share", 4),
        ("/usr/share/emacs/28.2/lisp", 1),
        ("/usr/share/emacs/28.2/lisp/loadup.elc", 1),
        ("/lib/libc.so.6", 2),
        ("/bin/dash", 3),
    ];
    Packages::of(all, lists.into_iter().map(|(path, package)| (path.into(), package)).collect())
}

#[test]
fn an_editor_owns_what_its_packages_hold_wherever_it_lies() {
    let paths = [
        "/usr/bin/emacs-nox",
        "/usr/lib/emacs/28.2/x86/emacs.pdmp",
        "/usr/share/emacs/28.2/lisp/loadup.elc",
        "/usr/share/emacs/28.2/lisp/made-later.eln",
        "/usr/lib/libc.so.6",
        "/usr/bin/dash",
        "/usr/share/nobody.knows",
        "254:0:77",
    ];
    let mut rows = rows(&["/usr/bin/dash"], &paths);
    let mut packages = database();
    let ownership = Ownership::of_program(["/usr/bin/emacs-nox".into()]);
    ownership.assign(&mut rows, Some(&mut packages));
    let found: Vec<(Owner, OwnerRule, Option<&str>)> = rows
        .files
        .iter()
        .zip(&rows.owners)
        .map(|(file, owner)| (file.owner, owner.rule, owner.what.as_deref()))
        .collect();
    assert_eq!(
        found,
        [
            (Owner::App, OwnerRule::Program, None),
            (Owner::App, OwnerRule::Package, Some("emacs-nox")),
            (Owner::App, OwnerRule::Package, Some("emacs-common")),
            (Owner::App, OwnerRule::Package, Some("emacs-common")),
            (Owner::System, OwnerRule::Package, Some("libc6")),
            (Owner::System, OwnerRule::Package, Some("dash")),
            (Owner::System, OwnerRule::Other, None),
            (Owner::System, OwnerRule::Unknown, None),
        ]
    );
    assert_eq!(rows.owners[2].because.as_deref(), Some("built from emacs, as emacs-nox is"));
    assert_eq!(rows.owners[3].because.as_deref(), Some("no list names it, but it lies in this package's directory"));
    let listed = ownership.packaged(&mut packages);
    assert!(listed.contains(&PathBuf::from("/usr/share/emacs/28.2/lisp/loadup.elc")));
    assert!(!listed.contains(&PathBuf::from("/lib/libc.so.6")));
}

#[test]
fn what_was_said_by_hand_comes_first() {
    let mut ownership = Ownership::of_program(["/usr/bin/emacs-nox".into()]);
    ownership.add("/lib/libc.so.6".into(), OwnerRule::Option);
    ownership.add("/var/tmp".into(), OwnerRule::Temporary);
    ownership.add("/var/tmp/profile".into(), OwnerRule::Restored);
    let mut rows = rows(&[], &["/lib/libc.so.6", "/var/tmp/profile/prefs.js", "/var/tmp/x"]);
    ownership.assign(&mut rows, Some(&mut database()));
    let rules: Vec<_> = rows.owners.iter().map(|owner| (owner.rule, owner.what.as_deref())).collect();
    assert_eq!(
        rules,
        [
            (OwnerRule::Option, None),
            (OwnerRule::Restored, Some("/var/tmp/profile")),
            (OwnerRule::Temporary, Some("/var/tmp"))
        ]
    );
    assert!(rows.files.iter().all(|file| file.owner == Owner::App));
}

#[test]
fn what_the_arguments_name_is_the_programs_with_its_packages() {
    let mut ownership = Ownership::of_program(["/usr/bin/vim".into()]);
    ownership.add_argument("/usr/share/emacs/28.2/lisp/loadup.elc".into());
    ownership.add_argument("/srv/data".into());
    let mut rows = rows(&[], &["/usr/share/emacs/28.2/lisp/loadup.elc", "/usr/bin/emacs-nox", "/srv/data/x", "/srv/y"]);
    ownership.assign(&mut rows, Some(&mut database()));
    let rules: Vec<_> = rows.owners.iter().map(|owner| owner.rule).collect();
    assert_eq!(rules, [OwnerRule::Argument, OwnerRule::Package, OwnerRule::Argument, OwnerRule::Other]);
    assert!(!ownership.directories().contains(&PathBuf::from("/srv/data")), "data may be large");
}

#[test]
fn a_browser_owns_its_directory_and_its_profile_but_no_library() {
    let mut ownership =
        Ownership::of_program(["/usr/bin/firefox-esr".into(), "/usr/lib/firefox-esr/firefox-esr".into()]);
    ownership.add("/var/tmp/thaw-1/profile".into(), OwnerRule::Restored);
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
    let ownership = Ownership::of_program(["/usr/bin/gimp".into()]);
    let paths = ["/usr/bin/gimp", "/usr/bin/dash", "/usr/lib/gimp/plug-in", "/usr/lib/x86_64-linux-gnu/ld.so"];
    let executed = ["/usr/bin/dash", "/usr/lib/gimp/plug-in", "/usr/lib/x86_64-linux-gnu/ld.so"];
    assert_eq!(own(&ownership, &executed, &paths), ["/usr/bin/gimp", "/usr/lib/gimp/plug-in"]);
}

#[test]
fn a_program_below_opt_owns_what_lies_beside_its_bin_directory() {
    let ownership = Ownership::of_program(["/opt/studio/bin/studio".into()]);
    assert_eq!(own(&ownership, &[], &["/opt/studio/lib/a.jar", "/opt/other/x"]), ["/opt/studio/lib/a.jar"]);
    let mine = Ownership::of_program(["/root/.local/bin/tool".into()]);
    assert_eq!(own(&mine, &[], &["/root/.local/bin/tool", "/root/.local/share/x"]), ["/root/.local/bin/tool"]);
}

#[test]
fn a_home_of_slash_makes_nothing_its_own() {
    let mut ownership = Ownership::default();
    for root in ["/", "relative", "/home/me"] {
        ownership.add(root.into(), OwnerRule::Home);
    }
    assert_eq!(own(&ownership, &[], &["/etc/passwd", "/home/me/x"]), ["/home/me/x"]);
}

#[test]
fn metadata_is_the_systems_wherever_the_program_lies() {
    let mut rows = TraceRows { files: vec![file("/dev/vda", FileKind::Metadata)], ..TraceRows::default() };
    Ownership::of_program(["/dev/vda".into()]).assign(&mut rows, None);
    assert_eq!((rows.files[0].owner, rows.owners[0].rule), (Owner::System, OwnerRule::Metadata));
}
