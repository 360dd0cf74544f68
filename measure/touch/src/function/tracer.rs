//! The event loop of the tracer. Each stop of each thread is answered at once; what a stop means is in ptrace(2).
//!
//! What is promised: a program runs as without us, only slower. Signals reach it, also SIGTRAP that is its own;
//! group-stops last; exec from any thread, vfork, and threads that end in any order are followed; nobody outlives the
//! tracer.

use super::callers::{Callers, Stop};
use super::copied;
use super::emulated::emulated;
use super::inject::{is_step, send_again, step};
use super::library::Library;
use super::module::{Hook, ModuleId};
use super::near::Near;
use super::seen::{Call, Copied, Seen, SeenProcess};
use super::space::{Space, Trap, TrapAction};
use os::spawn::monotonic_ns;
use os::tracee::{self, EVENT_STOP, Register, Resume, SystemCall, Tracee, Waited};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;

/// Audit numbers of the architectures whose programs run on x86-64.
const ARCH_64: u32 = 0xc000_003e;
const ARCH_32: u32 = 0x4000_0003;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SpaceId(u32);

/// A thread that we trace.
#[derive(Debug)]
struct Thread {
    space: SpaceId,
    /// It has called exec, which has not ended yet.
    begins: bool,
    /// A system call that may map code has begun.
    maps_code: bool,
    /// It steps over this address, where a trap is to be planted again.
    over: Option<u64>,
}

/// Traces one tree of processes.
pub struct Tracer {
    threads: HashMap<Tracee, Thread>,
    spaces: HashMap<SpaceId, Space>,
    /// New threads whose first stop came before their parent told of them.
    early: HashSet<Tracee>,
    library: Library,
    seen: Seen,
    /// Processes by number; an ended one whose number is used again is moved to `seen`.
    processes: BTreeMap<i32, SeenProcess>,
    recording: bool,
    /// Addresses of traps that are the program's own.
    own_traps: HashSet<u64>,
    near: Near,
    /// The process that each address space was made for, by its number.
    owners: Vec<i32>,
    /// Threads by the number of their address space and what their FS register held when they were made, and when that
    /// was.
    bases: HashMap<(u32, u64), Vec<(u64, i32)>>,
    callers: Callers,
}

impl Tracer {
    /// Attaches to a process that waits to call exec.
    ///
    /// # Errors
    /// The kernel does not allow it.
    pub fn attach(pid: i32, library: Library) -> io::Result<Self> {
        let main = Tracee(pid);
        main.seize()?;
        let mut tracer = Self {
            threads: HashMap::new(),
            spaces: HashMap::new(),
            early: HashSet::new(),
            library,
            seen: Seen::default(),
            processes: BTreeMap::new(),
            recording: true,
            own_traps: HashSet::new(),
            near: Near::default(),
            owners: Vec::new(),
            bases: HashMap::new(),
            callers: Callers::default(),
        };
        tracer.add_space(main, Space::new(main));
        tracer.begin_process(pid, 0);
        Ok(tracer)
    }

    /// Whether nobody is left.
    pub fn is_over(&self) -> bool {
        self.threads.is_empty()
    }

    /// Handles events until nobody is left or a signal of our own comes.
    ///
    /// # Errors
    /// The kernel refuses what it allowed before.
    pub fn run(&mut self) -> io::Result<Waited> {
        loop {
            match tracee::wait()? {
                Waited::Status(tracee, status) => self.event(tracee, status),
                Waited::Nobody => {
                    self.threads.clear();
                    return Ok(Waited::Nobody);
                }
                Waited::Interrupted => return Ok(Waited::Interrupted),
            }
        }
    }

    /// What was seen until now. Traps go on being answered, calls are no longer noted.
    pub fn take(&mut self) -> Seen {
        self.recording = false;
        self.library.keep();
        let mut seen = std::mem::take(&mut self.seen);
        self.read_images(&mut seen);
        if let Some(patterns) = self.library.counting() {
            seen.counted = self.callers.seen(&self.library, |space, base, at| self.thread_of(space, base, at));
            seen.looked = self.library.all().filter(|(_, module)| module.is_elf()).count() as u64;
            seen.found = (0..patterns.typed().len())
                .map(|number| self.library.all().filter_map(|(_, module)| module.found.get(number)).sum())
                .collect();
        }
        seen.files = self.library.seen();
        seen.processes.extend(std::mem::take(&mut self.processes).into_values());
        seen.processes.sort_by_key(|process| process.start_ns);
        seen.notes.sort();
        seen.notes.dedup();
        seen
    }

