//! What it would bring to lay the called functions of a linked file together, and of which functions it can be proven
//! that they may be moved without their linker. Pure, and for any bytes.
//!
//! A function may be moved if all that has to be changed with it is known: its borders, what it refers to, and what
//! refers to it. Unwind data (`.eh_frame`) tell the borders. References are known where the linker kept the relocations
//! that it worked through (`--emit-relocs`). What assemblers resolve themselves has none: branches and addresses within
//! one section of an object file. These are found by decoding all code, and hold both of their ends where they are.
//! Where code has no unwind data, or cannot be decoded, any four bytes that would lead into a function hold it.
//!
//! What moves with a function and needs no proof: jumps within it, landing pads (`.gcc_except_table` counts from the
//! function's begin), symbols. Tables of jumps count from their own begin, which is not in the relocation: it is the
//! last place before that code refers to, if then an instruction begins wherever an entry leads to. What leaves no
//! trace is a distance between two functions that an assembler computed and put into data, and what means the end of a
//! function where another one begins. Compilers put neither into programs.

use crate::function::{Function, function_starts};
use elf::{Class, Image, Miss, Relocation, SectionHead, Segment, Symbol, SymbolTable};
use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use model::PAGE;
use object::elf::{EM_X86_64, SHF_EXECINSTR, STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, STT_TLS};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Why a function has to stay where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stays {
    /// Of all functions: the code is not that of x86-64.
    Processor,
    /// Of all functions: the linker kept no relocations of the code, so references within it cannot be known.
    NoRelocations,
    /// It has no unwind data: nobody knows where it ends.
    NoUnwindData,
    /// Its unwind data and those of another one overlap, or its symbol has another length.
    Borders,
    /// It lies in a section that is not for functions alone (`.init`), or was given a name.
    Section,
    /// A symbol that others can call lies inside of it.
    Entrance,
    /// It cannot be decoded: data lie among its code, or a relocation meets no operand.
    Data,
    /// It runs on into the next function, or may, or the one before runs on into it.
    RunsOn,
    /// A branch or an address that no relocation covers leads out of it or into it.
    Uncovered,
    /// A table of jumps leads to it in a way that is not understood.
    Table,
    /// Code without unwind data may lead into it.
    Unknown,
}

/// Functions that have to stay, by reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staying {
    /// Why. Of several reasons the first that was found.
    pub why: Stays,
    /// How many.
    pub functions: u64,
    /// How many of them were called.
    pub called: u64,
}

/// What laying the called functions together would bring.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relaid {
    /// Functions of the file.
    pub functions: u64,
    /// Of them, called.
    pub called: u64,
    /// Functions of which it is proven that they may be moved.
    pub movable: u64,
    /// Of them, called.
    pub called_movable: u64,
    /// Those that have to stay.
    pub stay: Vec<Staying>,
    /// Pages that called functions lie on.
    pub pages: u64,
    /// Pages that they would lie on if those that may be moved lay together, in the order of their first call, from the
    /// begin of a page on; `None`: no called one may be.
    pub pages_then: Option<u64>,
    /// Read requests for these pages, if nothing of them is in memory and each page that is missing is read with those
    /// around it; `None`: the read-ahead is not known.
    pub requests: Option<u64>,
    /// As many then.
    pub requests_then: Option<u64>,
}

/// Looks at a file of which functions were called: where they begin in it and how long they are, in the order of the
/// first calls. `read_ahead` is in bytes.
///
/// # Errors
/// It is not an ELF file, or its headers are damaged.
pub fn relaid(bytes: &[u8], calls: &[(u64, u64)], read_ahead: Option<u64>) -> Result<Relaid, Miss> {
    let image = Image::of(bytes)?;
    let starts = function_starts(bytes)?.functions;
    let parts = match Survey::of(&image, &starts) {
        Ok(survey) => survey.by_offset(),
        Err(why) => starts.iter().map(|it| Part::held(it.offset, it.len, why)).collect(),
    };
    Ok(sums(&parts, calls, read_ahead, bytes.len() as u64))
}

/// A function: addresses, or offsets in the file.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: u64,
    /// Behind its last byte; its begin if nobody knows.
    end: u64,
    /// What its place has to be a multiple of.
    align: u64,
    stays: Option<Stays>,
}

