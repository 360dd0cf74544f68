//! Programs that the dynamic linker does not serve, among the children of a recorded one: each is named, with the
//! reason.

use super::{Bench, Recorded, root};
use heaprec::record::Keep;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program that allocates and ends with 0.
fn build(compiler: &str, program: &Path, flags: &[&str]) -> bool {
    let source = program.with_extension("c");
    std::fs::write(&source, "#include <stdlib.h>\nint main(void) { free(malloc(1)); return 0; }\n").unwrap();
    let built = Command::new(compiler).args(["-w", "-o"]).arg(program).arg(&source).args(flags).output();
    built.is_ok_and(|output| output.status.success())
}

fn build_go(program: &Path) -> bool {
    let source = program.with_extension("go");
    std::fs::write(&source, "package main\nfunc main() {}\n").unwrap();
    let mut go = Command::new("go");
    go.env("CGO_ENABLED", "0").env("GOTOOLCHAIN", "local").env("GO111MODULE", "off");
    go.env("GOCACHE", program.with_extension("cache")).args(["build", "-o"]).arg(program).arg(&source);
    go.output().is_ok_and(|output| output.status.success())
}

/// Programs and a part of the reason why they are not recorded; `None`: they are.
fn programs(bench: &Bench) -> Vec<(PathBuf, Option<&'static str>)> {
    const STATIC: Option<&str> = Some("is statically linked");
    let mut all = Vec::new();
    let mut add = |name: &str, why, made: &dyn Fn(&Path) -> bool, needs: &str| {
        let path = bench.path(name);
        if made(&path) {
            all.push((path, why));
        } else {
            testing::skip(needs);
        }
    };
    let flags =
        |compiler: &'static str, flags: &'static [&'static str]| move |path: &Path| build(compiler, path, flags);
    add("dynamic", None, &flags("cc", &[]), "needs a C compiler");
    add("glibc", STATIC, &flags("cc", &["-static"]), "needs a static C library");
    add("musl", STATIC, &flags("musl-gcc", &["-static"]), "needs musl-tools");
    add("musl-shared", None, &flags("musl-gcc", &[]), "needs musl-tools");
    add("go", STATIC, &build_go, "needs a Go toolchain");
    let small = |path: &Path| build("cc", path, &["-m32"]) || build("i686-linux-gnu-gcc", path, &[]);
    add("small", Some("no x86-64 program"), &small, "needs a 32-bit compiler");
    if testing::root_or_skip() {
        let setuid = |path: &Path| {
            build("cc", path, &[])
                && std::os::unix::fs::chown(path, Some(65534), Some(65534)).is_ok()
                && std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o4755)).is_ok()
        };
        add("setuid", Some("setuid"), &setuid, "needs a file of another user");
    }
    let script = |path: &Path| {
        std::fs::write(path, format!("#!{}\n", path.with_file_name("glibc").display())).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).is_ok()
    };
    add("script", STATIC, &script, "needs to write files");
    all
}

/// Names of files and reasons.
fn unseen(recorded: &Recorded) -> BTreeMap<String, Vec<&str>> {
    let mut all: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for process in &recorded.recording.unseen {
        let name = Path::new(&process.file).file_name().unwrap().to_string_lossy().into_owned();
        all.entry(name).or_default().push(&process.why);
    }
    all
}

#[track_caller]
fn is_told(name: &str, why: &[&str], expected: &str) {
    assert!(!why.is_empty() && why.iter().all(|why| why.contains(expected)), "{name}: {why:?}");
}

#[test]
fn children_of_a_shell_are_told() {
    let Some(bench) = Bench::new() else { return };
    let programs = programs(&bench);
    let script: Vec<String> = programs.iter().map(|(path, _)| path.display().to_string()).collect();
    let command: Vec<OsString> = ["sh", "-c", &format!("{}; true", script.join("; "))].map(OsString::from).into();
    for keep in [Keep::Events, Keep::Sums { ahead: Keep::AHEAD }] {
        let recorded = Recorded::of(&super::Plan { keep, ..bench.plan(command.clone()) });
        let told = unseen(&recorded);
        for (path, why) in &programs {
            let name = path.file_name().unwrap().to_str().unwrap();
            match why {
                Some(expected) => is_told(name, told.get(name).map_or(&[][..], Vec::as_slice), expected),
                None => assert_eq!(told.get(name), None, "{name} was recorded"),
            }
        }
        assert_eq!(told.len(), programs.iter().filter(|(_, why)| why.is_some()).count(), "{told:#?}");
        for process in &recorded.recording.unseen {
            let said = |text: &str| text.contains(&process.why) && text.contains(&process.pid.to_string());
            assert!(recorded.report.warnings.iter().any(|warning| said(&warning.text)), "{process:#?}");
        }
        assert!(!bench.path("out.heap").join("executed").exists());
    }
}

