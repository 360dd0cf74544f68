//! The kernel's records as [`Raw`]: pure. Only what has no owner in the tree is left out.

use crate::raw::{Context, Flags, Raw, RawMapping, RawSample, RawSwitch, RawTask, RawWake, Tick, UserState, What};
use model::{Nanos, Result};
use os::perf::{Body, Log, Record, StackSample, Stamp};
use os::tracefs::{Event, Field, Format, InstanceLog, Tracefs};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Executable mapping, as in mmap(2).
const PROT_EXEC: u32 = 4;

/// What an event with stacks stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Clock,
    Leaves,
    Wakes,
}

/// Where the scheduler's tracepoints say what, on this kernel.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) waking: Format,
    new: Format,
    switch: Format,
    woken: Field,
    flags: Field,
    new_woken: Field,
    new_flags: Field,
    from: Field,
    from_name: Field,
    state: Field,
    to: Field,
    to_name: Field,
}

impl Fields {
    /// Reads the formats.
    pub(super) fn find(tracefs: &Tracefs) -> Result<Self> {
        let format = |name| tracefs.tracepoint("sched", name);
        Self::of(format("sched_waking")?, format("sched_wakeup_new")?, format("sched_switch")?)
    }

    fn of(waking: Format, new: Format, switch: Format) -> Result<Self> {
        let field = |format: &Format, name| format.field(name).cloned();
        Ok(Self {
            woken: field(&waking, "pid")?,
            flags: field(&waking, "common_flags")?,
            new_woken: field(&new, "pid")?,
            new_flags: field(&new, "common_flags")?,
            from: field(&switch, "prev_pid")?,
            from_name: field(&switch, "prev_comm")?,
            state: field(&switch, "prev_state")?,
            to: field(&switch, "next_pid")?,
            to_name: field(&switch, "next_comm")?,
            waking,
            new,
            switch,
        })
    }

    /// All of them.
    pub(super) fn formats(&self) -> [Format; 3] {
        [self.waking.clone(), self.new.clone(), self.switch.clone()]
    }

    /// Who was woken, and in whose name.
    fn wake(&self, raw: &[u8]) -> Option<(u32, Context)> {
        Some((self.woken.get(raw)? as u32, context(self.flags.get(raw)?)))
    }

    fn new_wake(&self, raw: &[u8]) -> Option<(u32, Context)> {
        Some((self.new_woken.get(raw)? as u32, context(self.new_flags.get(raw)?)))
    }
}

fn context(flags: u64) -> Context {
    match flags & (Flags::HARD | Flags::SOFT) {
        0 => Context::Thread,
        _ => Context::Interrupt,
    }
}

/// Everything from `t0_ns` on.
pub(super) fn decode(
    root: u32,
    t0_ns: u64,
    log: &Log,
    seen: &[Seen],
    sched: &InstanceLog,
    fields: Option<&Fields>,
) -> Raw {
    let raw = Raw { root, lost: log.lost, lost_switches: sched.lost, ..Raw::default() };
    let mut decoder = Decoder { t0_ns, raw };
    let mut tree = HashSet::from([root]);
    for record in log.records() {
        if let Body::Fork { pid, .. } = record.body {
            tree.insert(pid);
        }
        if let Some(at) = decoder.at(record.stamp.time_ns) {
            decoder.record(at, &record);
        }
    }
    for (index, sample) in log.samples() {
        if let Some(at) = decoder.at(sample.stamp.time_ns)
            && is_of(&tree, &sample.stamp)
            && let Some(tick) = decoder.tick(seen.get(index).copied(), &sample, fields)
        {
            decoder.sample(at, tick, &sample);
        }
    }
    for event in &sched.events {
        if let Some(at) = decoder.at(event.stamp.time_ns)
            && let Some(fields) = fields
            && decoder.sched(at, event, fields).is_none()
        {
            decoder.raw.lost_switches += 1;
        }
    }
    if let Some((times, sentence)) = untold(&decoder.raw.switches) {
        // What was counted as lost already may be the same.
        decoder.raw.lost_switches = decoder.raw.lost_switches.max(times);
        decoder.raw.cannot.push(sentence);
    }
    decoder.raw
}

/// Whether a thread of these processes is meant. One that has ended can still be in the kernel when an interrupt comes:
/// then the kernel tells its process, and -1 for its number, which it has no more.
fn is_of(tree: &HashSet<u32>, stamp: &Stamp) -> bool {
    tree.contains(&stamp.pid) && stamp.tid != u32::MAX
}

/// How many switches are missing that were not counted as lost, and what cannot be known because of that. Some kernels
/// tell nothing of what happens in certain threads: then a CPU leaves another thread than the one that it went over to.
fn untold(switches: &[RawSwitch]) -> Option<(u64, String)> {
    let mut runs: HashMap<u32, (u32, &str)> = HashMap::new();
    let mut gone = HashSet::new();
    let mut silent: BTreeMap<Option<(u32, &str)>, u64> = BTreeMap::new();
    for switch in switches {
        let ran = runs.insert(switch.cpu, (switch.to, &switch.to_name));
        // Before its first switch nobody knows what a CPU ran, but that it went over to a thread that had left another.
        // (Each CPU has a thread 0.)
        if ran.map_or(switch.from != 0 && gone.contains(&switch.from), |(tid, _)| tid != switch.from) {
            *silent.entry(ran).or_default() += 1;
        }
        gone.insert(switch.from);
        gone.remove(&switch.to);
    }
    let (times, threads): (u64, usize) = (silent.values().sum(), silent.len());
    let (thread, _) = silent.into_iter().max_by_key(|(_, times)| *times)?;
    let most = thread.map_or("one that is not known".to_owned(), |(tid, name)| format!("{tid} ({name})"));
    let sentence = format!(
        "which thread a CPU ran after each switch: {times} switches away from {threads} threads are missing, most \
         often from {most}"
    );
    Some((times, sentence))
}

