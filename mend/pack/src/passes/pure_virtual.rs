//! Vtable slots of pure virtual functions, which hold the address of `__cxa_pure_virtual` in the C++ library, point to
//! a trapping instruction in the file itself instead.
//!
//! Such a slot is only called by a program that is wrong. Then `__cxa_pure_virtual` prints "pure virtual method called"
//! and aborts; the trap stops the program too (SIGILL, on AArch64 SIGTRAP), without the message. A program that brings
//! a `__cxa_pure_virtual` of its own that does something else loses it, which is why this is never done unasked.

use super::code_room;
use super::draft::{Draft, Entry, Formula, formula};
use super::report::{Hindrance, Outcome, Pass, Report, Worth};
use super::symbolic::Tally;
use object::elf::{EM_386, EM_AARCH64, EM_ARM, EM_X86_64, Machine};

const NAME: &[u8] = b"__cxa_pure_virtual";

pub fn run(draft: &mut Draft<'_>) -> Report {
    let mut withheld = Tally::default();
    let outcome = match convert(draft, &mut withheld) {
        Ok(lookups) => Outcome::Done {
            saves: Worth { lookups, ..Worth::default() },
            sentence: format!("{lookups} slots of pure virtual functions point to a trap in the file"),
        },
        Err(sentence) => Outcome::NotDone { sentence },
    };
    Report { pass: Pass::PureVirtual, outcome, withheld: withheld.finish() }
}

/// The trap, behind a landing pad where the machine has them, and its alignment.
fn trap(machine: Machine) -> Option<(&'static [u8], u64)> {
    Some(match machine {
        // endbr64; ud2
        EM_X86_64 => (&[0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x0b], 1),
        // ud2
        EM_386 => (&[0x0f, 0x0b], 1),
        // bti c; brk #1
        EM_AARCH64 => (&[0x5f, 0x24, 0x03, 0xd5, 0x20, 0x00, 0x20, 0xd4], 4),
        // udf #0
        EM_ARM => (&[0xf0, 0x00, 0xf0, 0xe7], 4),
        _ => return None,
    })
}

fn convert(draft: &mut Draft<'_>, withheld: &mut Tally) -> Result<u64, String> {
    let image = draft.image;
    let symbols = image.dynamic_symbols().ok_or("its symbols cannot be read")?;
    let mut found: Vec<Entry> = Vec::new();
    for entry in draft.entries() {
        let relocation = &entry.relocation;
        let Some(symbol) = symbols.get(relocation.symbol as usize).filter(|symbol| symbol.name == NAME) else {
            continue;
        };
        let plain = formula(image.machine, relocation.kind) == Some(Formula::SymbolAndAddend)
            && draft.addend(&entry) == Some(0)
            && image.offset_of(relocation.offset, image.class.word().bytes()).is_some();
        match plain {
            _ if symbol.is_defined() => {
                return Err("it defines __cxa_pure_virtual itself, which may do more than stop the program".to_owned());
            }
            true => found.push(entry),
            false => withheld.add(Hindrance::OtherType, NAME, None),
        }
    }
    if found.is_empty() {
        return Err("no relocation names __cxa_pure_virtual".to_owned());
    }
    let (code, align) = trap(image.machine).ok_or("no trap is known for its machine")?;
    let room =
        code_room::find(draft, code.len() as u64, align).ok_or("there is no room for the trap behind its code")?;
    code_room::fill(draft, room, code);
    // Every word was found in the file above.
    Ok(found.iter().filter(|entry| draft.make_relative(entry, room.address)).count() as u64)
}
