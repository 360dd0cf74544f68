//! The function engine on real programs whose calls are known exactly.

mod workshop;

use os::spawn::{Launch, Stream, spawn_gated};
use std::path::{Path, PathBuf};
use std::process::Command;
use touch::Trace;
use touch::function::Functions;
use workshop::{ONE_AT_A_TIME, Watched, Workshop, count, helper, watch, watch_prepared};

/// Not a test: the tracing process of the others.
#[test]
fn tracer() {
    workshop::serve_if_asked();
}

/// Calls of `exact.c` in their order.
const EXACT: [&str; 22] = [
    "c01_before_main",
    "c02_outer",
    "c03_twice",
    "c04_inner",
    "c05_on_usr1",
    "c06_in_handler",
    "c07_sets_trap_handler",
    "c09_own_traps",
    "c08_on_trap",
    "c10_thread",
    "c11_in_thread",
    "c13_other_thread",
    "c12_second_thread_only",
    "c15_while_blocked",
    "c14_blocked",
    "c17_child",
    "c16_in_child",
    "c18_in_grandchild",
    "c19_vfork_child",
    "c20_stopped_and_continued",
    "c21_opens_library",
    "c22_at_exit",
];

#[test]
fn every_function_is_seen_once_in_the_order_of_its_first_call() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(plug) = workshop.compile("plug.c", "plug.so", &["-shared", "-fPIC"]) else { return };
    for (name, flags) in [("pie", &["-ldl"][..]), ("now", &["-ldl", "-Wl,-z,now"]), ("fixed", &["-ldl", "-no-pie"])] {
        let Some(program) = workshop.compile("exact.c", name, flags) else { continue };
        let watched = watch([program.as_os_str(), plug.as_os_str()]);
        assert_eq!(watched.printed, "as expected\n", "{name}: {:?} {}", watched.ended, watched.cannot());
        assert_eq!((watched.ended.code, watched.ended.signal), (Some(0), None));
        assert_eq!(watched.numbered(&program), EXACT, "{name}");
        assert_eq!(watched.numbered(&plug), ["p01_opened", "p02_call", "p03_inner", "p04_closed"], "{name}");
        let orders: Vec<u32> = watched.rows.touches.iter().map(|touch| touch.order.unwrap()).collect();
        assert_eq!(orders, (0..orders.len() as u32).collect::<Vec<_>>());
        let times: Vec<_> = watched.rows.touches.iter().map(|touch| touch.at_ns.unwrap()).collect();
        assert!(times.is_sorted());
        let shells = watched.rows.processes.iter().filter(|process| process.comm == "sh").count();
        assert_eq!((watched.rows.processes.len(), shells), (6, 1), "{:?}", watched.rows.processes);
    }
}

#[test]
fn a_stripped_program_has_the_same_calls_without_names() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(plug) = workshop.compile("plug.c", "plug.so", &["-shared", "-fPIC"]) else { return };
    let Some(program) = workshop.compile("exact.c", "exact", &["-ldl"]) else { return };
    let with_names = watch([program.as_os_str(), plug.as_os_str()]);
    let (bare, bare_plug) = (workshop.strip(&program, "bare"), workshop.strip(&plug, "bare.so"));
    let watched = watch([bare.as_os_str(), bare_plug.as_os_str()]);
    assert_eq!(watched.printed, "as expected\n", "{}", watched.cannot());
    // What is not numbered runs beside a child, so its place in the order is anybody's guess.
    let numbered: Vec<u64> = with_names
        .calls(&program)
        .into_iter()
        .filter(|(_, name)| name.is_some_and(|name| EXACT.contains(&name)))
        .map(|(offset, _)| offset)
        .collect();
    assert_eq!(numbered.len(), EXACT.len());
    let mut places: Vec<u64> = watched.calls(&bare).into_iter().map(|(offset, _)| offset).collect();
    places.retain(|offset| numbered.contains(offset));
    assert_eq!(places, numbered);
    assert!(watched.calls(&bare).iter().all(|(_, name)| name.is_none()));
    let exported: Vec<_> = watched.calls(&bare_plug).into_iter().filter_map(|(_, name)| name).collect();
    assert_eq!(exported, ["p01_opened", "p02_call", "p03_inner", "p04_closed"], "exported names are there");
}

