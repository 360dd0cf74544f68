//! Real programs are started, found ready in every way, and ended with all that they started.

mod common;

use bench::conduct::Host;
use bench::record::{Lab, LabOptions, Output, Program, Success};
use common::{actor, acts, alone, at, free_port, is_alive, lab, once, part, scratch, start, try_start};
use model::{CacheState, Exit, RunKind, WarningKind};
use std::path::Path;
use std::time::Duration;

fn path(directory: &tempfile::TempDir, name: &str) -> String {
    directory.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn a_program_that_ends_has_started_then() {
    let _alone = alone();
    let outcome = once(acts(&["spin", "30"], &["exit"]));
    let row = &outcome.row;
    assert!(row.accepted, "{outcome:?}");
    assert_eq!((row.exit_code, row.exit_signal), (Some(0), None));
    assert_eq!(row.wall_ns, row.exit_ns);
    assert_eq!(row.wall_ns.unwrap().0, at(&outcome, "exit"));
    assert!(row.wall_ns.unwrap().0 >= 30_000_000);
    assert!(row.user_ns.0 + row.system_ns.0 >= 25_000_000, "it computed for 30 ms; the counts are coarse: {row:?}");
    assert!(row.max_rss.0 > 100_000 && row.minor_faults > 10, "{row:?}");
    assert!(row.started_unix_ns > 1_600_000_000_000_000_000);
}

#[test]
fn a_program_that_fails_does_not_count_and_what_it_printed_is_kept() {
    let _alone = alone();
    let outcome = once(acts(&["warn", "no such profile", "exit", "3"], &["exit"]));
    assert!(!outcome.row.accepted);
    assert_eq!(outcome.row.rejected_because.as_deref(), Some("it ended with exit code 3"));
    assert_eq!(outcome.output_tail, "no such profile\n");
    let mut forgiven = acts(&["exit", "3"], &["exit"]);
    forgiven.success = Success::Codes(vec![0, 3]);
    assert!(once(forgiven).row.accepted);
    let crashed = once(acts(&["crash"], &["exit"]));
    assert_eq!(crashed.row.rejected_because.as_deref(), Some("it was ended by signal 6 (SIGABRT)"));
    let mut whatever = acts(&["crash"], &["exit"]);
    whatever.success = Success::Any;
    assert!(once(whatever).row.accepted);
}

#[test]
fn an_unknown_program_is_an_error_before_anything_is_touched() {
    let _alone = alone();
    let error = Lab::open(vec![Program::new("x", ["no-such-program-at-all"])], LabOptions::default()).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    assert!(error.to_string().contains("no-such-program-at-all"), "{error}");
}

#[test]
fn a_line_on_either_stream_is_seen() {
    let _alone = alone();
    let outcome = once(acts(&["print", "Started in 5 ms", "stay"], &["line:^Started in [0-9]+ ms$"]));
    assert!(outcome.row.accepted && outcome.row.exit_code.is_none(), "{outcome:?}");
    once(acts(&["warn", "listening", "stay"], &["line:(?i)LISTENING"]));
    once(acts(&["prompt", "login: ", "stay"], &["line:^login: $"]));
}

#[test]
fn a_terminal_is_a_terminal() {
    let _alone = alone();
    let mut program = acts(&["terminal", "stay"], &["line:^a terminal$"]);
    program.output = Output::Pty;
    assert!(once(program).row.accepted);
    assert!(once(acts(&["terminal", "stay"], &["line:^no terminal$"])).row.accepted);
}

#[test]
fn a_talkative_program_never_waits_for_us() {
    let _alone = alone();
    let outcome = once(acts(&["flood", "20", "warn", "end of the flood"], &["exit"]));
    assert!(outcome.row.accepted);
    assert!(outcome.output_tail.len() <= 64 << 10, "{} bytes", outcome.output_tail.len());
    assert!(outcome.output_tail.contains("end of the flood"));
    // Also while it is ending: 20 MB after SIGTERM would not fit into a pipe.
    let script =
        "trap 'dd if=/dev/zero bs=1M count=20 2>/dev/null; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut program = Program::new("sh", ["sh", "-c", script]);
    program.ready = vec!["line:up".parse().unwrap()];
    program.grace = Duration::from_secs(120);
    let outcome = once(program);
    assert!(outcome.row.accepted && outcome.warnings.is_empty(), "{outcome:?}");
}

#[test]
fn the_first_named_stops_the_clock_and_all_are_milestones() {
    let _alone = alone();
    let outcome = once(acts(&["print", "early", "spin", "100", "print", "late", "stay"], &["line:late", "line:early"]));
    let names: Vec<_> = outcome.milestones.iter().map(|milestone| milestone.name.as_str()).collect();
    assert_eq!(names, ["line:early", "line:late"]);
    assert_eq!(outcome.row.wall_ns.unwrap().0, at(&outcome, "line:late"));
    assert!(at(&outcome, "line:late") >= 100_000_000);
}

#[test]
fn a_later_probe_that_never_fires_does_not_spoil_a_run() {
    let _alone = alone();
    let mut program = acts(&["print", "up", "stay"], &["line:up", "line:never"]);
    program.timeout = Duration::from_millis(300);
    let outcome = once(program);
    assert!(outcome.row.accepted && outcome.milestones.len() == 1, "{outcome:?}");
    assert_eq!(outcome.warnings[0].kind, WarningKind::Note);
    assert!(outcome.warnings[0].text.contains("line:never"));
}

#[test]
fn a_program_that_never_gets_ready_is_ended_and_does_not_count() {
    let _alone = alone();
    let mut program = acts(&["warn", "waiting for the network", "stay"], &["line:never"]);
    program.timeout = Duration::from_millis(300);
    let outcome = once(program);
    assert_eq!(outcome.row.rejected_because.as_deref(), Some("it was not ready (line:never) within 300ms"));
    assert_eq!(outcome.row.wall_ns, None);
    assert!(outcome.output_tail.contains("waiting for the network"));
    let gone = once(acts(&["exit", "0"], &["line:never"]));
    assert_eq!(
        gone.row.rejected_because.as_deref(),
        Some("it ended with exit code 0 before it was ready (line:never)")
    );
}

#[test]
fn notify_counts_from_the_run_only() {
    let _alone = alone();
    let place = scratch("notify");
    let (socket, go) = (path(&place, "socket"), path(&place, "go"));
    // An outsider, this process, says READY=1; the program goes on after that and never says it.
    let outsider = std::thread::spawn({
        let (socket, go) = (socket.clone(), go.clone());
        move || {
            while !Path::new(&socket).exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let name = std::fs::read_to_string(&socket).unwrap();
            use std::os::linux::net::SocketAddrExt;
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name.trim_start_matches('@')).unwrap();
            let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
            sender.send_to_addr(b"READY=1", &address).unwrap();
            std::fs::write(&go, "").unwrap();
        }
    });
    let outcome = once(acts(&["socket", &socket, "wait", &go, "status", "exit", "0"], &["notify"]));
    outsider.join().unwrap();
    assert_eq!(outcome.row.wall_ns, None, "an outsider was believed, or half a word: {outcome:?}");
    let outcome = once(acts(&["spin", "20", "notify", "stay"], &["notify"]));
    assert!(at(&outcome, "notify") >= 20_000_000);
}

