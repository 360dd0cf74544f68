//! The corpus, built for every machine by every linker in every variant, packed in every mode: each program prints the
//! line that it printed before, and the oracle finds nothing. `cargo test` runs a part that represents the whole;
//! `THAW_MATRIX=all` runs everything (`claims/elf-matrix/run`).

mod common;

use common::{
    Early, LINE, Linker, Machine, PARTS, Part, Programs, VARIANTS, Variant, Workshop, pack_parts, place, whole_matrix,
};
use pack::{Backend, Options, Outcome, Reason, Space, pack_bytes};
use verify::{LiveOptions, Stop, live, offline};

/// One row of the printed table.
struct Row {
    machine: Machine,
    linker: Linker,
    variant: &'static str,
    outcome: Result<String, String>,
}

/// Whether a cell is in the part that represents the whole.
fn represents(machine: Machine, linker: Linker, variant: &Variant) -> bool {
    match (machine, linker, variant.name) {
        // Every linker's own layout, and every machine's own form of relocations.
        (Machine::X86_64, _, "plain") | (_, Linker::Bfd | Linker::Lld, "plain") => true,
        // What changes the layout most.
        (Machine::X86_64, Linker::Bfd, name) => ["2m-pages", "noseparate-code", "sysv-hash", "norelro"].contains(&name),
        (Machine::X86_64, Linker::Lld, name) => ["64k-pages", "now"].contains(&name),
        (Machine::X86_64, Linker::Gold, name) => ["stripped"].contains(&name),
        _ => false,
    }
}

/// A mode of packing: its name, what it packs, and the reasons for which it may leave a part as it is.
struct Mode {
    name: &'static str,
    backend: Backend,
    space: Space,
    early: Early,
    may_refuse: &'static [Reason],
}

/// Small files in large pages have no page to give; some layouts have no room for one more segment.
const MODES: [Mode; 4] = [
    Mode {
        name: "shrink",
        backend: Backend::Relr,
        space: Space::Shrink,
        early: Early::With,
        may_refuse: &[Reason::NoGain, Reason::NoHeaderSlot],
    },
    Mode {
        name: "keep",
        backend: Backend::Relr,
        space: Space::Keep,
        early: Early::With,
        may_refuse: &[Reason::NoHeaderSlot],
    },
    Mode {
        name: "init",
        backend: Backend::Init,
        space: Space::Shrink,
        early: Early::Without,
        may_refuse: &[Reason::NoGain, Reason::NoHeaderSlot],
    },
    // The initialiser would come after those; what has them must be refused.
    Mode {
        name: "init+early",
        backend: Backend::Init,
        space: Space::Shrink,
        early: Early::With,
        may_refuse: &[Reason::NoGain, Reason::NoHeaderSlot, Reason::Indirect, Reason::PreinitArray],
    },
];

fn cell(workshop: &Workshop, linker: Linker, variant: &Variant) -> Result<String, String> {
    // What that option is for: the library calls its own function, not the program's.
    let right =
        if variant.name == "symbolic" { LINE.replace("weak=2 same=1", "weak=1 same=0") } else { LINE.to_owned() };
    let runs = |programs: &Programs, name: &str| match programs.line() {
        Ok(line) if line == right => Ok(()),
        Ok(line) | Err(line) => Err(format!("{name} prints '{line}'")),
    };
    let with = workshop.link_with(linker, variant, Early::With)?;
    let without = workshop.link_with(linker, variant, Early::Without)?;
    runs(&with, "the original")?;
    runs(&without, "the original without early code")?;
    let mut words = Vec::new();
    for mode in MODES {
        let programs = if mode.early == Early::With { &with } else { &without };
        let packed = programs.beside(mode.name);
        let options = Options { backend: mode.backend, space: mode.space, ..Options::default() };
        let named = |error| format!("{}: {error}", mode.name);
        let parts = pack_parts(programs, &packed, &options, mode.may_refuse).map_err(named)?;
        runs(&packed, mode.name)?;
        if workshop.machine.is_native() {
            loaded(programs, &packed, &parts, mode.backend).map_err(named)?;
        }
        let parts: Vec<&str> = parts.iter().map(|part| part.word.as_str()).collect();
        words.push(format!("{} {}", mode.name, parts.join(" ")));
    }
    Ok(words.join(", "))
}

