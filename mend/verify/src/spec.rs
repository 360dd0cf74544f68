//! Numbers of the ELF standard and of its GNU additions, as far as the oracle needs them.
//!
//! Written down once more on purpose: the oracle shares no reading code with what it judges.

pub(crate) const ET_DYN: u16 = 3;

pub(crate) const PT_LOAD: u32 = 1;
pub(crate) const PT_DYNAMIC: u32 = 2;
pub(crate) const PT_INTERP: u32 = 3;
pub(crate) const PT_NOTE: u32 = 4;
pub(crate) const PT_PHDR: u32 = 6;
pub(crate) const PT_TLS: u32 = 7;
pub(crate) const PT_GNU_RELRO: u32 = 0x6474_e552;
pub(crate) const PT_GNU_STACK: u32 = 0x6474_e551;
pub(crate) const PT_GNU_PROPERTY: u32 = 0x6474_e553;

pub(crate) const PF_X: u32 = 1;
pub(crate) const PF_W: u32 = 2;
pub(crate) const PF_R: u32 = 4;

pub(crate) const SHT_SYMTAB: u32 = 2;
pub(crate) const SHT_DYNAMIC: u32 = 6;
pub(crate) const SHT_NOBITS: u32 = 8;
pub(crate) const SHT_NULL: u32 = 0;
pub(crate) const SHF_WRITE: u64 = 1;
pub(crate) const SHF_ALLOC: u64 = 2;
pub(crate) const SHF_TLS: u64 = 0x400;

pub(crate) const DT_NULL: u64 = 0;
pub(crate) const DT_NEEDED: u64 = 1;
pub(crate) const DT_PLTRELSZ: u64 = 2;
pub(crate) const DT_HASH: u64 = 4;
pub(crate) const DT_STRTAB: u64 = 5;
pub(crate) const DT_SYMTAB: u64 = 6;
pub(crate) const DT_RELA: u64 = 7;
pub(crate) const DT_RELASZ: u64 = 8;
pub(crate) const DT_RELAENT: u64 = 9;
pub(crate) const DT_STRSZ: u64 = 10;
pub(crate) const DT_SYMENT: u64 = 11;
pub(crate) const DT_INIT: u64 = 12;
pub(crate) const DT_FINI: u64 = 13;
pub(crate) const DT_SONAME: u64 = 14;
pub(crate) const DT_RPATH: u64 = 15;
pub(crate) const DT_REL: u64 = 17;
pub(crate) const DT_RELSZ: u64 = 18;
pub(crate) const DT_RELENT: u64 = 19;
pub(crate) const DT_PLTREL: u64 = 20;
pub(crate) const DT_JMPREL: u64 = 23;
pub(crate) const DT_INIT_ARRAY: u64 = 25;
pub(crate) const DT_FINI_ARRAY: u64 = 26;
pub(crate) const DT_INIT_ARRAYSZ: u64 = 27;
pub(crate) const DT_FINI_ARRAYSZ: u64 = 28;
pub(crate) const DT_RUNPATH: u64 = 29;
pub(crate) const DT_FLAGS: u64 = 30;
pub(crate) const DT_PREINIT_ARRAY: u64 = 32;
pub(crate) const DT_PREINIT_ARRAYSZ: u64 = 33;
pub(crate) const DT_RELRSZ: u64 = 35;
pub(crate) const DT_RELR: u64 = 36;
pub(crate) const DT_RELRENT: u64 = 37;
pub(crate) const DT_GNU_HASH: u64 = 0x6fff_fef5;
pub(crate) const DT_CONFIG: u64 = 0x6fff_fefa;
pub(crate) const DT_DEPAUDIT: u64 = 0x6fff_fefb;
pub(crate) const DT_AUDIT: u64 = 0x6fff_fefc;
pub(crate) const DT_VERSYM: u64 = 0x6fff_fff0;
pub(crate) const DT_RELACOUNT: u64 = 0x6fff_fff9;
pub(crate) const DT_RELCOUNT: u64 = 0x6fff_fffa;
pub(crate) const DT_FLAGS_1: u64 = 0x6fff_fffb;
pub(crate) const DT_VERDEF: u64 = 0x6fff_fffc;
pub(crate) const DT_VERDEFNUM: u64 = 0x6fff_fffd;
pub(crate) const DT_VERNEED: u64 = 0x6fff_fffe;
pub(crate) const DT_VERNEEDNUM: u64 = 0x6fff_ffff;
pub(crate) const DT_AUXILIARY: u64 = 0x7fff_fffd;
pub(crate) const DT_FILTER: u64 = 0x7fff_ffff;

