//! Moves the dynamic section from the data to the loader's other tables at the front of the file, where the first read
//! brings it along.
//!
//! It becomes read-only there. glibc takes that from 2.35 on, musl always did; but tools that expect the loader to have
//! put absolute addresses into it break (some profilers and communication libraries), and debuggers need a program's to
//! be writable. So it is only done for libraries, and only where it saves a read: where nothing else in the pages of
//! the dynamic section is touched when the library is loaded.

use super::draft::Draft;
use super::report::{Outcome, Pass, Report, Worth};

/// What the first read of a file brings along, with the usual read-ahead.
const FIRST_READ: u64 = 128 << 10;
const PAGE: u64 = 4096;

/// Whether it is worth moving: [`Outcome::Done`] says that the layout shall do so.
pub fn judge(draft: &Draft<'_>) -> Report {
    let outcome = weigh(draft).unwrap_or_else(|sentence| Outcome::NotDone { sentence });
    Report { pass: Pass::DynamicFirst, outcome, withheld: Vec::new() }
}

/// The report where the layout found no room at the front.
pub fn no_room() -> Report {
    let sentence = "there is no room for the dynamic section among the loader's tables".to_owned();
    Report { pass: Pass::DynamicFirst, outcome: Outcome::NotDone { sentence }, withheld: Vec::new() }
}

fn weigh(draft: &Draft<'_>) -> Result<Outcome, String> {
    let image = draft.image;
    let dynamic = image.dynamic.as_ref().ok_or("it has no dynamic section")?;
    if image.interpreter.is_some() {
        return Err("debuggers need the dynamic section of a program to be writable".to_owned());
    }
    if dynamic.offset < FIRST_READ {
        return Err("the dynamic section lies near the front of the file already".to_owned());
    }
    let pages = dynamic.address / PAGE..dynamic.address.saturating_add(dynamic.len).div_ceil(PAGE);
    let touched = draft.targets()?.filter(|target| pages.contains(&(target / PAGE))).count();
    let saves = Worth { pages: pages.end - pages.start, ..Worth::default() };
    if touched != 0 {
        let sentence = format!("{touched} relocations touch the pages of the dynamic section anyway");
        return Ok(Outcome::CostsMore { saves: Worth::default(), costs: Worth::default(), sentence });
    }
    Ok(Outcome::Done { saves, sentence: "the dynamic section is read with the headers of the file".to_owned() })
}
