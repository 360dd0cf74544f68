//! The loaded objects of a running process: where their functions are, and who called whom on a stack.
//!
//! Everything is read from the files that are mapped, found through `/proc/PID/map_files` or the process's own root;
//! they are hostile.
//!
//! Files are looked into by [`Objects::look_again`] only, while the process runs: each once, and what unwinding needs
//! of them is read into memory. While threads stand still, each page of theirs is read once ([`Still`]).

use elf::{Image, SectionHead, Segment};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection, ObjectSymbol, SymbolKind};
use os::mapped::Mapped;
use os::process::Mapping;
use os::ptrace::{Memory, Registers};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Elf<'a> = ElfFile64<'a, Endianness>;
type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Most frames of a stack that are looked at.
const FRAMES: usize = 256;
/// Registers that unwinding follows: the sixteen general ones and the return address.
const REGISTERS: usize = 17;
const RSP: usize = 7;
const RIP: usize = 16;
const PAGE: u64 = 4096;

/// An object whose code is mapped.
#[derive(Debug)]
pub struct Loaded {
    /// As the process names it.
    pub path: PathBuf,
    /// First and last address of its segments.
    pub range: Range<u64>,
    ino: u64,
    /// What was added to the addresses of its file.
    bias: u64,
    contents: Option<Arc<Contents>>,
}

/// A file, and what of it is looked at for every frame.
#[derive(Debug)]
struct Contents {
    bytes: Mapped,
    /// Those that are mapped.
    segments: Vec<Segment>,
    rules: Option<Rules>,
}

/// The sections of unwinding.
#[derive(Debug)]
struct Rules {
    header: Section,
    frames: Section,
}

/// Where a section is.
#[derive(Clone, Debug)]
struct Section {
    /// Before the bias.
    address: u64,
    /// In the file, and within it.
    bytes: Range<usize>,
}

/// What a process has mapped, at one moment.
#[derive(Debug)]
pub struct Objects {
    pid: u32,
    /// In the order of their addresses.
    pub loaded: Vec<Loaded>,
    /// By path and inode number; `None`: cannot be read.
    files: HashMap<(PathBuf, u64), Option<Arc<Contents>>>,
}

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackFrame {
    /// Where it is: the interrupted instruction, or a return address.
    pub pc: u64,
    /// Not a call but a signal brought what is further in, or it is the innermost frame: the instruction itself is
    /// what was interrupted.
    pub interrupted: bool,
}

impl Contents {
    fn of(pid: u32, mapping: &Mapping) -> Option<Self> {
        let exact = format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end);
        let by_name = format!("/proc/{pid}/root{}", mapping.path.display());
        // The name may have become a pipe's.
        let open = |path: &str| File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
        let file = open(&exact).or_else(|_| open(&by_name)).ok()?;
        let same = file.metadata().is_ok_and(|meta| meta.is_file() && meta.ino() == mapping.ino);
        let bytes = if same { Mapped::of(&file)? } else { return None };
        let image = Image::of(&*bytes).ok()?;
        let segments: Vec<Segment> = image.loads().cloned().collect();
        let section = |name: &str| Section::of(image.section(name)?, bytes.len());
        let rules = section(".eh_frame_hdr").zip(section(".eh_frame"));
        let rules = rules.map(|(header, frames)| Rules { header, frames });
        for section in rules.iter().flat_map(|rules| [&rules.header, &rules.frames]) {
            bytes.bring(section.bytes.clone());
        }
        Some(Self { bytes, segments, rules })
    }

    fn slice(&self, section: &Section) -> Bytes<'_> {
        Bytes::new(self.bytes.get(section.bytes.clone()).unwrap_or_default(), LittleEndian)
    }
}

/// The bias of an object one of whose pieces of code is mapped so, and where all of it is then.
fn place(segments: &[Segment], mapping: &Mapping) -> Option<(u64, Range<u64>)> {
    let page = |address: u64| address & !(PAGE - 1);
    let code = segments.iter().filter(|segment| segment.is_executable());
    let begun = code.filter(|segment| page(segment.offset) <= mapping.offset);
    let segment = begun.max_by_key(|segment| segment.offset)?;
    let begin = page(segment.address).wrapping_add(mapping.offset - page(segment.offset));
    let bias = mapping.start.wrapping_sub(begin);
    let start = segments.iter().map(|segment| page(segment.address)).min()?;
    let end = segments.iter().map(|segment| segment.address.saturating_add(segment.memory_len)).max()?;
    let range = start.wrapping_add(bias)..end.checked_next_multiple_of(PAGE)?.wrapping_add(bias);
    range.contains(&mapping.start).then_some((bias, range))
}

