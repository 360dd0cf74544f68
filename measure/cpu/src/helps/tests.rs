//! Tests: each rule, on drawn traces and on figures of a loader made by hand.

use super::*;
use crate::drawn;
use crate::{Report, Trace, analyze, together};
use model::Nanos;
use model::loader::{InitialiserRow, LoaderObject, LoaderPhase, PhaseKind, Table};

const MS: u64 = 1_000_000;

fn helps_of(trace: &Trace, loader: Option<(&[LoaderStart], Cost)>) -> Vec<Help> {
    let report = analyze(trace, 1000);
    of_report(&report, loader)
}

fn of_report(report: &Report, loader: Option<(&[LoaderStart], Cost)>) -> Vec<Help> {
    let owners = together(std::slice::from_ref(report));
    helps(&Known { ready_ns: report.ready_ns, owners: &owners, report, loader, recording: "x.thaw" })
}

fn drawn(lines: &[&str]) -> Vec<Help> {
    helps_of(&drawn::trace(2, lines), None)
}

/// Gain in milliseconds, whether it is at most that, and what to do: its first words.
fn told(helps: &[Help]) -> Vec<(u64, bool, String)> {
    let words = |help: &Help| help.what.split(' ').take(3).collect::<Vec<_>>().join(" ");
    helps.iter().map(|help| (help.gain_ns / MS, help.is_at_most, words(help))).collect()
}

fn expected(rows: &[(u64, bool, &str)]) -> Vec<(u64, bool, String)> {
    rows.iter().map(|(ms, is_at_most, what)| (*ms, *is_at_most, (*what).to_owned())).collect()
}

#[test]
fn waits_of_one_thread_are_gained_as_they_are_the_longest_first() {
    let helps = drawn(&["app|RRzzzzRyyRddRnnnnnR"]);
    let rows = [
        (5, false, "do not wait"),
        (4, false, "remove this sleep:"),
        (2, false, "do not sync"),
        (2, true, "have these files"),
    ];
    assert_eq!(told(&helps), expected(&rows));
    assert_eq!(helps[3].command.join(" "), "thaw preload make x.thaw -o app.preload");
    assert!(helps[1].owner.starts_with("thread 'app' sleeps 4.0 ms"), "{helps:?}");
    assert!(helps[1].command.is_empty());
}

#[test]
fn a_program_that_computes_and_waits_for_what_is_not_known_is_helped_by_nothing() {
    assert_eq!(drawn(&["app|RRRR?RRR"]), []);
}

#[test]
fn no_more_is_gained_than_until_another_thread_is_what_is_waited_for() {
    // Main computes until 6 and waits until 9 because worker sleeps: 3 of its 5 ms can be gained.
    let lines = ["main  |RRRRRRLLLRR", "worker|  RzzzzzR  ", "@2 main * worker", "@9 worker > main"];
    let helps = drawn(&lines);
    let sleep = helps.iter().find(|help| help.what.starts_with("remove this sleep")).unwrap();
    assert_eq!((sleep.gain_ns, sleep.is_at_most), (3 * MS, true), "{helps:?}");
    assert!(sleep.how.ends_with("cut: more would uncover another wait"), "{sleep:?}");
    let link = helps.iter().find(|help| help.owner.contains("for what processes of 'worker' do")).unwrap();
    assert_eq!((link.gain_ns, link.is_at_most), (3 * MS, true));

    // If main does nothing meanwhile, all of it.
    let lines = ["main  |RRLLLLLLLRR", "worker|  RzzzzzR  ", "@2 main * worker", "@9 worker > main"];
    let helps = drawn(&lines);
    let sleep = helps.iter().find(|help| help.what.starts_with("remove this sleep")).unwrap();
    assert_eq!((sleep.gain_ns, sleep.is_at_most), (5 * MS, false), "{helps:?}");
}

#[test]
fn what_is_gained_again_and_again_adds_up() {
    // Main waits for 5 ms twice, worker sleeps for 3 each time: when main waits again it is 3 ms earlier itself.
    let lines = [
        "main  |RLLLLLRLLLLLR",
        "worker| RzzzRLRzzzRL",
        "@1 main * worker",
        "@6 worker > main",
        "@7 main > worker",
        "@12 worker > main",
    ];
    let helps = drawn(&lines);
    let sleep = helps.iter().find(|help| help.what.starts_with("remove this sleep")).unwrap();
    assert_eq!((sleep.gain_ns, sleep.is_at_most), (6 * MS, false), "{helps:?}");
}