#[test]
fn a_shell_that_becomes_a_static_program_is_told() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.path("static");
    if !build("cc", &program, &["-static"]) {
        return testing::skip("needs a static C library");
    }
    let command = ["sh".into(), "-c".into(), format!("exec {}", program.display()).into()];
    let recorded = bench.record(&command);
    assert_eq!(recorded.report.processes.len(), 1, "the shell has a stream");
    let told = &recorded.recording.unseen;
    assert_eq!((told.len(), told[0].pid), (1, recorded.report.processes[0].pid), "{told:#?}");
}

#[test]
fn every_way_to_execute_is_seen() {
    let Some(bench) = Bench::new() else { return };
    let (fixed, shared) = (bench.path("fixed"), bench.path("shared"));
    if !build("cc", &fixed, &["-static"]) {
        return testing::skip("needs a static C library");
    }
    assert!(build("cc", &shared, &[]));
    let spawn = bench.compile("spawn", &[]);
    let all = |program: &Path| {
        std::iter::once(spawn.clone()).chain(std::iter::repeat_n(program.into(), 7)).collect::<Vec<_>>()
    };
    let recorded = bench.record(&all(&fixed));
    assert_eq!(recorded.recording.code, Some(0));
    let told = unseen(&recorded);
    is_told("fixed", &told["fixed"], "statically linked");
    assert_eq!((told.len(), told["fixed"].len()), (1, 7));
    // One is started without an environment: the guest adds what loads it.
    let recorded = bench.record(&all(&shared));
    assert_eq!(recorded.recording.unseen, []);
    let shared = recorded.report.processes.iter().filter(|process| process.exe.ends_with("shared"));
    assert_eq!(shared.count(), 7);
    // Nothing is told of what could not be executed.
    let recorded = bench.record(&["sh".into(), "-c".into(), format!("{}/nothing; true", root().display()).into()]);
    assert_eq!(recorded.recording.unseen, []);
}

/// A root directory with a static `/program` in it; `None` (counted as skipped): there is no static C library.
fn jail(bench: &Bench) -> Option<PathBuf> {
    let jail = bench.path("root");
    std::fs::create_dir(&jail).unwrap();
    let built = build("cc", &jail.join("program"), &["-static"]);
    if !built {
        testing::skip("needs a static C library");
    }
    built.then_some(jail)
}

/// What is executed in another root directory cannot be looked at from here.
fn execs_in_jail(recorded: &Recorded) -> Vec<&heaprec::record::Unseen> {
    let told = recorded.recording.unseen.iter().filter(|process| process.file == "/program");
    told.filter(|process| process.why.contains("root directory is another one")).collect()
}

/// A sandbox takes all paths away before it forks: its children have their streams all the same.
#[test]
fn children_in_another_root_directory_are_recorded() {
    let Some(bench) = Bench::new() else { return };
    if !testing::root_or_skip() {
        return;
    }
    let Some(jail) = jail(&bench) else { return };
    let program = bench.compile("jail", &[]);
    for keep in [Keep::Events, Keep::Sums { ahead: Keep::AHEAD }] {
        let command = vec![program.clone(), jail.clone().into()];
        let recorded = Recorded::of(&super::Plan { keep, ..bench.plan(command) });
        recorded.is_consistent();
        assert_eq!((recorded.recording.code, recorded.recording.missing), (Some(0), 0));
        assert_eq!(recorded.leaks_of("jail", 7000..7002), [(7001, 1)].into());
        let processes = &recorded.report.processes;
        let forked: Vec<_> = processes.iter().filter(|process| process.origin == "fork").collect();
        assert_eq!((processes.len(), forked.len()), (3, 2), "{processes:#?}");
        assert!(forked.iter().all(|process| process.exe == processes[0].exe && process.forked_from.is_some()));
        assert_eq!((execs_in_jail(&recorded).len(), recorded.recording.unseen.len()), (1, 1));
    }
}

