//! Which source file an initializer comes from, by debug data: in the file, or split off and found by build-id or name.
//!
//! A file without debug data has initializers without sources. Not for inlined calls or demangled names.

use crate::report::FileReport;
use elf::Image;
use elf::debug::{self, Slice};
use model::{Warning, WarningKind};
use object::ReadRef;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Adds source and line to each initializer, as far as debug data tell.
pub(crate) fn add<'data, R: ReadRef<'data>>(image: &Image<R>, path: &Path, report: &mut FileReport) {
    let functions = &mut report.initializers.functions;
    let mut wanted: Vec<u64> = functions.iter().filter_map(|function| function.address).collect();
    wanted.sort_unstable();
    wanted.dedup();
    if wanted.is_empty() {
        return;
    }
    let found = debug::with_dwarf(image, path, |dwarf| search(dwarf, &wanted));
    match found {
        Ok(None) => {}
        Ok(Some(found)) => functions
            .iter_mut()
            .for_each(|function| function.source = function.address.and_then(|address| found.get(&address).cloned())),
        Err(why) => {
            report.warnings.push(Warning::new(WarningKind::Note, format!("its debug data cannot be read: {why}")))
        }
    }
}

/// Source and line of these addresses, which are sorted: goes through the compilation units until each is found.
fn search(dwarf: &gimli::Dwarf<Slice>, wanted: &[u64]) -> gimli::Result<BTreeMap<u64, String>> {
    let mut found = BTreeMap::new();
    let mut headers = dwarf.units();
    while found.len() < wanted.len()
        && let Some(header) = headers.next()?
    {
        let unit = dwarf.unit(header)?;
        let mut ranges = dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            let from = wanted.partition_point(|address| *address < range.begin);
            for address in wanted[from..].iter().take_while(|address| **address < range.end) {
                if !found.contains_key(address)
                    && let Some(source) = source_of(dwarf, &unit, *address)?
                {
                    found.insert(*address, source);
                }
            }
        }
    }
    Ok(found)
}

/// `dir/file.cpp:12` by the unit's line table; without one, the unit's own name.
fn source_of(dwarf: &gimli::Dwarf<Slice>, unit: &gimli::Unit<Slice>, address: u64) -> gimli::Result<Option<String>> {
    let directory = unit.comp_dir.map(|directory| text(&directory));
    if let Some(program) = unit.line_program.clone() {
        let mut rows = program.rows();
        let mut before: Option<(u64, u64, Option<u64>)> = None;
        while let Some((header, row)) = rows.next_row()? {
            if let Some((start, file, line)) = before
                && (start..row.address()).contains(&address)
                && let Some(entry) = header.file(file)
            {
                let mut path = PathBuf::from(directory.unwrap_or_default());
                // The first directory is the one that the compiler ran in.
                if let Some(below) = entry.directory(header) {
                    let below = text(&dwarf.attr_string(unit, below)?);
                    if Path::new(&below) != path {
                        path.push(below);
                    }
                }
                path.push(text(&dwarf.attr_string(unit, entry.path_name())?));
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                return Ok(Some(format!("{}{line}", model::shown(&path))));
            }
            let line = row.line().map(std::num::NonZeroU64::get);
            before = (!row.end_sequence()).then_some((row.address(), row.file_index(), line));
        }
    }
    Ok(unit.name.map(|name| model::shown(&Path::new(&directory.unwrap_or_default()).join(text(&name)))))
}

fn text(reader: &Slice) -> String {
    String::from_utf8_lossy(reader.slice()).into_owned()
}