#[test]
fn whoever_takes_the_cpu_is_named() {
    let helps = helps_of(&drawn::trace(1, &["app|RR...RR", "~stress|..RRR..", "@2 stress > app"]), None);
    assert_eq!(told(&helps), expected(&[(3, false, "keep stress from")]));
    let helps = helps_of(&drawn::trace(1, &["app|RR...RR", "~kworker/1:2|..RRR..", "@2 kworker/1:2 > app"]), None);
    assert_eq!(told(&helps), expected(&[(3, false, "give the program")]));
    let helps = helps_of(&drawn::trace(1, &["app|RR...RR", "other|  RRR  ", "@2 app * other"]), None);
    assert_eq!(told(&helps), expected(&[(3, false, "let its own")]));
}

#[test]
fn another_program_is_to_be_asked_earlier() {
    let helps = drawn(&["app|RRsssssR", "~dbus|ssRRRRRR", "@2 app > dbus", "@7 dbus > app"]);
    assert_eq!(told(&helps), expected(&[(5, false, "ask dbus earlier,")]));
}

#[test]
fn no_interval_is_longer_than_the_start() {
    let starts = ["app|RRzRRRR", "app|RRzzzzR", "app|RRzRRRR"].map(|lines| drawn::trace(1, &[lines]));
    let reports = starts.each_ref().map(|start| analyze(start, 99));
    let owners = together(&reports);
    let known = Known { ready_ns: 7 * MS, owners: &owners, report: &reports[0], loader: None, recording: "x.thaw" };
    assert!(owners.iter().any(|owner| owner.high_ns > Some(7 * MS)), "three starts say little: {owners:?}");
    assert!(helps(&known).iter().all(|help| help.high_ns <= Some(7 * MS) && help.low_ns <= Some(help.gain_ns)));
}

#[test]
fn who_looks_on_is_not_what_the_program_can_do_without() {
    let lines = [
        "app    |RR..RR...R   ",
        "~thaw-x|..RR.........",
        "~x     |......RRR....",
        "~thaw  |pppppppppp...",
        "@10 app > thaw",
    ];
    let mut trace = drawn::trace(1, &lines);
    trace.ready_by = Some(13);
    let report = analyze(&trace, 99);
    assert!(
        report.owners.iter().any(|owner| owner.takers.iter().any(|taker| taker.name == "thaw-x")),
        "{:#?}",
        report.owners
    );
    assert_eq!(told(&of_report(&report, None)), expected(&[(3, false, "keep x from")]));
}

#[test]
fn who_looks_on_sees_an_earlier_sign_earlier() {
    // Thaw has looked at something else at 5: its last wait is no bound.
    let lines = ["app  |RRzzzzzzRR", "~thaw|pppppRpppp", "@5 app > thaw", "@9 app > thaw"];
    let mut trace = drawn::trace(2, &lines);
    trace.ready_by = Some(11);
    assert_eq!(told(&of_report(&analyze(&trace, 99), None)), expected(&[(6, false, "remove this sleep:")]));
}

#[test]
fn a_process_of_the_program_is_to_be_started_earlier() {
    let helps = drawn(&["app|RcccccR", "tool| RRRRR ", "@1 app * tool", "@6 tool > app"]);
    assert_eq!(told(&helps), expected(&[(5, true, "start processes of")]));
    assert_eq!(helps[0].owner, "thread 'app' waits 5.0 ms, once, for what processes of 'tool' do");

    // Waits within each other are the same time.
    let lines = ["a|RccccccccR", "b| RccccccR ", "c|  RRRRRR  ", "@1 a * b", "@2 b * c", "@8 c > b", "@9 b > a"];
    let mut trace = drawn::trace(2, &lines);
    trace.threads.iter_mut().for_each(|thread| thread.name = "sh".to_owned());
    let helps = helps_of(&trace, None);
    assert_eq!(helps[0].owner, "thread 'sh' waits 8.0 ms, 2 times, for what processes of 'sh' do", "{helps:?}");

    // A thread of the same process is no process.
    let mut trace = drawn::trace(2, &["main|RRLLLLLR", "work| RRRRRR ", "@1 main * work", "@7 work > main"]);
    trace.threads.iter_mut().for_each(|thread| thread.pid = 10);
    let helps = helps_of(&trace, None);
    assert_eq!(helps[0].owner, "thread 'main' waits 5.0 ms, once, for a lock, until 'work' wakes it", "{helps:?}");
}