impl Part {
    fn held(start: u64, len: u64, why: Stays) -> Self {
        Self { start, end: start.saturating_add(len), align: 1, stays: Some(why) }
    }
}

fn sums(parts: &[Part], calls: &[(u64, u64)], read_ahead: Option<u64>, len: u64) -> Relaid {
    let by_start: HashMap<u64, &Part> = parts.iter().map(|part| (part.start, part)).collect();
    let called: BTreeSet<u64> = calls.iter().map(|(offset, _)| *offset).collect();
    let mut reasons: BTreeMap<Stays, (u64, u64)> = BTreeMap::new();
    let (mut movable, mut called_movable) = (0, 0);
    for part in parts {
        let is_called = u64::from(called.contains(&part.start));
        let (functions, of_called) = match part.stays {
            Some(why) => {
                let sums = reasons.entry(why).or_default();
                (&mut sums.0, &mut sums.1)
            }
            None => (&mut movable, &mut called_movable),
        };
        *functions += 1;
        *of_called += is_called;
    }
    // Behind all that is there, so far away that reading around one place does not bring the other.
    let begin = len.saturating_add(read_ahead.unwrap_or(0)).min(LONGEST_FILE).next_multiple_of(PAGE);
    let mut at = begin;
    let (mut now, mut then) = (Vec::new(), Vec::new());
    for (offset, len) in calls {
        let pages_of = |start: u64| start / PAGE..start.saturating_add((*len).clamp(1, LONGEST)).div_ceil(PAGE);
        now.push(pages_of(*offset));
        then.push(match by_start.get(offset).filter(|part| part.stays.is_none()) {
            Some(part) => {
                let start = at.next_multiple_of(part.align);
                at = start + (part.end - part.start);
                start / PAGE..at.div_ceil(PAGE)
            }
            None => pages_of(*offset),
        });
    }
    let pages = |places: &[Range<u64>]| places.iter().cloned().flatten().collect::<BTreeSet<u64>>().len() as u64;
    let requests = |places: &[Range<u64>]| read_ahead.map(|bytes| requests(places, (bytes / PAGE).max(1)));
    let moves = at > begin;
    Relaid {
        functions: parts.len() as u64,
        called: called_movable + reasons.values().map(|(_, called)| called).sum::<u64>(),
        movable,
        called_movable,
        stay: reasons.into_iter().map(|(why, (functions, called))| Staying { why, functions, called }).collect(),
        pages: pages(&now),
        pages_then: moves.then(|| pages(&then)),
        requests: requests(&now),
        requests_then: requests(&then).filter(|_| moves),
    }
}

/// Longer functions are those of a damaged recording.
const LONGEST: u64 = 1 << 26;
/// And longer files.
const LONGEST_FILE: u64 = 1 << 60;

/// How often something is read, if a page that is missing is read with half a window before and half behind it, as the
/// kernel does it for mapped files.
fn requests(places: &[Range<u64>], window: u64) -> u64 {
    // Where windows begin, all of which are as long.
    let mut there = BTreeSet::new();
    for page in places.iter().cloned().flatten() {
        let before = there.range(..=page).next_back();
        if before.is_none_or(|from| page - from >= window) {
            there.insert(page.saturating_sub(window / 2));
        }
    }
    there.len() as u64
}

/// A relocation that was kept, of data or code.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: u64,
    kind: u32,
    /// What it adds up to: symbol and addend; `None`: another file has the symbol, or it says nothing of addresses.
    target: Option<u64>,
    symbol: u32,
    /// The symbol is one of code.
    to_code: bool,
}

/// R_X86_64_64, R_X86_64_32, R_X86_64_32S: an address.
const ABSOLUTE: [u32; 3] = [1, 10, 11];
/// R_X86_64_PC32: a distance.
const NEAR: u32 = 2;
/// R_X86_64_PLT32: the same, or that to the linkage.
const CALL: u32 = 4;

