//! One address space: which code is mapped where, and the traps in it. Threads and vfork children share one; a forked
//! child has a copy, with the traps that are still in it.

use super::counted::{Armed, Code, Process};
use super::image::is_worthwhile;
use super::inject::Borrowed;
use super::library::Library;
use super::memory::Memory;
use super::module::{Hook, Module, ModuleId};
use os::process::Mapping;
use os::tracee::{TRAP, Tracee};
use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;

/// So much is read and written at once: it stays in the CPU's cache.
const WINDOW: u64 = 256 << 10;
/// From so many windows on, other threads help.
const WORTH_SHARING: u64 = 32;
const MOST_WORKERS: u64 = 4;
const PAGE: u64 = model::PAGE;

/// Code of a file in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Area {
    start: u64,
    end: u64,
    /// Of the file, at `start`.
    offset: u64,
    module: ModuleId,
    /// It is not the file that is mapped there, but its image.
    is_image: bool,
}

impl Area {
    /// Whether the other is a part of it.
    fn holds(&self, other: &Self) -> bool {
        self.module == other.module
            && self.start <= other.start
            && other.end <= self.end
            && self.offset.wrapping_add(other.start - self.start) == other.offset
    }
}

/// What was planted, for the report of costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Planted {
    /// Bytes of code that were rewritten.
    pub bytes: u64,
    /// How long it took.
    pub ns: u64,
}

/// What a trap of ours is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The file.
    pub module: ModuleId,
    /// Offset in it.
    pub offset: u64,
    /// The function that begins there.
    pub function: Option<usize>,
    /// What the tracer wanted to know.
    pub hook: Option<Hook>,
    /// The byte that belongs there.
    pub original: u8,
}

/// What is known of the program's SIGTRAP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapAction {
    /// The default: it ends the program.
    Default,
    /// It is ignored.
    Ignored,
    /// The handler's address.
    Handler(u64),
}

/// An address space.
#[derive(Debug)]
pub struct Space {
    memory: Memory,
    areas: Vec<Area>,
    /// Addresses of functions that have no trap because memory is not what the file says.
    left_out: HashSet<u64>,
    /// Entries that count calls.
    armed: Armed,
    /// Threads that live in it.
    pub users: usize,
    /// Its loader is still at work: the program's own first instruction was not run.
    pub loading: bool,
    /// Every system call is looked at, since nothing else says when code is mapped.
    pub stepping: bool,
    /// What the program wants to happen on SIGTRAP.
    pub trap_action: TrapAction,
    /// 32-bit program.
    pub is_32: bool,
    /// Its number in the logs of images.
    pub number: u32,
    /// Where it holds that number, for each image.
    numbers: Vec<u64>,
}

impl Space {
    /// Of a thread that has just called exec, or that was just attached.
    pub fn new(tracee: Tracee) -> Self {
        Self {
            number: 0,
            numbers: Vec::new(),
            memory: Memory::of(tracee),
            areas: Vec::new(),
            left_out: HashSet::new(),
            armed: Armed::default(),
            users: 1,
            loading: false,
            stepping: false,
            trap_action: TrapAction::Default,
            is_32: false,
        }
    }

    /// The copy that a forked child has.
    pub fn forked(&self, child: Tracee) -> Self {
        Self {
            memory: Memory::of(child),
            areas: self.areas.clone(),
            left_out: self.left_out.clone(),
            armed: self.armed.clone(),
            users: 1,
            loading: self.loading,
            stepping: self.stepping,
            trap_action: self.trap_action,
            is_32: self.is_32,
            number: self.number,
            numbers: self.numbers.clone(),
        }
    }

    /// It has this number from now on, and says so to the stubs that run in it.
    pub fn set_number(&mut self, tracee: Tracee, number: u32) {
        self.number = number;
        for place in self.numbers.iter().copied().chain(self.armed.numbers()) {
            // It may have unmapped the place, or be gone: its calls are noted as its parent's then.
            let _ = self.memory.write(tracee, place, &number.to_le_bytes());
        }
    }