impl Section {
    fn of(head: &SectionHead, file: usize) -> Option<Self> {
        let start = usize::try_from(head.offset).ok()?;
        let end = start.checked_add(usize::try_from(head.len).ok()?)?;
        (head.in_file() && end <= file).then_some(Self { address: head.address, bytes: start..end })
    }
}

/// The memory of a process whose threads stand still: each page is read once.
#[derive(Debug)]
pub struct Still<'a> {
    memory: &'a Memory,
    /// By address; `None`: not mapped.
    pages: RefCell<HashMap<u64, Option<Box<[u8; PAGE as usize]>>>>,
}

impl<'a> Still<'a> {
    /// To be dropped before the threads go on.
    pub fn new(memory: &'a Memory) -> Self {
        Self { memory, pages: RefCell::default() }
    }

    /// Reads exactly so much; `None`: not all of it is mapped.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Option<()> {
        let mut pages = self.pages.borrow_mut();
        let (mut at, mut rest) = (address, buffer);
        while !rest.is_empty() {
            let page = at & !(PAGE - 1);
            let bytes = pages.entry(page).or_insert_with(|| {
                let mut bytes = Box::new([0; PAGE as usize]);
                self.memory.read(page, &mut *bytes).ok().map(|()| bytes)
            });
            let bytes = &bytes.as_deref()?[(at - page) as usize..];
            let (now, later) = rest.split_at_mut(rest.len().min(bytes.len()));
            now.copy_from_slice(&bytes[..now.len()]);
            at = at.checked_add(now.len() as u64)?;
            rest = later;
        }
        Some(())
    }

    /// Reads eight bytes; `None`: they are not mapped.
    pub fn word(&self, address: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.read(address, &mut word).map(|()| u64::from_le_bytes(word))
    }
}

/// Whether it may be a mapping of an object's code: programs that make code at run time map it as files of these names.
fn is_code(mapping: &Mapping) -> bool {
    let made = mapping.path.starts_with("/dev") || mapping.path.to_string_lossy().starts_with("/memfd:");
    mapping.permissions.contains('x') && !made
}

impl Objects {
    /// Looks at the maps.
    ///
    /// # Errors
    /// The process has ended, or may not be looked at.
    pub fn of(pid: u32) -> std::io::Result<Self> {
        let mut objects = Self { pid, loaded: Vec::new(), files: HashMap::new() };
        objects.look_again()?;
        Ok(objects)
    }

    /// Looks at the maps again; files that are known stay.
    ///
    /// # Errors
    /// The process has ended.
    pub fn look_again(&mut self) -> std::io::Result<()> {
        self.loaded.clear();
        for mapping in os::process::maps(self.pid)?.into_iter().filter(is_code) {
            // A file may be mapped a second time, to read in it: only where its code is, is the object.
            if self.knows(&mapping) {
                continue;
            }
            let key = (mapping.path.clone(), mapping.ino);
            let contents = self.files.entry(key).or_insert_with(|| Contents::of(self.pid, &mapping).map(Arc::new));
            let place = contents.as_ref().and_then(|contents| place(&contents.segments, &mapping));
            let (bias, range) = place.unwrap_or((mapping.start, mapping.start..mapping.end));
            let contents = contents.clone();
            self.loaded.push(Loaded { path: mapping.path, range, ino: mapping.ino, bias, contents });
        }
        Ok(())
    }

    fn knows(&self, mapping: &Mapping) -> bool {
        let mut same = self.loaded.iter().filter(|loaded| loaded.ino == mapping.ino && loaded.path == mapping.path);
        same.any(|loaded| loaded.range.contains(&mapping.start))
    }

    /// Whether the text of the maps has no code but that of these objects.
    pub fn are_all(&self, maps: &[u8]) -> bool {
        os::process::parse_maps(maps).iter().filter(|mapping| is_code(mapping)).all(|mapping| self.knows(mapping))
    }

    /// The object whose file name fits.
    pub fn named(&self, fits: impl Fn(&str) -> bool) -> Option<&Loaded> {
        self.loaded.iter().find(|loaded| loaded.path.file_name().is_some_and(|name| fits(&name.to_string_lossy())))
    }

    /// The object at an address.
    pub fn at(&self, address: u64) -> Option<&Loaded> {
        self.loaded.iter().find(|loaded| loaded.range.contains(&address))
    }

    fn elf(&self, path: &Path) -> Option<(Elf<'_>, u64)> {
        let loaded = self.loaded.iter().find(|loaded| loaded.path == path)?;
        Some((Elf::parse(&*loaded.contents.as_ref()?.bytes).ok()?, loaded.bias))
    }

