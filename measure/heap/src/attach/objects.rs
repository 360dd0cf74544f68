//! The loaded objects of a running process: where their functions are, and who called whom on a stack.
//!
//! Everything is read from the files that are mapped, found through `/proc/PID/map_files` or the process's own root; they are hostile.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindSection,
};
use object::read::elf::ElfFile64;
use object::{Endianness, Object as _, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};
use os::mapped::Mapped;
use os::process::Mapping;
use os::ptrace::{Memory, Registers};
use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

type Elf<'a> = ElfFile64<'a, Endianness>;
type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Most frames of a stack that are looked at.
const FRAMES: usize = 256;
/// Registers that unwinding follows: the sixteen general ones and the return address.
const REGISTERS: usize = 17;
const RSP: usize = 7;
const RIP: usize = 16;

/// A mapped file.
#[derive(Debug)]
pub struct Loaded {
    /// As the process names it.
    pub path: PathBuf,
    /// First and last address of its mappings.
    pub range: Range<u64>,
    mapping: Mapping,
}

/// What a process has mapped, at one moment.
#[derive(Debug)]
pub struct Objects {
    pid: u32,
    /// In the order of their addresses.
    pub loaded: Vec<Loaded>,
    /// Contents, by path.
    files: HashMap<PathBuf, Option<Mapped>>,
}