#[test]
fn a_thread_that_had_nothing_to_do_yet_waits_for_nobody() {
    // Main works until 7 and gives the idle worker its first task at 7; its second, at 11, the worker has asked for.
    let lines = ["main|RRRRRRRLLRRLLR", "work| RLLLLLRRLLRR ", "@1 main * work", "@7 main > work", "@9 work > main"];
    let trace = |more: &[&str]| {
        let mut trace = drawn::trace(2, &[&lines[..], more].concat());
        trace.threads.iter_mut().for_each(|thread| thread.pid = 10);
        analyze(&trace, 1000)
    };
    let report = trace(&["@11 main > work", "@13 work > main"]);
    let met: Vec<(&str, u64, bool)> =
        report.links.iter().map(|row| (&row.woken.name[..], row.ns / MS, row.was_met)).collect();
    assert_eq!(met, [("work", 5, false), ("main", 4, true), ("work", 2, true)], "{:?}", report.links);
    let owners: Vec<String> = of_report(&report, None).into_iter().map(|help| help.owner).collect();
    assert_eq!(
        owners,
        [
            "thread 'main' waits 4.0 ms, 2 times, for a lock, until 'work' wakes it",
            "thread 'work' waits 2.0 ms, once, for a lock, until 'main' wakes it"
        ]
    );
}

#[test]
fn page_faults_are_eased_not_removed() {
    let mut trace = drawn::trace(1, &["app|RRRRRzR"]);
    let stack = drawn::kernel_stack(&mut trace, &["clear_page_erms", "do_anonymous_page", "asm_exc_page_fault"]);
    trace.samples = (0..7).map(|at| crate::Sample { at: drawn::ms(at), tid: 10, in_kernel: true, stack }).collect();
    assert_eq!(
        told(&helps_of(&trace, None)),
        expected(&[(6, true, "touch fewer pages:"), (1, false, "remove this sleep:")])
    );
}

#[test]
fn page_faults_of_all_functions_are_one_help() {
    let mut trace = drawn::trace(1, &["app|RRRRRRzR"]);
    let fault = ["clear_page_erms", "do_anonymous_page", "asm_exc_page_fault"];
    let mut called_by = |name: &str| {
        let of = |object: &str, name: &str| crate::Frame {
            function: Some(name.into()),
            object: object.into(),
            ..crate::Frame::default()
        };
        let kernel = fault.iter().map(|name| of(crate::Frame::KERNEL, name));
        let frames: Vec<_> = kernel.chain([of("/bin/app", name)]).map(|frame| trace.stacks.frame(frame)).collect();
        trace.stacks.stack(&frames)
    };
    let (one, two) = (called_by("one"), called_by("two"));
    let sample =
        |at| crate::Sample { at: drawn::ms(at), tid: 10, in_kernel: true, stack: if at < 4 { one } else { two } };
    trace.samples = (0..8).map(sample).collect();
    let helps = helps_of(&trace, None);
    assert_eq!(told(&helps), expected(&[(7, true, "touch fewer pages:"), (1, false, "remove this sleep:")]));
    let both = &helps[0];
    assert!(both.owner.contains("take 7.0 ms together; most of 2: thread 'app' runs 3.5 ms"), "{}", both.owner);
    let (low, high) = (both.low_ns.unwrap(), both.high_ns.unwrap());
    assert!(low < both.gain_ns && both.gain_ns <= high && high <= 8 * MS, "{low} to {high}");
}

