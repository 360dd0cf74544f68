//! Counted calls of programs that count them themselves.

mod workshop;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use touch::function::FunctionCount;
use workshop::{Watched, Workshop, count};

/// Not a test: the tracing process of the others.
#[test]
fn tracer() {
    workshop::serve_if_asked();
}

/// What a program says that it has called: NAME COUNT in each line.
fn said(printed: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
        (name.to_owned(), count.parse().unwrap())
    };
    printed.lines().filter(|line| line.starts_with('q')).map(line).collect()
}

fn functions(watched: &Watched) -> &[FunctionCount] {
    &watched.counts.as_ref().unwrap().functions
}

fn function<'a>(watched: &'a Watched, name: &str) -> &'a FunctionCount {
    let mut named = functions(watched).iter().filter(|function| function.name == name);
    let function = named.next().unwrap_or_else(|| panic!("{name} of {:?}", functions(watched)));
    assert!(named.next().is_none(), "one {name}");
    function
}

/// All counts are those that the program says; what it does is as without us.
fn agrees(watched: &Watched, alone: &str) {
    assert_eq!((watched.ended.code, watched.ended.signal), (Some(0), None), "{} {:?}", watched.printed, watched.counts);
    let (here, there) = (said(&watched.printed), said(alone));
    assert!(here.keys().eq(there.keys()) && !here.is_empty(), "{} {alone}", watched.printed);
    for (name, calls) in here {
        let counted = function(watched, &name);
        assert_eq!(counted.calls, calls, "{name}: {counted:?}");
        let by_callers: u64 = counted.callers.iter().map(|caller| caller.calls).sum();
        assert_eq!(by_callers + counted.without_caller, calls, "{name}: {counted:?}");
        assert_eq!(counted.first_ns.is_some() && counted.first_ns <= counted.last_ns, calls > 0, "{name}");
    }
}

fn alone(program: &Path, argument: Option<&Path>) -> String {
    let output = Command::new(program).args(argument).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn callers(function: &FunctionCount) -> Vec<(&str, u64)> {
    function.callers.iter().map(|it| (it.place.function.as_deref().unwrap_or("?"), it.calls)).collect()
}

#[test]
fn counts_are_exact_whatever_an_entry_looks_like_and_whoever_calls() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(plug) = workshop.compile("plugged.c", "plugged.so", &["-shared", "-fPIC"]) else { return };
    for (name, flags) in [
        ("pie", &["-ldl"][..]),
        ("optimised", &["-O2", "-ldl"]),
        ("guarded", &["-O2", "-fcf-protection", "-ldl"]),
        ("fixed", &["-O2", "-no-pie", "-ldl"]),
        ("static", &["-O2", "-static"]),
    ] {
        let Some(program) = workshop.compile("counted.c", name, flags) else { continue };
        let plug = Some(&*plug).filter(|_| name != "static");
        let alone = alone(&program, plug);
        let argv = [Some(&*program), plug].into_iter().flatten().map(Path::as_os_str);
        let watched = count(&["q_*"], argv);
        agrees(&watched, &alone);
        let depth = |printed: &str| printed.lines().find(|line| line.starts_with("depth")).map(str::to_owned);
        assert_eq!(depth(&watched.printed), depth(&alone), "{name}: a stack");
        let threads = |of: &str| function(&watched, of).threads;
        assert_eq!((threads("q_hot"), threads("q_turn"), threads("q_child")), (9, 5, 3), "{name}");
        assert_eq!(callers(function(&watched, "q_called")), [("q_caller_b", 500), ("q_caller_a", 300)], "{name}");
        let mut of_leaf = callers(function(&watched, "q_leaf"));
        of_leaf.sort_unstable();
        assert_eq!(of_leaf, [("q_back", 10), ("q_call", 10), ("q_call_first", 10)], "{name}");
        assert_eq!(callers(function(&watched, "q_deepest")), [("q_deep", 1)], "{name}");
        let stopped: Vec<&str> = functions(&watched)
            .iter()
            .filter(|function| function.stops > 0)
            .map(|function| {
                assert_eq!((function.stops, function.breakpoint.is_some()), (function.calls, true), "{function:?}");
                &*function.name
            })
            .collect();
        assert_eq!(stopped, ["q_into", "q_again", "q_back", "q_packed"], "{name}");
        let hot = function(&watched, "q_hot");
        assert!(hot.noted.len() >= 16 && hot.noted.is_sorted_by_key(|call| call.at_ns), "{name}");
        assert!(hot.noted.iter().all(|call| call.tid != 0 && call.caller < hot.callers.len()), "{name}");
        assert_eq!(watched.counts.as_ref().unwrap().cannot, Vec::<String>::new().as_slice(), "{name}");
        assert!(watched.rows.touches.is_empty(), "first calls of others are not noted");
    }
}

#[test]
fn code_that_is_not_what_its_file_says_is_left_alone_and_that_is_said() {
    let Some(workshop) = Workshop::new() else { return };
    let shared = ["-shared", "-fPIC", "-O2"];
    let Some(plug) = workshop.compile("plugged.c", "plugged.so", &shared) else { return };
    let Some(other) = workshop.compile("plug.c", "other.so", &shared) else { return };
    let Some(program) = workshop.compile("altered.c", "altered", &["-ldl"]) else { return };
    let watched = count(&["q_*"], [program.as_os_str(), plug.as_os_str(), other.as_os_str()]);
    assert_eq!(watched.ended.code, Some(0), "{:?} {:?}", watched.ended, watched.counts);
    assert_eq!(function(&watched, "q_plugged").calls, 3);
    let cannot = watched.counts.as_ref().unwrap().cannot.join("\n");
    assert!(cannot.contains("calls of q_plugged in") && cannot.contains("is not what the file says"), "{cannot}");
}

