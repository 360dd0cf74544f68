//! What owners and links are, in sentences. Pure.

use crate::callers::Caller;
use crate::path::{Doing, Ran, is_kernel_thread};
use crate::phase::Phase;
use crate::report::{BlockedRow, Does, EndedBy, LinkRow, Owner, Taker};
use crate::waits::Kind;
use model::Nanos;

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("code made at run time")
}

/// ", called by nap (a.c:3) < main".
fn called_by<'a>(callers: impl IntoIterator<Item = &'a Caller>) -> String {
    let names: Vec<String> = callers.into_iter().map(ToString::to_string).collect();
    if names.is_empty() { String::new() } else { format!(", called by {}", names.join(" < ")) }
}

/// So many of those who took a CPU have their names told, if there are more than one more.
const MOST_TAKERS: usize = 2;

/// "stress took", "other programs took (cc1 20 ms, ld 3 ms, 4 more)".
fn took(takers: &[Taker]) -> String {
    if takers.len() < 2 {
        return format!("{} took", takers.first().map_or("others", |only| &only.name));
    }
    let of_kernel = takers.iter().filter(|taker| is_kernel_thread(&taker.name)).count();
    let who = match of_kernel {
        0 => "other programs",
        all if all == takers.len() => "threads of the kernel",
        _ => "other programs and the kernel",
    };
    let told = if takers.len() == MOST_TAKERS + 1 { takers.len() } else { MOST_TAKERS };
    let mut names: Vec<String> =
        takers.iter().take(told).map(|taker| format!("{} {}", taker.name, Nanos(taker.ns))).collect();
    if takers.len() > told {
        names.push(format!("{} more", takers.len() - told));
    }
    format!("{who} took ({})", names.join(", "))
}

/// What an owner does, in a sentence without its thread.
pub fn owner(owner: &Owner) -> String {
    with_phase(owner, &format!(" {}", Nanos(owner.ns)))
}

/// The same without how long.
pub fn deed(owner: &Owner) -> String {
    with_phase(owner, "")
}

fn with_phase(owner: &Owner, time: &str) -> String {
    let mut text = does(owner, time);
    // Most of a program is in `main`.
    if let Some(phase) = owner.phase.as_ref().filter(|phase| **phase != Phase::Main) {
        text += &format!(" ({phase})");
    }
    text
}

/// `time` begins with a space or is empty.
fn does(owner: &Owner, time: &str) -> String {
    match &owner.what {
        Does::User { object, function, caller, .. } => {
            let function = function.as_deref().unwrap_or("functions without a name");
            format!("runs{time} in {function} of {}{}", file_name(object), called_by(caller))
        }
        Does::Kernel { request, caller } => {
            let request = request.as_ref().map_or_else(String::new, |request| format!(" for {request}"));
            format!("runs{time} in the kernel{request}{}", called_by(caller))
        }
        Does::Runs => format!("runs{time}, and no sample says where"),
        Does::CpuOfOthers => format!("waits for a CPU{time}, which {}", took(&owner.takers)),
        Does::Cpu { ran, name } => match ran {
            Ran::Thread(_) => format!("waits for a CPU{time}, which its own thread '{name}' took"),
            Ran::Idle => format!("waits for a CPU{time}, which was idle or waking up"),
            Ran::Unknown => format!("waits for a CPU{time}; who had it is not known"),
        },
        Does::Waits { kind, call, function, callers } => {
            let mut text = match kind {
                Kind::Sleep => format!("sleeps{time}"),
                kind => format!("waits{time} {}", kind.phrase()),
            };
            if let Some(function) = function {
                text += &format!(" in {function}");
            }
            if let Some(call) = call {
                text += &format!("{} {call}", if function.is_some() { " for" } else { " in" });
            }
            text + &called_by(callers)
        }
        Does::Other { doing } => {
            let name = &owner.thread.name;
            let who = if is_kernel_thread(name) { "the kernel's thread" } else { "another program," };
            let does = match doing {
                Doing::Runs => format!("runs{time}"),
                Doing::LacksCpu => format!("waits for a CPU{time}"),
                Doing::Waits => format!("waits{time}"),
            };
            format!("{who} {name}, {does} while it is waited for")
        }
        Does::Notices => format!("{time} from the sign of readiness until thaw saw it").trim_start().to_owned(),
        Does::Unexplained { why } if time.is_empty() => format!("is not explained: {why}"),
        Does::Unexplained { why } => format!("{} are not explained: {why}", time.trim_start()),
    }
}