#[test]
fn a_path_may_hold_any_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("plug.c", "plain", &["-Dnever_called=main"]) else { return };
    let odd = workshop.folder.path().join(std::ffi::OsStr::from_bytes(b"not \xff UTF-8"));
    std::fs::rename(program, &odd).unwrap();
    let watched = watch([odd.as_os_str()]);
    assert!(watched.calls(&odd).iter().any(|(_, name)| *name == Some("main")), "{:?}", watched.calls(&odd));
    assert_eq!(watched.rows.processes[0].exe.as_deref(), Some(&*odd.canonicalize().unwrap()));
}

#[test]
fn a_static_program_is_watched_and_what_it_opens_is_said_not_to_be() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("exact.c", "static", &["-static"]) else { return };
    let watched = watch([program.as_os_str()]);
    assert_eq!(watched.printed, "as expected\n", "{}", watched.cannot());
    let expected: Vec<&str> = EXACT.into_iter().filter(|name| *name != "c21_opens_library").collect();
    assert_eq!(watched.numbered(&program), expected);
}

#[test]
fn a_32_bit_program_is_watched() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(plug) = workshop.compile_32("plug.c", "plug.so", &["-shared", "-fPIC"]) else { return };
    for (name, flags) in [("pie", &["-ldl"][..]), ("now", &["-ldl", "-Wl,-z,now"]), ("fixed", &["-ldl", "-no-pie"])] {
        let Some(program) = workshop.compile_32("exact.c", name, flags) else { return };
        if !Command::new(&program).arg(&plug).output().is_ok_and(|said| said.status.success()) {
            return testing::skip("needs a 32-bit C library (libc6-i386)");
        }
        let watched = watch([program.as_os_str(), plug.as_os_str()]);
        assert_eq!(watched.printed, "as expected\n", "{name}: {:?} {}", watched.ended, watched.cannot());
        assert_eq!((watched.ended.code, watched.ended.signal), (Some(0), None));
        assert_eq!(watched.numbered(&program), EXACT, "{name}");
        assert_eq!(watched.numbered(&plug), ["p01_opened", "p02_call", "p03_inner", "p04_closed"], "{name}");
    }
}

#[test]
fn a_static_32_bit_program_keeps_its_traps() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile_32("exact.c", "small", &["-static"]) else { return };
    let watched = watch([program.as_os_str()]);
    assert_eq!(watched.printed, "as expected\n", "{:?} {}", watched.ended, watched.cannot());
    let expected: Vec<&str> = EXACT.into_iter().filter(|name| *name != "c21_opens_library").collect();
    assert_eq!(watched.numbered(&program), expected);
}

