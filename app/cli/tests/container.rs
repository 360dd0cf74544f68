//! What works in a container, for an ordinary user without capabilities: each verb works, or says what is missing and
//! what would still work. `docs/container.md` holds the table that this test makes.

use crate::heap::guest;
use crate::scratch::{Said, Scratch, alone, root};
use std::ffi::CStr;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::process::Command;
use testing::SECOND_USER;

/// What is asked, in this order: later ones need the files of earlier ones.
const ASKED: [&str; 45] = [
    "record --state hot --runs 3 -o hot.thaw --timeline own.events -- ./program",
    "record --state app --runs 1 -o app.thaw -- ./program",
    "record --state cold --runs 1 -o cold.thaw -- ./program",
    "record --state app --disk laptop2010 --runs 1 -o ../disk.thaw -- ./program",
    "record --state hot --why --runs 1 -o whys.thaw -- ./program",
    "why -o why.thaw -- ./program",
    "touch --engine page -o page.thaw -- ./program",
    "touch --engine probe -o probe.thaw -- ./program",
    "touch --engine function -o function.thaw -- python3 -c pass",
    "order function.thaw",
    "report hot.thaw -o hot.html",
    "compare hot.thaw hot.thaw",
    "gate hot.thaw hot.thaw --undecided pass",
    "query hot.thaw 'select count(*) from v_runs'",
    "sweep --cycles 12 -o sweep.thaw -- ./program",
    "ablate --profile profile --factor p=part --runs 3 -o ablate.thaw -- ./program {profile}",
    "history add hot.thaw --commit HEAD --history history.thawdb",
    "io model app.thaw",
    "preload make probe.thaw -o start.preload",
    "preload run start.preload -- ./program",
    "optimize app.thaw --plan",
    "heap run -o program.heap -- ./program",
    "heap run --leak-check -o leaks.heap -- ./program",
    "heap report program.heap",
    "memory watch -o memory.thaw -- ./program",
    "timeline report own.events",
    "timeline record --usdt python:gc__start -o probes -- python3 -c pass",
    "store bench",
    "ping --app editor --enable",
    "resident /bin/sh",
    "flush own",
    "frag own",
    "elf stat library.so",
    "elf pack library.so -o packed.so",
    "elf verify library.so packed.so",
    "archive stat archive.zip",
    "image stat a.img",
    "image verify a.img",
    "image run a.img -- ./program",
    "counts own",
    "presets",
    "doctor",
    "completions bash",
    "man man1",
    "--version --verbose",
];

/// System calls that container engines keep from their programs (Docker's default profile): what looks at others,
/// mounts, or changes the machine. Numbers of x86-64.
const KEPT_FROM: [u32; 22] =
    [155, 165, 166, 179, 248, 249, 250, 272, 298, 300, 304, 308, 321, 323, 425, 426, 427, 428, 429, 430, 432, 442];

/// Makes this process one in a container: an ordinary user without capabilities, /sys read-only, nothing of tracefs,
/// with these system calls refused. Between fork and exec.
fn enter() -> io::Result<()> {
    let is_done = |answer: libc::c_int| if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let none = std::ptr::null::<libc::c_void>();
    // SAFETY: system calls on constants and on values that live through them; none allocates.
    unsafe {
        is_done(libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP))?;
        is_done(libc::mount(none.cast(), c"/".as_ptr(), none.cast(), libc::MS_PRIVATE | libc::MS_REC, none))?;
        const HIDDEN: [&CStr; 3] = [c"/sys/kernel/debug/tracing", c"/sys/kernel/tracing", c"/sys/kernel/debug"];
        for place in HIDDEN {
            // It may be hidden already.
            libc::umount2(place.as_ptr(), libc::MNT_DETACH);
        }
        is_done(libc::mount(c"/sys".as_ptr(), c"/sys".as_ptr(), none.cast(), libc::MS_BIND, none))?;
        let read_only = libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY;
        is_done(libc::mount(none.cast(), c"/sys".as_ptr(), none.cast(), read_only, none))?;
        for capability in 0..64 {
            // Ends with those that the kernel knows.
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        is_done(libc::setgroups(0, none.cast()))?;
        is_done(libc::setgid(SECOND_USER))?;
        is_done(libc::setuid(SECOND_USER))?;
        is_done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        const COUNT: usize = KEPT_FROM.len();
        let one = |code: u32, jump: usize, value: u32| libc::sock_filter {
            code: code as u16,
            jt: jump as u8,
            jf: 0,
            k: value,
        };
        // The number of the call; each forbidden one leads to the end.
        let mut filter = [one(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW); COUNT + 3];
        filter[0] = one(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0);
        for (at, number) in KEPT_FROM.iter().enumerate() {
            filter[1 + at] = one(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, COUNT - at, *number);
        }
        filter[COUNT + 2] = one(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
        is_done(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program))
    }
}

