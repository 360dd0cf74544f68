//! Names of machines and relocation types, and which type is the relative one.

use object::elf::*;

/// `x86-64`, `AArch64`; `machine 243` for one without a name here.
pub fn machine_name(machine: Machine) -> String {
    let name = match machine {
        EM_386 => "i386",
        EM_X86_64 => "x86-64",
        EM_ARM => "ARM",
        EM_AARCH64 => "AArch64",
        EM_RISCV => "RISC-V",
        EM_LOONGARCH => "LoongArch",
        EM_PPC => "PowerPC",
        EM_PPC64 => "PowerPC 64",
        EM_S390 => "S/390",
        EM_MIPS => "MIPS",
        EM_SPARC | EM_SPARC32PLUS | EM_SPARCV9 => "SPARC",
        EM_68K => "m68k",
        EM_ALPHA => "Alpha",
        EM_PARISC => "PA-RISC",
        EM_SH => "SuperH",
        EM_BPF => "BPF",
        Machine(number) => return format!("machine {number}"),
    };
    name.to_owned()
}

/// `R_X86_64_RELATIVE`; `type 8` for one without a name.
pub fn relocation_name(machine: Machine, kind: u32) -> String {
    let name = machine_names(machine).r.name(RelocationType(kind));
    name.map_or_else(|| format!("type {kind}"), str::to_owned)
}

/// What the loader does for a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// Adds the load bias to an address inside the file.
    Relative,
    /// Calls a function of the file that says which function to use (IFUNC).
    Indirect,
    /// Copies data of a library into the program.
    Copy,
    /// Looks up an address or a number for thread-local data.
    ThreadLocal,
    /// Looks up the address of a symbol.
    Symbolic,
    /// Nothing.
    Nothing,
}

/// What a relocation type means to the loader. Types that are not known here count as symbolic.
pub fn meaning(machine: Machine, kind: u32) -> Meaning {
    if relative_type(machine) == Some(kind) {
        return Meaning::Relative;
    }
    // The processor supplements name alike what is alike.
    let name = machine_names(machine).r.name(RelocationType(kind)).unwrap_or_default();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match () {
        () if kind == 0 => Meaning::Nothing,
        () if has(&["IRELATIVE"]) => Meaning::Indirect,
        () if name.ends_with("_COPY") => Meaning::Copy,
        () if has(&["DTPMOD", "DTPOFF", "TPOFF", "DTPREL", "TPREL", "TLS"]) => Meaning::ThreadLocal,
        () => Meaning::Symbolic,
    }
}

/// The type of a relocation that only adds the load bias, which RELR can hold. `None` where the machine has none (MIPS)
/// or is not known here. Source: the processor supplements of the ABI, as glibc and lld have them.
pub fn relative_type(machine: Machine) -> Option<u32> {
    Some(match machine {
        EM_386 => R_386_RELATIVE.0,
        EM_X86_64 => R_X86_64_RELATIVE.0,
        EM_ARM => R_ARM_RELATIVE.0,
        EM_AARCH64 => R_AARCH64_RELATIVE.0,
        EM_RISCV => R_RISCV_RELATIVE.0,
        EM_LOONGARCH => R_LARCH_RELATIVE.0,
        EM_PPC => R_PPC_RELATIVE.0,
        EM_PPC64 => R_PPC64_RELATIVE.0,
        EM_S390 => R_390_RELATIVE.0,
        EM_SPARC | EM_SPARC32PLUS | EM_SPARCV9 => R_SPARC_RELATIVE.0,
        EM_68K => R_68K_RELATIVE.0,
        EM_ALPHA => R_ALPHA_RELATIVE.0,
        EM_SH => R_SH_RELATIVE.0,
        _ => return None,
    })
}
