//! Progress on stderr: a bar on a terminal, now and then a line elsewhere, nothing with `--quiet`.

use crate::output;
use crate::text::progress::{elapsed, step};
use bench::conduct::{Progress as Now, Step};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use model::RunKind;
use std::io::IsTerminal;
use std::time::{Duration, Instant};
use work::progress::Tell;

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
    /// One for each piece of work.
    pub fn telling(quiet: bool) -> impl Fn() -> Box<dyn Tell> {
        move || Box::new(Self::new(quiet))
    }

    /// For this process: by what stderr is.
    pub fn new(quiet: bool) -> Self {
        let shown = if quiet {
            Shown::Nothing
        } else if std::io::stderr().is_terminal() {
            Shown::Bar(bar(ProgressDrawTarget::stderr()))
        } else {
            Shown::Lines(Lines { last: None })
        };
        Self { shown }
    }
}

impl Tell for Progress {
    fn note(&mut self, what: &str, in_step: Duration) {
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

    fn show(&mut self, now: &Now, names: &[String]) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines(lines) => lines.show(now, names),
            Shown::Bar(bar) => {
                count(bar, now.done.into(), now.planned.into());
                bar.set_message(format!("{}{}", step(now, names), so_far(now.in_step)));
            }
        }
    }

    fn files(&mut self, done: u64, of: u64, what: &'static str) {
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines(lines) => {
                // A short work needs no line at all.
                if lines.last.get_or_insert_with(Instant::now).elapsed() >= STILL_THERE {
                    lines.say(&format!("[{done}/{of}] files {what}"));
                }
            }
            Shown::Bar(bar) => {
                count(bar, done, of);
                bar.set_message(format!("files {what}"));
            }
        }
    }

    fn done(&mut self) {
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

/// Without a length: what is only noted has no end that is known.
fn bar(target: ProgressDrawTarget) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, target);
    bar.set_style(style("{wide_msg}"));
    bar
}

/// From the first count on there is a bar.
fn count(bar: &ProgressBar, done: u64, of: u64) {
    if bar.length().is_none() {
        // Before something is done, nothing says how long the rest takes.
        let left = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            if state.pos() > 0 && Some(state.pos()) < state.len() {
                let _ = write!(out, ", {} left", elapsed(state.eta()));
            }
        };
        bar.set_style(style("{bar:24} {pos}/{len}  {elapsed}{left}  {wide_msg}").with_key("left", left));
    }
    bar.set_length(of);
    bar.set_position(done);
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is a constant and right")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::sync::{Arc, Mutex};

    /// Keeps what is drawn.
    #[derive(Clone, Debug, Default)]
    struct Paper(Arc<Mutex<String>>);

    impl Paper {
        fn add(&self, text: &str) -> std::io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
    }

    impl TermLike for Paper {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> std::io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.add(text)
        }
        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.add(text)
        }
        fn clear_line(&self) -> std::io::Result<()> {
            self.add("\n")
        }
        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn there_is_a_bar_once_something_is_counted() {
        let paper = Paper::default();
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(paper.clone()), 255);
        let mut progress = Progress { shown: Shown::Bar(bar(target)) };
        progress.note("2 processes: PSS 4 MB", Duration::from_secs(7));
        let noted = std::mem::take(&mut *paper.0.lock().unwrap());
        assert!(noted.contains("2 processes: PSS 4 MB, 7 s"), "{noted:?}");
        assert!(!noted.contains("0/0") && !noted.contains('░'), "{noted:?}");
        progress.files(0, 12, "found");
        let begun = std::mem::take(&mut *paper.0.lock().unwrap());
        assert!(begun.contains("0/12") && !begun.contains("left"), "{begun:?}");
        progress.files(3, 12, "read");
        progress.note("storing", Duration::ZERO);
        let counted = std::mem::take(&mut *paper.0.lock().unwrap());
        assert!(
            counted.contains("3/12")
                && counted.contains(" left")
                && counted.contains("files read")
                && counted.contains("storing"),
            "{counted:?}"
        );
    }
}
