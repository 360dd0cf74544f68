//! A heap recording that is looked at while it grows: page and metrics are made anew when somebody asks for them, and
//! not so often that this takes more than a part of a CPU.

use super::look::Look;
use super::page;
use crate::progress::Tell;
use heap::export::metrics;
use heap::modes::{Measure, Split, Window};
use heap::named::{Filter, Named};
use heapfile::reader::Reader;
use heapfile::recording::Recording;
use model::{Error, Exit, Result};
use os::kind::{self, Kind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use view::{Source, again_after};

/// What was made stays for so long, seconds,
const LEAST: u64 = 5;
/// and for so many times as long as it took.
const SHARE: u32 = 20;

/// A recording, for [`view::serve`].
pub struct Live {
    directory: PathBuf,
    page: Mutex<Made>,
    metrics: Mutex<Made>,
    /// Are told how far reading is,
    told: Told,
    /// and why something could not be made anew; what was made before is served then.
    complain: fn(&Error),
}

/// As [`crate::progress::Telling`], from any thread.
type Told = fn() -> Box<dyn Tell>;

/// What was made.
struct Made {
    text: Arc<str>,
    /// When it is made anew; `None`: the recording has ended, and nothing changes any more.
    stale_at: Option<Instant>,
}

impl Live {
    /// Of a recording that is written, or was.
    ///
    /// # Errors
    /// It is another file, cannot be read, or has no process yet.
    pub fn of(directory: &Path, told: Told, complain: fn(&Error)) -> Result<Self> {
        if kind::of(directory) != Some(Kind::Heap) {
            return Err(Error::on(Exit::Usage, "only heap recordings are shown as they grow", directory)
                .hint("thaw heap run makes one; without --live others are shown, too"));
        }
        let (page, metrics) = (page_of(directory, told)?, metrics_of(directory)?);
        let (page, metrics) = (Mutex::new(page), Mutex::new(metrics));
        Ok(Self { directory: directory.to_owned(), page, metrics, told, complain })
    }

    /// What there is, made anew if it is time.
    fn fresh(&self, made: &Mutex<Made>, make: impl FnOnce(&Path) -> Result<Made>) -> Arc<str> {
        let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.stale_at.is_some_and(|at| Instant::now() >= at) {
            match make(&self.directory) {
                Ok(fresh) => *made = fresh,
                Err(error) => {
                    (self.complain)(&error);
                    made.stale_at = Some(Instant::now() + Duration::from_secs(LEAST));
                }
            }
        }
        made.text.clone()
    }
}

impl Source for Live {
    fn page(&self) -> Arc<str> {
        self.fresh(&self.page, |directory| page_of(directory, self.told))
    }

    fn metrics(&self) -> Option<Arc<str>> {
        Some(self.fresh(&self.metrics, metrics_of))
    }
}

fn page_of(directory: &Path, told: Told) -> Result<Made> {
    // The page shows the moment, not the peak: that is what grows.
    let look = Look { measure: Measure::End, window: Window::default(), filter: Filter::default() };
    let made = make(directory, || page::page(directory, None, &look, &told))?;
    let Some(at) = made.stale_at else { return Ok(made) };
    // A little later than it is stale, so that there is news.
    let seconds = at.saturating_duration_since(Instant::now()).as_secs() + 1;
    Ok(Made { text: again_after(&made.text, seconds).into(), ..made })
}

fn metrics_of(directory: &Path) -> Result<Made> {
    make(directory, || {
        let reader = Reader::open(directory)?;
        let named = Named::read(&reader, Window::default(), Split::Stack, &Filter::default())?;
        Ok(String::from_utf8_lossy(&metrics(&named)).into_owned())
    })
}

fn make(directory: &Path, text: impl FnOnce() -> Result<String>) -> Result<Made> {
    let began = Instant::now();
    // Asked first: what ends meanwhile is read once more.
    let goes_on = !Recording::read(directory)?.finished;
    let text = text()?.into();
    let later = (began.elapsed() * SHARE).max(Duration::from_secs(LEAST));
    Ok(Made { text, stale_at: goes_on.then(|| Instant::now() + later) })
}