    /// Where an object has functions or data of these names: address and size, in the order of the names.
    pub fn symbols(&self, path: &Path, names: &[&str]) -> Vec<Option<Range<u64>>> {
        let mut found = vec![None; names.len()];
        let Some((elf, bias)) = self.elf(path) else { return found };
        for symbol in elf.dynamic_symbols().filter(|symbol| symbol.is_definition()) {
            let wanted = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data | SymbolKind::Unknown);
            let Ok(name) = symbol.name() else { continue };
            let name = name.split('@').next().unwrap_or(name);
            if let Some(index) = names.iter().position(|wanted| *wanted == name).filter(|_| wanted) {
                let start = bias.wrapping_add(symbol.address());
                found[index].get_or_insert(start..start.wrapping_add(symbol.size().max(1)));
            }
        }
        found
    }

    /// Where bytes first occur in the code of an object.
    pub fn code(&self, path: &Path, wanted: &[u8]) -> Option<u64> {
        let (elf, bias) = self.elf(path)?;
        let text = elf.section_by_name(".text")?;
        let at = text.data().ok()?.windows(wanted.len()).position(|window| window == wanted)?;
        Some(bias.wrapping_add(text.address()).wrapping_add(at as u64))
    }

    /// The frames of a stopped thread, innermost first. It ends where the outermost function is reached or a rule is
    /// missing.
    pub fn walk(&self, memory: &Still<'_>, registers: &Registers) -> Vec<StackFrame> {
        let mut context = UnwindContext::new();
        let mut state = [
            registers.rax,
            registers.rdx,
            registers.rcx,
            registers.rbx,
            registers.rsi,
            registers.rdi,
            registers.rbp,
            registers.rsp,
            registers.r8,
            registers.r9,
            registers.r10,
            registers.r11,
            registers.r12,
            registers.r13,
            registers.r14,
            registers.r15,
            registers.rip,
        ];
        let mut frames = vec![StackFrame { pc: registers.rip, interrupted: true }];
        while frames.len() < FRAMES {
            let interrupted = frames.last().is_some_and(|frame| frame.interrupted);
            let mut code = [0_u8; 9];
            // rt_sigreturn: the kernel has put the registers of what was interrupted there.
            let next = if memory.read(state[RIP], &mut code).is_some() && code == super::call::SIGRETURN {
                after_signal(memory, state[RSP]).map(|state| (state, true))
            } else {
                let pc = state[RIP].wrapping_sub(u64::from(!interrupted));
                self.step(memory, &mut context, pc, &state).map(|state| (state, false))
            };
            let Some((next, interrupted)) = next.filter(|(next, _)| next[RIP] != 0 && *next != state) else { break };
            state = next;
            frames.push(StackFrame { pc: state[RIP], interrupted });
        }
        frames
    }

    /// One frame outwards.
    fn step(
        &self,
        memory: &Still<'_>,
        context: &mut UnwindContext<usize>,
        pc: u64,
        state: &[u64; REGISTERS],
    ) -> Option<[u64; REGISTERS]> {
        let Loaded { bias, contents, .. } = self.at(pc)?;
        let contents = contents.as_ref()?;
        let Rules { header, frames } = contents.rules.as_ref()?;
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(bias.wrapping_add(header.address))
            .set_eh_frame(bias.wrapping_add(frames.address));
        let header = EhFrameHdr::from(contents.slice(header)).parse(&bases, 8).ok()?;
        let mut rules = EhFrame::from(contents.slice(frames));
        rules.set_address_size(8);
        let table = header.table()?;
        let fde = table.fde_for_address(&rules, &bases, pc, EhFrame::cie_from_offset).ok()?;
        let row = fde.unwind_info_for_address(&rules, &bases, context, pc).ok()?;
        let evaluate = |expression: gimli::UnwindExpression<usize>, first: Option<u64>| {
            let expression = expression.get(&rules).ok()?;
            calculate(expression.evaluation(fde.cie().encoding()), memory, state, first)
        };
        let register = |register: Register| state.get(usize::from(register.0)).copied();
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register: base, offset } => register(*base)?.wrapping_add_signed(*offset),
            CfaRule::Expression(expression) => evaluate(*expression, None)?,
        };
        let mut next = *state;
        next[RSP] = cfa;
        next[RIP] = 0;
        for (number, place) in next.iter_mut().enumerate() {
            match row.register(Register(number as u16)) {
                Some(RegisterRule::Offset(offset)) => *place = memory.word(cfa.wrapping_add_signed(offset))?,
                Some(RegisterRule::ValOffset(offset)) => *place = cfa.wrapping_add_signed(offset),
                Some(RegisterRule::Register(other)) => *place = register(other)?,
                Some(RegisterRule::Expression(expression)) => *place = memory.word(evaluate(expression, Some(cfa))?)?,
                Some(RegisterRule::ValExpression(expression)) => *place = evaluate(expression, Some(cfa))?,
                Some(RegisterRule::Constant(value)) => *place = value,
                _ => {}
            }
        }
        Some(next)
    }
}

