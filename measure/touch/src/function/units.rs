//! Which object file a function was linked from, by debug data: a compilation unit is what one object file was compiled
//! from, and has the name of its source. Not for lines, and not for what was inlined.

use super::starts::Texts;
use elf::{Image, debug};
use std::path::{Path, PathBuf};

/// The compilation units of a file by place.
#[derive(Debug, Default)]
pub struct Units {
    texts: Texts,
    /// Address, the place behind it, and which unit; by address.
    ranges: Vec<(u64, u64, usize)>,
    names: Vec<PathBuf>,
}

impl Units {
    /// From the debug data of `symbols`, which lies at `path` and is `program` itself or of the same build; `None`:
    /// there are none.
    ///
    /// # Errors
    /// They cannot be read; in words.
    pub fn of(symbols: &[u8], path: &Path, program: &[u8]) -> Result<Option<Self>, String> {
        let image = Image::of(symbols).map_err(|miss| miss.to_string())?;
        let units = debug::with_dwarf(&image, path, |dwarf| {
            let mut units = Self { texts: Texts::of(program), ..Self::default() };
            let mut headers = dwarf.units();
            while let Some(header) = headers.next()? {
                units.add(dwarf, header)?;
            }
            Ok(units)
        })?;
        Ok(units.filter(|units| !units.names.is_empty()).map(|mut units| {
            units.ranges.sort_unstable();
            units
        }))
    }

    fn add(
        &mut self,
        dwarf: &gimli::Dwarf<debug::Slice<'_>>,
        header: gimli::UnitHeader<debug::Slice<'_>>,
    ) -> gimli::Result<()> {
        let unit = dwarf.unit(header)?;
        let Some(name) = unit.name else { return Ok(()) };
        let text = |slice: debug::Slice<'_>| String::from_utf8_lossy(slice.slice()).into_owned();
        let number = self.names.len();
        let mut ranges = dwarf.unit_ranges(&unit)?;
        while let Some(range) = ranges.next()? {
            // What the linker threw away is at 0.
            if range.begin > 0 && range.begin < range.end {
                self.ranges.push((range.begin, range.end, number));
            }
        }
        self.names.push(Path::new(&unit.comp_dir.map(text).unwrap_or_default()).join(text(name)));
        Ok(())
    }

    /// The source of the object file whose function begins at an offset.
    pub fn get(&self, offset: u64) -> Option<&Path> {
        let address = self.texts.address_of(offset)?;
        let behind = self.ranges.partition_point(|(begin, ..)| *begin <= address);
        let (_, end, unit) = self.ranges.get(behind.checked_sub(1)?)?;
        (address < *end).then(|| &*self.names[*unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::{Names, function_starts};

    #[test]
    fn a_function_is_of_the_source_that_it_was_compiled_from() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let units = Units::of(&bytes, &path, &bytes).unwrap().expect("tests are built with debug data");
        let names = Names::of(&bytes);
        let own = |offset: u64| names.get(offset).is_some_and(|name| name.contains("units5tests"));
        let starts = function_starts(&bytes).unwrap().functions;
        let sources: Vec<&Path> =
            starts.iter().filter(|it| own(it.offset)).filter_map(|it| units.get(it.offset)).collect();
        assert!(
            !sources.is_empty() && sources.iter().all(|path| path.to_string_lossy().contains("src/lib.rs")),
            "{sources:?}"
        );
        assert_eq!(units.get(u64::MAX), None);
    }

    #[test]
    fn what_is_no_program_has_no_units() {
        assert!(Units::of(b"text", Path::new("/nowhere"), b"text").is_err());
    }
}
