//! Stacks of real programs, which were stopped at a known place.

mod stopped;

use cpu::{Place, RawMapping, Unwinder, UserState, Walked};
use model::Nanos;
use std::path::Path;
use std::process::Command;
use stopped::{Stopped, built, code_of, functions_in, named, stopped};
use tempfile::TempDir;

const C: [&str; 4] = ["cc", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];

fn home() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn walk(stopped: &Stopped, stack: &[u8]) -> (Walked, Unwinder) {
    let mut unwinder = Unwinder::new(Path::new("/"));
    for mapping in &stopped.mappings {
        unwinder.map(mapping);
    }
    (unwinder.unwind(stopped.pid, &stopped.state, stack), unwinder)
}

/// The functions of the C library that surround `main` are there too, and `_start` is the last.
fn deep() -> Vec<String> {
    let mut expected = vec!["innermost"];
    expected.extend(["depth"; 41]);
    expected.extend(["aligned", "main", "_start"]);
    expected.into_iter().map(str::to_owned).collect()
}

#[test]
fn a_deep_stack_without_frame_pointers_is_told_to_its_end() {
    let home = home();
    let Some(program) = built(&C, "deep.c", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[]) else { return };
    let trace = stopped.trace();
    assert_eq!(functions_in(&trace, &[&program]), deep());
    assert_eq!(trace.cannot, [""; 0]);
    assert!(walk(&stopped, &stopped.stack).0.whole);
}

#[test]
fn a_piece_of_a_stack_gives_its_inner_part() {
    let home = home();
    let Some(program) = built(&C, "deep.c", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[]) else { return };
    let (whole, _) = walk(&stopped, &stopped.stack);
    let mut known = 0;
    for len in (0..stopped.stack.len().min(8000)).step_by(56) {
        let (part, _) = walk(&stopped, &stopped.stack[..len]);
        assert_eq!(part.places, whole.places[..part.places.len()]);
        assert!(part.places.len() >= known, "more of the stack tells no less");
        known = part.places.len();
        assert_eq!(part.whole, known == whole.places.len());
    }
    assert!(known > 40);
    let mut raw = stopped.raw();
    raw.stacks.truncate(2000);
    raw.samples[0].user.as_mut().unwrap().stack = 0..2000;
    let trace = named(&raw);
    let functions = functions_in(&trace, &[&program]);
    assert!(functions.len() > 5 && functions.len() < 42, "{functions:?}");
    assert_eq!(functions, deep()[..functions.len()]);
    assert!(trace.cannot[0].starts_with("1 of 1 stacks of the program are told in part"), "{:?}", trace.cannot);
}

#[test]
fn a_signal_handler_leads_to_what_it_interrupted() {
    let home = home();
    let Some(program) = built(&C, "signals.c", home.path()) else { return };
    let Some(on_same) = stopped(&program, &[]) else { return };
    let trace = on_same.trace();
    let expected = ["handler", "faults", "caller", "main", "_start"];
    assert_eq!(functions_in(&trace, &[&program]), expected);
    let (walked, _) = walk(&on_same, &on_same.stack);
    assert!(walked.whole);
    assert_eq!(
        walked.places.iter().filter(|place| place.exact).count(),
        2,
        "where it is, and where it was interrupted"
    );
    // What it interrupted is on the other stack, which is not in the piece.
    let Some(on_own) = stopped(&program, &[Path::new("own")]) else { return };
    assert_eq!(functions_in(&on_own.trace(), &[&program])[..1], expected[..1]);
    let piece = &on_own.stack[..4096.min(on_own.stack.len())];
    assert!(!walk(&on_own, piece).0.whole);
}

#[test]
fn an_exception_is_led_back_through_those_that_handle_it() {
    let home = home();
    let compiler = ["g++", "-O2", "-fomit-frame-pointer"];
    let Some(program) = built(&compiler, "throws.cpp", home.path()) else { return };
    let Some(refused) = stopped(&program, &[]) else { return };
    let trace = refused.trace();
    let expected = ["wait_for_ever()", "thrower(int)", "passes(int)", "refuses(int)", "main", "_start"];
    let functions = functions_in(&trace, &[&program]);
    // The compiler may split what is seldom run, and puts it into sections of its own.
    let plain: Vec<&str> = functions.iter().map(|name| name.trim_end_matches(" [clone .cold]")).collect();
    assert_eq!(plain, expected);
    assert!(walk(&refused, &refused.stack).0.whole);
    let Some(caught) = stopped(&program, &[Path::new("caught")]) else { return };
    let functions = functions_in(&caught.trace(), &[&program]);
    assert_eq!(functions.first().unwrap(), "wait_for_ever()");
    assert_eq!(functions[functions.len() - 2..], ["main", "_start"]);
    assert!(functions.iter().any(|name| name.starts_with("middle(int, bool)")), "{functions:?}");
    assert!(walk(&caught, &caught.stack).0.whole);
}