/// Functions that end their program or leave by an exception, as compilers know them: nothing runs behind a call.
const ENDS: [&str; 18] = [
    "abort",
    "exit",
    "_exit",
    "_Exit",
    "quick_exit",
    "__stack_chk_fail",
    "__chk_fail",
    "__fortify_fail",
    "__assert_fail",
    "__assert",
    "_Unwind_Resume",
    "__cxa_throw",
    "__cxa_rethrow",
    "__cxa_throw_bad_array_new_length",
    "longjmp",
    "siglongjmp",
    "__clang_call_terminate",
    "_ZSt9terminatev",
];

/// All code of a file, by address.
struct Survey<'a> {
    image: &'a Image<&'a [u8]>,
    symbols: SymbolTable<'a>,
    /// By start, each once.
    parts: Vec<Part>,
    /// By address.
    kept: Vec<Kept>,
    /// Places in code at which an instruction would begin, if a table is understood: whether one does.
    wanted: BTreeMap<u64, bool>,
}

impl<'a> Survey<'a> {
    /// # Errors
    /// Why nothing is proven of any function.
    fn of(image: &'a Image<&'a [u8]>, starts: &[Function]) -> Result<Self, Stays> {
        if image.machine != EM_X86_64 || image.class != Class::Elf64 {
            return Err(Stays::Processor);
        }
        let symbols = image.all_symbols().ok_or(Stays::NoRelocations)?;
        let numbers = |wanted: fn(&SectionHead) -> bool| {
            (0..image.sections.len()).filter(move |number| wanted(&image.sections[*number]))
        };
        if !numbers(is_text).any(|number| image.kept_relocations(number).is_some()) {
            return Err(Stays::NoRelocations);
        }
        let relocations = numbers(SectionHead::is_loaded).filter_map(|number| image.kept_relocations(number)).flatten();
        // R_X86_64_NONE: it was worked off otherwise.
        let relocations = relocations.filter(|relocation| relocation.kind != 0);
        let mut kept: Vec<Kept> = relocations.map(|relocation| Kept::of(relocation, &symbols, image)).collect();
        kept.sort_by_key(|kept| kept.at);
        let mut survey = Self { image, symbols, parts: Vec::new(), kept, wanted: BTreeMap::new() };
        survey.borders(starts);
        survey.entrances();
        let tables = survey.tables();
        let blind = survey.decode();
        survey.judge(&tables);
        survey.look_into(&blind);
        Ok(survey)
    }

    /// In offsets of the file.
    fn by_offset(&self) -> Vec<Part> {
        let part = |part: &Part| {
            let start = self.image.offset_of(part.start, 1)?;
            Some(Part { start, end: start.saturating_add(part.end - part.start), ..*part })
        };
        self.parts.iter().filter_map(part).collect()
    }

    /// All functions, and what unwind data and sections say against some.
    fn borders(&mut self, starts: &[Function]) {
        let mut unwound = self.unwound();
        unwound.sort_unstable();
        let mut parts: BTreeMap<u64, Part> = BTreeMap::new();
        for Function { offset, len } in starts {
            let is_there = |load: &&Segment| load.is_executable() && (load.offset..).contains(offset);
            let load = self.image.loads().filter(is_there).find(|load| offset - load.offset < load.file_len);
            if let Some(start) = load.and_then(|load| load.address.checked_add(offset - load.offset)) {
                parts.insert(start, Part::held(start, *len, Stays::NoUnwindData));
            }
        }
        let mut before = 0;
        for (number, (start, end, landing)) in unwound.iter().enumerate() {
            let overlaps = *start < before || unwound.get(number + 1).is_some_and(|next| next.0 < *end);
            before = before.max(*end);
            let Some(section) = self.image.section_at(*start) else { continue };
            let stays = match () {
                () if overlaps => Some(Stays::Borders),
                () if !is_text(section) || *end > section.address.saturating_add(section.len) => Some(Stays::Section),
                // Landing pads count from elsewhere, and no relocation says from where.
                () if landing.is_some_and(|at| self.kept_in(at, at.saturating_add(9)).is_empty()) => {
                    Some(Stays::Uncovered)
                }
                () => None,
            };
            let align = 1 << start.trailing_zeros().min(section.align.max(1).ilog2());
            parts.insert(*start, Part { start: *start, end: *end, align, stays });
        }
        self.parts = parts.into_values().filter(|part| !self.is_linkage(part.start)).collect();
    }

