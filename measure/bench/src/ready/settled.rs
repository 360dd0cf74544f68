//! `settled`: the program brings nothing into the page cache any more and hardly computes. For programs that do not
//! tell.
//!
//! Counters of the whole run are read every [`INTERVAL`]: page-cache fills (a perf event on the kernel's
//! `mm_filemap_add_to_page_cache`), CPU time (of its control group, or by a perf event), and the time for which its
//! threads waited for a CPU. The program has settled at the beginning of the first [`QUIET`] in which there was no fill
//! and less than [`BUSY_SHARE`] of one CPU was used or waited for, added up over all of it: a blinking cursor settles,
//! and a program that a busy machine keeps from running does not. The time is coarse by [`INTERVAL`], and the run lasts
//! [`QUIET`] longer than it. A program that waits for a slow network has settled as well: this probe cannot know.

use super::{Fired, Probe, Tree, View};
use model::{Error, Exit, Result};
use os::perf::{Count, Counter};
use os::spawn::{Launch, monotonic_ns};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(20);

/// For how long there must be no activity.
const QUIET: Duration = Duration::from_millis(500);

/// How many looks at the counters there are for one at the waiting threads, which costs more.
const LOOKS_PER_WAIT: u32 = 5;

/// Share of one CPU that still counts as quiet.
const BUSY_SHARE: f64 = 0.05;

/// See the file.
#[derive(Default)]
pub(super) struct Settled {
    fills: Option<Counter>,
    /// Where there is no control group.
    cpu: Option<Counter>,
    history: History,
    waits: Waits,
    looks: u32,
    fired: bool,
}

impl Probe for Settled {
    fn prepare(&mut self, _launch: &mut Launch) -> Result<()> {
        Ok(())
    }

    fn arm(&mut self, tree: &Tree) -> Result<()> {
        let cannot = |cause: Error| {
            Error::new(Exit::Machine, "--ready settled cannot count page-cache fills", "")
                .because(cause)
                .hint("run thaw as root, or use another --ready")
        };
        let format = os::tracefs::Tracefs::open()
            .and_then(|tracefs| tracefs.tracepoint("filemap", "mm_filemap_add_to_page_cache"))
            .map_err(cannot)?;
        let counter = Counter::open(Count::Tracepoint(format.id), tree.main).map_err(cannot)?;
        if counter.is_none() {
            return Err(cannot(Error::new(Exit::Machine, "the kernel refuses the perf event", "")));
        }
        self.fills = counter;
        self.cpu = Counter::open(Count::TaskClock, tree.main).map_err(cannot)?;
        Ok(())
    }

    fn interval(&self) -> Option<Duration> {
        (!self.fired).then_some(INTERVAL)
    }

    fn look(&mut self, view: &View<'_>, fired: &mut Vec<Fired>) -> Result<()> {
        let (false, Some(fills)) = (self.fired, &self.fills) else { return Ok(()) };
        let by_group = view.tree.cgroup.as_ref().and_then(|group| group.cpu().ok().flatten());
        let cpu_ns = match (by_group, &self.cpu) {
            (Some(times), _) => times.total.0,
            (None, Some(clock)) => clock.read()?,
            (None, None) => 0,
        };
        if self.looks.is_multiple_of(LOOKS_PER_WAIT) {
            self.waits.look(&view.tree.pids());
        }
        self.looks += 1;
        let now = Reading { at_ns: monotonic_ns(), fills: fills.read()?, busy_ns: cpu_ns + self.waits.total_ns };
        if let Some(at_ns) = self.history.add(now) {
            self.fired = true;
            fired.push(Fired { name: "settled".to_owned(), at_ns });
        }
        Ok(())
    }
}

/// For how long the threads of a run waited for a CPU, as far as the kernel tells (`/proc/PID/task/TID/schedstat`): of
/// a thread that ended, what was seen last; of one that waits just now, when it has got its CPU.
#[derive(Debug, Default)]
struct Waits {
    last: HashMap<u32, u64>,
    total_ns: u64,
}

impl Waits {
    fn look(&mut self, pids: &[u32]) {
        let mut now = HashMap::new();
        for pid in pids {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            let numbers = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse::<u32>().ok());
            now.extend(numbers.filter_map(|tid| Some((tid, waited_ns(*pid, tid)?))));
        }
        self.add(now);
    }

    fn add(&mut self, now: HashMap<u32, u64>) {
        let more = now.iter().map(|(tid, waited)| waited.saturating_sub(self.last.get(tid).copied().unwrap_or(0)));
        self.total_ns += more.sum::<u64>();
        self.last = now;
    }
}