/// Runs thaw in a container, in `work`.
fn thaw(scratch: &Scratch, words: &str) -> Said {
    let mut command = scratch.command_of("/bin/sh".as_ref());
    command.args(["-c", &format!("exec ../bin/thaw {words}")]).current_dir(scratch.path("work"));
    command.env("HOME", scratch.path("work")).env("XDG_CONFIG_HOME", scratch.path("work/config"));
    // SAFETY: system calls on constants and on values of its own.
    unsafe { command.pre_exec(enter) };
    Said::of(command)
}

/// What the table says of an answer.
fn row(scratch: &Scratch, words: &str, said: &Said) -> String {
    let error = said.err();
    let line = |start: &str| {
        let found = error.lines().find_map(|line| line.trim_start().strip_prefix(start)).map(str::to_owned);
        let here = format!("{}/", scratch.path("").display().to_string().trim_end_matches('/'));
        found.map(|text| text.replace(&format!("{here}work/"), "").replace(&here, "").replace('|', "\\|"))
    };
    let answer = match said.code() {
        Some(0) if error.contains("the program starts from its directory") => "works, from the directory".to_owned(),
        Some(0) => "works".to_owned(),
        Some(code) => format!("exit code {code}: {}", line("thaw: ").unwrap_or_else(|| "no words".to_owned())),
        None => "killed".to_owned(),
    };
    // What is warned of besides depends on the machine.
    let hint = if answer == "works" { None } else { line("hint: ") };
    format!("| `thaw {words}` | {answer} | {} |", hint.unwrap_or_default()).replace("  |", " |")
}

#[test]
fn each_verb_works_in_a_container_or_says_what_is_missing() {
    if !testing::root_or_skip() || !guest() {
        return;
    }
    let _machine = alone();
    let scratch = Scratch::new();
    for name in ["bin", "work/profile"] {
        std::fs::create_dir_all(scratch.path(name)).unwrap();
    }
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), scratch.path("bin/thaw"));
    let library = root().join("target/agent/libthaw_heap.so");
    std::fs::copy(&library, scratch.path("bin/libthaw_heap.so")).unwrap();
    scratch.script("work/program", "cat own > /dev/null");
    scratch.write("work/own", vec![7; 100_000]);
    scratch.write("work/profile/part", "a part");
    let mut filled = Command::new("sh");
    filled.current_dir(scratch.path("work")).args([
        "-c",
        "echo 'static int a; int *b[9000] = {[0 ... 8999] = &a};' | cc -shared -fPIC -x c - -o library.so
         python3 -c \"import zipfile; zipfile.ZipFile('archive.zip', 'w').writestr('a', 'a' * 1000)\"
         git init -q . && git -c user.name=a -c user.email=a commit -q --allow-empty -m one",
    ]);
    Said::of(filled).exits(0);
    let data = scratch.write("app/data", "content ".repeat(9000));
    let mut trace = crate::made::trace_of(1);
    trace.files[0].size = model::Bytes(std::fs::metadata(&data).unwrap().len());
    trace.files[0].path = data;
    crate::made::with_trace(&scratch.path("a.thaw"), &[900], &[300], Some(&trace));
    scratch.thaw(["image", "make", "app", "--from", "a.thaw", "-o", "work/a.img"]).exits(0);
    chown(scratch.path(""), Some(SECOND_USER), Some(SECOND_USER)).unwrap();
    let mut owned = Command::new("chown");
    owned
        .arg("-R")
        .arg(format!("{SECOND_USER}:{SECOND_USER}"))
        .args(["work", "run", "state"].map(|it| scratch.path(it)));
    Said::of(owned).exits(0);
    let rows: Vec<String> = ASKED.iter().map(|words| row(&scratch, words, &thaw(&scratch, words))).collect();
    let table = rows.join("\n");
    let document = root().join("docs/container.md");
    let text = std::fs::read_to_string(&document).unwrap();
    let (head, rest) = text.split_once("|---|---|---|\n").expect("docs/container.md has a table");
    let (known, tail) = rest.split_once("\n\n").unwrap_or((rest.trim_end(), ""));
    if std::env::var_os("THAW_WRITE_TABLE").is_some() {
        std::fs::write(&document, format!("{head}|---|---|---|\n{table}\n\n{tail}")).unwrap();
    } else {
        assert!(known == table, "docs/container.md says otherwise (THAW_WRITE_TABLE=1 writes it):\n{table}");
    }
    // Whatever does not work says why, by a code of the table, and nothing is left.
    for (words, row) in ASKED.iter().zip(&rows) {
        assert!(
            row.contains("| works") || row.contains("exit code 1:") || row.contains("exit code 3:"),
            "{words}: {row}"
        );
    }
}
