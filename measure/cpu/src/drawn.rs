//! Traces drawn as text, for tests: a line for each thread, a letter for each millisecond.
//!
//! `R` runs, `.` has no CPU, any letter of [`WAITS`] waits, a space is not alive. `~` before a name: outside of the
//! tree.
//! Arrows are lines: `@8 worker > main` (worker wakes main when 8 ms are over), `@2 main * worker` (main makes worker),
//! `@5 timer > main` (an interrupt). A wait without an arrow at its end was ended by an interrupt.

use crate::path::{Doing, Step, Whose};
use crate::trace::{Frame, FrameId, StackId, Switch, Thread, Trace, Wake, Waker, Went};
use crate::waits::Kind;
use model::Nanos;
use std::collections::HashMap;

/// A letter, the kernel's functions of the wait, innermost first, and what it is for.
pub const WAITS: &[(char, &[&str], Kind)] = &[
    ('d', &["io_schedule", "folio_wait_bit_common", "filemap_read", "__x64_sys_read"], Kind::DiskRead),
    ('f', &["io_schedule", "folio_wait_bit_common", "filemap_fault", "asm_exc_page_fault"], Kind::PageFault),
    ('y', &["jbd2_log_wait_commit", "ext4_sync_file", "vfs_fsync_range", "__x64_sys_fsync"], Kind::Fsync),
    ('z', &["do_nanosleep", "hrtimer_nanosleep", "__x64_sys_clock_nanosleep"], Kind::Sleep),
    ('L', &["futex_do_wait", "__futex_wait", "__x64_sys_futex"], Kind::Lock),
    ('M', &["rwsem_down_read_slowpath", "down_read", "do_madvise", "__x64_sys_madvise"], Kind::KernelLock),
    ('p', &["anon_pipe_read", "vfs_read", "__x64_sys_read"], Kind::Pipe),
    ('s', &["unix_stream_data_wait", "unix_stream_recvmsg", "__x64_sys_recvmsg"], Kind::UnixSocket),
    ('n', &["sk_wait_data", "tcp_recvmsg", "__x64_sys_recvfrom"], Kind::Network),
    ('o', &["schedule_hrtimeout_range", "do_poll", "do_sys_poll", "__x64_sys_poll"], Kind::Poll),
    ('c', &["do_wait", "kernel_wait4", "__x64_sys_wait4"], Kind::Child),
    ('?', &[], Kind::Unknown),
];

const MS: u64 = 1_000_000;

/// So many milliseconds.
pub fn ms(count: usize) -> Nanos {
    Nanos(count as u64 * MS)
}

/// The kernel's frames of these functions, behind the one by which all threads leave their CPU.
pub fn kernel_stack(trace: &mut Trace, functions: &[&str]) -> Option<StackId> {
    let frame = |name: &str| Frame { function: Some(name.into()), object: Frame::KERNEL.into(), ..Frame::default() };
    let mut frames: Vec<FrameId> = functions.iter().map(|name| trace.stacks.frame(frame(name))).collect();
    if !frames.is_empty() {
        frames.insert(0, trace.stacks.frame(frame("schedule")));
        frames.push(trace.stacks.frame(frame("entry_SYSCALL_64_after_hwframe")));
    }
    trace.stacks.stack(&frames)
}

struct Row {
    name: String,
    tid: u32,
    letters: Vec<char>,
}

fn rows(lines: &[&str]) -> Vec<Row> {
    let drawn = lines.iter().filter(|line| !line.starts_with('@'));
    let row = |(index, line): (usize, &&str)| {
        let (name, letters) = line.split_once('|').expect("name|letters");
        Row { name: name.trim().to_owned(), tid: 10 + index as u32, letters: letters.chars().collect() }
    };
    drawn.enumerate().map(row).collect()
}

/// A drawing as a trace, ready at its end by the first thread.
pub fn trace(cpus: u32, lines: &[&str]) -> Trace {
    let rows = rows(lines);
    let length = rows.iter().map(|row| row.letters.len()).max().unwrap_or(0);
    let mut trace = Trace { root: 10, ready: ms(length), ready_by: Some(10), cpus, tick: ms(1), ..Trace::default() };
    let tid = |name: &str| rows.iter().find(|row| row.name.trim_start_matches('~') == name).map(|row| row.tid);
    let mut made: HashMap<u32, u32> = HashMap::new();
    let mut arrows: HashMap<(u32, Nanos), (Waker, bool)> = HashMap::new();
    for arrow in lines.iter().filter_map(|line| line.strip_prefix('@')) {
        let words: Vec<&str> = arrow.split_whitespace().collect();
        let [at, by, how, woken] = words[..] else { panic!("{arrow}") };
        let (by, woken) = (tid(by), tid(woken).expect(arrow));
        let is_new = how == "*";
        if is_new {
            made.insert(woken, by.expect(arrow));
        }
        let at = ms(at.parse().expect(arrow));
        arrows.insert((woken, at), (by.map_or(Waker::Interrupt, Waker::Thread), is_new));
    }
    for row in &rows {
        let start = row.letters.iter().position(|letter| *letter != ' ').expect("it lives");
        let end = row.letters.iter().rposition(|letter| *letter != ' ').expect("it lives") + 1;
        let (name, of_tree) = (row.name.trim_start_matches('~').to_owned(), !row.name.starts_with('~'));
        let end = (end < length).then_some(ms(end));
        let made_by = made.get(&row.tid).copied();
        trace.threads.push(Thread { tid: row.tid, pid: row.tid, name, of_tree, made_by, start: ms(start), end });
    }
    add_wakes(&mut trace, &rows, &arrows);
    add_switches(&mut trace, &rows, cpus, length);
    trace
}