#[test]
fn without_memory_in_the_process_breakpoints_count_and_that_is_said() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("plain.c", "plain", &[]) else { return };
    let alone = alone(&program, None);
    let limited = "ulimit -v 4000000; exec \"$0\"";
    let watched = count(&["q_*"], ["sh".as_ref(), "-c".as_ref(), limited.as_ref(), program.as_os_str()]);
    agrees(&watched, &alone);
    assert!(functions(&watched).iter().all(|function| function.stops == function.calls));
    let called = function(&watched, "q_called");
    assert_eq!(called.threads, 5);
    assert_eq!(callers(called), [("q_other", 2000), ("main", 30)]);
    let cannot = watched.counts.as_ref().unwrap().cannot.join("\n");
    assert!(cannot.contains("its address space is limited; they are counted by breakpoints"), "{cannot}");
    // Nobody limits this one.
    let watched = count(&["q_*"], [program.as_os_str()]);
    agrees(&watched, &alone);
    assert!(functions(&watched).iter().all(|function| function.stops == 0));
}

#[test]
fn a_32_bit_program_is_counted_by_breakpoints() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile_32("plain.c", "plain", &["-static"]) else { return };
    let watched = count(&["q_*"], [program.as_os_str()]);
    agrees(&watched, &alone(&program, None));
    let called = function(&watched, "q_called");
    assert_eq!((called.stops, called.breakpoint.as_deref()), (2030, Some("it is 32-bit code")));
    assert_eq!(callers(called), [("q_other", 2000), ("main", 30)]);
}

#[test]
fn exceptions_pass_through_counted_functions_which_are_found_by_their_plain_names() {
    let Some(workshop) = Workshop::new() else { return };
    for (name, flags) in [("plain", &["-O0"][..]), ("optimised", &["-O2"])] {
        let Some(program) = workshop.compile_with(&[&["c++"]], "thrown.cpp", name, flags) else { return };
        let watched = count(&["q::*"], [program.as_os_str()]);
        agrees(&watched, &alone(&program, None));
        let mut who = callers(function(&watched, "q::throws"));
        who.sort_unstable();
        assert_eq!(who, [("q::first", 40), ("q::through", 102)], "{name}");
        let by_symbol = count(&["_ZN1q6throwsEi"], [program.as_os_str()]);
        assert_eq!(functions(&by_symbol).len(), 1);
        assert_eq!(function(&by_symbol, "q::throws").calls, 142);
    }
}

#[test]
fn the_counts_are_those_of_uftrace() {
    let Some(workshop) = Workshop::new() else { return };
    if Command::new("uftrace").arg("--version").output().is_err() {
        return testing::skip("needs uftrace");
    }
    for source in ["sorting.c", "jumps.c", "machine.c"] {
        for optimised in ["-O0", "-O2"] {
            let Some(program) = workshop.compile(source, "traced", &["-pg", optimised]) else { return };
            let expected = by_uftrace(&workshop, &program);
            let watched = count(&["t_*"], [program.as_os_str()]);
            let calls = functions(&watched).iter().filter(|function| function.calls > 0);
            let calls: BTreeMap<String, u64> = calls.map(|function| (function.name.clone(), function.calls)).collect();
            assert_eq!(calls, expected, "{source} {optimised}");
            assert!(calls.len() > 4, "{calls:?}");
        }
    }
}

/// Calls of a program's own functions, as uftrace saw them.
fn by_uftrace(workshop: &Workshop, program: &Path) -> BTreeMap<String, u64> {
    let data: PathBuf = workshop.path("uftrace.data");
    let record = Command::new("uftrace").args(["record", "--no-event", "-d"]).arg(&data).arg(program).output().unwrap();
    assert!(record.status.success(), "{}", String::from_utf8_lossy(&record.stderr));
    let mut replay = Command::new("uftrace");
    replay.args(["replay", "-f", "none", "--no-event", "--no-libcall", "-d"]).arg(&data);
    let text = String::from_utf8(replay.output().unwrap().stdout).unwrap();
    let mut calls = BTreeMap::new();
    for name in text.lines().filter_map(|line| line.trim().split_once('(')).map(|(name, _)| name) {
        if name.starts_with("t_") {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

#[test]
fn what_matches_nothing_is_told_apart_from_what_is_not_called() {
    let Some(workshop) = Workshop::new() else { return };
    let Some(program) = workshop.compile("plain.c", "plain", &[]) else { return };
    let watched = count(&["q_called", "q_callee", "memcpy"], [program.as_os_str()]);
    let counts = watched.counts.as_ref().unwrap();
    let found: Vec<u64> = counts.patterns.iter().map(|pattern| pattern.functions).collect();
    assert_eq!((found[0], found[1]), (1, 0), "{:?}", counts.patterns);
    assert!(counts.files >= 3, "{}", counts.files);
    // Of glibc, which chooses a variant by the processor; an older version of it beside that may be a function.
    let mut of_glibc = functions(&watched).iter().filter(|function| function.name == "memcpy");
    assert!(of_glibc.all(|function| function.file.contains("libc")));
    let chooses = |function: &FunctionCount| function.remarks.join("").contains("to choose");
    assert_eq!(functions(&watched).iter().any(chooses), found[2] > 0, "{:?}", functions(&watched));
}