/// One frame of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Where it is: the interrupted instruction, or a return address.
    pub pc: u64,
    /// Not a call but a signal brought what is further in, or it is the innermost frame: the instruction itself is what was interrupted.
    pub interrupted: bool,
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
        for mapping in os::process::maps(self.pid)? {
            match self
                .loaded
                .iter_mut()
                .rev()
                .find(|known| known.mapping.ino == mapping.ino && known.path == mapping.path)
            {
                Some(known) => known.range.end = known.range.end.max(mapping.end),
                // A library's first mapping has its ELF header.
                None if mapping.offset == 0 => {
                    self.loaded.push(Loaded { path: mapping.path.clone(), range: mapping.start..mapping.end, mapping })
                }
                None => {}
            }
        }
        Ok(())
    }

    /// The object whose file name fits.
    pub fn named(&self, fits: impl Fn(&str) -> bool) -> Option<&Loaded> {
        self.loaded.iter().find(|loaded| loaded.path.file_name().is_some_and(|name| fits(&name.to_string_lossy())))
    }

    /// The object at an address.
    pub fn at(&self, address: u64) -> Option<&Loaded> {
        self.loaded.iter().find(|loaded| loaded.range.contains(&address))
    }

    /// Keeps the contents of an object's file at hand.
    fn open(&mut self, path: &Path) {
        if self.files.contains_key(path) {
            return;
        }
        let found = self.loaded.iter().find(|loaded| loaded.path == path).and_then(|loaded| {
            let mapping = &loaded.mapping;
            let exact = format!("/proc/{}/map_files/{:x}-{:x}", self.pid, mapping.start, mapping.end);
            let by_name = format!("/proc/{}/root{}", self.pid, path.display());
            let file = File::open(exact).or_else(|_| File::open(by_name)).ok()?;
            let same = file.metadata().is_ok_and(|meta| meta.is_file() && meta.ino() == mapping.ino);
            if same { Mapped::of(&file) } else { None }
        });
        self.files.insert(path.to_owned(), found);
    }

    fn elf(&self, loaded: &Loaded) -> Option<(Elf<'_>, u64)> {
        let bytes: &[u8] = self.files.get(&loaded.path)?.as_ref()?;
        let elf = Elf::parse(bytes).ok()?;
        let first = elf.segments().find(|segment| segment.file_range().0 < 4096)?;
        let bias = loaded.range.start.wrapping_sub(first.address() & !4095);
        Some((elf, bias))
    }

    /// Where an object has functions or data of these names: address and size, in the order of the names.
    pub fn symbols(&mut self, path: &Path, names: &[&str]) -> Vec<Option<Range<u64>>> {
        self.open(path);
        let nothing = vec![None; names.len()];
        let Some(loaded) = self.loaded.iter().find(|loaded| loaded.path == path) else { return nothing };
        let Some((elf, bias)) = self.elf(loaded) else { return nothing };
        let mut found = nothing;
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
    pub fn code(&mut self, path: &Path, wanted: &[u8]) -> Option<u64> {
        self.open(path);
        let loaded = self.loaded.iter().find(|loaded| loaded.path == path)?;
        let (elf, bias) = self.elf(loaded)?;
        let text = elf.section_by_name(".text")?;
        let at = text.data().ok()?.windows(wanted.len()).position(|window| window == wanted)?;
        Some(bias.wrapping_add(text.address()).wrapping_add(at as u64))
    }

    /// The frames of a stopped thread, innermost first. It ends where the outermost function is reached or a rule is missing.
    pub fn walk(&mut self, memory: &Memory, registers: &Registers) -> Vec<Frame> {
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
        let mut frames = vec![Frame { pc: registers.rip, interrupted: true }];
        while frames.len() < FRAMES {
            let interrupted = frames.last().is_some_and(|frame| frame.interrupted);
            let mut code = [0_u8; 9];
            // rt_sigreturn: the kernel has put the registers of what was interrupted there.
            let next = if memory.read(state[RIP], &mut code).is_ok() && code == super::call::SIGRETURN {
                after_signal(memory, state[RSP]).map(|state| (state, true))
            } else {
                let pc = state[RIP].wrapping_sub(u64::from(!interrupted));
                self.step(memory, &mut context, pc, &state).map(|state| (state, false))
            };
            let Some((next, interrupted)) = next.filter(|(next, _)| next[RIP] != 0 && *next != state) else { break };
            state = next;
            frames.push(Frame { pc: state[RIP], interrupted });
        }
        frames
    }

    /// One frame outwards.
    fn step(
        &mut self,
        memory: &Memory,
        context: &mut UnwindContext<usize>,
        pc: u64,
        state: &[u64; REGISTERS],
    ) -> Option<[u64; REGISTERS]> {
        let path = self.at(pc)?.path.clone();
        self.open(&path);
        let loaded = self.at(pc)?;
        let (elf, bias) = self.elf(loaded)?;
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some((bias.wrapping_add(section.address()), Bytes::new(section.data().ok()?, LittleEndian)))
        };
        let (header_at, header) = section(".eh_frame_hdr")?;
        let (rules_at, rules) = section(".eh_frame")?;
        let bases = BaseAddresses::default().set_eh_frame_hdr(header_at).set_eh_frame(rules_at);
        let header = EhFrameHdr::from(header).parse(&bases, 8).ok()?;
        let mut rules = EhFrame::from(rules);
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
                Some(RegisterRule::Offset(offset)) => *place = memory.word(cfa.wrapping_add_signed(offset)).ok()?,
                Some(RegisterRule::ValOffset(offset)) => *place = cfa.wrapping_add_signed(offset),
                Some(RegisterRule::Register(other)) => *place = register(other)?,
                Some(RegisterRule::Expression(expression)) => {
                    *place = memory.word(evaluate(expression, Some(cfa))?).ok()?
                }
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
    memory: &Memory,
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
                let value = memory.word(address).ok()?;
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

/// The registers that the kernel keeps for a thread while its signal handler runs. `sp` is that of rt_sigreturn: the `ucontext`.
fn after_signal(memory: &Memory, sp: u64) -> Option<[u64; REGISTERS]> {
    /// r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip: by their numbers in DWARF.
    const ORDER: [usize; REGISTERS] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16];
    let mut bytes = [0; 8 * REGISTERS];
    memory.read(sp.checked_add(super::call::CONTEXT_REGISTERS)?, &mut bytes).ok()?;
    let mut state = [0; REGISTERS];
    for (word, number) in bytes.chunks_exact(8).zip(ORDER) {
        state[number] = u64::from_le_bytes(word.try_into().ok()?);
    }
    Some(state)
}
