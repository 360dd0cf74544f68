//! What is not packed, judged by the file alone. What lies around a file (attributes,
//! neighbours, other names) is judged in `install`.

use crate::dynamic::Dynamic;
use crate::image::{Image, Segment, part, u32_at, up};
use crate::report::{Loader, Reason};
use crate::stop::{Stop, refuse, refuse_with_hint};
use object::elf::{
    DF_1_PIE, DF_TEXTREL, DT_ANDROID_REL, DT_ANDROID_RELA, DT_ANDROID_RELR, DT_DEBUG, DT_FLAGS, DT_FLAGS_1,
    DT_GNU_CONFLICT, DT_GNU_LIBLIST, DT_GNU_PRELINKED, DT_REL, DT_RELA, DT_RELR, DT_RELRENT, DT_RELRSZ, DT_TEXTREL,
    NT_GNU_BUILD_ID, PT_DYNAMIC, PT_INTERP, PT_NOTE, SHT_NOTE,
};

/// relrhack hides the tags of DT_RELR from the loader by this bit. Source: relrhack.cpp of Firefox.
const DT_RELRHACK_BIT: i64 = 0x800_0000;

/// The dynamic section, unless the file is of a kind that is not packed.
pub fn judge(image: &Image<'_>) -> Result<Dynamic, Stop> {
    if image.segment(PT_DYNAMIC).is_none() {
        return Err(refuse(Reason::Static, "it is a static program: it has no dynamic section"));
    }
    let dynamic = Dynamic::parse(image)?;
    let has = |tag| dynamic.get(tag).is_some();
    let names = [&b".elfhack.text"[..], b".elfhack.data", b".gnu.prelink_undo", b".thaw.init"];
    let marked = image.sections.iter().map(|section| image.section_name(section)).find(|name| names.contains(name));
    let hidden = [DT_RELR, DT_RELRSZ, DT_RELRENT].map(|tag| object::elf::DynamicTag(tag.0 | DT_RELRHACK_BIT));
    if hidden.into_iter().any(has) {
        return Err(refuse(Reason::AlreadyPacked, "it is packed already, by relrhack"));
    }
    if [DT_ANDROID_REL, DT_ANDROID_RELA, DT_ANDROID_RELR].into_iter().any(has) {
        return Err(refuse(Reason::AlreadyPacked, "it is packed already, for Android's loader"));
    }
    match marked {
        Some(b".gnu.prelink_undo") => return Err(prelinked()),
        Some(b".thaw.init") => return Err(refuse(Reason::AlreadyPacked, "it is packed already, by thaw")),
        Some(_) => return Err(refuse(Reason::AlreadyPacked, "it is packed already, by elfhack")),
        None => {}
    }
    if [DT_RELR, DT_RELRSZ].into_iter().any(has) {
        return Err(refuse(Reason::AlreadyRelr, "it has a packed table already (DT_RELR)"));
    }
    if [DT_GNU_PRELINKED, DT_GNU_CONFLICT, DT_GNU_LIBLIST].into_iter().any(has) {
        return Err(prelinked());
    }
    if has(DT_TEXTREL) || dynamic.get(DT_FLAGS).is_some_and(|flags| flags & DF_TEXTREL.0 != 0) {
        return Err(refuse(Reason::TextRelocations, "it relocates its code (DT_TEXTREL)"));
    }
    if has(DT_REL) && has(DT_RELA) {
        return Err(refuse(Reason::MixedRelocations, "it has relocations both with and without addends"));
    }
    let is_program = has(DT_DEBUG) || dynamic.get(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE.0 != 0);
    if is_loader(&dynamic) {
        return Err(refuse(Reason::Loader, "it is a dynamic loader, which relocates itself"));
    }
    if is_program && image.segment(PT_INTERP).is_none() {
        return Err(refuse(Reason::StaticPie, "it is a static program that relocates itself"));
    }
    Ok(dynamic)
}

fn prelinked() -> Stop {
    refuse_with_hint(Reason::Prelinked, "it was prelinked to a fixed address", "undo that first: `prelink -u FILE`")
}

fn is_loader(dynamic: &Dynamic) -> bool {
    let known = [&b"ld-linux"[..], b"ld-musl-", b"libc.musl-", b"ld64.so", b"ld.so", b"linux-vdso", b"linux-gate"];
    dynamic.soname.as_deref().is_some_and(|name| known.iter().any(|known| name.starts_with(known)))
}