/// Names of a program's own functions, in the order of their first call, as uftrace saw them.
fn by_uftrace(workshop: &Workshop, program: &Path) -> Vec<String> {
    let data = workshop.path("uftrace.data");
    let record = Command::new("uftrace").args(["record", "--no-event", "-d"]).arg(&data).arg(program).output().unwrap();
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    let mut replay = Command::new("uftrace");
    replay.args(["replay", "-f", "none", "--no-event", "--no-libcall", "-d"]).arg(&data);
    let said = String::from_utf8(replay.output().unwrap().stdout).unwrap();
    let mut names: Vec<String> = Vec::new();
    for line in said.lines() {
        let name = line.trim().split('(').next().unwrap_or_default().to_owned();
        if (name.starts_with("t_") || name == "main") && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

#[test]
fn the_list_is_the_one_of_uftrace() {
    let Some(workshop) = Workshop::new() else { return };
    if Command::new("uftrace").arg("--version").output().is_err() {
        return testing::skip("needs uftrace");
    }
    for source in ["sorting.c", "jumps.c", "machine.c"] {
        for optimised in ["-O0", "-O2"] {
            let Some(program) = workshop.compile(source, "traced", &["-pg", optimised]) else { return };
            let expected = by_uftrace(&workshop, &program);
            let watched = watch([program.as_os_str()]);
            assert_eq!(watched.ended.code, Some(0), "{source}: {}", watched.printed);
            let own = |name: &&str| name.starts_with("t_") || *name == "main";
            let calls: Vec<&str> =
                watched.calls(&program).into_iter().filter_map(|(_, name)| name).filter(own).collect();
            assert_eq!(calls, expected, "{source} {optimised}");
            assert!(calls.len() > 5, "{calls:?}");
        }
    }
}

#[test]
fn threads_that_meet_the_same_trap_lose_no_call() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("hammer.c", "hammer", &[]) else { return };
    for _ in 0..20 {
        let watched = watch([program.as_os_str()]);
        let sum: u32 = (10..100).sum();
        assert_eq!(watched.printed, format!("{}\n", sum * 8), "{:?}", watched.ended);
        let mut called: Vec<&str> = watched.calls(&program).into_iter().filter_map(|(_, name)| name).collect();
        called.retain(|name| name.starts_with('h') && name.len() == 3);
        let count = called.len();
        called.sort();
        called.dedup();
        assert_eq!((count, called.len()), (90, 90), "each once");
    }
}

#[test]
fn a_page_of_functions_that_were_called_elsewhere_stops_a_child_once() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("after.c", "after", &[]) else { return };
    let watched = watch([program.as_os_str()]);
    assert_eq!(watched.printed, "4905\n4905\n", "{:?}", watched.ended);
    let of_both = |name: &&str| name.starts_with('h') && name.len() == 3;
    let calls: Vec<&str> = watched.calls(&program).into_iter().filter_map(|(_, name)| name).filter(of_both).collect();
    assert_eq!(calls.len(), 90, "each once, though both called it");
    // Without a child there is a stop for each call; with one, each of its ninety would be one more.
    let of = |watched: &Watched| (watched.rows.info.records.cast_signed(), watched.rows.touches.len() as i64);
    let (stops, calls) = of(&watched);
    let (others_stops, others_calls) = of(&watch([program.as_os_str(), "alone".as_ref()]));
    let more = (stops - calls) - (others_stops - others_calls);
    assert!(more < 60, "{stops} stops of {calls} calls, alone {others_stops} of {others_calls}");
}

/// Functions of `loaded.c` in a library that were called, by name.
fn of_library(watched: &Watched, library: &Path) -> Vec<String> {
    let names = watched.calls(library).into_iter().filter_map(|(_, name)| name.map(str::to_owned));
    let mut names: Vec<_> = names.filter(|name| name.starts_with("l0")).collect();
    names.sort_unstable();
    names
}

#[test]
fn libraries_and_handlers_cost_no_stops_each() {
    let Some(workshop) = Workshop::new() else { return };
    // So many libraries that the loader maps, and where it is told to look for them.
    let linked = |name: &str, count: usize| {
        let libraries = (0..count).map(|number| {
            workshop.compile("loaded.c", &format!("{name}{number}.so"), &["-DLIBRARY", "-shared", "-fPIC"])
        });
        let mut flags = vec!["-Wl,--no-as-needed".to_owned()];
        flags.extend(libraries.map(|library| library.expect("it compiles").display().to_string()));
        workshop.compile("loaded.c", name, &flags.iter().map(String::as_str).collect::<Vec<_>>()).expect("it compiles")
    };
    if workshop.compile("loaded.c", "none", &[]).is_none() {
        return;
    }
    let beside_calls = |watched: &Watched| watched.rows.info.records.cast_signed() - watched.rows.touches.len() as i64;
    let (one, many) = (linked("one", 1), linked("many", 21));
    let of_one = watch([one.as_os_str()]);
    assert_eq!(of_library(&of_one, &workshop.path("one0.so")).len(), 3, "{}", of_one.cannot());
    let of_many = watch([many.as_os_str()]);
    let more = beside_calls(&of_many) - beside_calls(&of_one);
    assert!(more < 20, "{more} more stops for twenty libraries");
    let of_handlers = watch([one.as_os_str(), "500".as_ref()]);
    let more = beside_calls(&of_handlers) - beside_calls(&of_one);
    assert!(more < 20, "{more} more stops for five hundred handlers");
}