    /// Memory, for the loader's and the program's own data.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Looks at what is mapped now, plants traps in what is new, forgets what is gone.
    pub fn look(&mut self, tracee: Tracee, library: &mut Library, notes: &mut Vec<String>) -> io::Result<Planted> {
        let began = os::spawn::monotonic_ns();
        let mut planted = Planted::default();
        let mappings = os::process::maps(tracee.0.cast_unsigned())?;
        let mut areas = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.permissions.contains('x')) {
            if library.tallies().any(|(_, tally)| tally.inode() == (mapping.dev, mapping.ino)) {
                continue;
            }
            let image = library.images().find(|(_, image)| image.inode() == (mapping.dev, mapping.ino));
            let (module, offset, is_image) = match image {
                Some((module, image)) => match image.offset_in_file(mapping.offset) {
                    Some(offset) => (module, offset, true),
                    // What the entries jump to.
                    None => continue,
                },
                None => (library.of(tracee, mapping, notes), mapping.offset, false),
            };
            areas.push(Area { start: mapping.start, end: mapping.end, offset, module, is_image });
        }
        areas.sort_by_key(|area| area.start);
        let before = std::mem::replace(&mut self.areas, areas);
        let is_new = |area: &Area| !area.is_image && !before.iter().any(|known| known.holds(area));
        let is_gone = |area: &&Area| !self.areas.iter().any(|now| area.holds(now) || now.holds(area));
        for gone in before.iter().filter(is_gone) {
            self.armed.forget(gone.start, gone.end);
        }
        for area in self.areas.iter().filter(|area| is_new(area)).cloned().collect::<Vec<_>>() {
            self.left_out.retain(|address| !(area.start..area.end).contains(address));
            let parts = self.map_image(tracee, &area, library, &mappings).unwrap_or_else(|| vec![area.clone()]);
            for part in parts {
                match self.plant(tracee, &part, library) {
                    Ok(bytes) => planted.bytes += bytes,
                    Err(error) => {
                        let shown = model::shown(&library.get(area.module).path);
                        notes.push(format!("functions of {shown}: its code cannot be changed ({error})"));
                    }
                }
            }
            planted.bytes += self.arm(tracee, &area, library, &mappings, notes);
        }
        planted.ns = os::spawn::monotonic_ns() - began;
        Ok(planted)
    }

    /// Arms the functions of an area whose calls are counted. Returns the bytes written.
    fn arm(
        &mut self,
        tracee: Tracee,
        area: &Area,
        library: &mut Library,
        maps: &[Mapping],
        notes: &mut Vec<String>,
    ) -> u64 {
        if library.get(area.module).chosen.is_empty() {
            return 0;
        }
        let instruction = forbids_mappings(tracee)
            .map_or_else(|| self.code_of([0x0f, 0x05], library).ok_or("it has no instruction for a system call"), Err);
        let process = Process { tracee, memory: &self.memory, maps, number: self.number, instruction };
        let code = Code { start: area.start, end: area.end, offset: area.offset, module: area.module };
        self.armed.arm(code, &process, library, notes).unwrap_or_else(|error| {
            let shown = model::shown(&library.get(area.module).path);
            notes.push(format!("calls of functions of {shown}: its code cannot be changed ({error})"));
            0
        })
    }

    /// Where the instruction is that lies under a breakpoint which counts; `None`: nowhere else.
    pub fn piece(&self, address: u64) -> Option<u64> {
        self.armed.piece(address)
    }

    /// What is mapped: from where, to where, and which offset of which file is at the first.
    pub fn code(&self) -> impl Iterator<Item = Code> {
        self.areas.iter().map(|area| Code {
            start: area.start,
            end: area.end,
            offset: area.offset,
            module: area.module,
        })
    }

    /// Number of it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Maps the image of a module in place of an area; what is left for breakpoints. `None`: all of it.
    fn map_image(&mut self, tracee: Tracee, area: &Area, library: &mut Library, maps: &[Mapping]) -> Option<Vec<Area>> {
        let len = area.end - area.start;
        if library.counting().is_some()
            || !is_worthwhile(library.get(area.module), area.offset, len)
            || forbids_mappings(tracee).is_some()
        {
            return None;
        }
        let instruction = self.code_of([0x0f, 0x05], library)?;
        // Without memory there are breakpoints.
        let image = library.image_for(area.module, (area.offset, area.start, len), maps).ok()??;
        let wanted = image.mappings(area.start, maps)?;
        let mut borrowed = Borrowed::new(tracee, &self.memory, instruction).ok()?;
        let mapped = borrowed.map(&image.path(), &wanted, self.number);
        borrowed.give_back().ok()?;
        self.numbers.push(mapped.ok()?);
        let part = |from: u64, to: u64, is_image| Area {
            start: area.start + (from - area.offset),
            end: area.start + (to - area.offset),
            offset: from,
            module: area.module,
            is_image,
        };
        let (mut images, mut left, mut at) = (Vec::new(), Vec::new(), area.offset);
        for run in image.runs() {
            images.push(part(run.start, run.end, true));
            left.extend((at < run.start).then(|| part(at, run.start, false)));
            at = run.end;
        }
        left.extend((at < area.offset + len).then(|| part(at, area.offset + len, false)));
        self.areas.retain(|known| known != area);
        self.areas.extend(images.into_iter().chain(left.iter().cloned()));
        self.areas.sort_by_key(|area| area.start);
        Some(left)
    }

    /// Plants traps at the functions of an area that nobody has called yet. Large ones are shared among the CPUs: the
    /// program waits, so they have nothing else to do for it.
    fn plant(&mut self, tracee: Tracee, area: &Area, library: &Library) -> io::Result<u64> {
        let module = library.get(area.module);
        let windows = (area.end - area.start).div_ceil(WINDOW);
        let workers = if self.memory.is_file() && windows >= WORTH_SHARING {
            std::thread::available_parallelism().map_or(1, |count| count.get() as u64).min(MOST_WORKERS)
        } else {
            1
        };
        let share = windows.div_ceil(workers) * WINDOW;
        let parts = (0..workers).map(|worker| {
            let from = area.offset.saturating_add(worker * share);
            let to = from.saturating_add(share).min(area.offset.saturating_add(area.end - area.start));
            (from, to)
        });
        let memory = &self.memory;
        let plant = |(from, to)| plant_part(memory, tracee, area, module, from, to);
        let done: Vec<io::Result<(u64, Vec<u64>)>> = std::thread::scope(|scope| {
            let mut parts = parts.filter(|(from, to)| from < to);
            let first = parts.next();
            let others: Vec<_> = parts.map(|part| scope.spawn(move || plant(part))).collect();
            // Only this thread may use ptrace, and it is enough where there is one part.
            let first = first.map(plant);
            let joined =
                others.into_iter().map(|other| other.join().unwrap_or_else(|_| Err(io::Error::other("panicked"))));
            first.into_iter().chain(joined.collect::<Vec<_>>()).collect()
        });
        let mut written = 0;
        for part in done {
            let (bytes, left_out) = part?;
            written += bytes;
            self.left_out.extend(left_out);
        }
        Ok(written)
    }

    fn area_of(&self, address: u64) -> Option<&Area> {
        let after = self.areas.partition_point(|area| area.start <= address);
        self.areas.get(after.checked_sub(1)?).filter(|area| address < area.end)
    }

    /// Whether a trap at an address is one of ours.
    pub fn trap_at(&self, address: u64, library: &Library) -> Option<Trap> {
        let area = self.area_of(address)?;
        let offset = area.offset + (address - area.start);
        let module = library.get(area.module);
        let (function, hook) = (module.function_at(offset), module.hook_at(offset));
        if (function.is_none() && hook.is_none()) || self.left_out.contains(&address) {
            return None;
        }
        let original = module.byte(offset).filter(|byte| *byte != TRAP)?;
        Some(Trap { module: area.module, offset, function, hook, original })
    }

    /// Whether the trap at an address is in the code of a file: the program's own, as it was compiled.
    pub fn is_of_file(&self, address: u64, library: &Library) -> bool {
        let Some(area) = self.area_of(address) else { return false };
        let module = library.get(area.module);
        // What is no ELF file, as memory with a name, may hold a copy.
        !module.functions.is_empty() && module.byte(area.offset + (address - area.start)) == Some(TRAP)
    }

    /// Where its loader begins to relocate what it has mapped; `None`: nobody knows.
    pub fn relocating(&self, library: &Library) -> Option<u64> {
        self.areas.iter().find_map(|area| {
            let inside = library.get(area.module).hooks.relocating?.checked_sub(area.offset)?;
            let address = area.start.checked_add(inside)?;
            self.trap_at(address, library).is_some_and(|trap| trap.hook == Some(Hook::Relocating)).then_some(address)
        })
    }

    /// Whether a trap at an address says that the program calls `sigaction` for SIGTRAP.
    pub fn is_guard(&self, address: u64, library: &Library) -> bool {
        self.areas.iter().filter(|area| area.is_image).any(|area| {
            library.image(area.module).and_then(|image| image.guard(area.start, area.offset)) == Some(address)
        })
    }

    /// Whether a trap is at an address.
    pub fn is_trapped(&self, tracee: Tracee, address: u64) -> bool {
        let mut byte = [0];
        self.memory.read(tracee, address, &mut byte).is_ok() && byte == [TRAP]
    }

    /// Puts a byte of code back, or plants it again.
    pub fn set_byte(&self, tracee: Tracee, address: u64, byte: u8, library: &Library) -> io::Result<()> {
        if let Some(area) = self.area_of(address).filter(|area| area.is_image)
            && let Some(image) = library.image(area.module)
        {
            image.set_byte(area.offset + (address - area.start), byte);
            return Ok(());
        }
        self.memory.write(tracee, address, &[byte])
    }

    /// Takes away the other traps of a page at functions that were called already, by another process: a process that
    /// meets one of them is likely to meet its neighbours.
    pub fn sweep(&self, tracee: Tracee, address: u64, library: &Library) -> io::Result<()> {
        let Some(area) = self.area_of(address).filter(|area| !area.is_image) else { return Ok(()) };
        let (start, end) = ((address & !(PAGE - 1)).max(area.start), ((address | (PAGE - 1)) + 1).min(area.end));
        let from = area.offset + (start - area.start);
        let module = library.get(area.module);
        let mut page = vec![0; (end - start) as usize];
        self.memory.read(tracee, start, &mut page)?;
        let called = module.functions_in(from, from + (end - start)).filter(|function| module.is_called(*function));
        for offset in called.map(|function| module.functions[function].offset) {
            let at = start + (offset - from);
            if page[(offset - from) as usize] == TRAP
                && let Some(Trap { hook: None, original, .. }) = self.trap_at(at, library)
            {
                self.set_byte(tracee, at, original, library)?;
            }
        }
        Ok(())
    }

    /// The program that was executed, if its file is mapped.
    pub fn program(&self, tracee: Tracee, library: &Library) -> Option<ModuleId> {
        let exe = std::fs::metadata(format!("/proc/{}/exe", tracee.0)).ok()?;
        let by_inode = library.by_inode((exe.dev(), exe.ino()));
        // On btrfs `maps` shows the device of the volume, not of the subvolume.
        by_inode.or_else(|| {
            let path = std::fs::read_link(format!("/proc/{}/exe", tracee.0)).ok()?;
            let mut modules = self.areas.iter().map(|area| area.module);
            modules.find(|module| library.get(*module).path == path)
        })
    }

    /// The address of an instruction of two bytes in mapped code, where no trap lies in it.
    pub fn code_of(&self, instruction: [u8; 2], library: &Library) -> Option<u64> {
        self.areas.iter().find_map(|area| {
            let module = library.get(area.module);
            let code = module.bytes(area.offset, (area.end - area.start) as usize);
            let mut places =
                code.windows(2).enumerate().filter(|(_, two)| *two == instruction).map(|(at, _)| at as u64);
            let at = places.find(|at| {
                let offset = area.offset + at;
                let trapped = |offset| module.function_at(offset).is_some() || module.hook_at(offset).is_some();
                !trapped(offset) && !trapped(offset + 1) && !self.armed.covers(area.start + *at)
            })?;
            Some(area.start + at)
        })
    }
}

