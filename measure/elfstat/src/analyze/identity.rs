//! What kind of file it is, and who made it.

use super::Facts;
use crate::report::{Identity, Kind};
use elf::Image;
use object::ReadRef;
use object::elf::{DF_1_PIE, DT_FLAGS_1, DT_SONAME, ET_CORE, ET_DYN, ET_EXEC, ET_REL, SHT_SYMTAB};

/// Longest `.comment` that is read; object files of many compilers leave some hundred bytes.
const COMMENT_LIMIT: u64 = 1 << 16;
/// Most names that are kept of it.
const NAMES_LIMIT: usize = 8;
/// Where gold leaves its name.
const GOLD: &str = ".note.gnu.gold-version";

pub(super) fn identity<'data, R: ReadRef<'data>>(facts: &Facts<'_, 'data, R>) -> Identity {
    let image = facts.image;
    let (mut linker, mut compilers) = (None, Vec::new());
    for name in comments(image) {
        if let Some(named) = name.strip_prefix("Linker: ") {
            linker = Some(named.to_owned());
        } else if name.starts_with("mold ") {
            linker = Some(name);
        } else if compilers.len() < NAMES_LIMIT && !compilers.contains(&name) {
            compilers.push(name);
        }
    }
    Identity {
        class: image.class,
        order: image.order,
        machine: elf::machine_name(image.machine),
        kind: kind(image),
        linker: linker.or_else(|| gold(image)),
        compilers,
        build_id: image.build_id.clone(),
        interpreter: image.interpreter.clone(),
        has_symbols: image.sections.iter().any(|section| section.kind == SHT_SYMTAB),
    }
}

fn kind<'data, R: ReadRef<'data>>(image: &Image<R>) -> Kind {
    if image.is_debug_data() {
        return Kind::DebugData;
    }
    let Some(dynamic) = &image.dynamic else {
        return match image.kind {
            ET_REL => Kind::Object,
            ET_CORE => Kind::Core,
            ET_EXEC => Kind::Static,
            _ => Kind::Other,
        };
    };
    let says_pie = dynamic.value(DT_FLAGS_1).unwrap_or(0) & DF_1_PIE.0 != 0;
    match (image.kind, &image.interpreter) {
        (ET_EXEC, Some(_)) => Kind::FixedProgram,
        (ET_EXEC, None) => Kind::Static,
        (ET_DYN, None) if says_pie => Kind::StaticPie,
        // Old linkers do not say it; some libraries (libc) can be run and have a name.
        (ET_DYN, Some(_)) if says_pie || dynamic.value(DT_SONAME).is_none() => Kind::Pie,
        (ET_DYN, _) => Kind::Library,
        _ => Kind::Other,
    }
}

/// The texts that compilers and linkers left in `.comment`.
fn comments<'data, R: ReadRef<'data>>(image: &Image<R>) -> Vec<String> {
    let section = image.section(".comment").filter(|section| section.len <= COMMENT_LIMIT);
    let bytes = section.and_then(|section| image.bytes_of(section)).unwrap_or_default();
    bytes.split(|byte| *byte == 0).filter(|text| !text.is_empty()).map(super::counts::shortened).collect()
}

/// A note: lengths of name and text, type, name `GNU`, text.
fn gold<'data, R: ReadRef<'data>>(image: &Image<R>) -> Option<String> {
    let section = image.section(GOLD).filter(|section| section.len <= COMMENT_LIMIT)?;
    let text = image.bytes_of(section)?.get(16..)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    Some(super::counts::shortened(&text[..end]))
}
