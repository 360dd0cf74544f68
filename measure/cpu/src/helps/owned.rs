//! Rules on owners of the path, and on waits of one thread for another. Pure.

use super::bound::{Arrives, Bound};
use super::{Eases, Help, Known};
use crate::path::{Ran, is_kernel_thread};
use crate::phase::Phase;
use crate::report::{Does, LaneState, StepRow};
use crate::several::Shared;
use crate::waits::Kind;
use model::Nanos;
use std::collections::BTreeMap;

/// What a rule says.
struct Rule {
    what: String,
    how: &'static str,
    /// What takes the owner's place costs time too.
    is_at_most: bool,
    eases: Option<Eases>,
    command: Vec<String>,
}

/// System calls by which allocators take memory and give it back.
const MEMORY: [&str; 6] = ["brk", "mmap", "munmap", "mremap", "mprotect", "madvise"];
/// Functions of the loader that look up a function for the first call of it.
const BINDS: [&str; 5] = ["_dl_runtime_resolve", "_dl_fixup", "_dl_lookup_symbol_x", "do_lookup_x", "check_match"];

impl Rule {
    fn removes(what: impl Into<String>) -> Self {
        let how = "the time that it has on the way from exec to ready";
        Self { what: what.into(), how, is_at_most: false, eases: None, command: Vec::new() }
    }

    fn eases(what: impl Into<String>) -> Self {
        let how = "all the time that it has on the way; what remains of it is not known";
        Self { what: what.into(), how, is_at_most: true, eases: None, command: Vec::new() }
    }

    fn by(self, eases: Eases) -> Self {
        Self { eases: Some(eases), ..self }
    }
}

/// What would help against owners.
pub(super) fn helps(known: &Known<'_>, bound: &Bound<'_>) -> Vec<Help> {
    let help = |owner: &Shared| {
        let rule = rule(owner, known.recording)?;
        let arrives = bound.of_steps(owner.ns, |step| is_its(owner, step, bound));
        Some(told(rule, owner, arrives, known.ready_ns))
    };
    let theirs = |owner: &Shared| match bound.observer() {
        Some(observer) => without(owner, observer),
        None => Some(owner.clone()),
    };
    let (faults, rest): (Vec<_>, Vec<_>) = known.owners.iter().filter_map(theirs).partition(is_page_fault);
    rest.iter().filter_map(help).chain(page_faults(&faults, known, bound)).collect()
}

fn is_page_fault(owner: &Shared) -> bool {
    matches!(&owner.what, Does::Kernel { request: Some(request), .. } if request == "page fault")
}

/// Page faults of all functions together: each has few, and one remedy is all theirs. Their samples are independent,
/// so the squares of what each may be off add up.
fn page_faults(faults: &[Shared], known: &Known<'_>, bound: &Bound<'_>) -> Option<Help> {
    let most = faults.iter().max_by_key(|owner| owner.ns)?;
    let ns: u64 = faults.iter().map(|owner| owner.ns).sum();
    let off = |end: fn(&Shared) -> Option<u64>| {
        let squares = faults.iter().map(|owner| end(owner).map(|end| (end.abs_diff(owner.ns) as f64).powi(2)));
        squares.sum::<Option<f64>>().map(|squares| squares.sqrt() as u64)
    };
    let mut all = most.clone();
    all.ns = ns;
    all.low_ns = off(|owner| owner.low_ns).map(|off| ns.saturating_sub(off));
    all.high_ns = off(|owner| owner.high_ns).map(|off| ns + off);
    let arrives = bound.of_steps(ns, |step| faults.iter().any(|owner| is_its(owner, step, bound)));
    let mut help = told(rule(&all, known.recording)?, &all, arrives, known.ready_ns);
    if faults.len() > 1 {
        let (time, thread, text) = (Nanos(ns), &most.thread, &most.text);
        help.owner =
            format!("page faults in memory take {time} together; most of {}: thread '{thread}' {text}", faults.len());
    }
    Some(help)
}

