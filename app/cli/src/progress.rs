//! Progress on stderr: a bar on a terminal, now and then a line elsewhere, nothing with `--quiet`.

use crate::output;
use crate::text::progress::{elapsed, step};
use bench::conduct::{Progress as Now, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use model::RunKind;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Not more than one line in this time, where lines are kept.
const BETWEEN_LINES: Duration = Duration::from_secs(1);
/// A step that takes longer says so this often.
const STILL_THERE: Duration = Duration::from_secs(10);

/// Says what is going on.
pub struct Progress {
    shown: Shown,
}

enum Shown {
    Nothing,
    Lines(Lines),
    Bar(ProgressBar),
}

struct Lines {
    last: Option<Instant>,
}

impl Progress {
    /// For this process: by what stderr is.
    pub fn new(quiet: bool) -> Self {
        let shown = if quiet {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(bar())
        } else {
            Shown::Lines(Lines { last: None })
        };
        Self { shown }
    }

    /// A step outside the schedule: the warm-up, the resolving of a trace.
    pub fn note(&mut self, what: &str, in_step: Duration) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines(lines) => {
                let due = lines.last.is_none_or(|last| last.elapsed() >= STILL_THERE);
                if due {
                    lines.say(&format!("{what}{}", so_far(in_step)));
                }
            }
            Shown::Bar(bar) => bar.set_message(format!("{what}{}", so_far(in_step))),
        }
    }

    /// A step of the schedule.
    pub fn show(&mut self, now: &Now, names: &[String]) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines(lines) => lines.show(now, names),
            Shown::Bar(bar) => {
                bar.set_length(now.planned.into());
                bar.set_position(now.done.into());
                bar.set_message(format!("{}{}", step(now, names), so_far(now.in_step)));
            }
        }
    }

    /// Work on many files: how many are done, and what is done with them.
    pub fn files(&mut self, done: u64, of: u64, what: &'static str) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines(lines) => {
                // A short work needs no line at all.
                if lines.last.get_or_insert_with(Instant::now).elapsed() >= STILL_THERE {
                    lines.say(&format!("[{done}/{of}] files {what}"));
                }
            }
            Shown::Bar(bar) => {
                bar.set_length(of);
                bar.set_position(done);
                bar.set_message(format!("files {what}"));
            }
        }
    }

    /// Takes the bar away.
    pub fn done(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.done();
    }
}

impl Lines {
    fn show(&mut self, now: &Now, names: &[String]) {
        let since = self.last.map(|last| last.elapsed());
        let due = match now.step {
            // Traced runs are few and each is worth a line.
            Step::Ran if now.kind == RunKind::Trace => true,
            Step::Ran => since.is_none_or(|since| since >= BETWEEN_LINES) || now.done == now.planned,
            Step::Preparing | Step::Running => since.is_none_or(|since| since >= STILL_THERE),
        };
        if due {
            let count = format!("[{}/{}]", now.done, now.planned);
            let time = if now.step == Step::Ran { String::new() } else { so_far(now.in_step) };
            self.say(&format!("{count} {}{time} (elapsed {})", step(now, names), elapsed(now.elapsed)));
        }
    }

    fn say(&mut self, line: &str) {
        self.last = Some(Instant::now());
        output::complain(&format!("{line}\n"));
    }
}

/// `, 12 s` once a step takes noticeable time.
fn so_far(in_step: Duration) -> String {
    if in_step.as_secs() < 1 { String::new() } else { format!(", {}", elapsed(in_step)) }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len}  {elapsed}  {wide_msg}");
    bar.set_style(style.expect("the template is a constant and right"));
    bar
}