#[test]
fn notify_of_a_helper_that_is_gone_counts() {
    let _alone = alone();
    let script = format!("{} notify; exec sleep 1000", actor().display());
    let mut program = Program::new("sh", ["sh", "-c", &script]);
    program.ready = vec!["notify".parse().unwrap()];
    assert!(once(program).row.accepted);
}

#[test]
fn a_port_counts_when_the_run_listens_on_it() {
    let _alone = alone();
    let port = free_port();
    let ready = format!("listen:{port}");
    let outcome = once(acts(&["spin", "20", "listen", &port.to_string(), "stay"], &[&ready]));
    assert!(at(&outcome, &ready) >= 20_000_000, "{outcome:?}");
}

#[test]
fn a_port_that_an_outsider_opens_meanwhile_does_not_count() {
    let _alone = alone();
    let place = scratch("listen");
    let (up, port) = (path(&place, "up"), free_port());
    let outsider = std::thread::spawn({
        let up = up.clone();
        move || {
            while !Path::new(&up).exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let socket = std::net::TcpListener::bind(("127.0.0.1", port)).unwrap();
            std::fs::write(Path::new(&up).with_extension("go"), "").unwrap();
            socket
        }
    });
    let ready = format!("listen:{port}");
    let outcome = once(acts(&["make", &up, "wait", &format!("{up}.go"), "spin", "50", "exit", "0"], &[&ready]));
    assert_eq!(outcome.row.wall_ns, None, "{outcome:?}");
    drop(outsider.join().unwrap());
}