#[test]
fn a_thread_of_a_rust_program_has_inlined_functions() {
    let home = home();
    let compiler = ["rustc", "-O", "-g", "--edition=2021"];
    let Some(program) = built(&compiler, "threads.rs", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[]) else { return };
    let trace = stopped.trace();
    let frames: Vec<_> = trace.stacks.walk(trace.samples[0].stack).cloned().collect();
    let at = |name: &str| frames.iter().position(|frame| frame.function.as_deref() == Some(name)).expect(name);
    let (innermost, inlined, outer) = (at("threads::innermost"), at("threads::put_into"), at("threads::outer"));
    assert!(innermost < inlined && inlined < outer, "{frames:#?}");
    assert!(frames[inlined].inlined && !frames[outer].inlined);
    assert!(frames[outer].source.as_ref().unwrap().contains("threads.rs:"));
    assert!(walk(&stopped, &stopped.stack).0.whole);
}

fn library(home: &Path) -> Option<std::path::PathBuf> {
    built(&["cc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-nostdlib"], "step.c", home)
}

#[test]
fn a_library_can_be_at_two_places() {
    let home = home();
    let Some(library) = library(home.path()) else { return };
    let Some(program) = built(&[&C[..], &["-ldl"]].concat(), "twice.c", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[&library]) else { return };
    let mapped = stopped.mappings.iter().filter(|mapping| mapping.path == library);
    assert_eq!(mapped.count(), 2);
    let trace = stopped.trace();
    let expected = ["innermost", "step", "between", "step", "main", "_start"];
    assert_eq!(functions_in(&trace, &[&program, &library]), expected);
    assert_eq!(trace.cannot, [""; 0]);
}

#[test]
fn a_file_that_is_gone_or_another_is_not_believed() {
    let home = home();
    let Some(library) = library(home.path()) else { return };
    let Some(program) = built(&[&C[..], &["-ldl"]].concat(), "twice.c", home.path()) else { return };
    let copy = home.path().join("copy.so");
    std::fs::copy(&library, &copy).unwrap();
    let Some(mut stopped) = stopped(&program, &[&copy]) else { return };
    std::fs::remove_file(&copy).unwrap();
    let gone = stopped.trace();
    assert!(
        gone.cannot.iter().any(|it| it.contains("copy.so") && it.contains("not there any more")),
        "{:?}",
        gone.cannot
    );
    let functions = functions_in(&gone, &[&program, &copy]);
    assert_eq!(functions[..2], ["innermost".to_owned(), format!("copy.so+{:#x}", offset(&stopped, &copy))]);
    // The same bytes, and still another file: nobody can tell.
    std::fs::write(home.path().join("other"), std::fs::read(&library).unwrap()).unwrap();
    std::fs::rename(home.path().join("other"), &copy).unwrap();
    let mut other = stopped.trace();
    // The first file's number may have been given to the second one.
    if other.cannot.iter().all(|it| !it.contains("another file is at its path")) {
        stopped.mappings.iter_mut().for_each(|it| it.ino += u64::from(it.path == copy));
        other = stopped.trace();
    }
    assert!(other.cannot.iter().any(|it| it.contains("another file is at its path")), "{:?}", other.cannot);
    assert!(!functions_in(&other, &[&copy]).contains(&"step".to_owned()));
}

/// The offset in a file of the second place of the walk that is in it.
fn offset(stopped: &Stopped, file: &Path) -> u64 {
    let (walked, _) = walk(stopped, &stopped.stack);
    let within = |place: &Place| {
        let of_file = stopped.mappings.iter().filter(|mapping| mapping.path == file);
        let mut holds = of_file.filter(|mapping| mapping.addresses.contains(&place.inside()));
        holds.next().map(|mapping| place.inside() - mapping.addresses.start + mapping.offset)
    };
    walked.places.iter().find_map(within).unwrap()
}

#[test]
fn an_entry_of_the_plt_has_pushed_something_or_not() {
    let home = home();
    let lazy = [&C[..], &["-Wl,-z,lazy", "-fcf-protection=none"]].concat();
    let Some(program) = built(&lazy, "deep.c", home.path()) else { return };
    let bytes = std::fs::read(&program).unwrap();
    let image = elf::Image::of(&bytes[..]).unwrap();
    let plt = image.section(".plt").unwrap().address + 16;
    let text = image.section(".text").unwrap().address;
    let (mapping, bias) = code_of(&program, 7, 0x5555_0000_0000);
    let back = bias + text + 0x40;
    for (inside, pushed) in [(0, 0), (6, 0), (11, 1)] {
        let mut unwinder = Unwinder::new(Path::new("/"));
        unwinder.map(&mapping);
        let mut stack = vec![1_u64; pushed];
        stack.extend([back, 3, 4]);
        let stack: Vec<u8> = stack.iter().flat_map(|word| word.to_le_bytes()).collect();
        let state = UserState { ip: bias + plt + inside, sp: 0x7fff_0000, bp: 0, bx: 0, stack: 0..stack.len() };
        let walked = unwinder.unwind(7, &state, &stack);
        assert_eq!(walked.places[1], Place { address: back, exact: false }, "{inside}");
    }
}

