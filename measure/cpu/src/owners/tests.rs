//! Tests: owners of drawn traces with samples, and of simulated ones.

use super::*;
use crate::drawn::{self, kernel_stack, ms};
use crate::path;
use crate::simulated::{self, Op};
use crate::trace::Frame;
use crate::trace::Sample;
use proptest::prelude::*;

fn found(trace: &Trace) -> Owners {
    let states = States::of(trace);
    let owners = owners(trace, &states, &path::path(trace, &states));
    assert_eq!(owners.owners.iter().map(|owner| owner.ns).sum::<u64>(), trace.ready.0, "all time has an owner");
    owners
}

fn texts(owners: &Owners) -> Vec<&str> {
    owners.owners.iter().map(|owner| &owner.text[..]).collect()
}

fn user_stack(trace: &mut Trace, object: &str, function: &str) -> Option<StackId> {
    let source = Some(format!("{function}.c:7"));
    let frame = Frame { function: Some(function.into()), object: object.into(), source, ..Frame::default() };
    let number = trace.stacks.frame(frame);
    trace.stacks.stack(&[number])
}

fn sample(at: Nanos, in_kernel: bool, stack: Option<StackId>) -> Sample {
    Sample { at, tid: 10, in_kernel, stack }
}

#[test]
fn running_time_is_that_of_the_functions_that_samples_name() {
    let mut trace = drawn::trace(1, &["main|RRRRRRRRzzRR"]);
    let parse = user_stack(&mut trace, "/lib/libparse.so", "parse");
    let run = user_stack(&mut trace, "/bin/app", "run");
    let open = kernel_stack(&mut trace, &["link_path_walk", "__x64_sys_openat"]);
    for at in 0..10 {
        let stack = [parse, parse, parse, parse, parse, parse, run, open, run, open][at];
        let at_ms = if at < 8 { at } else { at + 2 };
        trace.samples.push(sample(ms(at_ms) + Nanos(500_000), stack == open, stack));
    }
    let owners = found(&trace);
    assert_eq!(
        texts(&owners),
        [
            "runs 6.0 ms in parse of libparse.so",
            "runs 2.0 ms in run of app",
            "runs 2.0 ms in the kernel for openat",
            "sleeps 2.0 ms in clock_nanosleep",
        ]
    );
    let parse = &owners.owners[0];
    assert_eq!((parse.samples, parse.confidence, parse.pieces), (6, Confidence::Sampled, 1));
    assert_eq!(owners.owners[1].pieces, 2);
    // Wilson's interval of 6 of 10: 0.3127 to 0.8318.
    assert!((parse.low_ns.unwrap() as f64 / 1e7 - 0.3127).abs() < 1e-4, "{parse:?}");
    assert!((parse.high_ns.unwrap() as f64 / 1e7 - 0.8318).abs() < 1e-4, "{parse:?}");
    assert_eq!((owners.owners[3].confidence, owners.owners[3].low_ns), (Confidence::Measured, None));
    let objects: Vec<(&str, u64)> = owners.objects.iter().map(|row| (&row.object[..], row.ns / 1_000_000)).collect();
    assert_eq!(objects, [("/lib/libparse.so", 6), ("/bin/app", 2), ("[kernel] openat", 2)]);
    assert_eq!(owners.unexplained, []);
}

#[test]
fn without_changes_a_sample_stands_for_a_tick_and_the_rest_is_not_explained() {
    let mut trace = drawn::trace(1, &["main|RRRRRRRRRR"]);
    assert_eq!(trace.switches, []);
    trace.tick = ms(1);
    let parse = user_stack(&mut trace, "/lib/libparse.so", "parse");
    trace.samples = [2, 3, 7].map(|at| sample(ms(at), false, parse)).to_vec();
    let owners = found(&trace);
    let told = texts(&owners);
    assert_eq!(told[0], "7.0 ms are not explained: which thread ran when was not recorded");
    assert_eq!(told[1..], ["runs 3.0 ms in parse of libparse.so"]);
    assert_eq!((owners.owners[1].confidence, owners.owners[1].samples), (Confidence::Sampled, 3));
    assert_eq!(owners.unexplained[0].ns, 7_000_000);
    let report = crate::analyze(&trace, 100);
    assert_eq!((report.explained_share, report.off_path), (0.3, vec![]), "what is owned is not beside the path too");
    // More ticks than there is time: of a clock that was late.
    trace.tick = ms(6);
    assert_eq!(texts(&found(&trace)), ["runs 10.0 ms in parse of libparse.so"]);
}

#[test]
fn a_thread_without_samples_still_owns_its_time() {
    let owners = found(&drawn::trace(1, &["main|RRRzzzz"]));
    assert_eq!(texts(&owners), ["sleeps 4.0 ms in clock_nanosleep", "runs 3.0 ms, and no sample says where"]);
    assert_eq!(owners.owners[1].confidence, Confidence::Measured);
}

