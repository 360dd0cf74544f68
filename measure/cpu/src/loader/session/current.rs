//! What is known of the program that runs now: its objects, its initialisers, where it has come to.

use super::super::objects::{Is, Object};
use super::super::phases::{self, Call, Kind, Moments};
use super::super::points::{Points, Want};
use super::super::program::{self, Found, Program};
use super::super::{Initialiser, Loaded, Table};
use model::Nanos;
use os::ptrace::{Memory, Registers};
use os::tracer::Tracer;
use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Numbers of system calls.
const CLOSE: u64 = 3;
const MPROTECT: u64 = 10;
/// `r_state` of the loader's list: objects are being added; the list is whole.
const ADDING: u32 = 1;
const WHOLE: u32 = 0;
/// `__libc_csu_init`, which older programs bring along to call their initialisers, is shorter.
const CSU_INIT: u64 = 0x200;

/// What holds of every program.
const CANNOT: [&str; 3] = [
    "which part of relocation is the look-up of symbols and which are functions that choose functions (IFUNC)",
    "initialisers of objects in other namespaces (dlmopen), and of those that a program maps without the loader",
    "what one stop cost: the mean of many is taken off each, so a single time is off by a few microseconds",
];

/// What is needed to look at a stopped thread and to plant breakpoints.
pub(super) struct Hands<'a> {
    pub tracer: &'a Tracer,
    pub memory: &'a Memory,
    pub points: &'a mut Points,
    pub pid: u32,
    pub tid: i32,
}

impl Hands<'_> {
    fn plant(&mut self, address: u64, want: Want) -> io::Result<()> {
        self.points.plant(self.tracer, self.tid, address, want)
    }
}

/// An initialiser that is still to be called.
#[derive(Clone, Debug)]
struct Planned {
    at: u64,
    object: PathBuf,
    bias: u64,
    table: Table,
    place: u32,
    seen: bool,
}

/// One that runs.
#[derive(Clone, Copy, Debug)]
struct Frame {
    tid: i32,
    /// Its place in the list of those that ran.
    number: usize,
    back: u64,
    /// The stack pointer once it is back.
    sp: u64,
    began: Nanos,
    cpu: Option<i64>,
}

/// A program between exec and its end.
#[derive(Debug)]
pub(super) struct Current {
    pub program: Program,
    pub moments: Moments,
    /// From the call of exec on; the call may not have been seen.
    pub exec: Option<Nanos>,
    loading: bool,
    calls: Vec<Call>,
    open: Option<(Kind, Nanos)>,
    /// Those that were there when the loader was done.
    objects: Vec<Object>,
    known: HashSet<u64>,
    /// Code that calls initialisers, beside the loader's.
    callers: Vec<Range<u64>>,
    planned: Vec<Planned>,
    frames: Vec<Frame>,
    ran: Vec<Initialiser>,
    cannot: Vec<String>,
}

impl Current {
    /// A program that has just been executed.
    pub fn of(program: Program, exec_seen: bool) -> Self {
        Self {
            program,
            moments: Moments::default(),
            exec: exec_seen.then_some(Nanos(0)),
            loading: false,
            calls: Vec::new(),
            open: None,
            objects: Vec::new(),
            known: HashSet::new(),
            callers: Vec::new(),
            planned: Vec::new(),
            frames: Vec::new(),
            ran: Vec::new(),
            cannot: Vec::new(),
        }
    }

    /// The loader is at work: its system calls are looked at.
    pub fn is_loading(&self) -> bool {
        self.loading
    }

    /// The loader begins.
    pub fn begin(&mut self, now: Nanos) {
        self.loading = true;
        self.exec = self.exec.map(|_| now);
        self.moments.loader = now;
    }

    /// A system call of the loader begins.
    pub fn begins(&mut self, pid: i32, now: Nanos, number: u64, arguments: [u64; 6]) {
        if !self.loading {
            return;
        }
        let kind = match number {
            CLOSE => {
                let link = format!("/proc/{pid}/fd/{}", arguments[0] as u32);
                std::fs::read_link(link).map_or(Kind::Other, Kind::Close)
            }
            MPROTECT => Kind::Protect(arguments[0]),
            _ => Kind::Other,
        };
        self.open = Some((kind, now));
    }

    /// It ends.
    pub fn ends(&mut self, now: Nanos) {
        if let Some((what, began)) = self.open.take() {
            self.calls.push(Call { what, began, ended: now });
        }
    }

    /// The loader says that its list changes, or is whole again.
    pub fn debug_state(&mut self, hands: &mut Hands<'_>, now: Nanos) -> io::Result<()> {
        let mut state = [0; 4];
        if hands.memory.read(self.program.debug + 24, &mut state).is_err() {
            self.cannot.push("which objects there are: the loader's state cannot be read".into());
            return Ok(());
        }
        match u32::from_le_bytes(state) {
            ADDING if self.loading => {
                self.moments.mapping.get_or_insert(now);
                Ok(())
            }
            WHOLE => self.whole(hands, now),
            _ => Ok(()),
        }
    }

    fn whole(&mut self, hands: &mut Hands<'_>, now: Nanos) -> io::Result<()> {
        let first = std::mem::replace(&mut self.loading, false);
        let found = program::objects(hands.pid, hands.memory, &self.program, &mut self.known, &mut self.cannot);
        if first {
            self.moments.consistent = Some(now);
            hands.plant(self.program.entry, Want::Entry)?;
        }
        for Found { object, start_main, execve } in found {
            if let Some(start_main) = start_main {
                hands.plant(start_main, Want::StartMain)?;
                self.callers.push(object.memory.clone());
            }
            if let Some(execve) = execve {
                hands.plant(execve, Want::Execve)?;
            }
            self.plan(hands, &object, first)?;
            if first {
                self.objects.push(object);
            }
        }
        if first && self.callers.is_empty() {
            self.cannot.push("when main begins: the program has no C library that starts it".into());
        }
        Ok(())
    }