fn letter(row: &Row, at: usize) -> char {
    row.letters.get(at).copied().unwrap_or(' ')
}

fn waits(letter: char) -> bool {
    WAITS.iter().any(|(of, ..)| *of == letter)
}

fn add_wakes(trace: &mut Trace, rows: &[Row], arrows: &HashMap<(u32, Nanos), (Waker, bool)>) {
    for row in rows {
        for at in 0..row.letters.len() {
            let (before, now) = (if at == 0 { ' ' } else { letter(row, at - 1) }, letter(row, at));
            let drawn = arrows.get(&(row.tid, ms(at))).copied();
            let found = match (waits(before), before) {
                (true, _) if before != now || drawn.is_some() => Some(drawn.unwrap_or((Waker::Interrupt, false))),
                (false, ' ') => drawn,
                _ => None,
            };
            if let Some((by, new)) = found {
                trace.wakes.push(Wake { at: ms(at), by, woken: row.tid, new, stack: None });
            }
        }
    }
    trace.wakes.sort_by_key(|wake| wake.at);
}

fn add_switches(trace: &mut Trace, rows: &[Row], cpus: u32, length: usize) {
    let mut runs: Vec<u32> = vec![0; cpus as usize];
    let mut home: HashMap<u32, usize> = HashMap::new();
    for at in 0..=length {
        let mut leave: Vec<(u32, Went, Option<StackId>)> = Vec::new();
        let mut come: Vec<u32> = Vec::new();
        for row in rows {
            let before = if at == 0 { ' ' } else { letter(row, at - 1) };
            let now = letter(row, at);
            if at < length && before == 'R' && now != 'R' {
                let found = WAITS.iter().find(|(of, ..)| *of == now);
                let stack = found.and_then(|(_, functions, _)| kernel_stack(trace, functions));
                let went = match now {
                    '.' => Went::Preempted,
                    ' ' => Went::Ended,
                    'd' | 'f' | 'y' | 'M' => Went::Held,
                    _ => Went::Asleep,
                };
                leave.push((row.tid, went, stack));
            }
            if at < length && now == 'R' && before != 'R' {
                come.push(row.tid);
            }
        }
        let next = placed(&runs, &leave, &come, &home);
        for (cpu, (from, to)) in runs.iter().copied().zip(next.iter().copied()).enumerate() {
            if from != to && at > 0 {
                let left = leave.iter().find(|(tid, ..)| *tid == from);
                let (went, stack) = left.map_or((Went::Preempted, None), |(_, went, stack)| (*went, *stack));
                trace.switches.push(Switch { at: ms(at), cpu: cpu as u32, from, went, to, stack });
            }
            home.insert(to, cpu);
        }
        runs = next;
    }
}

/// Who runs on which CPU now: on the same as before where that is free.
fn placed(runs: &[u32], leave: &[(u32, Went, Option<StackId>)], come: &[u32], home: &HashMap<u32, usize>) -> Vec<u32> {
    let left = |tid: &u32| leave.iter().any(|(of, ..)| of == tid);
    let mut next: Vec<u32> = runs.iter().map(|tid| if left(tid) { 0 } else { *tid }).collect();
    for tid in come {
        let usual = home.get(tid).copied().filter(|cpu| next[*cpu] == 0);
        let cpu = usual.or_else(|| next.iter().position(|tid| *tid == 0)).expect("a CPU for each R");
        next[cpu] = *tid;
    }
    next
}

/// A path drawn in the same way: `-` is not on the path, `x` another program that runs, `w` one that waits, `!` is not
/// explained.
pub fn drawn(trace: &Trace, steps: &[Step]) -> Vec<String> {
    let length = (trace.ready.0 / MS) as usize;
    let mut lines: Vec<(u32, String, Vec<char>)> = Vec::new();
    for thread in &trace.threads {
        let name = format!("{}{}", if thread.of_tree { "" } else { "~" }, thread.name);
        lines.push((thread.tid, name, vec!['-'; length]));
    }
    for step in steps {
        let letter = match step.whose {
            Whose::Running => 'R',
            Whose::Cpu { .. } => '.',
            Whose::Waits { kind, .. } => WAITS.iter().find(|(.., of)| *of == kind).map_or('_', |(letter, ..)| *letter),
            Whose::Other(Doing::Runs) => 'x',
            Whose::Other(_) => 'w',
            Whose::Unexplained(_) => '!',
        };
        let (_, _, letters) = lines.iter_mut().find(|(tid, ..)| *tid == step.thread).expect("a thread");
        for at in step.from.0 / MS..step.to.0 / MS {
            letters[at as usize] = letter;
        }
    }
    lines.into_iter().map(|(_, name, letters)| format!("{name}|{}", letters.iter().collect::<String>())).collect()
}