#[test]
fn a_port_that_is_taken_before_the_run_is_a_clear_error() {
    let _alone = alone();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    for ready in [format!("listen:{port}"), format!("http://localhost:{port}/")] {
        let error = try_start(&mut lab(vec![acts(&["stay"], &[&ready])])).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.to_string().contains(&port.to_string()), "{error}");
    }
}

#[test]
fn http_is_ready_at_the_first_good_answer() {
    let _alone = alone();
    let port = free_port();
    let ready = format!("http:http://localhost:{port}/health");
    let outcome = once(acts(&["spin", "30", "serve", &port.to_string()], &[&ready, "line:answered yes"]));
    assert!(outcome.row.accepted, "{outcome:?}");
    // Two times 503 and a redirect came first, and were not it.
    assert_eq!(outcome.output_tail.matches("answered no").count(), 3, "{}", outcome.output_tail);
}

#[test]
fn a_file_counts_when_it_comes_to_be() {
    let _alone = alone();
    let place = scratch("file");
    let wanted = path(&place, "deep/er/ready");
    let deep = [path(&place, "deep"), path(&place, "deep/er")];
    let ready = format!("file:{wanted}");
    let program = acts(&["mkdir", &deep[0], "mkdir", &deep[1], "spin", "20", "make", &wanted, "stay"], &[&ready]);
    let mut lab = lab(vec![program]);
    let outcome = start(&mut lab);
    assert!(at(&outcome, &ready) >= 20_000_000, "{outcome:?}");
    // It is still there: the second run would be ready before it begins.
    let error = try_start(&mut lab).unwrap_err();
    assert_eq!(error.exit, Exit::Usage);
    assert!(error.hint.as_deref().unwrap().contains("--restore"), "{error}");
}

#[test]
fn a_file_in_a_restored_directory_is_gone_before_every_run() {
    let _alone = alone();
    let place = scratch("profile");
    let wanted = path(&place, "live/ready");
    std::fs::create_dir(place.path().join("live")).unwrap();
    let mut program = acts(&["make", &wanted, "stay"], &[&format!("file:{wanted}")]);
    program.restore = vec![place.path().join("live")];
    let mut lab = lab(vec![program]);
    for _ in 0..3 {
        lab.prepare(0, CacheState::Hot, &mut |_| {}).unwrap();
        assert!(start(&mut lab).row.accepted);
    }
    assert!(lab.close().is_empty());
    assert!(!Path::new(&wanted).exists());
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1, "the copy is gone too");
}

#[test]
fn the_ready_descriptor_may_be_written_more_than_once() {
    let _alone = alone();
    let outcome = once(acts(&["fd", "print", "still here", "stay"], &["fd", "line:still here"]));
    assert!(outcome.row.accepted && outcome.milestones.len() == 2, "{outcome:?}");
}

#[test]
fn a_program_has_settled_when_it_rests() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let outcome = once(acts(&["spin", "300", "print", "done", "stay"], &["settled", "line:done"]));
    // Readings are 20 ms apart, and on a busy machine the last ones before `done` may find that it waits for a CPU.
    assert!(at(&outcome, "settled") + 200_000_000 >= at(&outcome, "line:done"), "{outcome:?}");
    assert_eq!(outcome.row.wall_ns.unwrap().0, at(&outcome, "settled"));
}

