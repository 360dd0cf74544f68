//! Perfetto's protocol buffer: processes and threads, what the scheduler did on each CPU as the kernel's own events (so
//! that its page and its SQL have slices of the scheduler and states of threads), and the path as slices of a track.
//! It has no stacks.

use super::About;
use crate::cuts::Cutter;
use crate::cuts::Seen;
use crate::path;
use crate::states::States;
use crate::trace::{Frame, Trace, Waker, Went};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Write};
use wire::Message;

/// Times of the trace count from here: nothing is at 0, which means that a time is not known.
const ORIGIN_NS: u64 = 1_000_000_000;
/// The number of the track of the path.
const PATH: u64 = 1;
/// `sched_switch` and `sched_waking` among the events of the kernel.
const SWITCH: u64 = 4;
const WAKING: u64 = 20;
const PRIORITY: u64 = 120;

pub fn write(trace: &Trace, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
    let mut file = Message::default();
    packet(&mut file, |packet| tree(trace, packet));
    let names: HashMap<u32, &str> = trace.threads.iter().map(|thread| (thread.tid, &thread.name[..])).collect();
    let mut by_cpu: BTreeMap<u32, Vec<(u64, Message)>> = BTreeMap::new();
    for switch in trace.switches.iter().filter(|switch| switch.at <= trace.ready) {
        let state = match switch.went {
            Went::Preempted => 0,
            Went::Asleep => 1,
            Went::Held => 2,
            Went::Ended => 16,
        };
        let name = |tid: u32| if tid == 0 { "swapper" } else { names.get(&tid).copied().unwrap_or_default() };
        let mut event = Message::default();
        event.number(1, ORIGIN_NS + switch.at.0).number(2, switch.from.into()).message(SWITCH, |of| {
            of.bytes(1, name(switch.from).as_bytes()).number(2, switch.from.into()).number(3, PRIORITY);
            of.number(4, state);
            of.bytes(5, name(switch.to).as_bytes()).number(6, switch.to.into()).number(7, PRIORITY);
        });
        by_cpu.entry(switch.cpu).or_default().push((switch.at.0, event));
    }
    wakes(trace, &names, &mut by_cpu);
    for (cpu, mut events) in by_cpu {
        events.sort_by_key(|(at, _)| *at);
        packet(&mut file, |packet| {
            packet.message(1, |bundle| {
                bundle.number(1, cpu.into());
                for (_, event) in &events {
                    bundle.bytes(2, &event.0);
                }
            });
        });
    }
    path_track(trace, about, &mut file);
    out.write_all(&file.0)
}

fn packet(file: &mut Message, fill: impl FnOnce(&mut Message)) {
    file.message(1, |packet| {
        // One writer, which begins anew.
        packet.number(10, 1);
        fill(packet);
    });
}

/// Who the processes and threads are.
fn tree(trace: &Trace, packet: &mut Message) {
    let mut processes: BTreeSet<u32> = BTreeSet::new();
    packet.message(2, |tree| {
        for thread in &trace.threads {
            if processes.insert(thread.pid) {
                let main = trace.threads.iter().find(|other| other.tid == thread.pid).unwrap_or(thread);
                tree.message(1, |process| {
                    process.number(1, thread.pid.into()).bytes(3, main.name.as_bytes());
                });
            }
            tree.message(2, |of| {
                of.number(1, thread.tid.into()).bytes(2, thread.name.as_bytes()).number(3, thread.pid.into());
            });
        }
    });
}

/// Wakes, on the CPU that the waker ran on; those by interrupts on none that is known, so on the first.
fn wakes(trace: &Trace, names: &HashMap<u32, &str>, by_cpu: &mut BTreeMap<u32, Vec<(u64, Message)>>) {
    let mut runs_on: HashMap<u32, u32> = HashMap::new();
    let mut switches = trace.switches.iter().peekable();
    for wake in trace.wakes.iter().filter(|wake| wake.at <= trace.ready) {
        while let Some(switch) = switches.next_if(|switch| switch.at <= wake.at) {
            runs_on.insert(switch.to, switch.cpu);
        }
        let by = if let Waker::Thread(tid) = wake.by { tid } else { 0 };
        let cpu = if by == 0 { 0 } else { runs_on.get(&by).copied().unwrap_or(0) };
        let name = names.get(&wake.woken).copied().unwrap_or_default();
        let mut event = Message::default();
        event.number(1, ORIGIN_NS + wake.at.0).number(2, by.into()).message(WAKING, |of| {
            of.bytes(1, name.as_bytes()).number(2, wake.woken.into()).number(3, PRIORITY).number(4, 1);
            of.number(5, cpu.into());
        });
        by_cpu.entry(cpu).or_default().push((wake.at.0, event));
    }
}

/// The path: a slice for each thing that it does, by the function that does it.
fn path_track(trace: &Trace, about: &About<'_>, file: &mut Message) {
    packet(file, |packet| {
        packet.message(60, |track| {
            track.number(1, PATH).bytes(2, format!("the critical path of {}", about.name).as_bytes());
        });
    });
    let states = States::of(trace);
    let mut cutter = Cutter::of(trace, &states);
    let names: HashMap<u32, &str> = trace.threads.iter().map(|thread| (thread.tid, &thread.name[..])).collect();
    for step in path::path(trace, &states) {
        let thread = names.get(&step.thread).copied().unwrap_or_default();
        let mut cuts = cutter.step(&step).into_iter().peekable();
        while let Some(mut cut) = cuts.next() {
            // Neighbours in one function are one slice.
            while let Some(next) = cuts.next_if(|next| (next.seen, next.stack) == (cut.seen, cut.stack)) {
                cut.to = next.to;
            }
            let function = trace.stacks.walk(cut.stack).map(Frame::label).next();
            let does = match (cut.seen, function) {
                (Seen::User | Seen::Kernel, Some(function)) => function,
                (Seen::User | Seen::Kernel | Seen::Runs, _) => "runs".to_owned(),
                (Seen::LacksCpu, _) => "lacks a CPU".to_owned(),
                (Seen::Waits(kind), _) => format!("waits {}", kind.phrase()),
                (Seen::Unknown, _) => "not known".to_owned(),
            };
            slice(file, cut.from.0, Some(&format!("{thread}: {does}")));
            slice(file, cut.to.0, None);
        }
    }
}

/// The beginning of a slice with a name, or the end of the last one.
fn slice(file: &mut Message, at: u64, name: Option<&str>) {
    packet(file, |packet| {
        packet.number(8, ORIGIN_NS + at).message(11, |event| {
            event.number(9, if name.is_some() { 1 } else { 2 }).number(11, PATH).bytes(22, b"thaw");
            if let Some(name) = name {
                event.bytes(23, name.as_bytes());
            }
        });
    });
}
