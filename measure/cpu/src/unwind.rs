//! From the registers and a piece of the stack of a thread to the calls that led there.
//!
//! By the unwinding tables of the mapped files ([`crate::table`]), and by frame pointers where there are none. Signal
//! handlers, stacks that a function aligned and entries of the PLT are described by expressions that read the stack:
//! these are evaluated too, with a bound, as the files may be anything.

use crate::objects::{ObjectId, Objects};
use crate::raw::{RawMapping, UserState};
use crate::table::{MadeIndex, Registers, Row, Step, has_index};
use gimli::UnwindContext;
use os::roots::Roots;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// A place in code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The address of the next instruction: a return address.
    pub address: u64,
    /// The program was to go on there without a call having returned: where it is, or where a signal interrupted it.
    pub exact: bool,
}

impl Place {
    /// An address within the instruction that the program was at: the call. What follows a call may be another
    /// function, or another line.
    pub fn inside(self) -> u64 {
        if self.exact { self.address } else { self.address.wrapping_sub(1) }
    }
}

/// The calls that led to a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Innermost first: where the program is, then where each function returns to.
    pub places: Vec<Place>,
    /// The last one has no caller: the stack is told to its end.
    pub whole: bool,
}

/// What is mapped into processes, by time, and how their stacks are read.
#[derive(Debug)]
pub struct Unwinder {
    objects: Objects,
    processes: HashMap<u32, Code>,
    known: HashMap<ObjectId, Known>,
    context: Box<UnwindContext<usize>>,
}

/// What was found out about an object.
#[derive(Debug, Default)]
struct Known {
    made: Option<MadeIndex>,
    rows: HashMap<u64, Option<Row>>,
}

/// The code of a process: where each mapping begins.
type Code = BTreeMap<u64, Mapped>;

/// A mapping of code.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    end: u64,
    /// Address minus offset in the file.
    base: u64,
    object: Option<ObjectId>,
    /// Address minus the address that the object states; `None`: the object cannot be read.
    bias: Option<u64>,
}

/// Whose an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Located {
    /// An object's that can be read, at the address that it states.
    Object(ObjectId, u64),
    /// A file's that cannot be read, at this offset.
    Unread(ObjectId, u64),
    /// No file's.
    Outside,
}

impl Unwinder {
    /// Nothing is mapped. The processes saw this directory as `/`.
    pub fn new(root: &Path) -> Self {
        Self::among(root, Arc::default())
    }

    /// As [`Unwinder::new`]; some processes saw one of these as `/`.
    pub(crate) fn among(root: &Path, roots: Arc<Roots>) -> Self {
        let context = Box::new(UnwindContext::new());
        Self { objects: Objects::new(root, roots), processes: HashMap::new(), known: HashMap::new(), context }
    }

    /// Code is mapped from now on, over what was there.
    pub fn map(&mut self, mapping: &RawMapping) {
        let RawMapping { addresses, offset, .. } = mapping;
        if addresses.is_empty() {
            return;
        }
        let object = self.objects.of(&mapping.path, mapping.dev, mapping.ino);
        let bias = object.and_then(|object| self.objects.get(object).bias(addresses, *offset));
        let base = addresses.start.wrapping_sub(*offset);
        let code = self.processes.entry(mapping.pid).or_default();
        unmap(code, addresses.start, addresses.end);
        code.insert(addresses.start, Mapped { end: addresses.end, base, object, bias });
    }

    /// A process began as a copy of another.
    pub fn fork(&mut self, parent_pid: u32, pid: u32) {
        let copy = self.processes.get(&parent_pid).cloned().unwrap_or_default();
        self.processes.insert(pid, copy);
    }

