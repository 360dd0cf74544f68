//! Where in an address space entries are armed to count calls, and where the stubs are that they jump to. A forked
//! child has a copy of all of it.

use super::chosen::Chosen;
use super::count_stub::{self, STUB_HEAD};
use super::displaced::{self, HEAD, MOST};
use super::image::{Wanted, What};
use super::inject::Borrowed;
use super::library::Library;
use super::memory::Memory;
use super::module::{Module, ModuleId};
use super::stub::jump;
use super::tally::Tally;
use os::process::Mapping;
use os::tracee::{TRAP, Tracee};
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// Code of a file that a stopped process has mapped.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// From where.
    pub start: u64,
    /// To where.
    pub end: u64,
    /// Of the file, at `start`.
    pub offset: u64,
    /// The file.
    pub module: ModuleId,
}

/// A stopped process.
pub struct Process<'a> {
    /// One of its threads.
    pub tracee: Tracee,
    /// What it has in memory.
    pub memory: &'a Memory,
    /// What it has mapped.
    pub maps: &'a [Mapping],
    /// Number of its address space.
    pub number: u32,
    /// An instruction that makes system calls; or why it may make none for us.
    pub instruction: Result<u64, &'static str>,
}

/// Stubs of a piece of code.
#[derive(Clone, Copy, Debug)]
struct Stubs {
    code: Code,
    view: u64,
    len: u64,
    /// The code is not mapped any more.
    is_free: bool,
}

/// What is armed in an address space.
#[derive(Clone, Debug, Default)]
pub struct Armed {
    stubs: Vec<Stubs>,
    /// Entries, and for those with a breakpoint where the instruction is that it lies on.
    entries: HashMap<u64, Option<u64>>,
}

impl Armed {
    /// Where the instruction is that lies under a breakpoint of an address.
    pub fn piece(&self, address: u64) -> Option<u64> {
        self.entries.get(&address).copied().flatten()
    }

    /// Whether an address may be in what was changed of an entry.
    pub fn covers(&self, address: u64) -> bool {
        (0..HEAD as u64).any(|before| self.entries.contains_key(&address.wrapping_sub(before)))
    }

    /// Where the number of the address space stands.
    pub fn numbers(&self) -> impl Iterator<Item = u64> {
        self.stubs.iter().map(|stubs| stubs.view + Tally::number_at())
    }

    /// Code that is not mapped any more.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.entries.retain(|address, _| !(start..end).contains(address));
        for stubs in &mut self.stubs {
            stubs.is_free |= start < stubs.code.end && stubs.code.start < end;
        }
    }

    /// Arms the functions of a piece of code whose calls are counted. Returns the bytes that were written; what cannot
    /// be counted goes into the notes.
    ///
    /// # Errors
    /// Its code cannot be written.
    pub fn arm(
        &mut self,
        code: Code,
        process: &Process<'_>,
        library: &mut Library,
        notes: &mut Vec<String>,
    ) -> io::Result<u64> {
        let Code { start, end, offset, module } = code;
        let is_in = |module: &Module, chosen: &Chosen| {
            let at = module.functions[chosen.function].offset;
            (offset..offset + (end - start)).contains(&at) && !chosen.is_hook
        };
        let all = library.get(module);
        if !all.chosen.iter().any(|chosen| is_in(all, chosen)) {
            return Ok(0);
        }
        let view = if all.is_32 { None } else { self.view(code, process, library, notes) };
        let (module, tally) = (library.get(module), library.tally(module));
        let view = view.zip(tally);
        let mut stubs = Vec::new();
        let mut patches: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut armed = Vec::new();
        for (number, chosen) in module.chosen.iter().enumerate().filter(|(_, chosen)| is_in(module, chosen)) {
            let at = module.functions[chosen.function].offset;
            let address = start + (at - offset);
            if self.entries.contains_key(&address) {
                continue;
            }
            let head = module.bytes(at, HEAD);
            let place = view.map(|(view, tally)| (view + tally.stub_at(number) as u64, tally));
            let counted =
                place.and_then(|(place, tally)| Some((place, jump_to(chosen, number, head, address, place, tally)?)));
            let entry = match counted {
                Some((place, Jump { stub, jump, len })) if is_as_in_file(process, address, &head[..len]) => {
                    stubs.push((place, stub));
                    patches.push((address + (len - jump.len()) as u64, jump.to_vec()));
                    None
                }
                _ if !is_as_in_file(process, address, &head[..1]) => {
                    notes.push(format!(
                        "calls of {} in a process of {}: its code there is not what the file says",
                        chosen.name,
                        model::shown(&module.path)
                    ));
                    continue;
                }
                _ => {
                    patches.push((address, vec![TRAP]));
                    let piece = displaced::for_trap(head).ok();
                    let piece = place
                        .zip(piece)
                        .and_then(|((place, _), piece)| Some((place, displaced::moved(&piece, head, address, place)?)));
                    piece.map(|(place, bytes)| {
                        stubs.push((place, bytes));
                        place
                    })
                }
            };
            armed.push((address, entry));
        }
        let mut written = 0;
        if let Some((view, tally)) = view {
            let common = tally.common(process.number);
            written += write(process, view, &common)?;
            written += write_close(process, &stubs)?;
        }
        for (address, bytes) in &patches {
            written += write(process, *address, bytes)?;
        }
        self.entries.extend(armed);
        Ok(written)
    }

    /// Where the memory lies in which the calls are counted; `None`: only breakpoints count, and the notes say why.
    fn view(
        &mut self,
        code: Code,
        process: &Process<'_>,
        library: &mut Library,
        notes: &mut Vec<String>,
    ) -> Option<u64> {
        let view = library.make_tally(code.module).and_then(|()| {
            let tally = library.tally(code.module).ok_or("there is no memory")?;
            let known = self.stubs.iter_mut().find(|stubs| {
                let is_same = (stubs.code.start, stubs.code.end) == (code.start, code.end);
                stubs.code.module == code.module && (is_same || (stubs.is_free && reaches(stubs.view, code, tally)))
            });
            if let Some(stubs) = known {
                (stubs.code, stubs.is_free) = (code, false);
                return Ok(stubs.view);
            }
            // The mappings were read before the first of these was made.
            let taken: Vec<_> = self.stubs.iter().map(|stubs| stubs.view..stubs.view + stubs.len).collect();
            let view = map(code, process, tally, &taken)?;
            self.stubs.push(Stubs { code, view, len: tally.len().0, is_free: false });
            Ok(view)
        });
        view.map_err(|why| {
            let comm = os::process::comm(process.tracee.0.cast_unsigned()).unwrap_or_default();
            let shown = model::shown(&library.get(code.module).path);
            notes.push(format!(
                "calls of functions of {shown} in {comm} without a stop: {why}; they are counted by breakpoints"
            ));
        })
        .ok()
    }
}

