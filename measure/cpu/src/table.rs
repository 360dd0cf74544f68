//! What an object's unwinding table says about an address: how the caller's registers are found. Read as hostile.
//!
//! The table is `.eh_frame`, found by the index `.eh_frame_hdr` where that has the form that linkers write, else by one
//! that is made here. Not `.debug_frame`: who leaves out `.eh_frame` keeps frame pointers.

use crate::objects::Tables;
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EhFrameOffset, Encoding, EndianSlice, Expression, LittleEndian,
    Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, X86_64,
};
use gimli::{Evaluation, EvaluationResult, Location, Value};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Steps that an expression may take: those that compilers write take ten.
const MOST_STEPS: u32 = 1000;

/// How the frame of an address is left.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    cfa: CfaRule<usize>,
    return_address: RegisterRule<usize>,
    bp: RegisterRule<usize>,
    bx: RegisterRule<usize>,
    encoding: Encoding,
    /// The kernel made this frame for a signal: its caller was interrupted, and called nothing.
    pub(crate) is_signal: bool,
}

/// The registers that unwinding needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    /// `None`: it was saved where we cannot look.
    pub(crate) bp: Option<u64>,
    /// As `bp`.
    pub(crate) bx: Option<u64>,
}

/// Where a row leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// To the caller, which has these registers.
    To(Registers),
    /// There is no caller.
    Outermost,
    /// What is needed is not in the piece of the stack, or the table asks for what we do not know.
    Unknown,
}

/// Where the descriptions of functions are, by address: for an object whose own index is none that we read.
#[derive(Debug, Default)]
pub(crate) struct MadeIndex(Vec<(u64, usize)>);

impl MadeIndex {
    /// Of all functions of a table, up to the first one that cannot be read.
    pub(crate) fn of(tables: &Tables<'_>) -> Self {
        let (section, bases) = opened(tables);
        let mut entries = section.entries(&bases);
        let mut found = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(part) = entry else { continue };
            let Ok(function) = part.parse(EhFrame::cie_from_offset) else { continue };
            found.push((function.initial_address(), function.offset()));
        }
        found.sort_unstable();
        Self(found)
    }

    fn find(&self, address: u64) -> Option<usize> {
        let behind = self.0.partition_point(|(start, _)| *start <= address);
        self.0.get(behind.checked_sub(1)?).map(|(_, at)| *at)
    }
}

/// Whether an object's own index is one that we read.
pub(crate) fn has_index(tables: &Tables<'_>) -> bool {
    // Version 1; the table's place from here; a count in four bytes; distances from the index in four bytes each.
    tables.index.is_some_and(|(_, bytes)| bytes.len() >= 12 && bytes.starts_with(&[1, 0x1b, 3, 0x3b]))
}

/// Where in the table the description of the last function is that begins at an address or before it.
fn find(tables: &Tables<'_>, address: u64) -> Option<usize> {
    let (base, bytes) = tables.index?;
    let (head, rest) = bytes.split_at_checked(12)?;
    let count = u32::from_le_bytes(head[8..].try_into().ok()?) as usize;
    let (pairs, _) = rest.as_chunks::<8>();
    let pairs = &pairs[..count.min(pairs.len())];
    let at = |word: &[u8]| base.wrapping_add_signed(word.try_into().map_or(0, i32::from_le_bytes).into());
    let behind = pairs.partition_point(|pair| at(&pair[..4]) <= address);
    let description = at(&pairs.get(behind.checked_sub(1)?)?[4..]);
    usize::try_from(description.checked_sub(tables.frames.0)?).ok()
}

fn opened<'a>(tables: &Tables<'a>) -> (EhFrame<Bytes<'a>>, BaseAddresses) {
    let (address, bytes) = tables.frames;
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(address).set_text(tables.text).set_got(tables.got);
    (section, bases)
}