#[test]
fn what_the_loader_calls_is_seen_and_where_another_library_audits_it_too() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(audit) = workshop.compile("loaded.c", "audit.so", &["-DAUDIT", "-shared", "-fPIC"]) else { return };
    let library = workshop.compile("loaded.c", "library.so", &["-DLIBRARY", "-shared", "-fPIC"]).unwrap();
    let program = workshop.compile("loaded.c", "program", &["-Wl,--no-as-needed", library.to_str().unwrap()]).unwrap();
    let audits = format!("LD_AUDIT={}", audit.display());
    for words in [vec![program.as_os_str()], vec!["env".as_ref(), audits.as_ref(), program.as_os_str()]] {
        let watched = watch(words);
        assert_eq!(
            of_library(&watched, &library),
            ["l00_asks", "l01_chosen", "l02_constructs"],
            "{}",
            watched.cannot()
        );
        assert!(!watched.cannot().contains("before its first instruction"), "{}", watched.cannot());
    }
}

#[test]
fn functions_of_a_large_file_note_their_calls_themselves_and_nothing_else_changes() {
    let Some(workshop) = Workshop::new() else { return };
    for (name, flags) in [("pie", &["-pie"][..]), ("fixed", &["-no-pie"]), ("static", &["-static"])] {
        let Some(program) = workshop.compile("stubs.c", name, flags) else { continue };
        let watched = watch([program.as_os_str()]);
        assert_eq!(watched.printed, "as expected\n", "{name}: {:?} {}", watched.ended, watched.cannot());
        let calls = |watched: &Watched, kind: &str| {
            let calls = watched.calls(&program).into_iter().filter_map(|(_, name)| name.map(str::to_owned));
            let mut calls: Vec<String> = calls.filter(|name| name.starts_with(kind)).collect();
            let (all, _) = (calls.len(), calls.sort());
            calls.dedup();
            (all, calls.len())
        };
        assert_eq!((calls(&watched, "part_"), calls(&watched, "piece_")), ((2950, 2950), (100, 100)), "{name}");
        let tid_of = |name: &str| {
            let named = |touch: &&model::TouchRow| touch.name.as_deref() == Some(name);
            watched.rows.touches.iter().find(named).unwrap().tid.unwrap()
        };
        let main = tid_of("main");
        assert_eq!((tid_of("part_0"), tid_of("part_2949"), tid_of("part_2800")), (main, main, main), "{name}");
        assert_ne!(tid_of("part_2400"), main, "{name}: a thread");
        let child = tid_of("part_2801");
        assert_ne!(child, main, "{name}: a child");
        assert!(watched.rows.processes.iter().any(|process| process.pid == child), "{name}");
        // Files that are no programs, or are not there, are nobody's mistake.
        let odd = [program.clone(), "/dev/null".into(), "/nonexistent".into(), workshop.path("")];
        for files in [&[][..], &odd] {
            let plain = watch_prepared([program.as_os_str(), "called".as_ref()], files.to_vec());
            assert_eq!((plain.printed.as_str(), calls(&plain, "part_")), ("called\n", (2950, 2950)), "{name}");
            assert!(plain.rows.info.records < 1500, "{name}: {} stops", plain.rows.info.records);
        }
    }
}