    /// What was noted without a stop; a function that a process without an image has called too counts once.
    fn read_images(&self, seen: &mut Seen) {
        for (id, image) in self.library.images() {
            let module = self.library.get(id);
            let (noted, lost) = image.noted();
            seen.calls.extend(noted.into_iter().map(|noted| {
                let function = module.functions[noted.function];
                Call {
                    file: id.0,
                    offset: function.offset,
                    len: function.len,
                    at_ns: noted.at_ns,
                    tid: self.thread_of(noted.space, noted.base, noted.at_ns),
                }
            }));
            if lost > 0 {
                let shown = model::shown(&module.path);
                seen.notes.push(format!("{lost} calls of functions of {shown}: who made them was ended meanwhile"));
            }
        }
        seen.calls.sort_by_key(|call| call.at_ns);
        let mut known = HashSet::new();
        seen.calls.retain(|call| known.insert((call.file, call.offset)));
    }

    /// Whose an FS register was in an address space at a time; if nobody was seen to begin with it, its first thread's.
    fn thread_of(&self, space: u32, base: u64, at_ns: u64) -> i32 {
        let threads = self.bases.get(&(space, base)).map(Vec::as_slice).unwrap_or_default();
        let thread = threads.iter().rev().find(|(since, _)| *since <= at_ns).or(threads.first()).map(|(_, tid)| *tid);
        thread.or_else(|| self.owners.get(space as usize).copied()).unwrap_or_default()
    }

    /// A new thread is told by its FS register from the others of its address space.
    fn note_base(&mut self, tracee: Tracee) {
        let Some(space) = self.space_of(tracee).filter(|space| !space.is_32) else { return };
        let number = space.number;
        // A vfork child has the register of its parent, which waits for it: its calls are its parent's.
        let owner = self.owners.get(number as usize).copied();
        if process_of(tracee.0) == owner
            && let Ok(registers) = tracee.registers()
        {
            let threads = self.bases.entry((number, registers.fs_base)).or_default();
            match threads.last() {
                Some((_, last)) if *last == tracee.0 => return,
                Some((_, before)) => {
                    self.library.tallies().for_each(|(_, tally)| tally.retire(number, registers.fs_base, *before));
                }
                None => {}
            }
            threads.push((monotonic_ns(), tracee.0));
        }
    }

    fn add_space(&mut self, thread: Tracee, mut space: Space) {
        let id = SpaceId(self.owners.len() as u32);
        space.set_number(thread, id.0);
        self.owners.push(thread.0);
        self.spaces.insert(id, space);
        self.threads.insert(thread, Thread { space: id, begins: false, maps_code: false, over: None });
    }

    /// A thread left its space.
    fn leave(&mut self, id: SpaceId) {
        if let Some(space) = self.spaces.get_mut(&id) {
            space.users -= 1;
            if space.users == 0 {
                self.spaces.remove(&id);
            }
        }
    }

