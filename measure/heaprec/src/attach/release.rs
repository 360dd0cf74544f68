//! The end of a recording of a running process: no thread is in the guest any more, and the guest gives back what its
//! stream holds (mappings, descriptor).
//!
//! That makes system calls only, so any thread may be borrowed for it, and the others stay stopped meanwhile: some
//! tenths of a millisecond.

use super::call::Borrowed;
use super::objects::Still;
use super::safe::is_in_sequence;
use super::target::Target;
use super::{Guest, Room, TO_STOP, Ways, guest_symbols, loaded_guest, nanos, read_shared};
use crate::record::Pauses;
use heap_wire::attach::answer;
use os::ptrace::{self, Memory, Thread};
use std::ops::Range;
use std::time::{Duration, Instant};

/// What the guest needs of a stack, and the frame.
const STACK: u64 = 32 << 10;
/// A thread may be in the guest for long: behind it, its allocator waits for something. Then the stream stays mapped,
/// and the next recording releases it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does it for the process and its children; returns those that still hold their streams.
pub fn all(target: &mut Target, running: &[u32], stopped: &mut Pauses) -> Vec<u32> {
    // Libraries that came meanwhile are on its stacks too.
    if target.objects.look_again().is_err() {
        return running.to_vec();
    }
    let Ok(ways) = Ways::of(target) else { return running.to_vec() };
    let Some((path, range)) = loaded_guest(target) else { return running.to_vec() };
    let Ok(guest) = guest_symbols(target, &path) else { return running.to_vec() };
    let until = Instant::now() + PATIENCE;
    let mut held = Vec::new();
    for pid in running {
        loop {
            match ptrace::apart(|| release(target, *pid, &guest, &range, &ways, stopped)) {
                Some(true) => break,
                Some(false) if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
                _ => {
                    held.push(*pid);
                    break;
                }
            }
        }
    }
    held
}

/// `Some(false)`: another moment may do; `None`: none will. A child has the same objects in the same places as the
/// process that it was forked from.
fn release(
    target: &Target,
    pid: u32,
    guest: &Guest,
    range: &Range<u64>,
    ways: &Ways,
    stopped: &mut Pauses,
) -> Option<bool> {
    let memory = Memory::of(pid).ok()?;
    let began = Instant::now();
    let mut threads = ptrace::stop(pid, &[], TO_STOP).ok()?;
    let done = (|| {
        let still = Still::new(&memory);
        if threads.iter().any(|thread| is_in_guest(target, &still, range, thread)) {
            return Some(false);
        }
        let room = Room::of(pid, &std::fs::read(format!("/proc/{pid}/maps")).ok()?);
        let fits = |thread: &Thread| {
            let registers = thread.registers().ok()?;
            let fits = !thread.has_signal()
                && !is_in_sequence(thread, &registers, &still)
                && room.is_enough(thread, &registers, STACK);
            fits.then_some(())
        };
        let Some(index) = threads.iter().position(|thread| fits(thread).is_some()) else { return Some(false) };
        let mut borrowed = Borrowed::new(threads.get_mut(index)?, &memory, ways.sigreturn, None).ok()?;
        let called = borrowed.call(guest.detach, &[], 0);
        if !borrowed.is_lost() {
            borrowed.give_back().ok()?;
        }
        called.ok()?;
        let words = read_shared(&memory, guest.shared).ok()?;
        Some(words.answer == answer::NONE)
    })();
    drop(threads);
    if pid == target.pid {
        stopped.all(nanos(began));
    }
    done
}

fn is_in_guest(target: &Target, memory: &Still<'_>, guest: &Range<u64>, thread: &Thread) -> bool {
    /// Between a hook and the function behind it are a few words, pushed by a copy of the function's beginning.
    const BEGINNING: u64 = 16;
    let Ok(registers) = thread.registers() else { return false };
    let mut pushed = (0..BEGINNING).filter_map(|word| memory.word(registers.rsp.wrapping_add(8 * word)));
    let copied = target.objects.at(registers.rip).is_none() && pushed.any(|word| guest.contains(&word));
    copied || target.objects.walk(memory, &registers).iter().any(|frame| guest.contains(&frame.pc))
}