#[test]
fn what_the_allocator_asks_for_and_late_binding_are_eased_from_outside() {
    let eased = |frames: &[&str]| {
        let mut trace = drawn::trace(1, &["app|RRRRRzR"]);
        let stack = drawn::kernel_stack(&mut trace, frames);
        trace.samples = (0..7).map(|at| crate::Sample { at: drawn::ms(at), tid: 10, in_kernel: true, stack }).collect();
        helps_of(&trace, None).into_iter().find_map(|help| Some((help.gain_ns / MS, help.is_at_most, help.eases?)))
    };
    assert_eq!(eased(&["clear_page_erms", "asm_exc_page_fault"]), Some((6, true, crate::Eases::PageFaults)));
    assert_eq!(eased(&["unmap_vmas", "__x64_sys_munmap"]), Some((6, true, crate::Eases::MemoryCalls)));
    assert_eq!(eased(&["vfs_read", "__x64_sys_read"]), None);
}

fn object(path: &str, relocated_us: u64) -> LoaderObject {
    LoaderObject {
        path: path.into(),
        is_object: true,
        mapped: Some(Nanos(100_000)),
        relocated: Some(Nanos(relocated_us * 1000)),
        protected: Some(Nanos(50_000)),
        ..LoaderObject::default()
    }
}

fn initialiser(function: Option<&str>, began_us: u64, took_us: u64, within: Option<u32>) -> InitialiserRow {
    InitialiserRow {
        object: "/usr/lib/libx.so.1".into(),
        address: 0x1230,
        table: Table::InitArray,
        place: 0,
        function: function.map(str::to_owned),
        source: function.map(|_| "x.cc:7".to_owned()),
        tid: 10,
        began: Nanos(began_us * 1000),
        took: Nanos(took_us * 1000),
        cpu: None,
        within,
        returned: true,
    }
}

const COST: Cost = Cost {
    stops: 9,
    stopped: Nanos(0),
    subtracted: Nanos(0),
    waited: Nanos(0),
    first: true,
    breakpoint: Nanos(5_000),
    call: Nanos(10_000),
};

#[test]
fn relocations_are_packed_bound_later_or_looked_up_less_whatever_they_are() {
    let relative = LoaderObject { relative: 9000, symbolic: 3, calls: 500, ..object("/usr/lib/liba.so", 950) };
    let now = LoaderObject { calls: 900, symbolic: 5, bound_at_once: true, ..object("/usr/lib/libb.so", 850) };
    let symbolic = LoaderObject { symbolic: 700, relative: 900, ..object("/usr/lib/libc++.so", 750) };
    let mut own = LoaderObject { mapped: None, relative: 90, ..object("/opt/my app", 650) };
    let loader = LoaderObject { mapped: None, ..object("/lib64/ld-linux-x86-64.so.2", 550) };
    let short = object("/usr/lib/libd.so", 60);
    own.protected = None;
    let start = LoaderStart {
        program: "/opt/my app".into(),
        objects: vec![relative, now, symbolic, own, loader, short],
        ..LoaderStart::default()
    };
    let helps = helps_of(&drawn::trace(1, &["app|RRRRRRRRRR"]), Some((std::slice::from_ref(&start), COST)));
    let found: Vec<(u64, &str, String)> = helps
        .iter()
        .map(|help| (help.gain_ns / 1000, help.what.split(',').next().unwrap(), help.command.join(" ")))
        .collect();
    assert_eq!(
        found,
        [
            (
                900,
                "give liba.so fewer relative relocations",
                "thaw elf pack /usr/lib/liba.so -o liba.so.packed".to_owned()
            ),
            (
                800,
                "bind the calls of libb.so when they are first made (-z lazy in place of -z now)",
                "thaw elf stat /usr/lib/libb.so".to_owned()
            ),
            (700, "let libc++.so look up fewer symbols (-Bsymbolic", "thaw elf stat /usr/lib/libc++.so".to_owned()),
            (650, "give my app fewer relative relocations", "thaw elf pack /opt/my app -o my app.packed".to_owned()),
        ]
    );
    assert!(helps.iter().all(|help| help.is_at_most));
}