    /// One status of one thread.
    fn event(&mut self, tracee: Tracee, status: i32) {
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            return self.ended(tracee);
        }
        if !libc::WIFSTOPPED(status) {
            return;
        }
        self.seen.stops += 1;
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        let answered = match event {
            EVENT_STOP => self.stopped(tracee, signal),
            libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK => self.cloned(tracee, event),
            libc::PTRACE_EVENT_EXEC => self.executed(tracee),
            _ if signal == libc::SIGTRAP | 0x80 => self.system_call(tracee),
            _ if signal == libc::SIGTRAP && event == 0 => self.trapped(tracee),
            0 => self.resume(tracee, signal),
            _ => self.resume(tracee, 0),
        };
        match answered {
            // It was killed meanwhile: its end is the next that we hear of it.
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => self.let_go(tracee, signal, event, &error),
            _ => {}
        }
    }

    /// What cannot be answered must not stay stopped, with everybody who waits for it: a trap that cannot be taken away
    /// ends its program as any would.
    fn let_go(&mut self, tracee: Tracee, signal: i32, event: i32, error: &io::Error) {
        let comm = os::process::comm(tracee.0.cast_unsigned()).unwrap_or_default();
        self.seen.notes.push(format!("what {comm} did after a stop that could not be answered ({error})"));
        let signal = if signal == libc::SIGTRAP && event == 0 { signal } else { 0 };
        // Its end, or nothing more, is what we hear of it.
        let _ = tracee.resume(Resume::Continue, signal);
    }

    fn resume(&self, tracee: Tracee, signal: i32) -> io::Result<()> {
        let thread = self.threads.get(&tracee);
        let space = thread.and_then(|thread| self.spaces.get(&thread.space));
        let how = match (thread, space) {
            (Some(Thread { over: Some(_), .. }), _) => Resume::Step,
            (_, Some(space)) if space.stepping => Resume::ToSystemCall,
            _ => Resume::Continue,
        };
        tracee.resume(how, signal)
    }

    fn ended(&mut self, tracee: Tracee) {
        self.early.remove(&tracee);
        if let Some(thread) = self.threads.remove(&tracee) {
            self.leave(thread.space);
        }
        if let Some(process) = self.processes.get_mut(&tracee.0) {
            process.end_ns = Some(monotonic_ns());
        }
    }

    /// A new thread's first stop, a group-stop, or the end of one.
    fn stopped(&mut self, tracee: Tracee, signal: i32) -> io::Result<()> {
        if !self.threads.contains_key(&tracee) {
            self.early.insert(tracee);
            return Ok(());
        }
        self.note_base(tracee);
        match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => tracee.listen(),
            _ => self.resume(tracee, 0),
        }
    }

    /// A thread or a process was made.
    fn cloned(&mut self, parent: Tracee, event: i32) -> io::Result<()> {
        let child = Tracee(parent.event_message()?);
        if let Some(thread) = self.threads.get(&parent) {
            let id = thread.space;
            let shares = tracee::same_memory(parent, child).unwrap_or(event != libc::PTRACE_EVENT_FORK);
            let space = self.spaces.get_mut(&id);
            match space {
                Some(space) if shares => {
                    space.users += 1;
                    self.threads.insert(child, Thread { space: id, begins: false, maps_code: false, over: None });
                }
                Some(space) => {
                    let copy = space.forked(child);
                    self.callers.fork(space.number(), self.owners.len() as u32);
                    self.add_space(child, copy);
                }
                None => {}
            }
            if event != libc::PTRACE_EVENT_CLONE || !shares {
                self.begin_process(child.0, parent.0);
            }
        }
        if self.early.remove(&child) {
            self.note_base(child);
            // A child that was killed in the meantime says so by itself.
            let _ = self.resume(child, 0);
        }
        self.resume(parent, 0)
    }

    fn begin_process(&mut self, pid: i32, parent_thread: i32) {
        let parent = process_of(parent_thread).unwrap_or(parent_thread);
        let process = SeenProcess {
            pid,
            parent,
            comm: os::process::comm(pid.cast_unsigned()).unwrap_or_default(),
            exe: self.processes.get(&parent).and_then(|parent| parent.exe.clone()),
            start_ns: monotonic_ns(),
            end_ns: None,
        };
        if let Some(before) = self.processes.insert(pid, process) {
            self.seen.processes.push(before);
        }
    }

    /// A program begins: all that was known of the process is gone, except its signals that are ignored.
    fn executed(&mut self, tracee: Tracee) -> io::Result<()> {
        // Any thread may call exec; from then on it has the number of the first one.
        let former = Tracee(tracee.event_message()?);
        for gone in [former, tracee] {
            if let Some(thread) = self.threads.remove(&gone) {
                self.leave(thread.space);
            }
        }
        let pid = tracee.0.cast_unsigned();
        let exe = os::process::exe(pid);
        if let Some(process) = self.processes.get_mut(&tracee.0) {
            process.comm = os::process::comm(pid).unwrap_or_default();
            process.exe = exe.clone().map(Into::into);
        }
        let mut space = Space::new(tracee);
        let ignored = os::process::status_value(pid, "SigIgn").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        if ignored.is_some_and(|mask| mask & (1 << (libc::SIGTRAP - 1)) != 0) {
            space.trap_action = TrapAction::Ignored;
        }
        // The end of exec is where the program can first make system calls for us.
        space.stepping = true;
        self.add_space(tracee, space);
        if let Some(thread) = self.threads.get_mut(&tracee) {
            thread.begins = true;
        }
        if let Some(exe) = exe {
            self.note_lost_rights(&exe);
        }
        self.resume(tracee, 0)
    }

    /// What depends on the program that was executed.
    fn begin_program(&mut self, tracee: Tracee) {
        let Some(space) = self.threads.get(&tracee).and_then(|thread| self.spaces.get_mut(&thread.space)) else {
            return;
        };
        let Some(program) = space.program(tracee, &self.library) else { return };
        let program = self.library.get(program);
        space.is_32 = program.is_32;
        // Until the program's own first instruction, its loader maps its libraries.
        space.loading = program.has_interpreter;
        let waits = space.relocating(&self.library).is_some_and(|place| space.is_trapped(tracee, place));
        space.stepping = space.loading && !waits;
        if !program.has_interpreter && program.hooks.loader.is_none() {
            self.seen
                .notes
                .push(format!("libraries that {} opens itself: it is linked statically", model::shown(&program.path)));
        }
    }

    /// A set-user-ID program of a tracer without rights runs with the rights of its caller.
    fn note_lost_rights(&mut self, exe: &std::path::Path) {
        use std::os::unix::fs::MetadataExt;
        let Ok(metadata) = std::fs::metadata(exe) else { return };
        let set_id = metadata.mode() & (libc::S_ISUID | libc::S_ISGID) != 0;
        if set_id && !rustix::process::geteuid().is_root() {
            self.seen.notes.push(format!(
                "what {} does with the rights of its owner: while it is watched it has only yours (watch it as root)",
                model::shown(exe)
            ));
        }
    }

    /// Plants what is new.
    fn look(&mut self, tracee: Tracee) {
        self.near.let_go();
        let Some(space) = self.threads.get(&tracee).and_then(|thread| self.spaces.get_mut(&thread.space)) else {
            return;
        };
        let began = monotonic_ns();
        if let Ok(planted) = space.look(tracee, &mut self.library, &mut self.seen.notes) {
            if self.library.counting().is_some() {
                self.callers.look(space.number(), space.code(), began);
            }
            self.seen.planted_bytes += planted.bytes;
            self.seen.planting_ns += planted.ns;
        }
    }

    /// When the program itself begins, nothing is new, unless an initialiser has mapped code without the loader.
    fn look_late(&mut self, tracee: Tracee) {
        let before = self.seen.planted_bytes;
        self.look(tracee);
        if self.seen.planted_bytes > before {
            let comm = os::process::comm(tracee.0.cast_unsigned()).unwrap_or_default();
            self.seen.notes.push(format!(
                "what {comm} called before its first instruction in code that an initialiser mapped without the loader"
            ));
        }
    }

    /// A system call begins or ends, while a loader is at work.
    fn system_call(&mut self, tracee: Tracee) -> io::Result<()> {
        match tracee.system_call()? {
            SystemCall::Entry { arch, number, arguments } => {
                if let Some(thread) = self.threads.get_mut(&tracee) {
                    thread.maps_code = maps_code(arch, number, arguments);
                }
            }
            SystemCall::Exit(_) | SystemCall::Neither => {
                let thread = self.threads.get_mut(&tracee);
                let (begins, maps_code) = thread.map_or((false, false), |thread| {
                    (std::mem::take(&mut thread.begins), std::mem::take(&mut thread.maps_code))
                });
                if begins && let Some(space) = self.space_of_mut(tracee) {
                    space.stepping = false;
                }
                if begins || maps_code {
                    self.look(tracee);
                }
                if begins {
                    self.begin_program(tracee);
                }
            }
        }
        self.resume(tracee, 0)
    }

    /// SIGTRAP: one of our traps, one instruction after it, or the program's own.
    fn trapped(&mut self, tracee: Tracee) -> io::Result<()> {
        let code = tracee.signal_code()?;
        let over = self.threads.get_mut(&tracee).and_then(|thread| thread.over.take());
        if let Some(address) = over {
            self.replant(tracee, address);
            if is_step(code) {
                return self.resume(tracee, 0);
            }
        }
        if matches!(code, tracee::SI_KERNEL | tracee::TRAP_BRKPT) {
            let address = tracee.register(Register::Ip)?.wrapping_sub(1);
            let trap = self.space_of(tracee).and_then(|space| space.trap_at(address, &self.library));
            if let Some(trap) = trap {
                return self.hit(tracee, address, trap);
            }
            if self.space_of(tracee).is_some_and(|space| space.is_guard(address, &self.library)) {
                self.sigaction(tracee)?;
                return self.resume(tracee, 0);
            }
            self.note_copy(tracee, address);
        }
        self.own_trap(tracee)
    }

    fn space_of(&self, tracee: Tracee) -> Option<&Space> {
        self.spaces.get(&self.threads.get(&tracee)?.space)
    }

    fn space_of_mut(&mut self, tracee: Tracee) -> Option<&mut Space> {
        self.spaces.get_mut(&self.threads.get(&tracee)?.space)
    }

    /// A trap of ours: the byte is put back, and the thread begins the function again.
    fn hit(&mut self, tracee: Tracee, address: u64, trap: Trap) -> io::Result<()> {
        self.near.to(tracee);
        let counted = trap.function.and_then(|function| self.library.get(trap.module).chosen_at(function));
        if let Some(number) = counted {
            self.count(tracee, trap.module, number)?;
            if trap.hook.is_none() {
                return self.pass(tracee, address, &trap);
            }
        }
        let is_first = self.note(tracee, &trap);
        match trap.hook {
            Some(Hook::Loader) => return self.loader(tracee, address, &trap),
            Some(Hook::Sigaction) => {
                self.sigaction(tracee)?;
                self.set_byte(tracee, address, trap.original)?;
                tracee.set_register(Register::Ip, address)?;
                if let Some(thread) = self.threads.get_mut(&tracee) {
                    thread.over = Some(address);
                }
                return self.resume(tracee, 0);
            }
            Some(Hook::Entry) => {
                let program = self.space_of(tracee).and_then(|space| space.program(tracee, &self.library));
                if program == Some(trap.module)
                    && let Some(space) = self.space_of_mut(tracee)
                {
                    (space.loading, space.stepping) = (false, false);
                    self.look_late(tracee);
                }
            }
            Some(Hook::Relocating) => self.look(tracee),
            None if is_first => {}
            None => {
                // It saves stops; without it each trap is met by itself.
                let _ = self.space_of(tracee).map(|space| space.sweep(tracee, address, &self.library));
            }
        }
        self.set_byte(tracee, address, trap.original)?;
        tracee.set_register(Register::Ip, address)?;
        self.resume(tracee, 0)
    }

    /// Counts a call that has stopped.
    fn count(&mut self, tracee: Tracee, id: ModuleId, number: usize) -> io::Result<()> {
        if !self.recording {
            return Ok(());
        }
        let module = self.library.get(id);
        if module.hooks.ptrace == Some(module.functions[module.chosen[number].function].offset) {
            self.note_ptrace(tracee);
        }
        let width = if self.library.get(id).is_32 { 4 } else { 8 };
        let sp = tracee.register(Register::Sp)?;
        let Some(space) = self.space_of(tracee) else { return Ok(()) };
        let mut back = [0; 8];
        space.memory().read(tracee, sp, &mut back[..width])?;
        let stop = Stop { space: space.number(), back: u64::from_le_bytes(back), tid: tracee.0, at_ns: monotonic_ns() };
        self.callers.stopped(id, number, stop);
        Ok(())
    }

    /// Goes on behind a breakpoint that stays: where a copy of the instruction under it is, or by doing what that does.
    fn pass(&mut self, tracee: Tracee, address: u64, trap: &Trap) -> io::Result<()> {
        let Some(space) = self.space_of(tracee) else { return self.resume(tracee, 0) };
        if let Some(piece) = space.piece(address) {
            tracee.set_register(Register::Ip, piece)?;
            return self.resume(tracee, 0);
        }
        let module = self.library.get(trap.module);
        let code = module.bytes(trap.offset, 15);
        if let Some(done) = emulated(code, address, &tracee.registers()?, module.is_32) {
            if let Some((at, value, width)) = done.pushed {
                space.memory().write(tracee, at, &value.to_le_bytes()[..width])?;
            }
            tracee.set_registers(&done.registers)?;
            return self.resume(tracee, 0);
        }
        if space.users > 1 {
            let function = trap.function.and_then(|function| module.chosen_at(function));
            let name = function.map(|number| module.chosen[number].name.clone()).unwrap_or_default();
            let comm = os::process::comm(tracee.0.cast_unsigned()).unwrap_or_default();
            self.seen.notes.push(format!(
                "all calls of {name} in {comm}: the breakpoint is away while a thread passes it, others come unseen, \
                    and the count is too low"
            ));
        }
        self.set_byte(tracee, address, trap.original)?;
        tracee.set_register(Register::Ip, address)?;
        if let Some(thread) = self.threads.get_mut(&tracee) {
            thread.over = Some(address);
        }
        self.resume(tracee, 0)
    }

    fn set_byte(&self, tracee: Tracee, address: u64, byte: u8) -> io::Result<()> {
        self.space_of(tracee).map_or(Ok(()), |space| space.set_byte(tracee, address, byte, &self.library))
    }

    fn replant(&self, tracee: Tracee, address: u64) {
        // A process that is gone needs no trap.
        let _ = self.set_byte(tracee, address, tracee::TRAP);
    }

    /// Notes the call of a function, if it is the first; `false`: it is not.
    fn note(&mut self, tracee: Tracee, trap: &Trap) -> bool {
        let Some(index) = trap.function else { return false };
        let module = self.library.get_mut(trap.module);
        if !module.call(index) {
            return false;
        }
        if !self.recording {
            return true;
        }
        let function = module.functions[index];
        if module.hooks.ptrace == Some(function.offset) {
            self.note_ptrace(tracee);
        }
        self.seen.calls.push(Call {
            file: trap.module.0,
            offset: function.offset,
            len: function.len,
            at_ns: monotonic_ns(),
            tid: tracee.0,
        });
        true
    }

    fn note_ptrace(&mut self, tracee: Tracee) {
        let comm = os::process::comm(tracee.0.cast_unsigned()).unwrap_or_default();
        self.seen.notes.push(format!(
            "what {comm} would see with ptrace: it called it, and a program that is watched cannot be traced by \
                another"
        ));
    }

    /// A trap at a place where we planted none: the program's own, or it has copied its code with ours in it. The first
    /// copy is noted.
    fn note_copy(&mut self, tracee: Tracee, address: u64) {
        // To look through all functions takes a while, and who has traps of its own has many.
        if self.seen.copied.is_some() || !self.own_traps.insert(address) {
            return;
        }
        let Some(space) = self.space_of(tracee).filter(|space| !space.is_of_file(address, &self.library)) else {
            return;
        };
        if let Some((module, function)) = copied::original(space, tracee, address, &self.library) {
            self.seen.copied = Some(Copied {
                file: module.0,
                offset: self.library.get(module).functions[function].offset,
                address,
                comm: os::process::comm(tracee.0.cast_unsigned()).unwrap_or_default(),
            });
        }
    }

    /// The loader says that it has mapped something. Its function does nothing, so it is left without running it.
    fn loader(&mut self, tracee: Tracee, address: u64, trap: &Trap) -> io::Result<()> {
        self.look(tracee);
        // A library that audits others is opened, and given its addresses, before they are mapped.
        let loading = self.space_of(tracee).filter(|space| space.loading && !space.stepping);
        if let Some(there) = loading.and_then(|space| space.relocating(&self.library)) {
            self.set_byte(tracee, there, tracee::TRAP)?;
        }
        let code = self.library.get(trap.module).bytes(trap.offset, 8);
        if !is_empty_function(code) {
            // Then every system call is looked at, for as long as the program runs: slow, but nothing is missed.
            self.set_byte(tracee, address, trap.original)?;
            tracee.set_register(Register::Ip, address)?;
            if let Some(space) = self.space_of_mut(tracee) {
                space.stepping = true;
            }
            return self.resume(tracee, 0);
        }
        let sp = tracee.register(Register::Sp)?;
        let mut word = [0; 8];
        let width = if self.library.get(trap.module).is_32 { 4 } else { 8 };
        if let Some(space) = self.space_of(tracee) {
            space.memory().read(tracee, sp, &mut word[..width])?;
        }
        tracee.set_register(Register::Ip, u64::from_le_bytes(word))?;
        tracee.set_register(Register::Sp, sp.wrapping_add(width as u64))?;
        self.resume(tracee, 0)
    }

    /// The program calls sigaction: what it wants for SIGTRAP is remembered, because the kernel forgets it when a
    /// thread that blocks SIGTRAP meets a trap of ours.
    fn sigaction(&mut self, tracee: Tracee) -> io::Result<()> {
        let Some(space) = self.space_of_mut(tracee) else { return Ok(()) };
        let mut word = [0; 8];
        let (signal, action, width) = if space.is_32 {
            let sp = tracee.register(Register::Sp)?;
            space.memory().read(tracee, sp.wrapping_add(4), &mut word)?;
            let [a, b, c, d, e, f, g, h] = word;
            (u64::from(u32::from_le_bytes([a, b, c, d])), u64::from(u32::from_le_bytes([e, f, g, h])), 4)
        } else {
            (tracee.register(Register::First)?, tracee.register(Register::Second)?, 8)
        };
        if signal as i32 != libc::SIGTRAP || action == 0 {
            return Ok(());
        }
        // The handler is the first field of the structure.
        let mut handler = [0; 8];
        space.memory().read(tracee, action, &mut handler[..width])?;
        space.trap_action = match u64::from_le_bytes(handler) {
            0 => TrapAction::Default,
            1 => TrapAction::Ignored,
            handler => TrapAction::Handler(handler),
        };
        Ok(())
    }

    /// A SIGTRAP of the program itself. If the kernel has forgotten what is to happen with it, it is told again.
    fn own_trap(&mut self, tracee: Tracee) -> io::Result<()> {
        let pid = tracee.0.cast_unsigned();
        let mask = |key: &str| os::process::status_value(pid, key).and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        let bit = 1 << (libc::SIGTRAP - 1);
        let action = self.space_of(tracee).map_or(TrapAction::Default, |space| space.trap_action);
        match action {
            TrapAction::Ignored if mask("SigIgn").is_some_and(|ignored| ignored & bit == 0) => self.resume(tracee, 0),
            TrapAction::Handler(handler) if mask("SigCgt").is_some_and(|caught| caught & bit == 0) => {
                self.give_back_handler(tracee, handler)?;
                self.resume(tracee, libc::SIGTRAP)
            }
            _ => self.resume(tracee, libc::SIGTRAP),
        }
    }

    /// Makes the stopped thread set its handler of SIGTRAP again: flags, mask and restorer are still as it set them.
    fn give_back_handler(&mut self, tracee: Tracee, handler: u64) -> io::Result<()> {
        let Some(space) = self.space_of(tracee) else { return Ok(()) };
        let lost = || io::Error::other("its handler of SIGTRAP cannot be set again");
        let abi = if space.is_32 { Abi::I386 } else { Abi::X86_64 };
        let call = space.code_of(abi.system_call_instruction(), &self.library).ok_or_else(lost)?;
        let saved = tracee.registers()?;
        let place = abi.place_below(saved.rsp);
        let mut before = [0; ACTION];
        space.memory().read(tracee, place, &mut before)?;
        let mut late = step(tracee, &abi.sigaction_of_trap(&saved, call, 0, place))?;
        let mut action = [0; ACTION];
        space.memory().read(tracee, place, &mut action)?;
        // The handler is the structure's first field.
        let width = abi.width();
        action[..width].copy_from_slice(&handler.to_le_bytes()[..width]);
        space.memory().write(tracee, place, &action)?;
        late.extend(step(tracee, &abi.sigaction_of_trap(&saved, call, place, 0))?);
        space.memory().write(tracee, place, &before)?;
        tracee.set_registers(&saved)?;
        send_again(tracee, late);
        Ok(())
    }
}