    /// What unwind data tell of functions: begin, end, and where it stands from where on landing pads count, if that is
    /// not the begin.
    fn unwound(&self) -> Vec<(u64, u64, Option<u64>)> {
        let Some(section) = self.image.section(".eh_frame") else { return Vec::new() };
        let table = EhFrame::new(self.image.bytes_of(section).unwrap_or_default(), LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(section.address);
        let mut entries = table.entries(&bases);
        let mut found = Vec::new();
        // What is behind a damaged entry has no unwind data.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else { continue };
            let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else { continue };
            let (start, end) = (entry.initial_address(), entry.initial_address().saturating_add(entry.len()));
            let landing = match entry.lsda() {
                Some(gimli::Pointer::Direct(at)) if self.image.at(at, 1) == Some(&[0xff][..]) => None,
                other => other.map(gimli::Pointer::pointer),
            };
            if start < end && !entry.is_signal_trampoline() {
                found.push((start, end, landing));
            }
        }
        found
    }

    /// Symbols that say that there is more than one way in, or that a function is longer or shorter.
    fn entrances(&mut self) {
        for symbol in self.symbols.iter().filter(|symbol| is_of_code(symbol, self.image)) {
            let is_function = matches!(symbol.kind, STT_FUNC | STT_GNU_IFUNC);
            let Some(number) = self.part_at(symbol.address).filter(|_| is_function || symbol.bind != STB_LOCAL) else {
                continue;
            };
            let part = &mut self.parts[number];
            if symbol.address != part.start {
                part.stays.get_or_insert(Stays::Entrance);
            } else if is_function && symbol.len != 0 && symbol.len != part.end - part.start {
                part.stays.get_or_insert(Stays::Borders);
            }
        }
    }

    /// The function that an address is in.
    fn part_at(&self, address: u64) -> Option<usize> {
        let after = self.parts.partition_point(|part| part.start <= address);
        let found = after.checked_sub(1)?;
        (address < self.parts[found].end).then_some(found)
    }

    /// The function that ends at an address.
    fn part_before(&self, address: u64) -> Option<usize> {
        let before = self.parts.partition_point(|part| part.start < address).checked_sub(1)?;
        (self.parts[before].end == address).then_some(before)
    }

    /// Holds what an address is in; or what ends there: it may be the end that is meant.
    fn hold(&mut self, address: u64, why: Stays) {
        if let Some(number) = self.part_at(address).or_else(|| self.part_before(address)) {
            self.parts[number].stays.get_or_insert(why);
        }
    }

    fn kept_in(&self, from: u64, to: u64) -> &[Kept] {
        let start = self.kept.partition_point(|kept| kept.at < from);
        let len = self.kept[start..].iter().take_while(|kept| kept.at < to).count();
        &self.kept[start..start + len]
    }

    fn is_code(&self, address: u64) -> bool {
        self.image.section_at(address).is_some_and(|section| section.flags.contains(SHF_EXECINSTR))
    }

    /// Data that lead into code by their distance from somewhere. Other relocations that are not plain addresses hold
    /// what they lead to.
    fn tables(&mut self) -> Vec<Table> {
        // Places that code refers to, and from where.
        let mut begins: Vec<(u64, u64)> = Vec::new();
        for kept in self.kept.iter().filter(|kept| kept.kind == NEAR && self.is_code(kept.at)) {
            // What it counts from is behind its own four bytes.
            let begin = kept.target.and_then(|target| target.checked_add(4)).filter(|at| !self.is_code(*at));
            begins.extend(begin.map(|begin| (begin, kept.at)));
        }
        begins.sort_unstable();
        begins.dedup_by_key(|(begin, _)| *begin);
        let mut tables: Vec<Table> = Vec::new();
        let mut held = Vec::new();
        for kept in &self.kept {
            let Some(target) = kept.target.filter(|_| kept.to_code) else { continue };
            let Some(section) = self.image.section_at(kept.at) else { continue };
            let is_frame = section.name.starts_with(".eh_frame") || section.name.starts_with(".gcc_except_table");
            if section.flags.contains(SHF_EXECINSTR) || is_frame {
                continue;
            }
            match kept.kind {
                kind if ABSOLUTE.contains(&kind) => {
                    held.extend(self.part_at(target).is_none().then_some((target, Stays::Uncovered)));
                }
                NEAR => {
                    let last = begins.partition_point(|(begin, _)| *begin <= kept.at).checked_sub(1);
                    let (begin, user) = last.map_or((kept.at, kept.at), |last| begins[last]);
                    let (begin, user) = if begin < section.address { (kept.at, kept.at) } else { (begin, user) };
                    let entry = (target, target.wrapping_sub(kept.at - begin));
                    match tables.last_mut().filter(|table| table.begin == begin) {
                        Some(table) => table.entries.push(entry),
                        None => tables.push(Table { begin, user, entries: vec![entry] }),
                    }
                }
                _ => held.push((target, Stays::Table)),
            }
        }
        held.into_iter().for_each(|(target, why)| self.hold(target, why));
        let entries = tables.iter().flat_map(|table| &table.entries);
        self.wanted = entries.flat_map(|(one, other)| [(*one, false), (*other, false)]).collect();
        tables
    }

