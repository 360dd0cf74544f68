//! From a return address to an unwind rule: finds the entry in `.eh_frame_hdr` and interprets its instructions.
//!
//! Only what compilers write for callers is understood: the frame address is rsp + n, rbp + n or the word at rbp + n,
//! the return address is right below it, rbp is kept or saved in a known place. Everything else gives [`Rule::FAIL`],
//! and the stack is marked as cut. No allocation; about 600 bytes of stack, because threads with 16 KiB of it allocate
//! too.

/// How to get from a frame to its caller, packed: kind 0-2, frame offset / 8 in 3-22 (signed), whether it runs
/// functions of an interpreter in 23, place of rbp / 8 in 24-39 (signed).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule(pub u64);

/// What a rule does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Kind {
    /// No usable rule.
    Fail = 0,
    /// The first function of a thread.
    End = 1,
    /// Frame address = rsp + n.
    Rsp = 2,
    /// Frame address = rbp + n.
    Rbp = 3,
    /// Frame address = the word at rbp + n; rbp is saved relative to rbp (functions that align their stack).
    Deref = 4,
    /// The kernel's frame of a signal handler.
    Signal = 5,
    /// Code without unwind information: a frame pointer, if it looks like one.
    Guess = 6,
}

/// See [`Rule::interprets`].
const INTERPRETS: u64 = 1 << 23;

impl Rule {
    pub const FAIL: Self = Self(Kind::Fail as u64);
    pub const END: Self = Self(Kind::End as u64);
    pub const SIGNAL: Self = Self(Kind::Signal as u64);
    pub const GUESS: Self = Self(Kind::Guess as u64);
    /// Bits in use.
    pub const BITS: u32 = 40;

    /// A rule with its offsets in bytes; `rbp` 0: kept.
    pub fn new(kind: Kind, offset: i64, rbp: i64) -> Self {
        let (words, saved) = (offset >> 3, rbp >> 3);
        if (offset | rbp) & 7 != 0 || !(-(1 << 19)..1 << 19).contains(&words) || !(-(1 << 15)..1 << 15).contains(&saved)
        {
            return Self::FAIL;
        }
        Self(kind as u64 | (words as u64 & 0xf_ffff) << 3 | (saved as u64 & 0xffff) << 24)
    }

    /// The same rule, of a call by code that runs functions of an interpreter; itself where that cannot be followed.
    pub fn interpreting(self) -> Self {
        let follows = matches!(self.kind(), Kind::Rsp | Kind::Rbp) && self.saved() != 0;
        if follows { Self(self.0 | INTERPRETS) } else { self }
    }

    /// Whether functions of an interpreter run in this frame.
    #[inline(always)]
    pub fn interprets(self) -> bool {
        self.0 & INTERPRETS != 0
    }

    #[inline(always)]
    pub fn kind(self) -> Kind {
        match self.0 & 7 {
            1 => Kind::End,
            2 => Kind::Rsp,
            3 => Kind::Rbp,
            4 => Kind::Deref,
            5 => Kind::Signal,
            6 => Kind::Guess,
            _ => Kind::Fail,
        }
    }

    /// Bytes from the base register to the frame address.
    #[inline(always)]
    pub fn offset(self) -> u64 {
        (((self.0 << 41) as i64 >> 44) << 3) as u64
    }

    /// Bytes to where rbp is saved: from the frame address, for `Deref` from rbp. 0: it is not.
    #[inline(always)]
    pub fn saved(self) -> u64 {
        (((self.0 << 24) as i64 >> 48) << 3) as u64
    }
}

/// The rule of a call that returns to `pc`, from the object whose `.eh_frame_hdr` is at `header`.
///
/// # Safety
/// `header` is that of an object that stays loaded during the call.
pub unsafe fn rule(header: *const u8, pc: u64) -> Rule {
    // The call instruction belongs to the function, the return address may not.
    let target = pc.wrapping_sub(1);
    // SAFETY: the caller vouches for the header; what it points at is mapped with it.
    unsafe {
        // Programs without unwind tables (Chromium) have frame pointers.
        let Some(entry) = find(header, target) else { return Rule::GUESS };
        evaluate(entry, target).unwrap_or(Rule::FAIL)
    }
}