/// Room for the kernel's structure of a signal's action: handler, flags, restorer, mask. That of 64-bit programs is the
/// larger one, that of 32-bit programs has 20 bytes.
const ACTION: usize = 32;

/// How a program calls the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abi {
    X86_64,
    I386,
}

impl Abi {
    /// `syscall` and `int 0x80`.
    fn system_call_instruction(self) -> [u8; 2] {
        match self {
            Self::X86_64 => [0x0f, 0x05],
            Self::I386 => [0xcd, 0x80],
        }
    }

    /// Bytes of an address.
    fn width(self) -> usize {
        match self {
            Self::X86_64 => 8,
            Self::I386 => 4,
        }
    }

    /// Where a stopped function has nothing of its own: below its stack pointer, and what it may use there.
    fn place_below(self, sp: u64) -> u64 {
        let red_zone = match self {
            Self::X86_64 => 128,
            Self::I386 => 0,
        };
        sp.wrapping_sub(red_zone + ACTION as u64) & !15
    }

    /// Registers with which the instruction at `call` is `rt_sigaction(SIGTRAP, new, old)`.
    fn sigaction_of_trap(
        self,
        saved: &libc::user_regs_struct,
        call: u64,
        new: u64,
        old: u64,
    ) -> libc::user_regs_struct {
        /// rt_sigaction of i386.
        const RT_SIGACTION_32: u64 = 174;
        /// Bytes of a signal mask, in both.
        const MASK: u64 = 8;
        let (signal, no_call) = (libc::SIGTRAP as u64, u64::MAX);
        // No system call is to be restarted because of this one.
        let begun = libc::user_regs_struct { rip: call, orig_rax: no_call, ..*saved };
        match self {
            Self::X86_64 => libc::user_regs_struct {
                rax: libc::SYS_rt_sigaction as u64,
                rdi: signal,
                rsi: new,
                rdx: old,
                r10: MASK,
                ..begun
            },
            Self::I386 => {
                libc::user_regs_struct { rax: RT_SIGACTION_32, rbx: signal, rcx: new, rdx: old, rsi: MASK, ..begun }
            }
        }
    }
}