#[test]
fn an_initialiser_is_worth_its_own_time_give_or_take_a_breakpoint_on_either_side() {
    let start = LoaderStart {
        before_main: Some(Nanos(5 * MS)),
        initialisers: vec![
            initialiser(Some("load_all()"), 10, 900, None),
            initialiser(None, 20, 300, Some(0)),
            initialiser(Some("late()"), 6000, 200, None),
            InitialiserRow { returned: false, ..initialiser(Some("never()"), 1000, 4000, None) },
        ],
        ..LoaderStart::default()
    };
    let helps = helps_of(&drawn::trace(1, &["app|RRRRRRRRRR"]), Some((std::slice::from_ref(&start), COST)));
    let found: Vec<_> =
        helps.iter().map(|help| (help.gain_ns / 1000, help.low_ns, help.high_ns, help.is_at_most)).collect();
    assert_eq!(
        found,
        [
            (600, Some(590_000), Some(610_000), false),
            (300, Some(290_000), Some(310_000), false),
            (200, Some(190_000), Some(210_000), true),
        ]
    );
    assert_eq!(helps[0].owner, "initialiser load_all() of libx.so.1 (x.cc:7) takes 600.0 µs");
    assert!(helps[1].what.starts_with("let the function at 0x1230 of libx.so.1 run when it is first needed"));
}

#[test]
fn what_the_loader_gains_before_all_threads_is_gained_in_all_of_them() {
    let start = LoaderStart {
        before_main: Some(Nanos(2 * MS)),
        initialisers: vec![initialiser(Some("load_all()"), 10, 1900, None)],
        ..LoaderStart::default()
    };
    // Main waits for a millisecond only, but what worker does began later by the same time.
    let lines = ["main  |RRRRRRLRR", "worker|   RRRR  ", "@3 main * worker", "@7 worker > main"];
    let helps = helps_of(&drawn::trace(2, &lines), Some((std::slice::from_ref(&start), COST)));
    let help = helps.iter().find(|help| help.owner.contains("load_all")).unwrap();
    assert_eq!((help.gain_ns, help.is_at_most), (1_900_000, false));
    // A program that was there before is not earlier.
    let lines = ["app  |RRRRRRsRR", "~dbus|RRRRRRRRR", "@7 dbus > app"];
    let help = helps_of(&drawn::trace(2, &lines), Some((std::slice::from_ref(&start), COST)));
    let help = help.iter().find(|help| help.owner.contains("load_all")).unwrap();
    assert_eq!(help.gain_ns, 1_900_000, "only the wait itself is not known to be shorter");
}

#[test]
fn libraries_that_are_mapped_are_one_help() {
    let start = LoaderStart {
        phases: vec![LoaderPhase { phase: PhaseKind::Map, from: Nanos(0), took: Nanos(150_000) }],
        objects: vec![object("/usr/lib/liba.so", 60), object("/usr/lib/libb.so", 60)],
        ..LoaderStart::default()
    };
    let helps = helps_of(&drawn::trace(1, &["app|RRRRRRRRRR"]), Some((std::slice::from_ref(&start), COST)));
    let [help] = &helps[..] else { panic!("{helps:?}") };
    assert_eq!((help.gain_ns, help.is_at_most), (150_000, true));
    assert!(help.what.starts_with("link fewer than these 2 libraries"));
}

#[test]
fn what_a_script_executes_last_is_looked_at_too() {
    let of = |function: &str| LoaderStart {
        before_main: Some(Nanos(5 * MS)),
        initialisers: vec![initialiser(Some(function), 10, 900, None)],
        ..LoaderStart::default()
    };
    let unknown = LoaderStart { because: Some("it is static".into()), ..LoaderStart::default() };
    let starts = [of("of_shell()"), unknown, of("of_program()")];
    let helps = helps_of(&drawn::trace(1, &["app|RRRRRRRRRR"]), Some((&starts, COST)));
    let found: Vec<(bool, bool)> =
        helps.iter().map(|help| (help.what.contains("of_program"), help.is_at_most)).collect();
    assert_eq!(found, [(true, true), (false, false)]);
}

#[test]
fn what_gains_next_to_nothing_is_left_out() {
    let start = LoaderStart {
        before_main: Some(Nanos(MS)),
        initialisers: vec![initialiser(Some("short()"), 10, 49, None)],
        ..LoaderStart::default()
    };
    assert_eq!(
        helps_of(&drawn::trace(1, &["app|RRRRRRRRRR"]), Some((std::slice::from_ref(&start), COST))),
        [],
        "less than 0.5 % of 10 ms"
    );
    assert_eq!(helps_of(&drawn::trace(1, &["app|RRRR"]), Some((std::slice::from_ref(&start), COST))).len(), 1);
}