#[test]
fn code_that_a_program_is_known_to_copy_is_left_as_it_is() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("builtins.c", "builtins", &[]) else { return };
    for files in [vec![], vec![program.clone()]] {
        let watched = watch_prepared([program.as_os_str()], files);
        assert_eq!(watched.printed, "1507\n", "{:?} {}", watched.ended, watched.cannot());
        let calls: Vec<_> = watched.calls(&program).into_iter().filter_map(|(_, name)| name).collect();
        assert!(["main", "part_100", "part_1299"].iter().all(|name| calls.contains(name)), "{calls:?}");
        assert!(watched.cannot().contains("V8's builtins, which it copies elsewhere"), "{}", watched.cannot());
    }
    let counted = count(&["Builtins_*", "part_100"], [program.as_os_str()]);
    assert_eq!(counted.printed, "1507\n", "{:?} {}", counted.ended, counted.cannot());
    assert!(counted.cannot().contains("V8's builtins, which it copies elsewhere"), "{}", counted.cannot());
}

#[test]
fn node_runs_while_it_is_watched() {
    let Some(_) = Workshop::new() else { return };
    let node = Path::new("/usr/bin/node");
    if !node.exists() {
        return testing::skip("needs node");
    }
    for files in [vec![], vec![node.canonicalize().unwrap()]] {
        let watched = watch_prepared(["node", "-e", "console.log(6 * 7)"], files);
        assert_eq!((watched.printed.as_str(), watched.ended.code), ("42\n", Some(0)), "{:?}", watched.ended);
        assert!(watched.rows.touches.len() > 1000);
    }
}

#[test]
fn what_was_found_out_is_kept_and_says_the_same() {
    use std::os::unix::fs::MetadataExt;
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("stubs.c", "kept", &[]) else { return };
    let about = std::fs::metadata(&program).unwrap();
    let name = format!("{:x}-{:x}.kept", about.dev(), about.ino());
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("touch").join(name);
    let list = |files: &[PathBuf]| {
        let watched = watch_prepared([program.as_os_str(), "called".as_ref()], files.to_vec());
        let mut calls: Vec<u64> = watched.calls(&program).into_iter().map(|(offset, _)| offset).collect();
        calls.sort_unstable();
        (watched.printed.clone(), calls, watched.cannot())
    };
    // Nothing is kept of a file that was written just now: it may be written again in the same tick.
    let first = list(&[]);
    assert!(!kept.exists());
    std::thread::sleep(std::time::Duration::from_millis(3100));
    for files in [&[][..], std::slice::from_ref(&program)] {
        assert_eq!(list(files), first, "found out anew");
        assert!(kept.exists());
        assert_eq!(list(files), first, "kept");
        let mut bytes = std::fs::read(&kept).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&kept, bytes).unwrap();
        let (printed, calls, cannot) = list(files);
        assert_eq!((&printed, &calls), (&first.0, &first.1), "damaged");
        assert!(cannot.contains("(it is damaged): it was found out anew"), "{cannot}");
        assert_eq!(list(files), first, "written again");
        std::fs::remove_file(&kept).unwrap();
    }
}

#[test]
fn exec_from_a_thread_is_followed_and_a_use_of_ptrace_is_said() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("changes.c", "changes", &[]) else { return };
    let watched = watch([program.as_os_str()]);
    assert_eq!(watched.printed, "ptrace: Operation not permitted\n");
    assert_eq!(
        watched.numbered(&program),
        ["e01_thread", "e02_before_exec", "e03_main_again", "e04_after_exec"],
        "{}",
        watched.cannot()
    );
    assert!(watched.cannot().contains("what changes would see with ptrace"), "{}", watched.cannot());
}