/// What held up a thread, in a sentence.
pub fn blocked(row: &BlockedRow) -> String {
    let (time, thread) = (Nanos(row.ns), &row.thread.name);
    let often = if row.count > 1 { format!(" {} times,", row.count) } else { String::new() };
    let begins = match row.kind {
        Kind::Sleep => format!("thread '{thread}' sleeps{often} {time}"),
        kind => {
            let (who, ends) = match &row.ended {
                EndedBy::Thread { name, of_other_process: true } => (format!("process '{name}'"), true),
                EndedBy::Thread { name, .. } => (format!("thread '{name}'"), true),
                EndedBy::Program { name } => (format!("{name}, another program,"), true),
                EndedBy::Interrupt | EndedBy::Nobody => (String::new(), false),
            };
            let thing = if ends { thing(kind, row.is_condition, &who) } else { kind.phrase().to_owned() };
            format!("thread '{thread}' waits{often} {time} {thing}")
        }
    };
    let call = row.call.as_ref().map_or_else(String::new, |call| format!(" in {call}"));
    let mut text = begins + &call + &called_by(&row.callers);
    let did: Vec<String> = [(row.ran_ns, "ran"), (row.waited_ns, "waited"), (row.lacked_cpu_ns, "had no CPU")]
        .iter()
        .filter(|(ns, _)| *ns > 0)
        .map(|(ns, what)| format!("{what} {}", Nanos(*ns)))
        .collect();
    match &row.ended {
        EndedBy::Thread { name, .. } | EndedBy::Program { name } if !did.is_empty() => {
            text += &format!("; meanwhile that one {}", did.join(", "));
        }
        EndedBy::Nobody => text += ", until ready",
        _ => {}
    }
    text
}

/// What is waited for that a thread ends: `for a lock that thread 'x' holds`.
fn thing(kind: Kind, is_condition: bool, waker: &str) -> String {
    match kind {
        Kind::Lock if is_condition => format!("for a condition that {waker} tells"),
        Kind::Lock => format!("for a lock that {waker} holds"),
        Kind::KernelLock => format!("for a lock of the kernel that {waker} holds"),
        Kind::FileLock => format!("for a lock on a file that {waker} holds"),
        Kind::Pipe => format!("for a pipe, whose other end {waker} has"),
        Kind::UnixSocket => format!("for a local socket, whose other end {waker} has"),
        Kind::Network => format!("for a connection, whose other end {waker} has"),
        Kind::Child | Kind::Vfork => match waker.starts_with("process ") {
            true => format!("for {waker}"),
            false => format!("for the process of {waker}"),
        },
        Kind::Sleep => format!("for time to pass, which {waker} ends"),
        kind => format!("{}, until {waker} wakes it", kind.phrase()),
    }
}

/// Who waited for whom, in a sentence; `is_condition`: for a lock, the program waited for a condition.
pub fn link(row: &LinkRow, is_condition: bool) -> String {
    let (time, woken, waker) = (Nanos(row.ns), &row.woken.name, &row.waker.name);
    if row.kind == Kind::New {
        return format!("thread '{woken}' is made by thread '{waker}'");
    }
    format!("thread '{woken}' waits {time} {}", thing(row.kind, is_condition, &format!("thread '{waker}'")))
}