    /// A process executes another program: what was mapped is gone.
    pub fn executed(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// The calls that led to where a thread of a process was. `stack` is what was in memory from [`UserState::sp`] on;
    /// where it ends, the walk ends.
    pub fn unwind(&mut self, pid: u32, state: &UserState, stack: &[u8]) -> Walked {
        let read = |address: u64| {
            let at = usize::try_from(address.checked_sub(state.sp)?).ok()?;
            let bytes = stack.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let mut place = Place { address: state.ip, exact: true };
        let mut now = Registers { ip: state.ip, sp: state.sp, bp: Some(state.bp), bx: Some(state.bx) };
        let mut walked = Walked { places: vec![place], whole: false };
        loop {
            let (step, is_signal) = self.step(pid, place, now, &read);
            match step {
                // Stacks grow downwards: whoever leads back would lead round and round.
                Step::To(next) if next.sp > now.sp => {
                    place = Place { address: next.ip, exact: is_signal };
                    walked.places.push(place);
                    now = next;
                }
                Step::Outermost => {
                    walked.whole = true;
                    return walked;
                }
                Step::To(_) | Step::Unknown => return walked,
            }
        }
    }

    /// Goes to the caller of a place, and says whether it was interrupted there by a signal.
    fn step(&mut self, pid: u32, at: Place, now: Registers, read: &dyn Fn(u64) -> Option<u64>) -> (Step, bool) {
        let Some(code) = self.processes.get(&pid) else { return (Step::Unknown, false) };
        let mapped = mapping(code, at.inside());
        let mut has_table = false;
        if let Some(Mapped { object: Some(id), bias: Some(bias), .. }) = mapped
            && let Some(tables) = self.objects.get(*id).tables()
        {
            has_table = true;
            let stated = at.inside().wrapping_sub(*bias);
            let known = self.known.entry(*id).or_insert_with(|| {
                let made = if has_index(&tables) { None } else { Some(MadeIndex::of(&tables)) };
                Known { made, rows: HashMap::new() }
            });
            let row = known.rows.entry(stated);
            let row = row.or_insert_with(|| Row::of(&tables, known.made.as_ref(), &mut self.context, stated));
            if let Some(row) = row {
                return (row.step(&tables, now, read), row.is_signal);
            }
        }
        (without_row(code, at, has_table, now, read), false)
    }

    /// Whose an address is.
    pub(crate) fn locate(&self, pid: u32, address: u64) -> Located {
        let mapped = self.processes.get(&pid).and_then(|code| mapping(code, address));
        match mapped {
            Some(Mapped { object: Some(object), bias: Some(bias), .. }) => {
                Located::Object(*object, address.wrapping_sub(*bias))
            }
            Some(Mapped { object: Some(object), base, .. }) => Located::Unread(*object, address.wrapping_sub(*base)),
            _ => Located::Outside,
        }
    }

    /// The mapped objects.
    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// What is not known of mapped files, one sentence each.
    pub fn cannot(&self) -> Vec<String> {
        self.objects.cannot().collect()
    }
}

fn mapping(code: &Code, address: u64) -> Option<&Mapped> {
    code.range(..=address).next_back().map(|(_, mapped)| mapped).filter(|mapped| address < mapped.end)
}

/// Takes addresses out of what is mapped.
fn unmap(code: &mut Code, start: u64, end: u64) {
    let before = code.range_mut(..start).next_back();
    if let Some((_, cut)) = before.filter(|(_, before)| before.end > start) {
        let rest = *cut;
        cut.end = start;
        if rest.end > end {
            code.insert(end, rest);
        }
    }
    while let Some((at, over)) = code.range(start..end).next().map(|(at, over)| (*at, *over)) {
        code.remove(&at);
        if over.end > end {
            code.insert(end, over);
        }
    }
}

/// Goes to the caller where no table says how: by the frame pointer. What is found must be code: other uses of the
/// register lead anywhere. In an object with a table, what is not in it keeps nothing on the stack: stubs, entry
/// points.
fn without_row(code: &Code, at: Place, has_table: bool, now: Registers, read: &dyn Fn(u64) -> Option<u64>) -> Step {
    let caller = |sp: u64, ip: Option<u64>, bp: Option<u64>, bx: Option<u64>| {
        let ip = ip.filter(|ip| mapping(code, ip.wrapping_sub(1)).is_some())?;
        Some(Step::To(Registers { ip, sp, bp, bx }))
    };
    let just_called = || caller(now.sp.wrapping_add(8), read(now.sp).filter(|_| at.exact), now.bp, now.bx);
    if let Some(step) = just_called().filter(|_| has_table) {
        return step;
    }
    let Some(bp) = now.bp else { return Step::Unknown };
    // Code that keeps frame pointers ends their chain with zero.
    if bp == 0 && !at.exact {
        return Step::Outermost;
    }
    let by_pointer = || caller(bp.wrapping_add(16), read(bp.wrapping_add(8)), read(bp), None);
    Some(()).filter(|()| bp >= now.sp).and_then(|()| by_pointer()).or_else(just_called).unwrap_or(Step::Unknown)
}