    /// Reads all functions. Returns code that could not be read: none of its references is known.
    fn decode(&mut self) -> Vec<Blind> {
        let mut blind = Vec::new();
        for number in 0..self.parts.len() {
            let Part { start, end, stays, .. } = self.parts[number];
            if stays == Some(Stays::NoUnwindData) {
                continue;
            }
            let mut outside = Vec::new();
            let ends = self.read(start, end, &mut outside);
            let why = match ends {
                Some(Ends::Well) => None,
                Some(Ends::RunsOn) => Some(Stays::RunsOn),
                None => Some(Stays::Data),
            };
            if let Some(why) = why {
                self.parts[number].stays.get_or_insert(why);
                self.hold_next(end);
            }
            if ends.is_none() {
                blind.push(Blind { from: start, to: end, is_read: false });
            }
            for target in outside {
                self.parts[number].stays.get_or_insert(Stays::Uncovered);
                self.hold(target, Stays::Uncovered);
            }
        }
        for (from, to) in self.gaps() {
            let mut outside = Vec::new();
            let is_read = matches!(self.read(from, to, &mut outside), Some(Ends::Well));
            if !is_read {
                self.hold_next(to);
            }
            outside.into_iter().for_each(|target| self.hold(target, Stays::Unknown));
            blind.push(Blind { from, to, is_read });
        }
        blind
    }

    /// Holds the first function from an address on: what is before it may run on into it.
    fn hold_next(&mut self, address: u64) {
        let next = self.parts.partition_point(|part| part.start < address);
        if let Some(part) = self.parts.get_mut(next) {
            part.stays.get_or_insert(Stays::RunsOn);
        }
    }