/// An owner without the time of who looks on, and without what that took from the program; `None`: nothing is left.
fn without(owner: &Shared, observer: &str) -> Option<Shared> {
    let is_observer =
        |name: &str| name.strip_prefix(observer).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
    if is_observer(&owner.thread) {
        return None;
    }
    let mut rest = owner.clone();
    rest.takers.retain(|taker| !is_observer(&taker.name));
    let taken: u64 = owner.takers.iter().filter(|taker| is_observer(&taker.name)).map(|taker| taker.ns).sum();
    rest.ns = owner.ns.saturating_sub(taken);
    (rest.ns > 0).then_some(rest)
}

fn told(rule: Rule, owner: &Shared, arrives: Arrives, ready_ns: u64) -> Help {
    // Nothing gains more than the whole start takes, however wide an interval of few starts is.
    let most = if arrives.ns < owner.ns { arrives.ns } else { ready_ns.max(owner.ns) };
    let cut = |end: u64| end.min(most);
    let how = match arrives.ns < owner.ns {
        true => format!("{}, cut: more would uncover another wait", rule.how),
        false => rule.how.to_owned(),
    };
    Help {
        what: rule.what,
        owner: format!("thread '{}' {}", owner.thread, owner.text),
        gain_ns: arrives.ns,
        low_ns: owner.low_ns.map(cut),
        high_ns: owner.high_ns.map(cut),
        is_at_most: rule.is_at_most || arrives.is_cut,
        how,
        eases: rule.eases,
        command: rule.command,
    }
}

/// Whether a step of the path may be this owner's.
fn is_its(owner: &Shared, step: &StepRow, bound: &Bound<'_>) -> bool {
    bound.name(step) == owner.thread
        && match &owner.what {
            Does::Waits { kind, .. } => step.state == LaneState::Waits(*kind),
            Does::Cpu { .. } | Does::CpuOfOthers => step.state == LaneState::LacksCpu,
            Does::User { .. } | Does::Kernel { .. } | Does::Runs => step.state == LaneState::Runs,
            Does::Other { .. } | Does::Notices => true,
            Does::Unexplained { .. } => step.state == LaneState::Unknown,
        }
}

fn rule(owner: &Shared, recording: &str) -> Option<Rule> {
    match &owner.what {
        Does::Waits { kind, .. } => wait(*kind, recording),
        Does::Cpu { ran: Ran::Thread(_), name } => Some(Rule::removes(format!(
            "let its own thread '{name}' run later, or after the others (nice), or on another CPU"
        ))),
        Does::CpuOfOthers => {
            let names = owner.takers.iter().take(2).map(|taker| taker.name.as_str());
            let names: Vec<&str> = names.collect();
            let who = if names.is_empty() { "other programs".to_owned() } else { names.join(" and ") };
            Some(Rule::removes(match owner.takers.iter().all(|taker| is_kernel_thread(&taker.name)) {
                true => format!("give the program another CPU than the kernel's threads have (taskset): {who}"),
                false => format!("keep {who} from this CPU meanwhile (taskset, a CPU set, a lower weight)"),
            }))
        }
        Does::Kernel { request: Some(request), .. } if request == "page fault" => {
            let what = "touch fewer pages: fewer relocations, less memory that is only initialised, larger pages";
            Some(Rule::eases(what).by(Eases::PageFaults))
        }
        Does::Kernel { request: Some(request), .. } if MEMORY.contains(&&**request) && !is_of_loader(owner) => {
            let what = "ask the kernel for memory less often: in larger steps, from fewer arenas of the allocator";
            Some(Rule::eases(what).by(Eases::MemoryCalls))
        }
        Does::User { object, function, .. }
            if is_loader(object) && binds(function.as_deref()) && !is_of_loader(owner) =>
        {
            let what = "look up functions while libraries are loaded, not at their first calls (LD_BIND_NOW=1, -z now)";
            Some(Rule::eases(what).by(Eases::LateBinding))
        }
        Does::Other { .. } => Some(Rule::removes(format!("ask {} earlier, or do not wait for it", owner.thread))),
        Does::Cpu { .. }
        | Does::Kernel { .. }
        | Does::User { .. }
        | Does::Runs
        | Does::Notices
        | Does::Unexplained { .. } => None,
    }
}

fn is_loader(object: &str) -> bool {
    object.rsplit('/').next().is_some_and(|name| name.starts_with("ld-"))
}

