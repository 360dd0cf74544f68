//! What cannot be attached to: the message names the process and says what to do, and the process goes on.

use super::*;

/// What an attempt is refused with.
fn refusal(bench: &Bench, pid: u32) -> String {
    let error = attach::run(&bench.plan(pid, 0.01), "test", &mut |_| {}).unwrap_err();
    assert!(!bench.path("out.heap").exists(), "no recording is left");
    error.to_string()
}

#[test]
fn what_cannot_be_attached_to_is_told_why() {
    let Some(bench) = Bench::new() else { return };
    assert!(refusal(&bench, std::process::id()).contains("thaw itself"));
    let gone = Command::new("true").spawn().map(|mut child| (child.id(), child.wait())).unwrap().0;
    assert!(refusal(&bench, gone).contains("there is no process"));
    let mut zombie = Command::new("true").spawn().unwrap();
    while os::process::stat(zombie.id()).is_some_and(|stat| stat.state != 'Z') {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(refusal(&bench, zombie.id()).contains("zombie"));
    zombie.wait().unwrap();
    if os::process::comm(2).as_deref() == Some("kthreadd") {
        assert!(refusal(&bench, 2).contains("kernel"));
    }
    let program = bench.compile("running", &[]);
    let mut stopped = Running::start(Command::new(&program).arg("1"));
    let threads = os::ptrace::threads(stopped.pid()).unwrap();
    assert!(refusal(&bench, threads[1].cast_unsigned()).contains("cannot attach to a thread"));
    // SAFETY: takes numbers.
    unsafe { libc::kill(stopped.pid().cast_signed(), libc::SIGSTOP) };
    while os::process::stat(stopped.pid()).is_some_and(|stat| stat.state != 'T') {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(refusal(&bench, stopped.pid()).contains("it is stopped"));
    // SAFETY: takes numbers.
    unsafe { libc::kill(stopped.pid().cast_signed(), libc::SIGCONT) };
    assert_eq!(stopped.end(), "whole");

    let fixed = bench.path("fixed");
    let source = root().join("fixtures/heap/later.c");
    let built = Command::new("cc").args(["-w", "-static", "-o"]).arg(&fixed).arg(&source).status().unwrap();
    if built.success() {
        let running = Running::start(&mut Command::new(&fixed));
        assert!(refusal(&bench, running.pid()).contains("statically linked"));
    }
    let narrow = bench.path("narrow");
    // Debian has the cross compiler and the multilib of the compiler only one without the other.
    let built = [&["i686-linux-gnu-gcc"][..], &["cc", "-m32"]].iter().any(|compiler| {
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-w", "-static", "-o"]).arg(&narrow).arg(&source);
        command.output().is_ok_and(|output| output.status.success())
    });
    if built {
        let running = Running::start(&mut Command::new(&narrow));
        assert!(refusal(&bench, running.pid()).contains("no x86-64 program"));
    } else {
        testing::skip("needs a 32-bit compiler");
    }
}

#[test]
fn sandboxes_and_tracers_are_seen() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut sandboxed = Command::new(&program);
    // SAFETY: two system calls between fork and exec: a filter that allows everything.
    unsafe {
        sandboxed.pre_exec(|| {
            let mut allow = [libc::sock_filter { code: 6, jt: 0, jf: 0, k: 0x7fff_0000 }];
            let filter = libc::sock_fprog { len: 1, filter: allow.as_mut_ptr() };
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            match libc::prctl(libc::PR_SET_SECCOMP, 2, &raw const filter) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    };
    let running = Running::start(&mut sandboxed);
    assert!(refusal(&bench, running.pid()).contains("sandbox"));

    let traced = Running::start(&mut Command::new(&program));
    let told = os::ptrace::apart(|| {
        let held = os::ptrace::stop(traced.pid(), &[], Duration::from_secs(5)).unwrap();
        let told = refusal(&bench, traced.pid());
        drop(held);
        told
    });
    assert!(told.contains("traced already"), "{told}");

    let recorded = Running::start(
        Command::new(&program).env("LD_PRELOAD", agent()).env("THAW_HEAP", format!("dir={}", bench.0.path().display())),
    );
    assert!(refusal(&bench, recorded.pid()).contains("recorded already"));
}

#[test]
fn another_root_directory_is_seen() {
    let Some(bench) = Bench::new() else { return };
    if !testing::root_or_skip() {
        return;
    }
    let program = bench.compile("later", &[]);
    let mut apart = Command::new("unshare");
    // Another file system where the recording is: what a container has.
    apart
        .args(["-m", "sh", "-c", "exec 9<\"$1\"; mount -t tmpfs none \"$0\"; exec /proc/self/fd/9"])
        .arg(bench.0.path())
        .arg(&program);
    let Ok(mut child) = apart.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        return testing::skip("needs unshare");
    };
    let mut line = String::new();
    let _ = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    if line != "ready\n" {
        let _ = child.wait();
        return testing::skip("needs to mount in a namespace");
    }
    let told = refusal(&bench, child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.contains("container"), "{told}");
}

#[test]
fn more_is_told_about_what_cannot_be_attached_to() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("later", &[]);
    let mut strict = Running::start(&mut Command::new(&program));
    strict.say("s\n");
    assert_eq!(strict.line(), "done");
    assert!(refusal(&bench, strict.pid()).contains("strict seccomp mode"));

    let source = bench.path("go.c");
    let text = "__attribute__((section(\".note.go.buildid\"))) char id[16];\n\
        int main(void) { char c; write(1, \"ready\\n\", 6); return read(0, &c, 1); }\n";
    std::fs::write(&source, text).unwrap();
    let built = Command::new("cc").args(["-w", "-static", "-o"]).arg(bench.path("go")).arg(&source).status().unwrap();
    if built.success() {
        let running = Running::start(&mut Command::new(bench.path("go")));
        assert!(refusal(&bench, running.pid()).contains("a Go program"));
    }
    let musl = bench.path("musl");
    let source = root().join("fixtures/heap/later.c");
    let built = Command::new("musl-gcc").args(["-w", "-o"]).arg(&musl).arg(&source).status();
    if built.is_ok_and(|status| status.success()) {
        let running = Running::start(&mut Command::new(&musl));
        let told = refusal(&bench, running.pid());
        assert!(told.contains("only glibc is known") && told.contains("musl"), "{told}");
    }
}

#[test]
fn a_process_of_another_user_needs_root() {
    const NOBODY: u32 = 65534;
    let Some(bench) = Bench::new() else { return };
    if !testing::root_or_skip() {
        return;
    }
    let program = bench.compile("later", &[]);
    let running = Running::start(&mut Command::new(&program));
    let mut command = Thaw::command(running.pid(), Path::new("/tmp/thaw-test-refused.heap"), &bench.path("state"));
    command.uid(NOBODY).gid(NOBODY);
    let Ok(mut child) = command.spawn() else {
        return testing::skip("needs a test program that other users reach");
    };
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    child.wait().unwrap();
    let wanted = format!("the process is user 0's, thaw is user {NOBODY}'s: run thaw as root");
    assert!(said.contains("the kernel does not allow it") && said.contains(&wanted), "{said}");
}

#[test]
fn of_two_thaws_at_once_one_is_told_about_the_other() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("running", &[]);
    let mut running = Running::start(Command::new(&program).arg("8"));
    for round in 0..10 {
        let start = |name: &str| Thaw::start(Thaw::command(running.pid(), &bench.path(name), &bench.path("state")));
        let mut both = [start("one.heap"), start("two.heap")];
        let said: Vec<String> = both.iter_mut().map(Thaw::began).collect();
        let recording = said.iter().filter(|line| line.starts_with("Running")).count();
        assert!(recording < 2, "round {round}: {said:?}");
        for line in said.iter().filter(|line| line.starts_with("refused")) {
            let known = [
                "traced already",
                "being recorded already",
                "another process that traced it at that moment",
                "is recorded already",
            ];
            assert!(known.iter().any(|known| line.contains(known)), "round {round}: {line}");
        }
        for (thaw, said) in both.iter_mut().zip(&said) {
            if said.starts_with("Running") {
                // SAFETY: takes numbers.
                unsafe { libc::kill(thaw.child.id().cast_signed(), libc::SIGINT) };
                thaw.says("ended");
            }
            thaw.child.wait().unwrap();
        }
    }
    let (_, report) = bench.attach(running.pid(), 0.01);
    assert!(report.processes[0].allocations > 0);
    assert_eq!(running.end(), "whole");
}

#[test]
fn a_tracer_of_one_thread_is_named() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("running", &[]);
    let mut running = Running::start(Command::new(&program).arg("1"));
    let other = os::ptrace::threads(running.pid()).unwrap()[1];
    let Ok(mut strace) = Command::new("strace").args(["-qq", "-o", "/dev/null", "-p", &other.to_string()]).spawn()
    else {
        return testing::skip("needs strace");
    };
    let traced = || os::process::status_value(other.cast_unsigned(), "TracerPid").is_some_and(|tracer| tracer != "0");
    while !traced() {
        if strace.try_wait().unwrap().is_some() {
            return testing::skip("needs a strace that may trace");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let told = refusal(&bench, running.pid());
    // SAFETY: takes numbers.
    unsafe { libc::kill(strace.id().cast_signed(), libc::SIGTERM) };
    strace.wait().unwrap();
    assert!(told.contains("traced already") && told.contains("strace"), "{told}");
    assert_eq!(running.end(), "whole");
}
