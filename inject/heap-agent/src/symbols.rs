//! Looking names up among the loaded objects without dlsym, which allocates when it fails and needs a C library of the
//! same age.

use crate::linker::{PT_DYNAMIC, PT_LOAD, PhdrInfo, dl_iterate_phdr};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;

/// A symbol of an ELF file.
#[repr(C)]
pub struct Symbol {
    pub name: u32,
    info: u8,
    _other: u8,
    pub section: u16,
    value: u64,
    size: u64,
}

/// What is needed of an object's dynamic section.
#[derive(Clone, Copy, Default)]
pub struct Dynamic {
    pub strings: u64,
    pub symbols: u64,
    /// Relocation tables: address, bytes.
    pub tables: [(u64, u64); 2],
    hash: u64,
    /// The older hash table: some C libraries have no other.
    old_hash: u64,
    versions: u64,
}

/// Which definition is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The first: what the program means.
    First,
    /// The first in another object than this crate's that comes after it: what ours stand in front of.
    Next,
    /// The first in another object than this crate's, wherever that is: what the program has without ours.
    Other,
}

/// The address of a function; 0: nobody defines it.
pub fn find(name: &CStr, which: Which) -> usize {
    struct Search<'a> {
        name: &'a CStr,
        /// Whether definitions count yet.
        open: bool,
        skip_own: bool,
        found: usize,
    }
    extern "C" fn each(info: *const PhdrInfo, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the loader's record of a loaded object, and our search.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search<'_>>()) };
        let Some(object) = Loaded::of(info) else { return 0 };
        if !search.open || search.skip_own && object.is_own {
            search.open |= object.is_own;
            return 0;
        }
        // SAFETY: a loaded object.
        if let Some(address) = unsafe { object.define(search.name) } {
            search.found = address;
            return 1;
        }
        0
    }
    let mut search = Search { name, open: which != Which::Next, skip_own: which == Which::Other, found: 0 };
    // SAFETY: the callback and its data are valid during the call.
    unsafe { dl_iterate_phdr(each, (&raw mut search).cast()) };
    search.found
}

/// A loaded object with a dynamic section.
pub struct Loaded {
    pub bias: u64,
    pub dynamic: Dynamic,
    /// Whether it is this crate's.
    pub is_own: bool,
}

impl Loaded {
    /// `None`: it has nothing to look up; the vdso, whose section is not relocated.
    pub fn of(info: &PhdrInfo) -> Option<Self> {
        let own = find as *const () as u64;
        let (mut at, mut is_own) = (0, false);
        for index in 0..info.count as usize {
            // SAFETY: below the number of headers.
            let header = unsafe { &*info.headers.add(index) };
            let start = info.bias.wrapping_add(header.address);
            match header.kind {
                PT_DYNAMIC => at = start,
                PT_LOAD => is_own |= (start..start.wrapping_add(header.bytes)).contains(&own),
                _ => {}
            }
        }
        // SAFETY: names are zero-terminated.
        let name = unsafe { crate::text::of_c(info.name) };
        if at == 0 || name.starts_with(b"linux-vdso") {
            return None;
        }
        // SAFETY: the dynamic section of a loaded object.
        let dynamic = unsafe { read_dynamic(at, info.bias) };
        (dynamic.strings != 0 && dynamic.symbols != 0).then_some(Self { bias: info.bias, dynamic, is_own })
    }

    /// The address of a function that the object defines.
    ///
    /// # Safety
    /// The object stays loaded.
    unsafe fn define(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the caller vouches.
        unsafe { self.place(name) }.map(|place| place.start as usize)
    }

    /// Where a function or a variable is that the object defines, by its GNU hash table, or one by one where there is
    /// none.
    ///
    /// # Safety
    /// The object stays loaded.
    pub unsafe fn place(&self, name: &CStr) -> Option<Range<u64>> {
        let range = |symbol: &Symbol| {
            let start = self.bias.wrapping_add(symbol.value);
            start..start.saturating_add(symbol.size)
        };
        let table = self.dynamic.hash as *const u32;
        if table.is_null() {
            let old = self.dynamic.old_hash as *const u32;
            // SAFETY: the second word of the older table is the number of symbols.
            let count = if old.is_null() { 0 } else { unsafe { *old.add(1) } };
            // SAFETY: below that number.
            let found = (1..count).find(|index| unsafe { self.is(*index, name) })?;
            // SAFETY: as above.
            return Some(range(unsafe { &*(self.dynamic.symbols as *const Symbol).add(found as usize) }));
        }
        let hash =
            name.to_bytes().iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        // SAFETY: the layout of the GNU hash table: four words, filter, buckets, chains.
        unsafe {
            let (buckets, first, filter) = (*table, *table.add(1), *table.add(2) as usize);
            if buckets == 0 {
                return None;
            }
            let bucket = table.add(4 + 2 * filter);
            let chain = bucket.add(buckets as usize);
            let mut index = *bucket.add((hash % buckets) as usize);
            if index < first {
                return None;
            }
            loop {
                let value = *chain.add((index - first) as usize);
                if (value | 1) == (hash | 1) && self.is(index, name) {
                    return Some(range(&*(self.dynamic.symbols as *const Symbol).add(index as usize)));
                }
                if value & 1 != 0 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// Whether a symbol is a function of this name in its default version.
    ///
    /// # Safety
    /// `index` is one of the object's symbols.
    unsafe fn is(&self, index: u32, name: &CStr) -> bool {
        const FUNCTION: u8 = 2;
        const OBJECT: u8 = 1;
        // SAFETY: the caller vouches.
        unsafe {
            let symbol = &*(self.dynamic.symbols as *const Symbol).add(index as usize);
            let versions = self.dynamic.versions as *const u16;
            let hidden = !versions.is_null() && *versions.add(index as usize) & 0x8000 != 0;
            symbol.section != 0
                && matches!(symbol.info & 15, FUNCTION | OBJECT)
                && !hidden
                && CStr::from_ptr((self.dynamic.strings + u64::from(symbol.name)) as *const c_char) == name
        }
    }
}

/// # Safety
/// `at` is the dynamic section of an object loaded at `bias`.
unsafe fn read_dynamic(at: u64, bias: u64) -> Dynamic {
    let mut found = Dynamic::default();
    // The C library has relocated these addresses, other ones may not.
    let place = |value: u64| if value < bias { value.wrapping_add(bias) } else { value };
    let mut entry = at as *const [u64; 2];
    // SAFETY: the section ends with a zero entry.
    unsafe {
        while (*entry)[0] != 0 {
            let [tag, value] = *entry;
            match tag {
                5 => found.strings = place(value),
                6 => found.symbols = place(value),
                23 => found.tables[0].0 = place(value),
                2 => found.tables[0].1 = value,
                7 => found.tables[1].0 = place(value),
                8 => found.tables[1].1 = value,
                4 => found.old_hash = place(value),
                0x6fff_fef5 => found.hash = place(value),
                0x6fff_fff0 => found.versions = place(value),
                _ => {}
            }
            entry = entry.add(1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_c_library_are_found() {
        let own = find(c"getauxval", Which::First);
        unsafe extern "C" {
            fn getauxval(kind: core::ffi::c_ulong) -> core::ffi::c_ulong;
        }
        assert_eq!(own, getauxval as *const () as usize);
        assert_eq!(find(c"no_such_function_anywhere", Which::First), 0);
        // The test program is the first object, so the C library's come next.
        assert_ne!(find(c"malloc", Which::Next), 0);
    }
}
