//! At what moments the registers and stacks of a process tree are taken, and whether this is allowed here.

use super::{Scope, record, sys};
use model::{Bytes, Error, Exit, Nanos, Result};
use std::io;

/// The kernel cannot write a record of 64 KiB; it shortens the stack where its other parts are long.
const LONGEST_STACK: u64 = 65_528;

/// When a sample is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// So much CPU time has passed again: of a thread, which has a clock on each CPU, so that what is left over of its
    /// last tick is up to one tick on each of them; with [`Scope::System`] of a CPU, whoever ran.
    Clock(Nanos),
    /// A thread leaves its CPU; in its own context.
    Leaves,
    /// A thread hits a tracepoint, by its id.
    Point(u64),
}

/// Samples of a process and all that it starts, with registers and stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackEvent {
    /// When they are taken.
    pub moment: Moment,
    /// At most so much of the program's stack; less than 64 KiB, in steps of 8 bytes.
    pub stack: Bytes,
    /// At most so many frames of the kernel, the innermost ones: each costs about 0.1 us. 0: as many as the kernel's
    /// settings allow (`kernel.perf_event_max_stack`).
    pub frames: u16,
    /// Whether it is also taken while the kernel works for the thread. Needs rights; without it only [`Moment::Clock`]
    /// is of use: at the other moments the kernel is always at work.
    pub kernel: bool,
    /// A kernel-side filter of a [`Moment::Point`] (`"common_flags & 16"`), if any.
    pub filter: Option<&'static str>,
    /// Whose. An event of a tree costs at the beginning and end of each of its threads, 5 us (a clock) to 20 us (a
    /// tracepoint) for each CPU, and a clock also where a thread leaves a CPU. One of everybody costs nothing there,
    /// but strangers are taken, too.
    pub scope: Scope,
}

impl StackEvent {
    /// Whether this may be opened by the calling thread, for processes of its own user.
    ///
    /// # Errors
    /// It may not be; the error says what would allow it.
    pub fn check(&self) -> Result<()> {
        // Never enabled; on the calling thread, or on a CPU.
        let attr = self.attr(sys::Attr { flags: sys::DISABLED, ..sys::Attr::default() });
        let (pid, cpu) = if self.scope == Scope::Tree { (0, -1) } else { (-1, 0) };
        sys::open(&attr, pid, cpu).map(drop).map_err(|cause| self.refused(cause))
    }

    /// Whether a [`super::GroupFilter`] says whose: a tracepoint's would be one for all who look at it.
    pub(super) fn takes_group(&self) -> bool {
        self.scope == Scope::System && !matches!(self.moment, Moment::Point(_))
    }

    /// On the base of all events of a sampler.
    pub(super) fn attr(&self, base: sys::Attr) -> sys::Attr {
        let inherit = if self.scope == Scope::Tree { sys::INHERIT } else { 0 };
        let (kind, config, sample_period) = match self.moment {
            Moment::Clock(period) => (sys::TYPE_SOFTWARE, sys::SW_TASK_CLOCK, period.0),
            Moment::Leaves => (sys::TYPE_SOFTWARE, sys::SW_CONTEXT_SWITCHES, 1),
            Moment::Point(id) => (sys::TYPE_TRACEPOINT, id, 1),
        };
        let modest = if self.kernel { 0 } else { sys::EXCLUDE_KERNEL | sys::EXCLUDE_HV };
        sys::Attr {
            kind,
            config,
            sample_period,
            sample_type: record::stack::SAMPLE_TYPE,
            flags: base.flags | inherit | sys::EXCLUDE_CALLCHAIN_USER | modest,
            sample_regs_user: sys::REGS_USER,
            sample_stack_user: (self.stack.0.min(LONGEST_STACK) / 8 * 8) as u32,
            sample_max_stack: self.frames,
            ..base
        }
    }

    /// The error of one that the kernel does not give.
    pub(super) fn refused(&self, cause: io::Error) -> Error {
        let what = match self.moment {
            Moment::Clock(_) => "cannot sample by the clock where threads are",
            Moment::Leaves => "cannot sample where threads leave their CPU",
            Moment::Point(_) => "cannot sample where threads hit a tracepoint",
        };
        let hint = match cause.raw_os_error() {
            Some(libc::EMFILE) => "too many files are open: `ulimit -n 65536` and try again",
            Some(libc::ESRCH) => "the process is gone",
            Some(libc::EACCES | libc::EPERM) if !self.kernel => {
                "run thaw as root, or let users look at their own programs: `sysctl kernel.perf_event_paranoid=2`"
            }
            Some(libc::EACCES | libc::EPERM) if matches!(self.moment, Moment::Point(_)) => {
                "run thaw as root, or set `sysctl kernel.perf_event_paranoid=-1`"
            }
            Some(libc::EACCES | libc::EPERM) => "run thaw as root, or set `sysctl kernel.perf_event_paranoid=1`",
            _ => "this kernel cannot do it: it needs perf events with registers and stacks of programs",
        };
        Error::new(Exit::Machine, what, "").because(cause).hint(hint)
    }
}