    /// Plants a breakpoint at each initialiser of an object. At the start it is relocated already; one that is loaded
    /// later is not, and its file says what it will be.
    fn plan(&mut self, hands: &mut Hands<'_>, object: &Object, relocated: bool) -> io::Result<()> {
        for slot in &object.slots {
            let at = match slot.is {
                Is::At(at) => Some(at),
                Is::In(word, _) if relocated => hands.memory.word(word).ok(),
                Is::In(_, known) => known,
            };
            let planted = match at {
                Some(at) => hands.plant(at, Want::Initialiser).map(|()| at),
                None => Err(io::Error::other("another object decides which function it is")),
            };
            match planted {
                Ok(at) => self.planned.push(Planned {
                    at,
                    object: object.path.clone(),
                    bias: object.bias,
                    table: slot.table,
                    place: slot.place,
                    seen: false,
                }),
                Err(error) if os::tracer::is_gone(&error) => return Err(error),
                Err(error) => {
                    let (path, place) = (model::shown(&object.path), slot.place);
                    self.cannot.push(format!("entry {place} of {:?} of {path}: {error}", slot.table));
                }
            }
        }
        Ok(())
    }

    /// `__libc_start_main` is called: its first argument is main, its fourth what calls an older program's
    /// initialisers.
    pub fn start_main(&mut self, hands: &mut Hands<'_>, registers: &Registers) -> io::Result<()> {
        if registers.rcx != 0 {
            self.callers.push(registers.rcx..registers.rcx + CSU_INIT);
        }
        match hands.plant(registers.rdi, Want::Main) {
            Err(error) if os::tracer::is_unmapped(&error) => {
                self.cannot.push("when main begins: the C library was told of none".into());
                Ok(())
            }
            done => done,
        }
    }

    /// The function of an initialiser is called: by those who call initialisers, or by the program for its own purpose.
    pub fn initialiser(
        &mut self,
        hands: &mut Hands<'_>,
        now: Nanos,
        cpu: Option<i64>,
        registers: &Registers,
    ) -> io::Result<()> {
        let Ok(back) = hands.memory.word(registers.rsp) else { return Ok(()) };
        let is_caller = |code: &Range<u64>| code.contains(&back);
        if !is_caller(&self.program.loader) && !self.callers.iter().any(is_caller) {
            return Ok(());
        }
        let at = registers.rip;
        let Some(planned) = self.planned.iter_mut().find(|planned| planned.at == at && !planned.seen) else {
            return Ok(());
        };
        planned.seen = true;
        let within = self.frames.iter().rev().find(|frame| frame.tid == hands.tid).map(|frame| frame.number as u32);
        self.frames.push(Frame {
            tid: hands.tid,
            number: self.ran.len(),
            back,
            sp: registers.rsp + 8,
            began: now,
            cpu,
        });
        self.ran.push(Initialiser {
            object: planned.object.clone(),
            address: at.wrapping_sub(planned.bias),
            table: planned.table,
            place: planned.place,
            tid: hands.tid.cast_unsigned(),
            began: now,
            took: Nanos(0),
            cpu: None,
            within,
            returned: false,
        });
        hands.points.remove(hands.tracer, hands.tid, at, Want::Initialiser)?;
        hands.plant(back, Want::Return)
    }

    /// A thread is where an initialiser was called from.
    pub fn returned(
        &mut self,
        hands: &mut Hands<'_>,
        now: Nanos,
        cpu: Option<i64>,
        registers: &Registers,
    ) -> io::Result<()> {
        let is_it = |frame: &Frame| frame.tid == hands.tid && frame.sp == registers.rsp && frame.back == registers.rip;
        let Some(place) = self.frames.iter().rposition(is_it) else { return Ok(()) };
        let frame = self.frames.remove(place);
        let ran = &mut self.ran[frame.number];
        ran.took = Nanos(now.0.saturating_sub(frame.began.0));
        ran.cpu = cpu.zip(frame.cpu).map(|(end, began)| Nanos(u64::try_from(end - began).unwrap_or(0)));
        ran.returned = true;
        hands.points.remove(hands.tracer, hands.tid, registers.rip, Want::Return)
    }

    /// What was seen, up to this time.
    pub fn loaded(mut self, end: Nanos) -> Loaded {
        for frame in &self.frames {
            self.ran[frame.number].took = Nanos(end.0.saturating_sub(frame.began.0));
        }
        let told = phases::tell(&self.calls, &self.objects, &self.moments);
        if self.exec.is_none() {
            self.cannot.push("how long exec took: its call was not seen".into());
        }
        if self.moments.main.is_some() {
            let missed = self.planned.iter().filter(|planned| !planned.seen);
            for planned in missed.filter(|planned| self.objects.iter().any(|object| object.path == planned.object)) {
                let (path, address) = (model::shown(&planned.object), planned.at.wrapping_sub(planned.bias));
                self.cannot.push(format!("the initialiser at {address:#x} of {path}: its call was not seen"));
            }
        }
        self.cannot.extend(told.cannot);
        self.cannot.extend(CANNOT.map(str::to_owned));
        Loaded {
            program: self.program.path,
            exec: self.exec,
            phases: told.phases,
            mapped: told.mapped,
            relocated: told.relocated,
            initialisers: self.ran,
            before_main: self.moments.main.filter(|_| self.exec.is_some()),
            cannot: self.cannot,
        }
    }
}