#[test]
fn a_daemon_that_does_not_want_to_end_does_not_survive() {
    let _alone = alone();
    let place = scratch("daemon");
    let pidfile = path(&place, "pid");
    let mut program = acts(&["daemon", &pidfile], &[&format!("file:{pidfile}")]);
    program.grace = Duration::from_millis(50);
    let mut lab = lab(vec![program]);
    let outcome = start(&mut lab);
    let pid = std::fs::read_to_string(&pidfile).unwrap();
    assert!(!is_alive(&pid), "process {pid} is still there: {outcome:?}");
    assert!(outcome.row.accepted);
    assert!(outcome.warnings.iter().any(|warning| warning.text.contains("was killed")), "{outcome:?}");
    if let Some(group) = lab.cgroup() {
        assert_eq!(group.procs().unwrap(), Vec::<u32>::new());
    }
}

#[test]
fn helpers_that_a_program_leaves_do_not_survive_its_exit() {
    let _alone = alone();
    let place = scratch("helper");
    let pidfile = path(&place, "pid");
    let mut program = Program::new("sh", ["sh", "-c", &format!("sleep 1000 & echo $! > {pidfile}; exit 0")]);
    program.grace = Duration::from_secs(120);
    let outcome = once(program);
    assert!(outcome.row.accepted && outcome.warnings.is_empty(), "SIGTERM was enough: {outcome:?}");
    assert!(!is_alive(&std::fs::read_to_string(&pidfile).unwrap()));
}

#[test]
fn progress_is_told_while_a_long_run_goes_on() {
    let _alone = alone();
    let mut lab = lab(vec![acts(&["spin", "1600"], &["exit"])]);
    let mut ticks = Vec::new();
    lab.start(0, CacheState::Hot, RunKind::Timed, None, &mut |elapsed| ticks.push(elapsed)).unwrap();
    assert!(!ticks.is_empty());
    assert!(ticks.is_sorted());
}

#[test]
fn what_a_run_reads_from_the_disk_is_counted() {
    let _alone = alone();
    if !testing::root_or_skip() {
        return;
    }
    let place = scratch("io");
    let file = place.path().join("data");
    std::fs::write(&file, vec![7u8; 3 << 20]).unwrap();
    os::cache::evict(&std::fs::File::open(&file).unwrap()).unwrap();
    let mut lab = lab(vec![acts(&["read", file.to_str().unwrap()], &["exit"])]);
    if !lab.cgroup().is_some_and(|group| group.can(os::cgroup::Ability::Io)) {
        testing::skip("no block I/O controller");
        return;
    }
    let row = start(&mut lab).row;
    assert!(row.read_bytes.unwrap().0 >= 3 << 20 && row.read_requests.unwrap() >= 1, "{row:?}");
    let again = start(&mut lab).row;
    assert!(again.read_bytes.unwrap().0 < 3 << 20, "{again:?}");
}

#[test]
fn an_interrupt_ends_the_run_and_leaves_nobody() {
    let _alone = alone();
    let place = scratch("interrupt");
    let pidfile = path(&place, "pid");
    let told = part("part_that_is_interrupted").env("PIDFILE", &pidfile).output().unwrap();
    assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
    assert!(!is_alive(&std::fs::read_to_string(&pidfile).unwrap()));
}

#[test]
#[ignore = "a part of another test: it leaves this process interrupted"]
fn part_that_is_interrupted() {
    let _alone = alone();
    os::interrupt::install().unwrap();
    let pidfile = std::env::var("PIDFILE").unwrap();
    let watcher = std::thread::spawn({
        let pidfile = pidfile.clone();
        move || {
            while !Path::new(&pidfile).exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
            os::interrupt::request();
        }
    });
    let mut lab = lab(vec![acts(&["daemon", &pidfile], &["line:never"])]);
    let error = try_start(&mut lab).unwrap_err();
    assert_eq!(error.exit, Exit::Interrupted);
    watcher.join().unwrap();
}