#[test]
fn who_takes_the_cpu_and_who_is_waited_for_has_its_name() {
    let lines = ["main   |RR...Rssss", "~stress|..RRR.....", "~X     |.....zRRRR", "@6 timer > X"];
    let mut trace = drawn::trace(2, &lines);
    trace.switches.iter_mut().for_each(|switch| switch.stack = switch.stack.filter(|_| switch.from == 10));
    let owners = found(&trace);
    assert!(texts(&owners).contains(&"waits for a CPU 3.0 ms, which stress took"), "{:?}", texts(&owners));
    // Nothing ended the wait for X: it is the socket's.
    assert!(texts(&owners).contains(&"waits 4.0 ms for a local socket in recvmsg"), "{:?}", texts(&owners));
    let owners = found(&drawn::trace(2, &["main|RRssssR", "~X  |RRRRRRz", "@6 X > main"]));
    let text = "another program, X, runs 4.0 ms while it is waited for";
    assert!(texts(&owners).contains(&text), "{:?}", texts(&owners));
}

/// The kernel's functions, then `object!function@line` of the program.
fn mixed_stack(trace: &mut Trace, frames: &str) -> Option<StackId> {
    let frame = |text: &str| {
        let (object, function) = text.split_once('!').unwrap_or((Frame::KERNEL, text));
        let (function, line) = function.split_once('@').unwrap_or((function, ""));
        let source = (!line.is_empty()).then(|| format!("/src/{object}.c:{line}"));
        Frame { function: Some(function.into()), object: object.into(), source, ..Frame::default() }
    };
    let numbers: Vec<_> = frames.split_whitespace().map(|text| trace.stacks.frame(frame(text))).collect();
    trace.stacks.stack(&numbers)
}

fn sampled(stacks: &[&str]) -> Owners {
    let line = format!("main|{}", "R".repeat(stacks.len()));
    let mut trace = drawn::trace(2, &[&line, "~X|Rz"]);
    for (at, frames) in stacks.iter().enumerate() {
        let stack = mixed_stack(&mut trace, frames);
        trace.samples.push(sample(ms(at) + Nanos(500_000), !frames.contains("libc.so.6!mem"), stack));
    }
    found(&trace)
}

#[test]
fn time_of_the_kernel_and_of_the_library_has_the_function_that_asked() {
    let clock = "read_tsc __x64_sys_clock_gettime [vdso]!clock_gettime libc.so.6!clock_gettime";
    let owners = sampled(&[
        &format!("{clock} app!spin@7 app!main"),
        &format!("{clock} app!spin@7 app!main"),
        &format!("{clock} app!spin@7 app!main"),
        "copy __x64_sys_read libc.so.6!read app!load@3 app!main",
        "copy __x64_sys_read libc.so.6!read app!load@4 app!main",
        "libc.so.6!memcpy app!parse@9 app!main",
    ]);
    assert_eq!(
        texts(&owners),
        [
            "runs 3.0 ms in the kernel for clock_gettime, called by spin (app.c:7)",
            // Samples of one function in several of its lines are one owner.
            "runs 2.0 ms in the kernel for read, called by load",
            "runs 1.0 ms in memcpy of libc.so.6, called by parse (app.c:9)",
        ]
    );
}

#[test]
fn running_time_has_the_part_of_the_start_that_it_lies_in() {
    let owners = sampled(&[
        "libc.so.6!memcpy libfoo.so!init ld-linux-x86-64.so.2! ld-linux-x86-64.so.2!_dl_init ld-linux-x86-64.so.2!",
        "libc.so.6!memcpy libfoo.so!init app!main",
        "libc.so.6!memcpy libfoo.so!init",
    ]);
    let main = owners.owners.iter().find(|owner| owner.phase == Some(Phase::Main)).unwrap();
    assert_eq!(main.text, "runs 2.0 ms in memcpy of libc.so.6, called by init");
    assert_eq!((main.ns, main.samples), (2_000_000, 2), "a stack that is told in part is taken for the rest");
    let text = "runs 1.0 ms in memcpy of libc.so.6, called by init (static initialisers of libfoo.so)";
    assert_eq!(texts(&owners)[1], text);
    assert_eq!(owners.owners[1].phase, Some(Phase::Initialisers { object: "libfoo.so".into() }));
}