/// The process of a thread.
fn process_of(tid: i32) -> Option<i32> {
    os::process::status_value(tid.cast_unsigned(), "Tgid")?.parse().ok()
}

/// Whether a system call may give a process code to run: mmap of a file, or mprotect, with PROT_EXEC.
fn maps_code(arch: u32, number: u64, arguments: [u64; 6]) -> bool {
    let executable = arguments[2] & libc::PROT_EXEC as u64 != 0;
    match (arch, number) {
        // mmap, mprotect
        (ARCH_64, 9 | 10) | (ARCH_32, 192 | 125) => executable,
        // The old mmap, whose arguments are in memory.
        (ARCH_32, 90) => true,
        _ => false,
    }
}

/// Whether code only returns: `ret`, as `_dl_debug_state` does, with what compilers put in front of it.
fn is_empty_function(code: &[u8]) -> bool {
    let marked = [[0xf3, 0x0f, 0x1e, 0xfa], [0xf3, 0x0f, 0x1e, 0xfb]];
    let rest = marked.iter().find_map(|mark| code.strip_prefix(mark)).unwrap_or(code);
    rest.first() == Some(&0xc3) || rest.starts_with(&[0xf3, 0xc3])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_function_only_returns() {
        assert!(is_empty_function(&[0xc3, 0x90]));
        assert!(is_empty_function(&[0xf3, 0xc3]));
        assert!(is_empty_function(&[0xf3, 0x0f, 0x1e, 0xfa, 0xc3]));
        assert!(!is_empty_function(&[0x55, 0x48, 0x89, 0xe5, 0xc3]));
        assert!(!is_empty_function(&[]));
    }

    #[test]
    fn code_comes_by_mmap_and_mprotect() {
        let with = |protection: u64| [0, 4096, protection, 2, 3, 0];
        assert!(maps_code(ARCH_64, 9, with(5)));
        assert!(!maps_code(ARCH_64, 9, with(1)));
        assert!(maps_code(ARCH_32, 192, with(5)));
        assert!(!maps_code(ARCH_32, 9, with(5)));
    }
}