/// The second of the three numbers.
fn waited_ns(pid: u32, tid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at_ns: u64,
    fills: u64,
    /// CPU time used and waited for.
    busy_ns: u64,
}

/// The readings of the last [`QUIET`], the oldest first.
#[derive(Default)]
struct History(VecDeque<Reading>);

impl History {
    /// Adds a reading; returns when the program settled, once it has.
    fn add(&mut self, now: Reading) -> Option<u64> {
        // Nothing before a fill can be quiet.
        if self.0.back().is_some_and(|last| last.fills != now.fills) {
            self.0.clear();
        }
        self.0.push_back(now);
        // The shortest stretch up to now that is long enough.
        while self.0.get(1).is_some_and(|next| now.at_ns - next.at_ns >= QUIET.as_nanos() as u64) {
            self.0.pop_front();
        }
        let first = self.0.front()?;
        let long = now.at_ns - first.at_ns;
        let busy = now.busy_ns.saturating_sub(first.busy_ns);
        let settled = long >= QUIET.as_nanos() as u64 && (busy as f64) < BUSY_SHARE * long as f64;
        settled.then_some(first.at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings every 20 ms: `f` a fill, `c` 5 ms of CPU, `b` 0.2 ms, `.` nothing. Returns the interval in which it
    /// settled, and when that was known.
    fn settle(picture: &str) -> Option<(u64, u64)> {
        let mut history = History::default();
        let mut now = Reading { at_ns: 0, fills: 0, busy_ns: 0 };
        history.add(now);
        for (index, what) in picture.chars().enumerate() {
            now.at_ns += 20_000_000;
            match what {
                'f' => now.fills += 1,
                'c' => now.busy_ns += 5_000_000,
                'b' => now.busy_ns += 200_000,
                _ => {}
            }
            if let Some(at_ns) = history.add(now) {
                return Some((at_ns / 20_000_000, index as u64 + 1));
            }
        }
        None
    }

    #[test]
    fn the_time_is_the_beginning_of_the_first_quiet_half_second() {
        assert_eq!(settle(&format!("ffcf{}", ".".repeat(40))), Some((4, 29)));
        // 40 ms of CPU: 25 ms and more are 5 % of half a second.
        assert_eq!(settle(&format!("ff....{}{}", "c".repeat(8), ".".repeat(40))), Some((10, 35)));
        assert_eq!(settle(&format!("ff....cc{}", ".".repeat(40))), Some((2, 27)), "10 ms are no work");
    }

    #[test]
    fn a_fill_at_the_last_moment_counts() {
        assert_eq!(settle(&format!("f{}f{}", ".".repeat(24), ".".repeat(30))), Some((26, 51)));
        assert_eq!(settle(&format!("f{}", ".".repeat(24))), None);
    }

    #[test]
    fn a_program_that_does_nothing_has_settled_at_once() {
        assert_eq!(settle(&".".repeat(30)), Some((0, 25)));
    }

    #[test]
    fn a_program_that_blinks_settles_always() {
        // 1 % of a CPU, evenly, and in one piece each half second: 5 ms, which is a quarter of their 20 ms.
        assert_eq!(settle(&format!("f{}", "b".repeat(40))), Some((1, 26)));
        for phase in 0..25 {
            let blink: String = (0..80).map(|index| if index % 25 == phase { 'c' } else { '.' }).collect();
            assert_eq!(settle(&format!("f{blink}")), Some((1, 26)), "phase {phase}");
        }
    }

    #[test]
    fn a_program_that_never_rests_never_settles() {
        assert_eq!(settle(&"f...c...".repeat(50)), None);
        // Exactly 5 %: five pieces of 5 ms in each half second.
        assert_eq!(settle(&format!("f{}", "c....".repeat(50))), None);
    }

    #[test]
    fn waiting_for_a_cpu_is_activity_and_is_added_up_by_thread() {
        let mut waits = Waits::default();
        waits.add(HashMap::from([(1, 1_000), (2, 500)]));
        assert_eq!(waits.total_ns, 1_500);
        // One went on waiting, one ended, one is new.
        waits.add(HashMap::from([(1, 4_000), (3, 200)]));
        assert_eq!(waits.total_ns, 4_700);
        waits.add(HashMap::from([(1, 4_000), (3, 200)]));
        assert_eq!(waits.total_ns, 4_700);
        let own = std::process::id();
        if waited_ns(own, own).is_none() {
            testing::skip("this kernel does not tell how long a thread waited");
        }
    }
}