#[test]
fn a_copy_of_code_with_a_trap_in_it_is_recognised() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("copies.c", "copies", &[]) else { return };
    let stripped = workshop.strip(&program, "bare");
    for (file, how, function) in [
        (&program, "m", "k01_copied (at 0x"),
        (&program, "f", "k01_copied (at 0x"),
        (&stripped, "m", "the function at 0x"),
    ] {
        let argv = [file.as_os_str(), how.as_ref()];
        let unwatched = Command::new(file).arg(how).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&unwatched.stdout), "42\n");
        let watched = watch(argv);
        assert_eq!(watched.ended.signal, Some(libc::SIGTRAP), "{how}: {:?}", watched.ended);
        let says = watched.cannot();
        let told: Vec<&str> = says.lines().filter(|line| line.starts_with("calls of copies of code: ")).collect();
        assert_eq!(told.len(), 1, "{says}");
        assert!(told[0].contains(function) && told[0].contains(&*file.to_string_lossy()), "{told:?}");
    }
    // A trap of the program's own in fresh memory is no copy.
    let watched = watch([program.as_os_str(), "t".as_ref()]);
    assert_eq!(watched.ended.code, Some(0), "{:?}", watched.ended);
    assert!(!watched.cannot().contains("copies of code"), "{}", watched.cannot());
}

#[test]
fn whoever_is_watched_ends_with_the_tracer() {
    let Some(_) = Workshop::new() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut engine = Functions::new(&helper()).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    let mut launch = Launch::new(["sh", "-c", "sleep 1000 & echo ready; wait"]);
    launch.stdout = Stream::Fd(write.into());
    let gated = spawn_gated(launch).unwrap();
    engine.attach(gated.pid()).unwrap();
    let mut running = gated.release().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(read));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    drop(engine);
    assert_eq!(running.wait().unwrap().signal, Some(libc::SIGKILL));
    // Ends only when nobody holds the pipe any more.
    assert!(lines.next().is_none());
}

#[test]
fn what_was_seen_can_be_had_while_the_program_goes_on() {
    let Some(_) = Workshop::new() else { return };
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut engine = Functions::new(&helper()).unwrap();
    let (read, write) = std::io::pipe().unwrap();
    let (go_read, mut go) = std::io::pipe().unwrap();
    let mut launch = Launch::new(["sh", "-c", "echo ready; read line; test \"$line\" = go && printf %d 7; exit 3"]);
    (launch.stdout, launch.stdin) = (Stream::Fd(write.into()), Stream::Fd(go_read.into()));
    let gated = spawn_gated(launch).unwrap();
    engine.attach(gated.pid()).unwrap();
    let mut running = gated.release().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(read));
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let rows = engine.stop(running.t0_ns()).unwrap();
    assert!(rows.touches.len() > 50);
    assert!(rows.processes[0].end_ns.is_none(), "{:?}", rows.processes);
    // Functions that are called from here on still meet their traps.
    std::io::Write::write_all(&mut go, b"go\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "7");
    assert_eq!(running.wait().unwrap().code, Some(3));
}

#[test]
fn a_program_without_rights_is_watched_without_rights() {
    let Some(workshop) = Workshop::new() else { return };
    if !testing::root_or_skip() {
        return;
    }
    let Some(program) = workshop.compile("sorting.c", "sorting", &[]) else { return };
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(workshop.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // This test again, as nobody, from a place that nobody may read.
    let copy = workshop.path("tests");
    testing::copy_program(std::env::current_exe().unwrap(), &copy);
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"])
        .arg(&copy)
        .args(["--exact", "as_nobody", "--nocapture", "--test-threads=1"])
        .env("THAW_TOUCH_TEST_PROGRAM", &program)
        .current_dir("/")
        .output();
    let Ok(output) = output else { return testing::skip("needs setpriv") };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("called t_by_value t_odd t_even t_depth t_by_digit t_last"), "{output:?}");
    assert!(text.contains("ran only with your rights: true"), "{text}");
}

/// Not a test: what the one above starts.
#[test]
fn as_nobody() {
    let Some(program) = std::env::var_os("THAW_TOUCH_TEST_PROGRAM") else { return };
    let watched = watch([&program]);
    let names: Vec<&str> = watched.calls(Path::new(&program)).into_iter().filter_map(|(_, name)| name).collect();
    let own: Vec<&str> = names.into_iter().filter(|name| name.starts_with("t_")).collect();
    println!("\ncalled {}", own.join(" "));
    let set_id = watch(["su", "--help"]);
    println!("ran only with your rights: {}", set_id.cannot().contains("su does with the rights of its owner"));
}

