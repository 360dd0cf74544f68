//! Who frees blocks that nobody made? Groups such frees of a recording (made with --free-stacks) by the innermost
//! frames.

use heapfile::ledger::{Change, Inconsistency, Ledger};
use heapfile::reader::Reader;
use std::collections::BTreeMap;

fn main() -> model::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "thaw.heap".into());
    let reader = Reader::open(directory.as_ref())?;
    for process in reader.processes() {
        let mut events = reader.events(process.id)?;
        let mut ledger = Ledger::new(process.origin);
        let mut sites: BTreeMap<String, u64> = BTreeMap::new();
        while let Some(event) = events.next()? {
            if ledger.enter(&event) != Change::Wrong(Inconsistency::FreeOfUnknown) {
                continue;
            }
            let frames = event.stack.into_iter().flat_map(|stack| events.stacks().frames(stack)).take(4);
            let names: Vec<String> = frames
                .map(|address| {
                    let module = address.module.and_then(|module| events.modules().get(module.0 as usize));
                    let name = module.and_then(|module| module.path.file_name()).unwrap_or_default();
                    format!("{}+{:#x}", name.to_string_lossy(), address.pc - module.map_or(0, |module| module.bias))
                })
                .collect();
            *sites.entry(names.join(" < ")).or_default() += 1;
        }
        let mut sites: Vec<_> = sites.into_iter().collect();
        sites.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (site, count) in sites.into_iter().take(10) {
            println!("{} {count} {site}", process.pid);
        }
    }
    Ok(())
}