/// The rule of a call whose function returns right after it, by the instructions that do: `add rsp`, `pop`, `ret`, or
/// `leave`. What code without unwind information looks like that only calls another function, as Python's entries of
/// functions do (`-X perf`). `None`: it does something else first.
pub fn epilogue(code: &[u8]) -> Option<Rule> {
    let (bytes, mut rest) = match code {
        [0x48, 0x83, 0xc4, bytes, rest @ ..] => (i64::from(*bytes as i8), rest),
        [0x48, 0x81, 0xc4, a, b, c, d, rest @ ..] => (i64::from(i32::from_le_bytes([*a, *b, *c, *d])), rest),
        // The frame address is behind the two words at rbp.
        [0xc9, 0xc3, ..] => return Some(Rule::new(Kind::Rbp, 16, -16)),
        _ => (0, code),
    };
    if bytes < 0 {
        return None;
    }
    // From rsp; where rbp comes from.
    let (mut offset, mut saved) = (bytes, None);
    loop {
        rest = match rest {
            [0xc3, ..] | [0xf3, 0xc3, ..] => break,
            [0x5d, after @ ..] => {
                saved = Some(offset);
                after
            }
            // Not the stack pointer itself.
            [0x58..=0x5b | 0x5e..=0x5f, after @ ..] | [0x41, 0x58..=0x5f, after @ ..] => after,
            _ => return None,
        };
        offset += 8;
    }
    let frame = offset + 8;
    Some(Rule::new(Kind::Rsp, frame, saved.map_or(0, |at| at - frame)))
}

/// Whether an entry of unwind information covers this address.
///
/// # Safety
/// As [`rule`].
pub unsafe fn covers(header: *const u8, pc: u64) -> bool {
    // SAFETY: the caller vouches.
    unsafe { find(header, pc).is_some_and(|entry| evaluate(entry, pc) != Some(Rule::GUESS)) }
}

/// Reads little-endian values, LEB128 and encoded pointers. Within mapped unwind information, whose lengths bound it.
#[derive(Clone, Copy)]
struct Cursor {
    at: *const u8,
    end: *const u8,
}

impl Cursor {
    fn left(&self) -> usize {
        (self.end as usize).saturating_sub(self.at as usize)
    }

    fn take<T: Copy>(&mut self) -> Option<T> {
        if self.left() < size_of::<T>() {
            return None;
        }
        // SAFETY: the bytes up to `end` are mapped; any bytes are a valid T, which is an integer here.
        let value = unsafe { (self.at as *const T).read_unaligned() };
        self.at = self.at.wrapping_add(size_of::<T>());
        Some(value)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        if self.left() < bytes {
            return None;
        }
        self.at = self.at.wrapping_add(bytes);
        Some(())
    }

    fn uleb(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte: u8 = self.take()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
    }

    fn sleb(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0u32);
        loop {
            let byte: u8 = self.take()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                let unused = 64u32.saturating_sub(shift);
                return Some(if byte & 0x40 != 0 { (value << unused) >> unused } else { value });
            }
        }
    }

    /// A pointer in one of the DW_EH_PE encodings, absolute or relative to itself.
    fn pointer(&mut self, encoding: u8) -> Option<u64> {
        let here = self.at as u64;
        let value = match encoding & 0x0f {
            0x00 | 0x04 | 0x0c => self.take::<u64>()?,
            0x01 => self.uleb()?,
            0x02 => u64::from(self.take::<u16>()?),
            0x03 => u64::from(self.take::<u32>()?),
            0x09 => self.sleb()? as u64,
            0x0a => i64::from(self.take::<i16>()?) as u64,
            0x0b => i64::from(self.take::<i32>()?) as u64,
            _ => return None,
        };
        match encoding & 0x70 {
            0x00 => Some(value),
            0x10 => Some(here.wrapping_add(value)),
            _ => None,
        }
    }
}