    /// Reads one function: what it refers to outside of itself without a relocation, and how it ends. `None`: it cannot
    /// be read.
    fn read(&mut self, start: u64, end: u64, outside: &mut Vec<u64>) -> Option<Ends> {
        let code = self.image.at(start, end - start)?;
        let mut decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        // What is run last, and the relocation of what it calls.
        let mut last = None;
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() {
                return None;
            }
            let at = instruction.ip();
            if let Some(found) = self.wanted.get_mut(&at) {
                *found = true;
            }
            let offsets = decoder.get_constant_offsets(&instruction);
            let displaced = offsets.has_displacement().then(|| at.wrapping_add(offsets.displacement_offset() as u64));
            let immediate = offsets.has_immediate().then(|| at.wrapping_add(offsets.immediate_offset() as u64));
            let covering = self.kept_in(at, instruction.next_ip());
            if covering.iter().any(|kept| ![displaced, immediate].contains(&Some(kept.at))) {
                return None;
            }
            let covers = |field: Option<u64>| covering.iter().find(|kept| Some(kept.at) == field);
            let is_branch = instruction.op0_kind() == OpKind::NearBranch64;
            let led = [
                (is_branch, instruction.near_branch_target(), immediate),
                (instruction.is_ip_rel_memory_operand(), instruction.ip_rel_memory_address(), displaced),
            ];
            for (_, target, field) in led.into_iter().filter(|(leads, ..)| *leads) {
                match covers(field) {
                    Some(kept) if self.disagrees(kept, target) => return None,
                    // What begins nowhere and is the end of a function may be the begin of what followed it.
                    Some(_) if self.part_at(target).is_some() || self.part_before(target).is_none() => {}
                    None if (start..end).contains(&target) => {}
                    None if self.is_linkage(target) => {}
                    _ => outside.push(target),
                }
            }
            if !is_nop(instruction.code()) {
                last = Some((instruction, covers(immediate).or(covers(displaced)).copied()));
            }
        }
        let ends = last.is_some_and(|(last, kept)| match last.flow_control() {
            FlowControl::Return
            | FlowControl::UnconditionalBranch
            | FlowControl::IndirectBranch
            | FlowControl::Exception
            | FlowControl::Interrupt => true,
            FlowControl::Call | FlowControl::IndirectCall => kept.is_some_and(|kept| self.ends_program(&kept)),
            _ => last.code() == Code::Hlt,
        });
        Some(if ends { Ends::Well } else { Ends::RunsOn })
    }

    /// Whether a plain relocation says something else than the code: then one of both is not understood.
    fn disagrees(&self, kept: &Kept, target: u64) -> bool {
        let way = self.image.at(kept.at, 4).and_then(|bytes| bytes.try_into().ok()).map(i32::from_le_bytes);
        let led = way.map(|way| kept.at.wrapping_add_signed(way.into()));
        matches!(kept.kind, NEAR | CALL) && kept.target.is_some() && kept.target != led && !self.is_linkage(target)
    }

    fn is_linkage(&self, address: u64) -> bool {
        self.image.section_at(address).is_some_and(|section| is_linkage(&section.name))
    }

    fn ends_program(&self, kept: &Kept) -> bool {
        let Some(symbol) = self.symbols.get(kept.symbol as usize) else { return false };
        let name = symbol.name.split(|byte| *byte == b'@').next().unwrap_or_default();
        // std::__throw_length_error and its kin.
        let throws = name.starts_with(b"_ZSt") && name.windows(8).any(|part| part == b"__throw_");
        throws || ENDS.iter().any(|known| known.as_bytes() == name)
    }

    /// Holds what tables lead to if it is not known whether they count from their begin or each entry from itself.
    fn judge(&mut self, tables: &[Table]) {
        for Table { user, entries, .. } in tables {
            let is_begin = |at: &u64| self.wanted.get(at) == Some(&true);
            let by_entry = entries.iter().all(|(one, _)| is_begin(one));
            let by_begin = entries.iter().all(|(_, other)| is_begin(other));
            let user = self.part_at(*user);
            let is_users = user.is_some() && entries.iter().all(|(_, other)| self.part_at(*other) == user);
            if by_entry != by_begin || (by_begin && is_users) {
                continue;
            }
            for (one, other) in entries {
                let [of_one, of_other] = [*one, *other].map(|at| self.part_at(at));
                if of_one.is_none() || of_one != of_other {
                    self.hold(*one, Stays::Table);
                    self.hold(*other, Stays::Table);
                }
            }
        }
    }

    /// Code that belongs to no function that was read.
    fn gaps(&self) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let known: Vec<&Part> = self.parts.iter().filter(|part| part.stays != Some(Stays::NoUnwindData)).collect();
        let code = self
            .image
            .loaded_sections()
            .filter(|section| section.flags.contains(SHF_EXECINSTR) && section.in_file() && !is_linkage(&section.name));
        for section in code {
            let (mut at, end) = (section.address, section.address.saturating_add(section.len));
            let first = known.partition_point(|part| part.start < at);
            for part in known[first..].iter().take_while(|part| part.start < end) {
                gaps.push((at, part.start.max(at)));
                at = at.max(part.end);
            }
            gaps.push((at.min(end), end));
        }
        gaps.retain(|(from, to)| from < to && !self.is_filler(*from, *to));
        gaps
    }

    fn is_filler(&self, from: u64, to: u64) -> bool {
        let Some(code) = self.image.at(from, to - from) else { return false };
        let mut decoder = Decoder::with_ip(64, code, from, DecoderOptions::NONE);
        while decoder.can_decode() {
            let at = decoder.position();
            let code_of = decoder.decode().code();
            if !is_nop(code_of) && code_of != Code::Int3 {
                return code[at..].iter().all(|byte| *byte == 0);
            }
        }
        true
    }

    /// Holds all functions that code without unwind data may lead into: each four bytes that no relocation has to do
    /// with are taken for a way, and each two for a short branch if it could not be read.
    fn look_into(&mut self, blind: &[Blind]) {
        for Blind { from, to, is_read } in blind {
            let Some(code) = self.image.at(*from, to - from) else { continue };
            let is_blind = |target: u64| (*from..*to).contains(&target);
            let mut targets = Vec::new();
            let fillers = fillers(code);
            for at in (0..code.len()).filter(|at| !fillers[*at]) {
                let place = from.wrapping_add(at as u64);
                let is_free = |len: u64| self.kept_in(place.saturating_sub(3), place.wrapping_add(len)).is_empty();
                if let Some(way) = code.get(at..at + 4).and_then(|bytes| bytes.try_into().ok())
                    && is_free(4)
                {
                    let way = i64::from(i32::from_le_bytes(way));
                    // What an address is relative to is behind the instruction, whose number may follow.
                    targets.extend([4, 5, 6, 8].map(|behind| place.wrapping_add(behind).wrapping_add_signed(way)));
                }
                if let (0x70..=0x7f | 0xe0..=0xe3 | 0xeb, Some(way)) = (code[at], code.get(at + 1))
                    && !is_read
                    && is_free(2)
                {
                    targets.push(place.wrapping_add(2).wrapping_add_signed(way.cast_signed().into()));
                }
            }
            targets.retain(|target| !is_blind(*target));
            targets.into_iter().for_each(|target| self.hold(target, Stays::Unknown));
        }
    }
}