/// Whether jumps from code reach a view that lies somewhere already.
fn reaches(view: u64, code: Code, tally: &Tally) -> bool {
    const FAR: u64 = (1 << 31) - (64 << 20);
    let end = view + tally.len().0;
    code.end.max(end) - code.start.min(view) < FAR
}

fn map(code: Code, process: &Process<'_>, tally: &Tally, taken: &[Range<u64>]) -> Result<u64, &'static str> {
    const REFUSED: &str = "the kernel does not let it map the memory of thaw";
    let instruction = process.instruction?;
    let view = tally.place((code.start, code.end), process.maps, taken).ok_or("there is no room near its code")?;
    let (len, of_code) = tally.len();
    let wanted = [
        Wanted { address: view, len, what: What::View, offset: 0 },
        Wanted { address: view, len: of_code, what: What::Copy, offset: 0 },
    ];
    let mut borrowed = Borrowed::new(process.tracee, process.memory, instruction).map_err(|_| REFUSED)?;
    let mapped = borrowed.map(&tally.path(), &wanted, process.number);
    borrowed.give_back().map_err(|_| REFUSED)?;
    mapped.map(|_| view).map_err(|_| REFUSED)
}

/// An entry that is a jump.
struct Jump {
    /// What it leads to.
    stub: Vec<u8>,
    /// The jump.
    jump: [u8; super::stub::JUMP],
    /// Bytes of the function up to its end.
    len: usize,
}

fn jump_to(chosen: &Chosen, number: usize, head: &[u8], address: u64, place: u64, tally: &Tally) -> Option<Jump> {
    let piece = chosen.jump.as_ref().ok()?;
    let mut stub = count_stub::stub(number, tally.stub_at(number), count_stub::code().1)?.to_vec();
    stub.extend(displaced::moved(piece, head, address, place + STUB_HEAD as u64)?);
    debug_assert!(stub.len() <= STUB_HEAD + MOST);
    let from = address + piece.skipped as u64;
    let jump = jump(from.cast_signed(), place.cast_signed())?;
    Some(Jump { stub, jump, len: piece.skipped + jump.len() })
}

fn is_as_in_file(process: &Process<'_>, address: u64, file: &[u8]) -> bool {
    let mut memory = vec![0; file.len()];
    process.memory.read(process.tracee, address, &mut memory).is_ok() && memory == file
}

fn write(process: &Process<'_>, address: u64, bytes: &[u8]) -> io::Result<u64> {
    process.memory.write(process.tracee, address, bytes)?;
    Ok(bytes.len() as u64)
}

/// Writes stubs, those of many neighbours at once; what lies between them is nobody's yet.
fn write_close(process: &Process<'_>, stubs: &[(u64, Vec<u8>)]) -> io::Result<u64> {
    const CLOSE: u64 = 512;
    let mut written = 0;
    let mut rest = stubs;
    while let [(from, _), ..] = rest {
        let mut piece: Vec<u8> = Vec::new();
        let mut count = 0;
        for (at, bytes) in rest {
            if *at > from + piece.len() as u64 + CLOSE {
                break;
            }
            piece.resize((at - from) as usize, TRAP);
            piece.extend(bytes);
            count += 1;
        }
        written += write(process, *from, &piece)?;
        rest = &rest[count..];
    }
    Ok(written)
}
