//! What a browser says of a load, and the script that asks for it; both browsers know the same words.

use crate::talk::Trouble;
use model::{Error, Exit, Result};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Before anything of a page runs: room for the timing of all its requests. Browsers keep 250.
pub const BEFORE: &str = "performance.setResourceTimingBufferSize(100000)";

/// An expression: a promise of JSON with what [`Loaded`] holds, after the load.
///
/// The largest paint is told late, after its frame was shown: so the script waits for a first paint and a moment
/// longer. Both lie behind the load and are in no time. A page that paints nothing is not waited for without end.
pub const SCRIPT: &str = "new Promise(done => {
  let largest = null;
  try {
    new PerformanceObserver(list => { for (const entry of list.getEntries()) largest = entry.startTime })
      .observe({ type: 'largest-contentful-paint', buffered: true });
  } catch {}
  const tell = () => {
    const page = performance.getEntriesByType('navigation')[0];
    const first = performance.getEntriesByName('first-contentful-paint')[0];
    const all = [page, ...performance.getEntriesByType('resource')].filter(it => /^https?:/.test(it.name));
    const kept = all.filter(it => it.transferSize === 0 && it.decodedBodySize > 0);
    const untold = all.filter(it => it.transferSize === 0 && it.decodedBodySize === 0);
    done(JSON.stringify({
      url: page.name, status: page.responseStatus ?? 0, load_ms: page.loadEventEnd,
      first_paint_ms: first ? first.startTime : null, largest_paint_ms: largest,
      requests: all.length, from_cache: kept.length, untold: untold.length,
      bytes: all.reduce((sum, it) => sum + it.transferSize, 0), protocol: page.nextHopProtocol ?? '',
    }));
  };
  let looks = 0, painted = 0;
  const look = () => {
    const page = performance.getEntriesByType('navigation')[0];
    if (performance.getEntriesByName('first-contentful-paint').length > 0) painted++;
    if (page && page.loadEventEnd > 0 && (painted > 4 || ++looks > 40)) tell(); else setTimeout(look, 50);
  };
  look();
})";

/// One load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Where it ended, after redirects.
    pub url: String,
    /// Status of the page's answer; 0: the browser does not tell.
    pub status: u16,
    /// Until the page's load event was over, milliseconds.
    pub load_ms: f64,
    /// Until the first text or image was seen, milliseconds; `None`: none was.
    pub first_paint_ms: Option<f64>,
    /// Until the largest text or image was seen, milliseconds; `None`: none was, or the browser does not tell.
    pub largest_paint_ms: Option<f64>,
    /// Things that the page needs, itself included, wherever they came from.
    pub requests: u64,
    /// Of these, what came from the browser's own cache without a word to anybody.
    pub from_cache: u64,
    /// Of these, what other origins do not let the page know about (no `Timing-Allow-Origin`), and empty answers.
    pub untold: u64,
    /// Bytes that came over the network, of what is told.
    pub bytes: u64,
    /// How the page itself came, by its name in ALPN: `http/1.1`, `h2`. Empty: the browser does not tell.
    pub protocol: String,
}

impl Loaded {
    /// From the script's JSON.
    ///
    /// # Errors
    /// The page was an error of its server, or of the browser.
    pub fn from_json(text: &str, url: &str) -> Result<Self> {
        let loaded: Self = serde_json::from_str(text)
            .map_err(|error| Error::new(Exit::Target, "the browser gives no timing of", url).because(error))?;
        if loaded.status >= 400 {
            let cause = format!("its server answered {}", loaded.status);
            return Err(Error::new(Exit::Target, "cannot load", url).because(cause));
        }
        Ok(loaded)
    }
}

/// A load that did not come to an end, as an error that names the page.
pub fn not_loaded(trouble: Trouble, url: &str, patience: Duration) -> Error {
    match trouble {
        Trouble::Interrupted => Error::interrupted(),
        Trouble::Late => Error::new(Exit::Target, format!("did not load in {} s:", patience.as_secs_f64()), url)
            .hint("give it more: --timeout TIME"),
        Trouble::Gone(cause) => Error::new(Exit::Target, "the browser went away while it loaded", url).because(cause),
        Trouble::Refused(text) => Error::new(Exit::Target, "cannot load", url).because(text),
    }
}

/// A question beside a load that was not answered.
pub fn not_answered(trouble: Trouble, browser: &str, what: &str) -> Error {
    let error = Error::new(Exit::Target, format!("no answer to {what} from"), browser);
    match trouble {
        Trouble::Interrupted => Error::interrupted(),
        Trouble::Late => error.because("the time is over"),
        Trouble::Gone(cause) => error.because(cause),
        Trouble::Refused(text) => error.because(text),
    }
}