/// The entry (FDE) that may cover `target`, by the sorted table of the header.
///
/// # Safety
/// As [`rule`].
unsafe fn find(header: *const u8, target: u64) -> Option<*const u8> {
    // SAFETY: the header has at least 12 bytes; the table that it announces follows.
    unsafe {
        let (version, frame, count, table) = (*header, *header.add(1), *header.add(2), *header.add(3));
        // Count as udata4, table as sdata4 relative to the header: what all linkers write.
        if version != 1 || count != 0x03 || table != 0x3b || frame & 0x0f != 0x0b {
            return None;
        }
        let entries = header.add(8).cast::<u32>().read_unaligned() as usize;
        let table = header.add(12).cast::<[i32; 2]>();
        let start = |index: usize| (header as u64).wrapping_add(i64::from((*table.add(index))[0]) as u64);
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if start(middle) <= target {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let index = low.checked_sub(1)?;
        Some(header.wrapping_offset((*table.add(index))[1] as isize))
    }
}

/// Where rbp is, while the instructions run.
#[derive(Clone, Copy, PartialEq)]
enum Saved {
    Kept,
    /// At the frame address + n.
    At(i64),
    /// At rbp + n, by an expression.
    AtRbp(i64),
    Lost,
}

/// What the frame address is made of.
#[derive(Clone, Copy, PartialEq)]
enum Base {
    Register(u64, i64),
    /// The word at rbp + n.
    Deref(i64),
    Unknown,
}

#[derive(Clone, Copy)]
struct Row {
    base: Base,
    rbp: Saved,
    /// `None`: there is no caller.
    ret: Option<i64>,
}

struct Machine {
    row: Row,
    initial: Row,
    saved: [Row; 6],
    depth: usize,
    code_align: u64,
    data_align: i64,
    ret: u64,
}

const RBP: u64 = 6;
const RSP: u64 = 7;

/// A sane length for one entry; real ones are below a few KiB.
const LONGEST: u32 = 1 << 20;

/// The body of an entry (CIE or FDE), after its length.
///
/// # Safety
/// `at` points at an entry of unwind information.
unsafe fn body(at: *const u8) -> Option<Cursor> {
    // SAFETY: every entry begins with its length.
    let length = unsafe { at.cast::<u32>().read_unaligned() };
    let start = at.wrapping_add(4);
    (1..LONGEST).contains(&length).then(|| Cursor { at: start, end: start.wrapping_add(length as usize) })
}

/// # Safety
/// `entry` points at an FDE of loaded unwind information.
unsafe fn evaluate(entry: *const u8, target: u64) -> Option<Rule> {
    // SAFETY: as of this function.
    let mut fde = unsafe { body(entry) }?;
    let here = fde.at;
    let back: u32 = fde.take()?;
    // SAFETY: the offset leads back to the CIE of the same section.
    let mut cie = unsafe { body(here.wrapping_sub(back as usize)) }?;
    if cie.take::<u32>()? != 0 {
        return None;
    }
    let version: u8 = cie.take()?;
    let augmentation = cie.at;
    while cie.take::<u8>()? != 0 {}
    let code_align = cie.uleb()?;
    let data_align = cie.sleb()?;
    let ret = if version == 1 { u64::from(cie.take::<u8>()?) } else { cie.uleb()? };
    let (mut encoding, mut signal, mut has_length) = (0, false, false);
    let mut letters = Cursor { at: augmentation, end: cie.end };
    let mut after = None;
    loop {
        match letters.take::<u8>()? {
            0 => break,
            b'z' => {
                let length = cie.uleb()? as usize;
                after = Some(cie.at.wrapping_add(length));
                has_length = true;
            }
            b'R' => encoding = cie.take::<u8>()?,
            b'L' => cie.skip(1)?,
            b'P' => {
                let encoding: u8 = cie.take()?;
                cie.pointer(encoding & 0x0f)?;
            }
            b'S' => signal = true,
            b'B' => {}
            _ => return None,
        }
    }
    if let Some(after) = after {
        cie.at = after;
    }
    let start = fde.pointer(encoding)?;
    let length = fde.pointer(encoding & 0x0f)?;
    if target.wrapping_sub(start) >= length {
        return Some(Rule::GUESS);
    }
    if signal {
        return Some(Rule::SIGNAL);
    }
    if has_length {
        let length = fde.uleb()? as usize;
        fde.skip(length)?;
    }
    let row = Row { base: Base::Unknown, rbp: Saved::Kept, ret: Some(-8) };
    let mut machine = Machine { row, initial: row, saved: [row; 6], depth: 0, code_align, data_align, ret };
    machine.run(cie, None)?;
    machine.initial = machine.row;
    machine.run(fde, Some(target.wrapping_sub(start)))?;
    Some(machine.row.rule())
}

impl Row {
    fn rule(self) -> Rule {
        if self.ret.is_none() {
            return Rule::END;
        }
        if self.ret != Some(-8) {
            return Rule::FAIL;
        }
        match (self.base, self.rbp) {
            (Base::Register(RSP, offset), Saved::Kept) => Rule::new(Kind::Rsp, offset, 0),
            (Base::Register(RSP, offset), Saved::At(at)) => Rule::new(Kind::Rsp, offset, at),
            (Base::Register(RBP, offset), Saved::Kept) => Rule::new(Kind::Rbp, offset, 0),
            (Base::Register(RBP, offset), Saved::At(at)) => Rule::new(Kind::Rbp, offset, at),
            // rbp + 0 would read as "kept": 8 is added here and taken off where it is used.
            (Base::Deref(offset), Saved::AtRbp(at)) => Rule::new(Kind::Deref, offset, at + 8),
            _ => Rule::FAIL,
        }
    }
}

impl Machine {
    /// Runs instructions until the row of `target` (an offset in the function) is complete.
    fn run(&mut self, mut code: Cursor, target: Option<u64>) -> Option<()> {
        let mut location = 0u64;
        while code.left() > 0 {
            let byte: u8 = code.take()?;
            let low = u64::from(byte & 0x3f);
            let advance = match byte {
                0x40..=0x7f => Some(low),
                0x02 => Some(u64::from(code.take::<u8>()?)),
                0x03 => Some(u64::from(code.take::<u16>()?)),
                0x04 => Some(u64::from(code.take::<u32>()?)),
                _ => None,
            };
            if let Some(advance) = advance {
                location = location.wrapping_add(advance.wrapping_mul(self.code_align));
                if target.is_some_and(|target| location > target) {
                    return Some(());
                }
                continue;
            }
            self.step(byte, low, &mut code)?;
        }
        Some(())
    }

    fn step(&mut self, byte: u8, low: u64, code: &mut Cursor) -> Option<()> {
        match byte {
            0x80..=0xbf => {
                let offset = code.uleb()? as i64;
                self.offset(low, offset.wrapping_mul(self.data_align));
            }
            0xc0..=0xff => self.restore(low),
            0x00 => {}
            0x05 => {
                let (register, offset) = (code.uleb()?, code.uleb()? as i64);
                self.offset(register, offset.wrapping_mul(self.data_align));
            }
            0x06 => {
                let register = code.uleb()?;
                self.restore(register);
            }
            0x07 => {
                let register = code.uleb()?;
                if register == self.ret {
                    self.row.ret = None;
                } else if register == RBP {
                    self.row.rbp = Saved::Lost;
                }
            }
            0x08 => {
                if code.uleb()? == RBP {
                    self.row.rbp = Saved::Kept;
                }
            }
            0x09 => {
                let (register, _) = (code.uleb()?, code.uleb()?);
                self.unusual(register);
            }
            0x0a => {
                *self.saved.get_mut(self.depth)? = self.row;
                self.depth += 1;
            }
            0x0b => {
                self.depth = self.depth.checked_sub(1)?;
                self.row = *self.saved.get(self.depth)?;
            }
            0x0c => self.row.base = Base::Register(code.uleb()?, code.uleb()? as i64),
            0x0d => {
                let register = code.uleb()?;
                self.row.base = match self.row.base {
                    Base::Register(_, offset) => Base::Register(register, offset),
                    _ => Base::Unknown,
                };
            }
            0x0e => {
                let offset = code.uleb()? as i64;
                self.frame_offset(offset);
            }
            0x0f => {
                let length = code.uleb()? as usize;
                self.row.base = frame_expression(*code, length);
                code.skip(length)?;
            }
            0x10 => {
                let register = code.uleb()?;
                let length = code.uleb()? as usize;
                let place = rbp_expression(*code, length);
                code.skip(length)?;
                if register == RBP {
                    self.row.rbp = place;
                } else {
                    self.unusual(register);
                }
            }
            0x11 => {
                let (register, offset) = (code.uleb()?, code.sleb()?);
                self.offset(register, offset.wrapping_mul(self.data_align));
            }
            0x12 => {
                let (register, offset) = (code.uleb()?, code.sleb()?);
                self.row.base = Base::Register(register, offset.wrapping_mul(self.data_align));
            }
            0x13 => {
                let offset = code.sleb()?.wrapping_mul(self.data_align);
                self.frame_offset(offset);
            }
            0x14 | 0x15 => {
                let (register, _) = (code.uleb()?, code.uleb()?);
                self.unusual(register);
            }
            0x16 => {
                let register = code.uleb()?;
                let length = code.uleb()? as usize;
                code.skip(length)?;
                self.unusual(register);
            }
            0x2e => {
                code.uleb()?;
            }
            _ => return None,
        }
        Some(())
    }

    fn offset(&mut self, register: u64, offset: i64) {
        if register == RBP {
            self.row.rbp = Saved::At(offset);
        } else if register == self.ret {
            self.row.ret = Some(offset);
        }
    }

    fn restore(&mut self, register: u64) {
        if register == RBP {
            self.row.rbp = self.initial.rbp;
        } else if register == self.ret {
            self.row.ret = self.initial.ret;
        }
    }

    fn frame_offset(&mut self, offset: i64) {
        self.row.base = match self.row.base {
            Base::Register(register, _) => Base::Register(register, offset),
            _ => Base::Unknown,
        };
    }

    /// A rule that is not understood, on a register that may not matter.
    fn unusual(&mut self, register: u64) {
        if register == RBP {
            self.row.rbp = Saved::Lost;
        } else if register == self.ret {
            self.row.ret = Some(0);
        } else if register == RSP {
            self.row.base = Base::Unknown;
        }
    }
}

/// DW_OP_breg6 n, DW_OP_deref.
fn frame_expression(code: Cursor, length: usize) -> Base {
    let parse = || {
        let mut code = bounded(code, length)?;
        if code.take::<u8>()? != 0x76 {
            return None;
        }
        let offset = code.sleb()?;
        (code.take::<u8>()? == 0x06 && code.left() == 0).then_some(Base::Deref(offset))
    };
    parse().unwrap_or(Base::Unknown)
}

/// DW_OP_breg6 n.
fn rbp_expression(code: Cursor, length: usize) -> Saved {
    let parse = || {
        let mut code = bounded(code, length)?;
        if code.take::<u8>()? != 0x76 {
            return None;
        }
        let offset = code.sleb()?;
        (code.left() == 0).then_some(Saved::AtRbp(offset))
    };
    parse().unwrap_or(Saved::Lost)
}

fn bounded(code: Cursor, length: usize) -> Option<Cursor> {
    (length <= code.left()).then(|| Cursor { at: code.at, end: code.at.wrapping_add(length) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_keeps_its_offsets() {
        for (kind, offset, saved) in
            [(Kind::Rsp, 8, 0), (Kind::Rsp, 1 << 20, -16), (Kind::Rbp, 16, -16), (Kind::Deref, -8, 8)]
        {
            let rule = Rule::new(kind, offset, saved);
            assert_eq!((rule.kind(), rule.offset() as i64, rule.saved() as i64), (kind, offset, saved));
            let marked = rule.interpreting();
            assert_eq!((marked.kind(), marked.offset() as i64, marked.saved() as i64), (kind, offset, saved));
            assert_eq!(marked.interprets(), kind != Kind::Deref && saved != 0);
            assert!(!rule.interprets());
            assert_eq!(rule.0 >> Rule::BITS, 0);
        }
        assert_eq!(Rule::new(Kind::Rsp, 12, 0), Rule::FAIL);
        assert_eq!(Rule::new(Kind::Rsp, 1 << 40, 0), Rule::FAIL);
    }

    /// A CIE, an FDE of a function at 0x1000 with 0x100 bytes, and the header's table, all in one buffer.
    fn image(initial: &[u8], code: &[u8], augmentation: &[u8]) -> (Vec<u8>, usize) {
        let mut frame = Vec::new();
        let mut cie = vec![0, 0, 0, 0, 1];
        cie.extend_from_slice(augmentation);
        cie.push(0);
        cie.extend_from_slice(&[1, 0x78, 16, 1, 0x00]);
        cie.extend_from_slice(initial);
        frame.extend_from_slice(&(cie.len() as u32).to_le_bytes());
        frame.extend_from_slice(&cie);
        let fde_at = frame.len();
        let mut fde = ((fde_at + 4) as u32).to_le_bytes().to_vec();
        fde.extend_from_slice(&0x1000u64.to_le_bytes());
        fde.extend_from_slice(&0x100u64.to_le_bytes());
        fde.push(0);
        fde.extend_from_slice(code);
        frame.extend_from_slice(&(fde.len() as u32).to_le_bytes());
        frame.extend_from_slice(&fde);
        (frame, fde_at)
    }

    fn rule_at(initial: &[u8], code: &[u8], pc: u64) -> Rule {
        let (frame, at) = image(initial, code, b"zR");
        // SAFETY: the buffer holds a CIE and the FDE that leads back to it.
        unsafe { evaluate(frame.as_ptr().wrapping_add(at), pc - 1) }.unwrap_or(Rule::FAIL)
    }

    const USUAL: &[u8] = &[0x0c, 7, 8, 0x90, 1];

    #[test]
    fn rows_follow_the_prologue() {
        // push rbp; mov rbp, rsp; ...; pop rbp
        let code = [0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x80, 0x0c, 7, 8, 0xc6];
        assert_eq!(rule_at(USUAL, &code, 0x1001), Rule::new(Kind::Rsp, 8, 0));
        assert_eq!(rule_at(USUAL, &code, 0x1003), Rule::new(Kind::Rsp, 16, -16));
        assert_eq!(rule_at(USUAL, &code, 0x1010), Rule::new(Kind::Rbp, 16, -16));
        assert_eq!(rule_at(USUAL, &code, 0x1090), Rule::new(Kind::Rsp, 8, 0));
        assert_eq!(rule_at(USUAL, &code, 0x2000), Rule::GUESS, "code that no entry covers");
    }

    #[test]
    fn rows_are_remembered_and_restored() {
        let code = [0x0e, 32, 0x0a, 0x44, 0x0e, 8, 0x41, 0x0b];
        assert_eq!(rule_at(USUAL, &code, 0x1002), Rule::new(Kind::Rsp, 32, 0));
        assert_eq!(rule_at(USUAL, &code, 0x1005), Rule::new(Kind::Rsp, 8, 0));
        assert_eq!(rule_at(USUAL, &code, 0x1020), Rule::new(Kind::Rsp, 32, 0));
        assert_eq!(rule_at(USUAL, &[0x0b], 0x1002), Rule::FAIL, "nothing to restore");
    }

    #[test]
    fn functions_that_return_right_after_a_call_tell_their_frame() {
        let rule = |code: &[u8]| epilogue(code).map(|rule| (rule.kind(), rule.offset(), rule.saved() as i64));
        let rsp = |offset, saved| Some((Kind::Rsp, offset, saved));
        assert_eq!(rule(&[0x48, 0x83, 0xc4, 8, 0xc3]), rsp(16, 0), "add rsp, 8; ret");
        assert_eq!(rule(&[0xc3]), rsp(8, 0));
        assert_eq!(rule(&[0x48, 0x81, 0xc4, 0, 1, 0, 0, 0x5b, 0x5d, 0x41, 0x5c, 0xc3]), rsp(0x120, -0x18));
        assert_eq!(rule(&[0xc9, 0xc3]), Some((Kind::Rbp, 16, -16)), "leave; ret");
        for other in [&[0x48, 0x83, 0xc4, 8][..], &[0x48, 0x83, 0xc4, 0xf8, 0xc3], &[0x5c, 0xc3], &[0x90, 0xc3], &[]] {
            assert_eq!(rule(other), None, "{other:x?}");
        }
    }

    #[test]
    fn aligned_stacks_ends_and_unknown_code() {
        let aligned = [0x10, 6, 2, 0x76, 0, 0x0f, 3, 0x76, 0x78, 0x06];
        let rule = rule_at(USUAL, &aligned, 0x1002);
        assert_eq!((rule.kind(), rule.offset() as i64, rule.saved()), (Kind::Deref, -8, 8));
        assert_eq!(rule_at(USUAL, &[0x07, 16], 0x1002), Rule::END);
        assert_eq!(rule_at(USUAL, &[0x0d, 3], 0x1002), Rule::FAIL, "rbx is not followed");
        assert_eq!(rule_at(USUAL, &[0x3f], 0x1002), Rule::FAIL);
        assert_eq!(rule_at(USUAL, &[0x0f, 0x7f], 0x1002), Rule::FAIL, "an expression beyond the end");
    }
}