struct Decoder {
    t0_ns: u64,
    raw: Raw,
}

impl Decoder {
    /// `None`: before the start.
    fn at(&self, time_ns: u64) -> Option<Nanos> {
        time_ns.checked_sub(self.t0_ns).map(Nanos)
    }

    fn record(&mut self, at: Nanos, record: &Record<'_>) {
        let mut task = |pid, tid, what| self.raw.tasks.push(RawTask { at, pid, tid, what });
        match record.body {
            Body::Fork { pid, tid, parent, parent_tid } => {
                task(pid, tid, What::Began { parent_pid: parent, parent_tid });
            }
            Body::Comm { pid, tid, comm, exec } => {
                if exec {
                    task(pid, tid, What::Executed);
                }
                task(pid, tid, What::Named(text(comm)));
            }
            Body::Exit { pid, tid } => task(pid, tid, What::Ended),
            Body::Mmap2 { address, len, offset, dev, ino, prot, path, .. } if prot & PROT_EXEC != 0 => {
                self.raw.mappings.push(RawMapping {
                    at,
                    pid: record.stamp.pid,
                    addresses: address..address.saturating_add(len),
                    offset,
                    dev,
                    ino,
                    path: PathBuf::from(OsStr::from_bytes(path)),
                });
            }
            Body::Mmap2 { .. } | Body::Sample { .. } | Body::Lost { .. } | Body::Other(_) => {}
        }
    }

    /// Why a sample was taken; of a wake also where an interrupt above the thread did it. `None`: it makes no sense,
    /// which is a loss.
    fn tick(&mut self, seen: Option<Seen>, sample: &StackSample<'_>, fields: Option<&Fields>) -> Option<Tick> {
        match seen? {
            Seen::Clock => Some(Tick::Clock),
            Seen::Leaves => Some(Tick::Leaves),
            Seen::Wakes => match fields?.wake(sample.raw) {
                Some((woken, _)) => Some(Tick::Wakes(woken)),
                None => {
                    self.raw.lost += 1;
                    None
                }
            },
        }
    }

    fn sample(&mut self, at: Nanos, tick: Tick, sample: &StackSample<'_>) {
        let user = sample.user.map(|user| {
            let start = self.raw.stacks.len();
            self.raw.stacks.extend_from_slice(user.stack);
            UserState { ip: user.ip, sp: user.sp, bp: user.bp, bx: user.bx, stack: start..self.raw.stacks.len() }
        });
        let (stamp, kernel) = (sample.stamp, sample.kernel.clone());
        self.raw.samples.push(RawSample { at, pid: stamp.pid, tid: stamp.tid, cpu: stamp.cpu, tick, kernel, user });
    }

    /// `None`: the record is too short.
    fn sched(&mut self, at: Nanos, event: &Event, fields: &Fields) -> Option<()> {
        let (raw, point, cpu) = (&event.raw[..], u64::from(event.point), event.stamp.cpu);
        if point == fields.switch.id {
            self.raw.switches.push(RawSwitch {
                at,
                cpu,
                from: fields.from.get(raw)? as u32,
                from_name: text(fields.from_name.text(raw)?),
                state: fields.state.get(raw)?,
                to: fields.to.get(raw)? as u32,
                to_name: text(fields.to_name.text(raw)?),
            });
            return Some(());
        }
        let new = point == fields.new.id;
        let (woken, context) = if new { fields.new_wake(raw)? } else { fields.wake(raw)? };
        self.raw.wakes.push(RawWake { at, cpu, by: event.stamp.tid, context, woken, new });
        Some(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_leaves_another_thread_than_it_went_to_has_hidden_a_switch() {
        let switch = |cpu, from, to| RawSwitch {
            at: Nanos(1),
            cpu,
            from,
            from_name: format!("t{from}"),
            state: 0,
            to,
            to_name: format!("t{to}"),
        };
        assert_eq!(untold(&[switch(0, 1, 2), switch(1, 7, 8), switch(0, 2, 3), switch(1, 8, 1)]), None);
        assert_eq!(untold(&[switch(0, 0, 2), switch(1, 0, 8), switch(0, 2, 3)]), None);
        let (times, said) = untold(&[switch(0, 1, 2), switch(0, 3, 2), switch(0, 1, 9), switch(0, 4, 5)]).unwrap();
        assert_eq!(times, 3);
        assert!(said.contains("3 switches away from 2 threads") && said.ends_with("from 2 (t2)"), "{said}");
        // It left one CPU, and leaves the other one.
        let (times, said) = untold(&[switch(0, 7, 2), switch(1, 7, 3)]).unwrap();
        assert!(times == 1 && said.ends_with("from one that is not known"), "{said}");
    }

    #[test]
    fn a_thread_that_has_no_number_any_more_is_nobodys() {
        let stamp = |pid, tid| Stamp { pid, tid, ..Stamp::default() };
        let tree = HashSet::from([7]);
        assert!(is_of(&tree, &stamp(7, 9)) && !is_of(&tree, &stamp(8, 9)) && !is_of(&tree, &stamp(7, u32::MAX)));
    }

    #[test]
    fn interrupts_hard_and_soft_are_no_threads() {
        let contexts = [0, 0x01 | 0x04, 0x08, 0x10, 0x19].map(context);
        let (thread, interrupt) = (Context::Thread, Context::Interrupt);
        assert_eq!(contexts, [thread, thread, interrupt, interrupt, interrupt]);
    }
}