/// Data that lead into code by distances.
struct Table {
    /// The last place before that code refers to.
    begin: u64,
    /// From where it does.
    user: u64,
    /// Where each entry leads to if it counts from itself, and if it counts from the begin.
    entries: Vec<(u64, u64)>,
}

/// Code of which nobody knows where its functions begin and end.
struct Blind {
    from: u64,
    to: u64,
    /// It can be read from its begin on.
    is_read: bool,
}

/// How the code of a function ends.
enum Ends {
    Well,
    RunsOn,
}

impl Kept {
    fn of(relocation: Relocation, symbols: &SymbolTable<'_>, image: &Image<&[u8]>) -> Self {
        let Relocation { offset, kind, symbol, addend } = relocation;
        let known = symbols.get(symbol as usize).filter(|symbol| symbol.is_defined());
        let known = known.filter(|symbol| !matches!(symbol.kind, STT_GNU_IFUNC | STT_TLS));
        let target = known.map(|symbol| symbol.address.wrapping_add_signed(addend));
        Self { at: offset, kind, target, symbol, to_code: known.is_some_and(|symbol| is_of_code(&symbol, image)) }
    }
}

fn is_of_code(symbol: &Symbol<'_>, image: &Image<&[u8]>) -> bool {
    let section = image.sections.get(usize::from(symbol.section));
    section.is_some_and(|section| section.flags.contains(SHF_EXECINSTR))
}

/// Sections in which linkers lay functions, whatever order they come in.
fn is_text(section: &SectionHead) -> bool {
    let is_named = section.name == ".text" || section.name.starts_with(".text.");
    is_named && section.is_loaded() && section.in_file() && section.flags.contains(SHF_EXECINSTR)
}

/// What the linker made itself: it leads to other files and to nowhere else.
fn is_linkage(section: &str) -> bool {
    section.starts_with(".plt")
}

/// Which bytes are those of instructions that do nothing, as far as can be read from the begin on. They fill the room
/// between functions, and look like ways.
fn fillers(code: &[u8]) -> Vec<bool> {
    let mut fillers = vec![false; code.len()];
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    while decoder.can_decode() {
        let at = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            break;
        }
        fillers[at..decoder.position()].fill(is_nop(instruction.code()));
    }
    fillers
}

fn is_nop(code: Code) -> bool {
    matches!(code, Code::Nopw | Code::Nopd | Code::Nopq | Code::Nop_rm16 | Code::Nop_rm32 | Code::Nop_rm64)
}