/// Why a process may make no system calls of ours, or not what they would map: a filter could kill it for them, what it
/// may map is limited, or its stacks are shadowed (`iretq` looks there).
fn forbids_mappings(tracee: Tracee) -> Option<&'static str> {
    let pid = tracee.0.cast_unsigned();
    let status = |key: &str| os::process::status_value(pid, key).unwrap_or_default();
    let tunables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let asks_for_shadows = tunables.windows(9).any(|part| part == b"x86_shstk");
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it sets nothing, and the out-pointer is valid for writes during the call.
    let told = unsafe { libc::prlimit(tracee.0, libc::RLIMIT_AS, std::ptr::null(), &raw mut limit) };
    match () {
        () if status("Seccomp") != "0" => Some("it has a filter of system calls"),
        () if status("x86_Thread_features").contains("shstk") || asks_for_shadows => Some("its stacks are shadowed"),
        () if told != 0 => Some("the kernel does not tell what limits its address space"),
        () if limit.rlim_cur != libc::RLIM_INFINITY => Some("its address space is limited"),
        () => None,
    }
}

/// Plants the functions of an area that begin between two offsets of the file. Pages without one are not written, so
/// that they stay shared with the page cache. Returns the bytes written, and the addresses where memory is not what the
/// file says.
fn plant_part(
    memory: &Memory,
    tracee: Tracee,
    area: &Area,
    module: &Module,
    begin: u64,
    end: u64,
) -> io::Result<(u64, Vec<u64>)> {
    let mut written = 0;
    let mut left_out = Vec::new();
    let mut window = Vec::new();
    let mut from = begin;
    while from < end {
        let to = end.min(from.saturating_add(WINDOW));
        let functions = module.functions_in(from, to);
        let hooks: Vec<u64> = module.hooked().filter(|offset| (from..to).contains(offset)).collect();
        if hooks.is_empty() && functions.clone().all(|function| module.is_called(function)) {
            from = to;
            continue;
        }
        let address = area.start + (from - area.offset);
        let file = module.bytes(from, (to - from) as usize);
        window.clear();
        window.extend_from_slice(file);
        memory.read_over(tracee, address, &mut window)?;
        let mut pages = vec![false; window.len().div_ceil(PAGE as usize)];
        let starts = functions.filter(|function| !module.is_called(*function));
        let offsets = starts.map(|function| module.functions[function].offset).chain(hooks);
        for at in offsets.map(|offset| (offset - from) as usize).filter(|at| *at < file.len()) {
            if window[at] == file[at] && file[at] != TRAP {
                window[at] = TRAP;
                pages[at / PAGE as usize] = true;
            } else if window[at] != TRAP {
                left_out.push(address + at as u64);
            }
        }
        written += write_pages(memory, tracee, address, &window, &pages)?;
        from = to;
    }
    Ok((written, left_out))
}

/// Writes the pages that have changed, neighbours together.
fn write_pages(memory: &Memory, tracee: Tracee, address: u64, window: &[u8], pages: &[bool]) -> io::Result<u64> {
    let mut written = 0;
    let mut page = 0;
    while page < pages.len() {
        let run = pages[page..].iter().take_while(|changed| **changed).count();
        if run == 0 {
            page += 1;
            continue;
        }
        let from = page * PAGE as usize;
        let to = ((page + run) * PAGE as usize).min(window.len());
        memory.write(tracee, address + from as u64, &window[from..to])?;
        written += (to - from) as u64;
        page += run;
    }
    Ok(written)
}