/// One that has closed the way out too is told.
#[test]
fn a_child_in_another_root_directory_without_a_file_is_told() {
    let Some(bench) = Bench::new() else { return };
    if !testing::root_or_skip() {
        return;
    }
    let Some(jail) = jail(&bench) else { return };
    let program = bench.compile("jail", &[]);
    let recorded = bench.record(&[program, jail.into(), "close".into()]);
    assert_eq!(recorded.recording.code, Some(0));
    assert_eq!((recorded.report.processes.len(), recorded.recording.missing), (1, 0));
    let (by, told) = (recorded.report.processes[0].pid, &recorded.recording.unseen);
    assert_eq!(told.len(), 3, "the child, the one that executes, and what it executes: {told:#?}");
    let forked: Vec<_> =
        told.iter().filter(|process| process.why.contains(&format!("forked by process {by}"))).collect();
    assert_eq!(forked.len(), 2, "{told:#?}");
    assert!(forked.iter().all(|process| process.why.contains("its root directory is another one")), "{told:#?}");
    assert_eq!(execs_in_jail(&recorded).len(), 1, "{told:#?}");
}

/// Each of these says that it began, and nothing else: the count finds it.
#[test]
fn images_that_leave_nothing_are_counted() {
    let Some(bench) = Bench::new() else { return };
    let script = "t=${THAW_HEAP##*dir=}; /bin/true; rm $t/*-0.stream; :";
    let recorded = bench.record(&["sh".into(), "-c".into(), script.into()]);
    assert!(recorded.recording.missing > 0, "{:#?}", recorded.recording);
    let said = |text: &str| text.contains("left nothing") && text.contains("unknown");
    assert!(recorded.report.warnings.iter().any(|warning| said(&warning.text)), "{:#?}", recorded.report.warnings);
}

/// Where a checker replaces the allocator, nothing is started.
#[test]
fn sanitized_programs_are_refused_before_they_start() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.path("checked");
    if !build("cc", &program, &["-fsanitize=address"]) {
        return testing::skip("needs a C compiler with AddressSanitizer");
    }
    let script = bench.path("script");
    std::fs::write(&script, format!("#!{}\n", program.display())).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for started in [&program, &script] {
        let plan = bench.plan(vec![started.into()]);
        let error = heaprec::record::run(&plan, "test", &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("AddressSanitizer"), "{error}");
        assert_eq!(error.exit, model::Exit::Usage);
        assert!(!plan.output.exists());
    }
    let recorded = bench.record(&["sh".into(), "-c".into(), format!("{}; true", program.display()).into()]);
    let told = unseen(&recorded);
    is_told("checked", told.get("checked").map_or(&[][..], Vec::as_slice), "AddressSanitizer");
}

/// Chromium's renderers in their sandbox reach no path any more: another root directory, user, process and network
/// namespaces, seccomp.
#[test]
fn renderers_of_a_sandboxed_chromium_are_recorded() {
    let Some(bench) = Bench::new() else { return };
    let Some(chromium) =
        ["/usr/bin/chromium", "/usr/bin/chromium-browser"].into_iter().find(|path| Path::new(path).exists())
    else {
        return testing::skip("needs chromium");
    };
    if !testing::root_or_skip() {
        return;
    }
    // As root it would want --no-sandbox.
    std::fs::set_permissions(bench.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let home = bench.path("home");
    std::fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    let (home, picture) = (home.display(), home.join("page.png"));
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env"].map(OsString::from);
    let words = [
        format!("HOME={home}"),
        chromium.into(),
        "--headless".into(),
        "--disable-gpu".into(),
        format!("--user-data-dir={home}/profile"),
        format!("--screenshot={}", picture.display()),
        "about:blank".into(),
    ];
    let command: Vec<OsString> = user.into_iter().chain(words.map(OsString::from)).collect();
    let recorded = bench.record(&command);
    if !picture.exists() {
        return testing::skip("Chromium's sandbox does not start here");
    }
    let told = &recorded.recording.unseen;
    assert!(!told.iter().any(|one| one.why.contains("forked by")), "{told:#?}");
    assert_eq!(recorded.recording.missing, 0, "{told:#?}");
    // Their numbers are those of the sandbox: small.
    let processes = recorded.report.processes.iter().filter(|process| process.exe.contains("chromium"));
    let sandboxed: Vec<_> = processes.filter(|process| process.origin == "fork" && process.pid < 50).collect();
    // Threads that began when the sandbox was shut are there too: without them blocks would go and come unseen.
    assert!(sandboxed.iter().any(|one| one.allocations > 10_000 && one.threads > 3), "{sandboxed:#?}");
    for process in sandboxed {
        assert_eq!((process.lost, process.inconsistencies), (0, 0), "{process:#?}");
        assert!(process.forked_from.is_some(), "{process:#?}");
    }
}
