//! What is known of a program whose environment may be changed: by its files and by the recorded starts.

use super::source::Source;
use elf::{Image, Role};
use model::{Result, RunRow};
use optimize::environment::{About, Allocator};
use optimize::files::Seen;
use os::mapped::Mapped;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// Looks at the program's files.
///
/// # Errors
/// The program is gone; interrupted.
pub fn about(source: &Source) -> Result<About> {
    let mut about = About {
        is_privileged: Seen::of(&source.program)?.is_privileged(&source.program),
        has_threads: source.rows.fills.iter().any(|fill| fill.tid != fill.pid),
        faults: source.loaded.runs.iter().filter_map(|(row, _)| faults(row, source)).max().unwrap_or(0),
        huge_when_asked: huge_when_asked(),
        set: set(source),
        ..About::default()
    };
    let mut has_glibc = false;
    let files = std::iter::once(&source.program).chain(source.candidates.iter().map(|it| &it.path));
    for path in files.collect::<BTreeSet<_>>() {
        os::interrupt::check()?;
        let Some(bytes) = File::open(path).ok().and_then(|file| Mapped::of(&file)) else { continue };
        let Ok(image) = Image::of(&bytes[..]) else { continue };
        if *path == source.program {
            about.is_dynamic = elf::interpreter(&bytes).is_some();
            has_glibc = elf::needed(&bytes).iter().any(|name| name == "libc.so.6");
        }
        about.lazy_calls += lazy_calls(&image);
        if allocates(&image) && !is_of_libc(path) {
            about.allocator = Allocator::Other(source.shown(path));
        }
    }
    if !has_glibc && about.allocator == Allocator::Glibc {
        about.allocator = Allocator::NoGlibc;
    }
    Ok(about)
}

fn faults(row: &RunRow, source: &Source) -> Option<u64> {
    let is_its = source.loaded.names.get(row.variant as usize) == Some(&source.variant);
    (row.accepted && is_its).then_some(row.minor_faults)
}

/// Functions that are bound when they are first called.
fn lazy_calls(image: &Image<&[u8]>) -> u64 {
    if image.dynamic.as_ref().is_none_or(elf::Dynamic::binds_at_once) {
        return 0;
    }
    let tables = image.relocations().unwrap_or_default();
    tables.iter().filter(|table| table.role == Role::Plt).map(elf::Relocations::count).sum()
}

/// Whether a file has an allocator that takes the place of the C library's.
fn allocates(image: &Image<&[u8]>) -> bool {
    image.dynamic_symbols().is_some_and(|symbols| symbols.iter().any(|it| it.is_defined() && it.name == b"malloc"))
}

/// The loader has an allocator for itself.
fn is_of_libc(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["libc.so", "libc-2.", "ld-"].iter().any(|begin| name.starts_with(begin))
}

fn huge_when_asked() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_ok_and(|it| it.contains("[madvise]"))
}

/// Variables that the recorded program was started with.
fn set(source: &Source) -> Vec<String> {
    let inherited = std::env::vars_os().map(|(name, _)| name);
    let recorded = source.recorded.env.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| name.clone());
    inherited.chain(recorded).map(|name| name.to_string_lossy().into_owned()).collect()
}