pub(crate) const STT_TLS: u8 = 6;
pub(crate) const STT_GNU_IFUNC: u8 = 10;

/// What the relocation numbers of one machine mean to the oracle. All others are symbolic to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine {
    pub(crate) name: &'static str,
    /// Does nothing.
    pub(crate) none: u32,
    /// Base plus addend.
    pub(crate) relative: u32,
    /// What a resolver at base plus addend returns.
    pub(crate) irelative: u32,
    /// Fills two words.
    pub(crate) descriptor: Option<u32>,
    /// Page sizes that its kernels use.
    pub(crate) pages: &'static [u64],
}

/// `None`: a machine that the oracle does not know.
pub(crate) fn machine(number: u16) -> Option<Machine> {
    const SMALL: &[u64] = &[4096];
    const LARGE: &[u64] = &[4096, 65_536];
    let (name, relative, irelative, descriptor, pages) = match number {
        3 => ("i386", 8, 42, Some(41), SMALL),
        22 => ("s390x", 12, 61, None, SMALL),
        21 => ("ppc64", 22, 248, None, LARGE),
        40 => ("ARM", 23, 160, Some(13), SMALL),
        62 => ("x86-64", 8, 37, Some(36), SMALL),
        183 => ("AArch64", 1027, 1032, Some(1031), LARGE),
        243 => ("RISC-V", 3, 58, Some(12), SMALL),
        258 => ("LoongArch", 3, 12, Some(14), LARGE),
        _ => return None,
    };
    Some(Machine { name, none: 0, relative, irelative, descriptor, pages })
}

/// The name of a dynamic tag, for people.
pub(crate) fn tag_name(tag: u64) -> String {
    let known = match tag {
        DT_NEEDED => "DT_NEEDED",
        DT_PLTRELSZ => "DT_PLTRELSZ",
        DT_HASH => "DT_HASH",
        DT_STRTAB => "DT_STRTAB",
        DT_SYMTAB => "DT_SYMTAB",
        DT_RELA => "DT_RELA",
        DT_RELASZ => "DT_RELASZ",
        DT_RELAENT => "DT_RELAENT",
        DT_STRSZ => "DT_STRSZ",
        DT_SYMENT => "DT_SYMENT",
        DT_INIT => "DT_INIT",
        DT_FINI => "DT_FINI",
        DT_SONAME => "DT_SONAME",
        DT_RPATH => "DT_RPATH",
        DT_REL => "DT_REL",
        DT_RELSZ => "DT_RELSZ",
        DT_RELENT => "DT_RELENT",
        DT_PLTREL => "DT_PLTREL",
        DT_JMPREL => "DT_JMPREL",
        DT_INIT_ARRAY => "DT_INIT_ARRAY",
        DT_FINI_ARRAY => "DT_FINI_ARRAY",
        DT_INIT_ARRAYSZ => "DT_INIT_ARRAYSZ",
        DT_FINI_ARRAYSZ => "DT_FINI_ARRAYSZ",
        DT_RUNPATH => "DT_RUNPATH",
        DT_FLAGS => "DT_FLAGS",
        DT_PREINIT_ARRAY => "DT_PREINIT_ARRAY",
        DT_PREINIT_ARRAYSZ => "DT_PREINIT_ARRAYSZ",
        DT_RELRSZ => "DT_RELRSZ",
        DT_RELR => "DT_RELR",
        DT_RELRENT => "DT_RELRENT",
        DT_GNU_HASH => "DT_GNU_HASH",
        DT_VERSYM => "DT_VERSYM",
        DT_RELACOUNT => "DT_RELACOUNT",
        DT_RELCOUNT => "DT_RELCOUNT",
        DT_FLAGS_1 => "DT_FLAGS_1",
        DT_VERDEF => "DT_VERDEF",
        DT_VERDEFNUM => "DT_VERDEFNUM",
        DT_VERNEED => "DT_VERNEED",
        DT_VERNEEDNUM => "DT_VERNEEDNUM",
        _ => return format!("dynamic tag {tag:#x}"),
    };
    known.to_owned()
}