impl Row {
    /// What the table says about an address; `None`: nothing, or nothing that can be read.
    pub(crate) fn of(
        tables: &Tables<'_>,
        made: Option<&MadeIndex>,
        context: &mut UnwindContext<usize>,
        address: u64,
    ) -> Option<Self> {
        let (section, bases) = opened(tables);
        let at = made.map_or_else(|| find(tables, address), |made| made.find(address))?;
        if at >= tables.frames.1.len() {
            return None;
        }
        let function = section.fde_from_offset(&bases, EhFrameOffset(at), EhFrame::cie_from_offset).ok()?;
        let row = function.unwind_info_for_address(&section, &bases, context, address).ok()?;
        let rule = |register| row.register(register).unwrap_or(RegisterRule::Undefined);
        Some(Self {
            cfa: row.cfa().clone(),
            return_address: rule(X86_64::RA),
            // What is not mentioned stays as it is.
            bp: row.register(X86_64::RBP).unwrap_or(RegisterRule::SameValue),
            bx: row.register(X86_64::RBX).unwrap_or(RegisterRule::SameValue),
            encoding: function.cie().encoding(),
            is_signal: function.is_signal_trampoline(),
        })
    }

    /// Goes to the caller. `read` reads eight bytes of the stack.
    pub(crate) fn step(&self, tables: &Tables<'_>, now: Registers, read: &dyn Fn(u64) -> Option<u64>) -> Step {
        if self.return_address == RegisterRule::Undefined {
            return Step::Outermost;
        }
        let at = Looking { tables, encoding: self.encoding, now, read };
        let Some(cfa) = at.cfa(&self.cfa) else { return Step::Unknown };
        let ip = match at.register(&self.return_address, cfa, Some(now.ip)) {
            Some(0) => return Step::Outermost,
            Some(ip) => ip,
            None => return Step::Unknown,
        };
        // In the middle of an epilogue tables may name a place that was popped: the register has its value already.
        let kept = |rule: &RegisterRule<usize>, now_has| match rule {
            RegisterRule::Offset(by) if cfa.wrapping_add_signed(*by) < now.sp => now_has,
            rule => at.register(rule, cfa, now_has),
        };
        Step::To(Registers { ip, sp: cfa, bp: kept(&self.bp, now.bp), bx: kept(&self.bx, now.bx) })
    }
}

/// What the rules of a row refer to.
struct Looking<'a> {
    tables: &'a Tables<'a>,
    encoding: Encoding,
    now: Registers,
    read: &'a dyn Fn(u64) -> Option<u64>,
}

impl Looking<'_> {
    fn value(&self, register: Register) -> Option<u64> {
        match register {
            X86_64::RA => Some(self.now.ip),
            X86_64::RSP => Some(self.now.sp),
            X86_64::RBP => self.now.bp,
            X86_64::RBX => self.now.bx,
            _ => None,
        }
    }

    fn cfa(&self, rule: &CfaRule<usize>) -> Option<u64> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(self.value(*register)?.wrapping_add_signed(*offset))
            }
            CfaRule::Expression(expression) => self.evaluate(*expression, None),
        }
    }

    /// The caller's value of a register that has the value `now` here.
    fn register(&self, rule: &RegisterRule<usize>, cfa: u64, now: Option<u64>) -> Option<u64> {
        match rule {
            RegisterRule::SameValue => now,
            RegisterRule::Offset(by) => (self.read)(cfa.wrapping_add_signed(*by)),
            RegisterRule::ValOffset(by) => Some(cfa.wrapping_add_signed(*by)),
            RegisterRule::Register(other) => self.value(*other),
            RegisterRule::Expression(expression) => (self.read)(self.evaluate(*expression, Some(cfa))?),
            RegisterRule::ValExpression(expression) => self.evaluate(*expression, Some(cfa)),
            _ => None,
        }
    }

    /// The value of an expression; `None`: it reads what we have not, or does not end.
    fn evaluate(&self, expression: UnwindExpression<usize>, first: Option<u64>) -> Option<u64> {
        let (section, _) = opened(self.tables);
        let Expression(code) = expression.get(&section).ok()?;
        let mut evaluation = Evaluation::new(code, self.encoding);
        evaluation.set_max_iterations(MOST_STEPS);
        if let Some(first) = first {
            evaluation.set_initial_value(first);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.value(register)?)).ok()?
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic((self.read)(address)?)).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}
