//! A storage as a reporter of memory reports (`thaw_memreport`): what its areas and its news have on the heap, block by
//! block, and what waits to be written.

use crate::cell::Cell;
use crate::handle::{Home, Inner};
use crate::map::Bytes;
use crate::shared::Shared;
use crate::store::Storage;
use crate::text::Text;
use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use thaw_memreport::{Collection, Id, Kind, Units};

/// A key or value is counted behind two counters of its own: so `Arc` keeps it.
const COUNTERS: usize = 2 * size_of::<usize>();

/// A storage that is reported. Dropped, it is no more.
pub struct Reporter(Id);

impl Drop for Reporter {
    fn drop(&mut self) {
        thaw_memreport::unregister(self.0);
    }
}

/// What a reporter holds of a storage: not its thread, so that the storage ends where the program lets go of it.
enum Reported {
    Disk(Weak<Shared>),
    Memory(Weak<Inner>),
}

/// What waits in memory.
struct Held {
    cells: Vec<Arc<Cell>>,
    texts: Vec<Text>,
}

impl Reported {
    fn held(&self) -> Option<Held> {
        match self {
            Reported::Disk(shared) => {
                let shared = shared.upgrade()?;
                let cells = shared.cells().values().cloned().collect();
                Some(Held { cells, texts: shared.feed.texts() })
            }
            Reported::Memory(inner) => {
                let inner = inner.upgrade()?;
                let cells = inner.cells().values().cloned().collect();
                Some(Held { cells, texts: inner.feed().texts() })
            }
        }
    }
}

/// Reports a storage by this name, in reports as `explicit/webstorage/NAME/values` (keys, values and their order) and
/// `…/events` (what only news that nobody took hold), in bytes of the heap; and as `webstorage/NAME/areas` (in memory,
/// or on their way to it), `…/keys`, `…/waiting` (bytes of changes that are not in a file yet) and `…/texts` (keys and
/// values of others' changes that wait to be taken). Not in it: the index of keys and the storage itself. While it is
/// asked, keys are noted under the lock that a setter takes.
pub fn report(storage: &Storage, name: &str) -> Reporter {
    let reported = match &storage.inner.home {
        Home::Disk(shared) => Reported::Disk(Arc::downgrade(shared)),
        Home::Memory { .. } => Reported::Memory(Arc::downgrade(&storage.inner)),
    };
    let name = name.replace('/', "\\");
    Reporter(thaw_memreport::register(&format!("webstorage {name}"), move |collection| {
        if let Some(held) = reported.held() {
            say(&held, &name, collection);
        }
    }))
}

fn say(held: &Held, name: &str, collection: &mut Collection<'_>) {
    let mut known = HashSet::new();
    // One block may be a key of two maps, or a value and in the news.
    let mut measure = |collection: &mut Collection<'_>, bytes: &Bytes| {
        let block = (Arc::as_ptr(bytes).cast::<u8>() as usize - COUNTERS) as *const c_void;
        if known.insert(block as usize) { collection.measure(block) } else { 0 }
    };
    let (mut values, mut keys, mut waiting) = (0, 0, 0);
    for cell in &held.cells {
        let all: Vec<(Bytes, Bytes)> = {
            let state = cell.lock();
            values += collection.measure(state.map.slots());
            waiting += state.pending.bytes() + cell.taken.load(Ordering::Relaxed);
            state.map.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        keys += all.len();
        for (key, value) in &all {
            values += measure(collection, key) + measure(collection, value);
        }
    }
    let of = |what| format!("webstorage/{name}/{what}");
    let heap = |what| format!("explicit/{}", of(what));
    let says = "Keys and values of areas and tables in memory, and their order.";
    collection.report(&heap("values"), Kind::Heap, Units::Bytes, values as i64, says);
    let mut events = 0;
    for text in &held.texts {
        events += measure(collection, &text.0);
    }
    let says = "Keys and values that only changes of other processes hold, which were not taken from the news.";
    collection.report(&heap("events"), Kind::Heap, Units::Bytes, events as i64, says);
    let says = "Areas and tables in memory, or on their way to it.";
    collection.report(&of("areas"), Kind::Other, Units::Count, held.cells.len() as i64, says);
    collection.report(&of("keys"), Kind::Other, Units::Count, keys as i64, "Keys in memory.");
    let says = "Changes that are not in a file yet, as long as they will be there.";
    collection.report(&of("waiting"), Kind::Other, Units::Bytes, waiting as i64, says);
    let says = "Keys and values in the changes of other processes that were not taken from the news.";
    collection.report(&of("texts"), Kind::Other, Units::Count, held.texts.len() as i64, says);
}