const GO: &str = r#"
package main

import (
	"fmt"
	"os"
)

//go:noinline
func g01_first(n int) int { return n * 3 }

//go:noinline
func g02_second(n int) int { return g01_first(n) + 1 }

//go:noinline
func g03_never(n int) int { return n - 1 }

func main() {
	fmt.Println(g02_second(len(os.Args)))
	if len(os.Args) > 5 {
		fmt.Println(g03_never(3))
	}
}
"#;

/// The same with C in it, so that another linker puts C's code in front of Go's.
const GO_WITH_C: &str =
    "package main\n\n// int c_in_go(int n) { return n * 2; }\nimport \"C\"\n\nfunc init() { println(C.c_in_go(4)) }\n";

#[test]
fn a_stripped_go_program_tells_its_functions_by_its_own_table() {
    let Some(workshop) = Workshop::new() else { return };
    let build = |name: &str, flags: &[&str], files: &[(&str, &str)]| -> Option<PathBuf> {
        let folder = workshop.path(&format!("{name}.src"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("go.mod"), "module g\n").unwrap();
        files.iter().for_each(|(file, text)| std::fs::write(folder.join(file), text).unwrap());
        let program = workshop.path(name);
        let said = Command::new("go").arg("build").args(flags).arg("-o").arg(&program).current_dir(&folder).output();
        if !said.as_ref().is_ok_and(|said| said.status.success()) {
            testing::skip(&format!("needs Go that can {flags:?}"));
            return None;
        }
        Some(program)
    };
    let plain = [("main.go", GO)];
    let with_c = [("main.go", GO), ("c.go", GO_WITH_C)];
    for (name, flags, files) in [
        ("fixed", &[][..], &plain[..]),
        ("pie", &["-buildmode=pie"], &plain),
        ("fixed_c", &["-ldflags=-linkmode=external"], &with_c),
        ("pie_c", &["-buildmode=pie", "-ldflags=-linkmode=external"], &with_c),
    ] {
        let Some(program) = build(name, flags, files) else { continue };
        let bare = workshop.strip(&program, &format!("{name}.bare"));
        let (bytes, bare_bytes) = (std::fs::read(&program).unwrap(), std::fs::read(&bare).unwrap());
        // What the symbol table said before it was taken away.
        let (names, bare_names) = (touch::function::Names::of(&bytes), touch::function::Names::of(&bare_bytes));
        let (starts, bare_starts) = (
            touch::function::function_starts(&bytes).unwrap().functions,
            touch::function::function_starts(&bare_bytes).unwrap().functions,
        );
        let packages = ["main.", "fmt.", "os.", "strconv.", "sync.", "reflect."];
        let is_go = |name: String| packages.iter().any(|package| name.starts_with(package));
        let of_go = |offset: u64| names.get(offset).is_some_and(is_go);
        let (mut all, mut same) = (0, 0);
        for function in starts.iter().filter(|function| of_go(function.offset)) {
            all += 1;
            // The symbol table says more of functions in assembly.
            let name = names.get(function.offset).map(|name| name.trim_end_matches(".abi0").to_owned());
            let named = bare_names.get(function.offset) == name;
            same += usize::from(named && bare_starts.contains(function));
        }
        assert!(all > 100 && same * 100 >= all * 98, "{name}: {same} of {all} functions");
        let watched = watch([bare.as_os_str()]);
        assert!(watched.printed.ends_with("4\n") && watched.ended.code == Some(0), "{name}: {}", watched.printed);
        let calls = watched.calls(&bare);
        let own: Vec<&str> =
            calls.iter().filter_map(|(_, name)| *name).filter(|name| name.starts_with("main.")).collect();
        let own: Vec<&str> =
            own.into_iter().filter(|name| name.starts_with("main.g0") || *name == "main.main").collect();
        assert_eq!(own, ["main.main", "main.g02_second", "main.g01_first"], "{name}: {}", watched.cannot());
    }
}