#[test]
fn sleeps_in_one_helper_are_told_apart_by_its_callers_and_disk_waits_are_not() {
    let mut trace = drawn::trace(1, &["main|RzzRzRdddRdR"]);
    let sleep = "do_nanosleep __x64_sys_clock_nanosleep libc.so.6!nanosleep app!nap@3";
    let disk = "io_schedule folio_wait_bit_common filemap_fault asm_exc_page_fault";
    let stacks = [
        format!("{sleep} app!first@8 app!main@20 app!_start"),
        format!("{sleep} app!second@9 app!main@21"),
        format!("{disk} app!parse@5 app!first@8"),
        format!("{disk} app!parse@6 app!second@9"),
    ];
    let stacks: Vec<_> = stacks.iter().map(|frames| mixed_stack(&mut trace, frames)).collect();
    trace.switches.iter_mut().filter(|it| it.from == 10).zip(stacks).for_each(|(it, stack)| it.stack = stack);
    assert_eq!(
        texts(&found(&trace)),
        [
            "runs 5.0 ms, and no sample says where",
            "waits 4.0 ms for the disk: pages of a mapped file, called by parse",
            "sleeps 2.0 ms in clock_nanosleep, called by nap (app.c:3) < first (app.c:8) < main (app.c:20)",
            "sleeps 1.0 ms in clock_nanosleep, called by nap (app.c:3) < second (app.c:9) < main (app.c:21)",
        ]
    );
}

#[test]
fn other_programs_that_take_the_cpu_are_one_owner_and_own_threads_one_each() {
    let lines = [
        "main |R......RR.....R",
        "own  |.R.............",
        "~cc1 |..RR.....R.....",
        "~ld  |....R.....RR...",
        "~as  |.....R......R..",
        "~gdb |......R......R.",
        "@0 main * own",
    ];
    let owners = found(&drawn::trace(1, &lines));
    assert_eq!(
        texts(&owners),
        [
            "waits for a CPU 10.0 ms, which other programs took (cc1 3.0 ms, ld 3.0 ms, 2 more)",
            "runs 4.0 ms, and no sample says where",
            "waits for a CPU 1.0 ms, which its own thread 'own' took",
        ]
    );
    let takers: Vec<(&str, u64)> = owners.owners[0].takers.iter().map(|it| (&it.name[..], it.ns / 1_000_000)).collect();
    assert_eq!(takers, [("cc1", 3), ("ld", 3), ("as", 2), ("gdb", 2)]);
}

#[test]
fn what_thaw_takes_to_see_that_it_is_ready_is_told_as_that() {
    let mut trace = drawn::trace(1, &["main |RRRRp...", "~cc1 |    .R..", "~thaw|pppp..RR", "@4 main > thaw"]);
    trace.ready_by = Some(12);
    let owners = found(&trace);
    assert_eq!(
        texts(&owners),
        ["runs 4.0 ms, and no sample says where", "4.0 ms from the sign of readiness until thaw saw it"]
    );
    assert_eq!((&owners.owners[1].what, &owners.owners[1].thread.name[..]), (&Does::Notices, "thaw"));
    let report = crate::analyze(&trace, 10);
    assert_eq!(report.links, [], "that thaw waits for it is no wait of the program's");
}

#[test]
fn what_no_stack_names_is_not_explained() {
    let owners = found(&drawn::trace(1, &["main|RR????R"]));
    assert_eq!(owners.owners[0].confidence, Confidence::Unknown);
    assert_eq!(texts(&owners)[0], "waits 4.0 ms for something that is not known");
    let [row] = &owners.unexplained[..] else { panic!("{owners:?}") };
    assert_eq!((row.ns, row.pieces), (4_000_000, 1));
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (1u64..40).prop_map(Op::Work),
        1 => (1u64..40).prop_map(Op::Sleep),
        1 => (0usize..2).prop_map(Op::Lock),
        1 => (0usize..2).prop_map(Op::Unlock),
        1 => (1usize..4).prop_map(Op::Make),
    ]
}

proptest! {
    #[test]
    fn owners_add_up_to_all_time(
        tree in prop::collection::vec(prop::collection::vec(op(), 1..20), 1..5),
        at in prop::collection::vec((0u64..500, 0u32..5, any::<bool>()), 0..60), tick in 0u64..20,
    ) {
        let mut trace = simulated::run(2, 20, &tree, &[], 500).trace;
        let stacks = [user_stack(&mut trace, "a", "f"), user_stack(&mut trace, "b", "g"), None];
        trace.tick = Nanos(tick);
        for (at, tid, in_kernel) in at {
            let stack = stacks[(at % 3) as usize];
            trace.samples.push(Sample { at: Nanos(at), tid: 10 + tid, in_kernel, stack });
        }
        trace.samples.sort_by_key(|sample| sample.at);
        for owner in found(&trace).owners {
            prop_assert!(owner.low_ns.is_none_or(|low| low <= owner.ns), "{owner:?}");
            prop_assert!(owner.high_ns.is_none_or(|high| owner.ns <= high), "{owner:?}");
            prop_assert_eq!(owner.low_ns.is_some(), owner.confidence == Confidence::Sampled);
        }
    }
}
