//! `thaw order`: order files for linkers, and lists of functions, from the first calls in recordings.

use crate::args::order::{Linker, List, OrderArgs};
use crate::{output, text};
use model::{Error, Exit, Result};
use touch::order;
use work::order::{Objects, Wanted, check_is_no_source, document, entries, never};

/// Prints or writes the order file, or a list.
///
/// # Errors
/// Recordings without calls, or of different builds; a stripped program without symbols; symbols of another build.
pub fn run(args: &OrderArgs) -> Result<Exit> {
    let linker = match args.linker {
        Linker::Lld => order::Linker::Lld,
        Linker::Gold => order::Linker::Gold,
        Linker::Ld => order::Linker::Ld,
        Linker::Mold => {
            return Err(Error::new(Exit::Usage, "mold has no option that orders functions", "")
                .hint("link with lld (--for lld), gold or GNU ld"));
        }
    };
    let wanted = Wanted {
        recordings: &args.recordings,
        file: args.file.as_deref(),
        symbols: args.symbols.as_deref(),
        objects: if args.list == Some(List::Objects) { Objects::Listed } else { Objects::LeftOut },
    };
    let document = document(&wanted)?;
    let order = || Ok(order::order_file(&entries(&document)?, linker));
    if let Some(target) = &args.output {
        check_is_no_source(target, &wanted, &document)?;
        output::file(target, order()?.as_bytes(), args.force.existing())?;
    }
    let width = text::width::of_terminal();
    match (args.json, args.list, &args.output) {
        (true, ..) => output::json(&document)?,
        (false, Some(list), _) => {
            let all = document.workloads.len() as u32;
            let called =
                |by_all: bool| document.order.iter().filter(move |function| (function.workloads >= all) == by_all);
            output::page(&match list {
                List::Hot => text::order::functions(called(true), width),
                List::Cold => text::order::functions(called(false), width),
                List::Never => text::order::functions(never(&document)?, width),
                List::Objects => text::order::objects(document.objects.iter().flatten(), width),
            })?;
        }
        (false, None, Some(target)) => output::page(&text::order::page(&document, target, args.linker, width))?,
        (false, None, None) => output::bytes(order()?.as_bytes())?,
    }
    Ok(Exit::Done)
}