/// A DWARF expression of registers and memory.
fn calculate(
    mut evaluation: gimli::Evaluation<Bytes<'_>>,
    memory: &Still<'_>,
    state: &[u64; REGISTERS],
    first: Option<u64>,
) -> Option<u64> {
    use gimli::EvaluationResult as Wants;
    if let Some(first) = first {
        evaluation.set_initial_value(first);
    }
    evaluation.set_max_iterations(1000);
    let mut result = evaluation.evaluate().ok()?;
    loop {
        result = match result {
            Wants::Complete => break,
            Wants::RequiresRegister { register, .. } => {
                let value = state.get(usize::from(register.0)).copied()?;
                evaluation.resume_with_register(gimli::Value::Generic(value)).ok()?
            }
            Wants::RequiresMemory { address, size, .. } => {
                let value = memory.word(address)?;
                let bits = 8 * u32::from(size.clamp(1, 8));
                evaluation.resume_with_memory(gimli::Value::Generic(value & (u64::MAX >> (64 - bits)))).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.result().first()?.location {
        gimli::Location::Address { address } => Some(address),
        _ => None,
    }
}

/// The registers that the kernel keeps for a thread while its signal handler runs. `sp` is that of rt_sigreturn: the
/// `ucontext`.
fn after_signal(memory: &Still<'_>, sp: u64) -> Option<[u64; REGISTERS]> {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip: by their numbers in DWARF.
    const ORDER: [usize; REGISTERS] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    let mut bytes = [0; 8 * REGISTERS];
    memory.read(sp.checked_add(super::call::CONTEXT_REGISTERS)?, &mut bytes)?;
    let mut state = [0; REGISTERS];
    for (word, number) in bytes.chunks_exact(8).zip(ORDER) {
        state[number] = u64::from_le_bytes(word.try_into().ok()?);
    }
    Some(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::elf::{PF_R, PF_X, PT_LOAD};
    use os::ptrace;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn code_tells_where_an_object_is() {
        let segment = |offset, address, len, flags| Segment {
            kind: PT_LOAD,
            flags,
            offset,
            address,
            physical: address,
            file_len: len,
            memory_len: len,
            align: PAGE,
        };
        // As lld has it: two segments share a page of the file.
        let segments = [
            segment(0, 0, 0x1800, PF_R),
            segment(0x1800, 0x2800, 0x1d00, PF_R | PF_X),
            segment(0x3500, 0x5500, 0x100, PF_R | PF_X),
        ];
        let mapped = |start: u64, len: u64, offset| {
            let (permissions, path) = ("r-xp".to_owned(), PathBuf::from("/lib/some.so"));
            let mapping =
                Mapping { start, end: start + len, permissions, offset, dev: 0, ino: 1, path, deleted: false };
            place(&segments, &mapping)
        };
        let there = Some((0x7f00_0000, 0x7f00_0000..0x7f00_6000));
        assert_eq!(mapped(0x7f00_2000, 0x3000, 0x1000), there);
        assert_eq!(mapped(0x7f00_5000, 0x1000, 0x3000), there);
        assert_eq!(mapped(0x7f00_3000, 0x1000, 0x2000), there, "a part with a protection of its own");
        assert_eq!(mapped(0x7f00_0000, 0x1000, 0), None);
    }

    #[test]
    fn pages_are_read_once_and_nothing_is_parsed_while_threads_stand_still() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        // It waits for its input.
        while os::process::comm(pid).as_deref() != Some("cat") || os::process::stat(pid).unwrap().state != 'S' {
            std::thread::sleep(Duration::from_millis(1));
        }
        let objects = Objects::of(pid).unwrap();
        ptrace::apart(|| {
            let threads = ptrace::stop(pid, &[], Duration::from_secs(5)).unwrap();
            let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap();
            assert!(objects.are_all(&maps));
            let (memory, registers) = (Memory::of(pid).unwrap(), threads[0].registers().unwrap());
            let still = Still::new(&memory);
            let frames = objects.walk(&still, &registers);
            let read = still.pages.borrow().len();
            // Of read: main, two of the C library's, _start.
            assert!(frames.len() >= 4, "{frames:x?}");
            assert!(read <= frames.len() + 4, "{read} pages for {} frames", frames.len());
            for _ in 0..100 {
                assert_eq!(objects.walk(&still, &registers), frames);
            }
            assert_eq!(still.pages.borrow().len(), read);
        });
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