/// The loader saves all registers then, on a stack that it aligns, and finds its frame by `rbx`.
#[test]
fn what_the_loader_does_at_a_first_call_leads_back_to_the_caller() {
    let home = home();
    let chosen = ["cc", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC"];
    let Some(library) = built(&chosen, "chosen.c", home.path()) else { return };
    let library_path = library.to_str().unwrap();
    let calls = [&C[..], &["-Wl,-z,lazy,--no-as-needed", library_path]].concat();
    let Some(program) = built(&calls, "calls.c", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[]) else { return };
    let expected = ["innermost", "choose", "caller", "main", "_start"];
    assert_eq!(functions_in(&stopped.trace(), &[&program, &library]), expected);
    assert!(walk(&stopped, &stopped.stack).0.whole);
}

#[test]
fn processes_fork_map_over_and_execute() {
    let home = home();
    let Some(program) = built(&C, "deep.c", home.path()) else { return };
    let Some(stopped) = stopped(&program, &[]) else { return };
    let (whole, mut unwinder) = walk(&stopped, &stopped.stack);
    let walk = |unwinder: &mut Unwinder, pid| unwinder.unwind(pid, &stopped.state, &stopped.stack);
    unwinder.fork(stopped.pid, 1);
    assert_eq!(walk(&mut unwinder, 1), whole);
    unwinder.executed(1);
    let start = Place { address: stopped.state.ip, exact: true };
    assert_eq!(walk(&mut unwinder, 1), Walked { places: vec![start], whole: false });
    assert_eq!(walk(&mut unwinder, stopped.pid), whole, "the parent goes on");
    // Other code over the first page of the program's: what is behind it is still the program's.
    let own = stopped.mappings.iter().find(|mapping| mapping.path == program).unwrap();
    unwinder.fork(stopped.pid, 2);
    let beyond = own.addresses.end;
    let over = RawMapping { pid: 2, addresses: beyond..beyond + 0x1000, ino: 0, path: "//anon".into(), ..own.clone() };
    unwinder.map(&over);
    assert_eq!(walk(&mut unwinder, 2), whole);
    unwinder.map(&RawMapping { addresses: own.addresses.clone(), ..over });
    assert!(!walk(&mut unwinder, 2).whole);
    assert_eq!(walk(&mut unwinder, stopped.pid), whole);
}

#[test]
fn the_kernels_own_object_has_names() {
    // SAFETY: getauxval takes a number and touches no memory of ours.
    let address = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    if address == 0 {
        return testing::skip("needs a kernel with a vDSO");
    }
    let maps = std::fs::read("/proc/self/maps").unwrap();
    let region = os::process::regions(&maps).find(|region| region.name == b"[vdso]").unwrap();
    // SAFETY: the kernel maps these pages for reading, for as long as the process lives.
    let bytes = unsafe {
        let start = std::ptr::with_exposed_provenance::<u8>(address as usize);
        std::slice::from_raw_parts(start, (region.end - region.start) as usize)
    };
    let image = elf::Image::of(bytes).unwrap();
    let table = image.dynamic_symbols().unwrap();
    let function = table.iter().find(|it| it.name == b"__vdso_clock_gettime" && it.is_defined()).unwrap();
    let start = 0x7ffd_1234_0000;
    let path = "[vdso]".into();
    let addresses = start..start + bytes.len() as u64;
    let mapping = RawMapping { at: Nanos(0), pid: 5, addresses, offset: 0, dev: 0, ino: 0, path };
    let raw = cpu::Raw {
        mappings: vec![mapping],
        samples: vec![cpu::RawSample {
            at: Nanos(1),
            pid: 5,
            tid: 5,
            cpu: 0,
            tick: cpu::Tick::Clock,
            kernel: Vec::new(),
            user: Some(UserState { ip: start + function.address + 1, ..UserState::default() }),
        }],
        ..cpu::Raw::default()
    };
    let functions = functions_in(&named(&raw), &[Path::new("[vdso]")]);
    assert_eq!(functions.len(), 1);
    assert!(functions[0].contains("clock_gettime"), "{functions:?}");
}

#[test]
fn stripped_section_headers_change_nothing() {
    let home = home();
    let Some(program) = built(&C, "deep.c", home.path()) else { return };
    let mut bytes = std::fs::read(&program).unwrap();
    // e_shoff, e_shnum and e_shstrndx: no sections.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    let bare = home.path().join("bare");
    std::fs::write(home.path().join("written"), bytes).unwrap();
    testing::copy_program(home.path().join("written"), &bare);
    Command::new("chmod").arg("755").arg(&bare).status().unwrap();
    let Some(stopped) = stopped(&bare, &[]) else { return };
    assert!(walk(&stopped, &stopped.stack).0.whole);
    assert_eq!(functions_in(&stopped.trace(), &[&bare]).len(), deep().len());
}
