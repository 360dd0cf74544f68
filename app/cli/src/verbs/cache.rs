//! `thaw cache`: the directory of a cache.

use crate::args::cache::{CacheArgs, CacheVerb};
use crate::{output, text};
use model::{Error, Exit, Result};
use std::io::Write as _;
use work::caches::CacheDirectory;

/// Does what was asked.
///
/// # Errors
/// A directory that holds no cache, is another user's or in use; a URL that is not kept.
pub fn run(args: &CacheArgs) -> Result<Exit> {
    let width = text::width::of_terminal();
    match &args.verb {
        CacheVerb::Ls(args) => {
            let document = CacheDirectory::open(&args.directory)?.answers(&args.prefix, false);
            output::answer(args.json, &document, || text::cache::list(&document, args.rows.most(), width))?;
        }
        CacheVerb::Show(args) => {
            let mut cache = CacheDirectory::open(&args.directory)?;
            let mut document = cache.answers(&args.url, true);
            document.answers.retain(|answer| answer.url == args.url);
            if document.answers.is_empty() {
                return Err(Error::new(Exit::Usage, "nothing is kept for", &args.url)
                    .hint("`thaw cache ls` prints the URLs that are there"));
            }
            if args.body {
                let cannot = |cause| Error::new(Exit::Machine, "cannot write to", "stdout").because(cause);
                let body = cache.body(&args.url);
                let body = body.ok_or_else(|| Error::new(Exit::Data, "cannot read what is kept for", &args.url))?;
                std::io::stdout().write_all(&body).map_err(cannot)?;
                return Ok(Exit::Done);
            }
            output::answer(args.json, &document, || text::cache::show(&document, width))?;
        }
        CacheVerb::Stat(args) => {
            let mut document = CacheDirectory::open(&args.directory)?.answers("", false);
            document.answers.clear();
            output::answer(args.json, &document, || text::cache::stat(&document, width))?;
        }
        CacheVerb::Verify(args) => {
            let document = CacheDirectory::open(&args.directory)?.verify();
            output::answer(args.json, &document, || text::cache::verify(&document, width))?;
            return Ok(if document.broken.is_empty() { Exit::Done } else { Exit::Data });
        }
        CacheVerb::Clear(args) => {
            let count = CacheDirectory::open(&args.directory)?.clear(&args.prefix);
            output::page(&text::cache::cleared(count, width))?;
        }
    }
    Ok(Exit::Done)
}