/// Whose loader the file is for.
///
/// # Errors
/// [`Reason::UnknownLoader`].
pub fn loader(image: &Image<'_>, dynamic: &Dynamic) -> Result<Loader, Stop> {
    let needs = |prefix: &[u8]| dynamic.needed.iter().any(|(name, _)| name.starts_with(prefix));
    if let Some(interpreter) = image.segment(PT_INTERP) {
        let path = part(image.bytes, interpreter.offset, interpreter.filesz).unwrap_or_default();
        let path = path.strip_suffix(b"\0").unwrap_or(path);
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        return match name {
            name if name.starts_with(b"ld-linux") || name.starts_with(b"ld64.so") => Ok(Loader::Glibc),
            name if name.starts_with(b"ld-musl-") && needs(b"libc.so.") => {
                Err(refuse(Reason::UnknownLoader, "its loader is musl's and its C library glibc's"))
            }
            name if name.starts_with(b"ld-musl-") => Ok(Loader::Musl),
            _ => {
                let path = String::from_utf8_lossy(path);
                Err(refuse(Reason::UnknownLoader, format!("its loader '{path}' is none that is known to read DT_RELR")))
            }
        };
    }
    if notes(image).any(|note| note.owner == b"Android") {
        return Err(refuse(Reason::UnknownLoader, "it is for Android's loader"));
    }
    // glibc's name is libc.so.6; musl's is libc.musl-ARCH.so.1 in distributions, and libc.so as its authors build it.
    Ok(if needs(b"libc.so.") || needs(b"ld-linux") {
        Loader::Glibc
    } else if needs(b"libc.musl-") || dynamic.needed.iter().any(|(name, _)| name == b"libc.so") {
        Loader::Musl
    } else {
        Loader::Either
    })
}

/// A note, and where it is.
pub struct Note<'a> {
    pub owner: &'a [u8],
    pub kind: u32,
    /// All of it, padding included.
    pub vaddr: u64,
    pub len: u64,
    /// Its descriptor in the file.
    pub desc_at: u64,
    pub desc: &'a [u8],
}

impl Note<'_> {
    pub fn is_build_id(&self) -> bool {
        self.owner == b"GNU" && self.kind == NT_GNU_BUILD_ID.0 && !self.desc.is_empty()
    }
}

/// The notes of all PT_NOTE segments. Some linkers (mold 1.10) put notes of both alignments into one segment, whose own
/// alignment then is wrong for some of them: where there are sections, these tell.
pub fn notes<'a>(image: &Image<'a>) -> impl Iterator<Item = Note<'a>> {
    let bytes = image.bytes;
    let mut stretches: Vec<Segment> = Vec::new();
    for segment in image.segments.iter().filter(|segment| segment.kind == PT_NOTE.0) {
        let sections = image.sections.iter().filter(|section| {
            section.kind == SHT_NOTE.0 && section.is_loaded() && segment.in_file().contains(&section.addr)
        });
        let before = stretches.len();
        stretches.extend(sections.map(|section| Segment {
            offset: section.offset,
            vaddr: section.addr,
            filesz: section.size,
            align: section.align,
            ..segment.clone()
        }));
        if stretches.len() == before {
            stretches.push(segment.clone());
        }
    }
    stretches.into_iter().flat_map(move |segment| {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = at;
            let left = segment.filesz.checked_sub(start).filter(|left| *left >= 12)?;
            let raw = part(bytes, segment.offset + start, left)?;
            let number = |offset| u32_at(raw, offset).map(u64::from);
            let (owner_len, desc_len, kind) = (number(0)?, number(4)?, number(8)?);
            let align = if segment.align == 8 { 8 } else { 4 };
            let desc_at = up(12 + owner_len, align);
            let len = up(desc_at + desc_len, align).min(left);
            let owner = part(raw, 12, owner_len)?;
            let desc = part(raw, desc_at, desc_len)?;
            at = start + len;
            Some(Note {
                owner: owner.strip_suffix(b"\0").unwrap_or(owner),
                kind: kind as u32,
                vaddr: segment.vaddr.checked_add(start)?,
                len,
                desc_at: segment.offset + start + desc_at,
                desc,
            })
        })
    })
}