/// The machine's own loader finds both alike.
fn loaded(programs: &Programs, packed: &Programs, parts: &[Part], backend: Backend) -> Result<(), String> {
    // An initialiser in the file runs when the constructors do.
    let stop = if backend == Backend::Init { Stop::Entry } else { Stop::Relocated };
    let mut options = LiveOptions { stop, ..LiveOptions::default() };
    options.environment.extend(programs.libraries().map(|path| ("LD_LIBRARY_PATH".into(), path.into())));
    // The plugin leaves symbols to its program, and does not load alone.
    for (part, about) in PARTS.iter().zip(parts).take(2) {
        // `/bin/true` is not a host for libraries of another class.
        if stop == Stop::Entry && *part != "program" && programs.libraries().is_some() {
            continue;
        }
        options.expected = about.expected.clone();
        let verdict = live(&programs.path(part), &packed.path(part), &options);
        let verdict = verdict.map_err(|error| format!("{part}: {error}"))?;
        if let Some(first) = verdict.differences.first() {
            return Err(format!("{part}, loaded: {} differences: {first}", verdict.total));
        }
    }
    Ok(())
}

fn machine(machine: Machine) {
    let workshop = match Workshop::new(machine, &place(machine.triple())) {
        Ok(workshop) => workshop,
        Err(reason) => return testing::skip(&reason),
    };
    let mut rows = Vec::new();
    for linker in Linker::ALL {
        if !workshop.has(linker) {
            testing::skip(&format!("{} is not installed for {}", linker.name(), machine.name()));
            continue;
        }
        for variant in VARIANTS.iter().filter(|variant| variant.linkers.contains(&linker)) {
            if (machine, linker, variant.name) == (Machine::Arm, Linker::Gold, "emit-relocs") {
                testing::skip("gold stops with an internal error at --emit-relocs for ARM");
            } else if whole_matrix() || represents(machine, linker, variant) {
                let outcome = cell(&workshop, linker, variant);
                rows.push(Row { machine, linker, variant: variant.name, outcome });
            }
        }
    }
    for row in &rows {
        let outcome = row.outcome.as_ref().map_or_else(|error| format!("FAILED: {error}"), |words| words.clone());
        println!("{:<8} {:<5} {:<17} {outcome}", row.machine.name(), row.linker.name(), row.variant);
    }
    // Refusals are answers, but not of every cell.
    let shrunk = rows.iter().filter(|row| row.outcome.as_ref().is_ok_and(|words| !words.contains("no-"))).count();
    assert!(shrunk > 0, "no cell for {} became smaller", machine.name());
    let failed = rows.iter().filter(|row| row.outcome.is_err()).count();
    assert_eq!(failed, 0, "of {} cells for {}; the table is above", rows.len(), machine.name());
}

#[test]
fn x86_64() {
    machine(Machine::X86_64);
}

#[test]
fn i386() {
    machine(Machine::I386);
}

#[test]
fn aarch64() {
    machine(Machine::AArch64);
}

#[test]
fn arm() {
    machine(Machine::Arm);
}

#[test]
fn what_cannot_be_packed_is_refused_with_its_reason() {
    let workshop = match Workshop::new(Machine::X86_64, &place("refused")) {
        Ok(workshop) => workshop,
        Err(reason) => return testing::skip(&reason),
    };
    for (flags, reason) in [
        (&["-static"][..], Reason::NotShared),
        (&["-no-pie"], Reason::NotShared),
        (&["-static-pie"], Reason::StaticPie),
        (&["-fPIE", "-pie", "-Wl,-z,pack-relative-relocs"], Reason::AlreadyRelr),
    ] {
        let path = workshop.plain("plain", flags).expect("the plain program");
        let bytes = std::fs::read(&path).expect("what was linked");
        let (outcome, packed) = pack_bytes(&bytes, &Options::default()).expect("no error");
        assert!(packed.is_none());
        assert!(matches!(&outcome, Outcome::Refused(refusal) if refusal.reason == reason), "{flags:?}: {outcome:?}");
    }
}

/// The packed table names the same words as the one that the linker makes of the same objects.
#[test]
fn the_same_words_as_the_linker_packs() {
    let workshop = match Workshop::new(Machine::X86_64, &place("same-words")) {
        Ok(workshop) => workshop,
        Err(reason) => return testing::skip(&reason),
    };
    const RELR: Variant = Variant { name: "relr", flags: &["-Wl,-z,pack-relative-relocs"], linkers: &[] };
    let count = |programs: &Programs, part: &str| {
        let bytes = std::fs::read(programs.path(part)).expect("what was linked");
        offline(&bytes, &bytes).expect("a usable file").checked.relative
    };
    let plain = workshop.link(Linker::Bfd, &VARIANTS[0]).expect("a plain link");
    let theirs = workshop.link(Linker::Bfd, &RELR).expect("a link with DT_RELR");
    let ours = plain.beside("packed");
    pack_parts(&plain, &ours, &Options { space: Space::Keep, ..Options::default() }, &[]).expect("packed");
    for part in PARTS {
        assert_eq!(count(&ours, part), count(&theirs, part), "{part}");
    }
    assert_eq!(theirs.line().as_deref(), Ok(LINE));
}