/// A loader that names none of its functions may open a library instead.
fn binds(function: Option<&str>) -> bool {
    function.is_none_or(|function| BINDS.iter().any(|name| function.starts_with(name)))
}

/// The loader does it, before main.
fn is_of_loader(owner: &Shared) -> bool {
    matches!(owner.phase, Some(Phase::Exec | Phase::Mapping | Phase::Relocation | Phase::Linker))
}

fn wait(kind: Kind, recording: &str) -> Option<Rule> {
    Some(match kind {
        Kind::Sleep => Rule::removes("remove this sleep: wait for what it waits for, if for anything"),
        Kind::Fsync => Rule::removes("do not sync here: later, or in a thread that nobody waits for"),
        Kind::DiskRead | Kind::PageFault => {
            let words = ["thaw", "preload", "make", recording, "-o", "app.preload"];
            let command = words.map(str::to_owned).to_vec();
            let rule = Rule::eases("have these files in memory before they are needed");
            Rule { how: "all the time that it has on the way; reading them earlier takes time too", command, ..rule }
        }
        Kind::DiskWrite => Rule::removes("write this after the program is ready"),
        Kind::Network => Rule::removes("do not wait for the network before the program is ready"),
        Kind::Lock | Kind::KernelLock | Kind::FileLock => Rule::eases("hold this lock for a shorter time"),
        Kind::Child | Kind::Vfork => Rule::eases("start this process earlier, or do not wait for it"),
        Kind::Pipe | Kind::UnixSocket => Rule::eases("ask for this earlier, or do not wait for it"),
        Kind::Memory => Rule::eases("leave more memory free"),
        Kind::FileServer => Rule::eases("have these files on a file system of the kernel's"),
        Kind::Poll
        | Kind::Signal
        | Kind::Terminal
        | Kind::Exec
        | Kind::Exit
        | Kind::IoUring
        | Kind::New
        | Kind::Other
        | Kind::Unknown => return None,
    })
}

/// What would help against waits of the program's threads for each other: the same time as that of owners, seen from
/// who waits. Waits that lie within each other count once.
pub(super) fn waits(bound: &Bound<'_>) -> Vec<Help> {
    let mut spans: BTreeMap<Pair<'_>, Vec<(u64, u64)>> = BTreeMap::new();
    for met in bound.met().filter(|met| met.woken.of_tree && met.waker.of_tree) {
        let (woken, waker) = (&met.woken.thread, &met.waker.thread);
        let whom = if woken.pid == waker.pid { Whom::Thread(met.kind) } else { Whom::Process };
        spans.entry((whom, &woken.name, &waker.name)).or_default().push((met.from_ns, met.to_ns));
    }
    spans.into_iter().map(|((whom, woken, waker), spans)| met(whom, woken, waker, spans)).collect()
}

/// Whom a thread waits for, by names: the thread's, and the other's.
type Pair<'a> = (Whom, &'a str, &'a str);

/// Whom a thread waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Whom {
    /// A thread of its own process, with this kind of wait.
    Thread(Kind),
    /// Another process, however it waits.
    Process,
}

fn met(whom: Whom, woken: &str, waker: &str, spans: Vec<(u64, u64)>) -> Help {
    let count = spans.len();
    let gain_ns = model::joined(spans).iter().map(|(from, to)| to - from).sum();
    let time = Nanos(gain_ns);
    let times = if count == 1 { "once".to_owned() } else { format!("{count} times") };
    let (what, owner) = match whom {
        Whom::Process => (
            format!("start processes of '{waker}' earlier, fewer of them, or do not wait for them"),
            format!("thread '{woken}' waits {time}, {times}, for what processes of '{waker}' do"),
        ),
        Whom::Thread(kind) => (
            format!("let '{woken}' go on without '{waker}': less work, or later"),
            format!("thread '{woken}' waits {time}, {times}, {}, until '{waker}' wakes it", kind.phrase()),
        ),
    };
    let how = "how long it waits on the way, in one start; the same time has owners of its own".to_owned();
    let (low_ns, high_ns, eases) = (None, None, None);
    Help { what, owner, gain_ns, low_ns, high_ns, is_at_most: true, how, eases, command: Vec::new() }
}
