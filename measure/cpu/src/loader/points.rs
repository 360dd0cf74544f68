//! Breakpoints in one address space, and how a thread gets past one that stays.

use os::ptrace::{Memory, Registers};
use os::tracer::{Event, Resume, Tracer, What};
use std::collections::HashMap;
use std::io;

const SIGTRAP: i32 = 5;
/// `int3`
const TRAP: u8 = 0xcc;

/// What a breakpoint is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// The loader's first instruction.
    LoaderEntry,
    /// The loader begins or ends a change of its list.
    DebugState,
    /// The program's first instruction.
    Entry,
    /// `__libc_start_main`.
    StartMain,
    /// main
    Main,
    /// An initialiser.
    Initialiser,
    /// What follows the call of one.
    Return,
    /// The C library's execve.
    Execve,
}

/// Breakpoints by address: what was there, and what for.
#[derive(Debug, Default)]
pub(super) struct Points(HashMap<u64, (u8, Vec<Want>)>);

impl Points {
    /// Forgets all: their memory is gone.
    pub fn forget(&mut self) {
        self.0.clear();
    }

    /// What the breakpoint at an address is for; empty: there is none.
    pub fn at(&self, address: u64) -> Vec<Want> {
        self.0.get(&address).map(|(_, wants)| wants.clone()).unwrap_or_default()
    }

    /// Plants one, or adds a reason to one.
    pub fn plant(&mut self, tracer: &Tracer, tid: i32, address: u64, want: Want) -> io::Result<()> {
        if let Some((_, wants)) = self.0.get_mut(&address) {
            wants.push(want);
            return Ok(());
        }
        let was = tracer.poke(tid, address, TRAP)?;
        self.0.insert(address, (was, vec![want]));
        Ok(())
    }

    /// Takes one reason away, and the breakpoint with its last one.
    pub fn remove(&mut self, tracer: &Tracer, tid: i32, address: u64, want: Want) -> io::Result<()> {
        let Some((was, wants)) = self.0.get_mut(&address) else { return Ok(()) };
        if let Some(place) = wants.iter().position(|found| *found == want) {
            wants.remove(place);
        }
        if wants.is_empty() {
            tracer.poke(tid, address, *was)?;
            self.0.remove(&address);
        }
        Ok(())
    }

    /// Cleans the copy of the memory that a forked child has.
    pub fn clean(&self, tracer: &Tracer, child: i32) -> io::Result<()> {
        for (address, (was, _)) in &self.0 {
            match tracer.poke(child, *address, *was) {
                // Not mapped any more.
                Err(error) if os::tracer::is_unmapped(&error) => {}
                done => drop(done?),
            }
        }
        Ok(())
    }

    /// Gets a thread past the breakpoint at `address`, on which it stands; returns a signal that it is to get. What
    /// functions mostly begin with is done here, so that the breakpoint need not be taken away meanwhile, when other
    /// threads would miss it.
    pub fn pass(
        &self,
        tracer: &mut Tracer,
        memory: &Memory,
        tid: i32,
        address: u64,
        mut registers: Registers,
    ) -> io::Result<i32> {
        let Some((was, _)) = self.0.get(&address) else { return Ok(0) };
        registers.rip = address;
        let mut code = [0; 5];
        let len = memory.read_mapped(address, &mut code);
        for (place, byte) in (address..).zip(&mut code) {
            *byte = self.0.get(&place).map_or(*byte, |(was, _)| *was);
        }
        if imitated(&code[..len], &mut registers, memory) {
            tracer.set_registers(tid, &registers)?;
            return Ok(0);
        }
        tracer.set_registers(tid, &registers)?;
        tracer.poke(tid, address, *was)?;
        match step(tracer, tid)? {
            Some(signal) => tracer.poke(tid, address, TRAP).map(|_| signal),
            // Its end is told by the next wait.
            None => Ok(0),
        }
    }
}

/// Does what the instruction at the beginning of `code` does, if it is one of a few; `rip` stands on it.
fn imitated(code: &[u8], registers: &mut Registers, memory: &Memory) -> bool {
    match code {
        // ret
        [0xc3, ..] => {
            let Ok(back) = memory.word(registers.rsp) else { return false };
            registers.rip = back;
            registers.rsp += 8;
        }
        // endbr64
        [0xf3, 0x0f, 0x1e, 0xfa, ..] => registers.rip += 4,
        // mov $number, %eax
        [0xb8, number @ ..] if number.len() == 4 => {
            registers.rax = number.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            registers.rip += 5;
        }
        _ => return false,
    }
    true
}

/// One instruction; the signal that came instead (0: none), `None`: it has ended.
fn step(tracer: &mut Tracer, tid: i32) -> io::Result<Option<i32>> {
    tracer.resume(tid, Resume::Step, 0)?;
    loop {
        let Event { what, .. } = tracer.wait_for(tid)?;
        match what {
            What::Signal(signal) => return Ok(Some(if signal == SIGTRAP { 0 } else { signal })),
            What::Ended => return Ok(None),
            // A group that stops, a thread that was asked to: the step is still to be made.
            _ => tracer.resume(tid, Resume::Step, 0)?,
        }
    }
}
