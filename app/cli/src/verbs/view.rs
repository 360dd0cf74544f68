//! `thaw view`: the page that people look at.

use crate::args::view::ViewArgs;
use crate::progress::Progress;
use crate::verbs::timeline;
use crate::{output, text};
use model::{Error, Exit, Result};
use os::kind::{self, Kind};
use std::sync::Arc;
use view::Open;
use work::heaps::live::Live;
use work::heaps::page::whole;
use work::progress::Tell;
use work::timelines::stored;
use work::{footprint, page};

/// Serves the page until Ctrl-C.
///
/// # Errors
/// A file that is no recording, or a port that is taken.
pub fn run(args: &ViewArgs) -> Result<Exit> {
    let since = args.since.as_deref();
    let events = match kind::of(&args.recording) {
        Some(Kind::Events) => true,
        Some(Kind::Recording) => stored::is_imported(&args.recording)?,
        None => timeline::has_events(&args.recording),
        _ => false,
    };
    if events && since.is_some() {
        return Err(Error::on(Exit::Usage, "cannot show what changed in events", &args.recording));
    }
    let open = if args.no_browser { Open::Nothing } else { Open::Browser };
    let announce = &mut |url: &str| output::complain(&format!("{url} shows it; Ctrl-C ends it\n"));
    if args.live {
        let telling: fn() -> Box<dyn Tell> = || Box::new(Progress::new(true));
        let live = Live::of(&args.recording, telling, |error| output::complain(&text::errors::error(error)))?;
        view::serve(Box::new(live), args.port, open, announce)?;
        return Ok(Exit::Done);
    }
    let page = match kind::of(&args.recording) {
        _ if args.why => work::why::page::page(&args.recording, &work::why::read(&args.recording)?)?,
        _ if events => timeline::page(std::slice::from_ref(&args.recording))?,
        Some(Kind::Heap) => whole(&args.recording, since, &Progress::telling(true))?,
        Some(Kind::MemoryReport | Kind::MemoryWatch) => footprint::whole_page(&args.recording, since)?,
        _ => {
            work::pageloads::refuse_page(&args.recording)?;
            if work::why::is_in(&args.recording)? {
                output::complain("the recording has where the time went too: --why shows it\n");
            }
            page::of_recording(&args.recording, None, since)?.0
        }
    };
    view::serve(Box::new(Arc::<str>::from(page)), args.port, open, announce)?;
    Ok(Exit::Done)
}
