//! What the guest has mapped for itself: thaw leaves it out where it looks for pointers of the program.

use core::sync::atomic::{AtomicU64, Ordering::*};
use heap_wire::own::{Own, PLACES};

/// [`Own`], with words that threads may change.
#[repr(C)]
struct Shared {
    count: AtomicU64,
    reserved: u64,
    places: [[AtomicU64; 2]; PLACES],
}

const _: () = assert!(size_of::<Shared>() == size_of::<Own>());

static OWN: Shared =
    Shared { count: AtomicU64::new(0), reserved: 0, places: [const { [const { AtomicU64::new(0) }; 2] }; PLACES] };

/// Where thaw finds it.
pub fn address() -> u64 {
    &raw const OWN as u64
}

/// Memory came.
pub fn came(at: usize, length: usize) {
    let number = OWN.count.fetch_add(1, Relaxed);
    if let Some([place, bytes]) = OWN.places.get(number as usize) {
        place.store(at as u64, Relaxed);
        bytes.store(length as u64, Relaxed);
    }
}

/// Memory goes, all that was mapped with it.
pub fn went(at: usize) {
    let is_it = |[place, _]: &&[AtomicU64; 2]| place.load(Relaxed) == at as u64;
    if let Some([_, bytes]) = OWN.places.iter().find(is_it) {
        bytes.store(0, Relaxed);
    }
}
