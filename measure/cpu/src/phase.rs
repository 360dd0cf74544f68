//! In which part of a start a thread was: by the functions of the loader and of the C library on its stack. Pure.
//!
//! Where the loader has no names but those that it exports, the frames tell: a stack of its frames alone is the
//! loader's work, and what another object does that it called, with nothing of `main` further out, is an initialiser.

use crate::callers::is_library;
use crate::trace::{Frame, StackId, Stacks};
use crate::waits;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A part of a start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "phase")]
pub enum Phase {
    /// The kernel executes a program.
    Exec,
    /// The loader opens and maps libraries.
    Mapping,
    /// The loader writes addresses.
    Relocation,
    /// The loader works, and nothing tells at what.
    Linker,
    /// Static initialisers.
    Initialisers {
        /// The file name of their object.
        object: String,
    },
    /// The C library begins, and `main` has not.
    BeforeMain,
    /// `main`, or what it called.
    Main,
}

impl fmt::Display for Phase {
    fn fmt(&self, form: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec => form.write_str("exec"),
            Self::Mapping => form.write_str("opening and mapping libraries"),
            Self::Relocation => form.write_str("relocation"),
            Self::Linker => form.write_str("dynamic linker"),
            Self::Initialisers { object } => write!(form, "static initialisers of {object}"),
            Self::BeforeMain => form.write_str("before main"),
            Self::Main => form.write_str("main"),
        }
    }
}

fn is_loader(frame: &Frame) -> bool {
    let name = frame.object_name();
    ["ld-linux", "ld-musl", "ld.so", "ld-2."].iter().any(|begins| name.starts_with(begins))
}

fn begins(name: &str, with: &[&str]) -> bool {
    with.iter().any(|begins| name.starts_with(begins))
}

/// What the loader's function says, if it says something.
fn of_loader(name: &str, called: Option<&Frame>) -> Option<Phase> {
    if matches!(name, "call_init" | "_dl_init") || name.starts_with("call_init.") {
        let object = called?.object_name().to_owned();
        return Some(Phase::Initialisers { object });
    }
    if begins(name, &["_dl_relocate_object", "_dl_protect_relro"]) {
        return Some(Phase::Relocation);
    }
    let maps = begins(name, &["_dl_map_object", "_dl_map_new_object", "_dl_map_segments", "_dl_open", "dl_open"]);
    maps.then_some(Phase::Mapping)
}

/// The part of a start in which a thread has this stack; `None`: nothing tells, as of other threads than the first.
pub fn phase(stacks: &Stacks, stack: Option<StackId>) -> Option<Phase> {
    if waits::request(stacks, stack).is_some_and(|request| request.starts_with("execve")) {
        return Some(Phase::Exec);
    }
    let frames: Vec<&Frame> = stacks.walk(stack).filter(|frame| !frame.is_kernel()).collect();
    // What a frame called, through others of the loader's.
    let called = |index: usize| frames[..index].iter().rev().copied().find(|frame| !is_loader(frame));
    for (index, frame) in frames.iter().enumerate() {
        let name = frame.function.as_deref().unwrap_or_default();
        let found = match name {
            _ if is_loader(frame) => of_loader(name, called(index)),
            "main" => Some(Phase::Main),
            "__libc_csu_init" | "call_init" => called(index).map(initialisers),
            _ if name.starts_with("__libc_start_main") => return Some(begun(&frames[..index])),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    frames.last().filter(|frame| is_loader(frame))?;
    // Whose names are known calls initialisers by the functions above; else, as `dl_main` does, for its own work.
    let mut names = frames.iter().filter(|frame| is_loader(frame)).filter_map(|frame| frame.function.as_deref());
    if names.any(|name| begins(name, &["dl_main", "_dl_sysdep_start", "_dl_start_final"])) {
        return Some(Phase::Linker);
    }
    let by_loader = frames.iter().rev().find(|frame| !is_loader(frame));
    Some(by_loader.map_or(Phase::Linker, |frame| initialisers(frame)))
}

fn initialisers(of: &Frame) -> Phase {
    Phase::Initialisers { object: of.object_name().to_owned() }
}

/// What the C library has begun, by what it called; innermost first. `main` is not among them by name.
fn begun(called: &[&Frame]) -> Phase {
    match (called.last(), called.iter().rev().find(|frame| !is_library(frame))) {
        // Newer libraries call the program's initialisers themselves, and `main` through a function of their own.
        (Some(first), Some(_)) if !is_library(first) && first.function.is_some() => initialisers(first),
        (_, Some(_)) => Phase::Main,
        (_, None) => Phase::BeforeMain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `object!function`, innermost first; no function: it has no name; no object: the kernel.
    fn of(frames: &str) -> Option<String> {
        let mut stacks = Stacks::default();
        let frame = |text: &str| {
            let (object, function) = text.split_once('!').unwrap_or((Frame::KERNEL, text));
            let function = (!function.is_empty()).then(|| function.to_owned());
            Frame { object: object.to_owned(), function, ..Frame::default() }
        };
        let numbers: Vec<_> = frames.split_whitespace().map(|text| stacks.frame(frame(text))).collect();
        let stack = stacks.stack(&numbers);
        phase(&stacks, stack).map(|phase| phase.to_string())
    }

    const LD: &str = "/lib64/ld-linux-x86-64.so.2";

    #[test]
    fn the_loaders_names_tell_what_it_does() {
        let loader = |frames: &str| of(&frames.replace("ld!", &format!("{LD}!")));
        let rest = "ld!_dl_sysdep_start ld!_dl_start ld!_start";
        let initialiser =
            format!("/usr/lib/libfoo.so.1!spin /usr/lib/libfoo.so.1!init ld!call_init ld!_dl_init {rest}");
        assert_eq!(loader(&initialiser).as_deref(), Some("static initialisers of libfoo.so.1"));
        let called = format!("/lib/libc.so.6!memcpy {initialiser}");
        assert_eq!(loader(&called).as_deref(), Some("static initialisers of libfoo.so.1"), "the one that is called");
        let relocates = format!("ld!do_lookup_x ld!_dl_lookup_symbol_x ld!_dl_relocate_object ld!dl_main {rest}");
        assert_eq!(loader(&relocates).as_deref(), Some("relocation"));
        let faults = format!("clear_page asm_exc_page_fault {relocates}");
        assert_eq!(loader(&faults).as_deref(), Some("relocation"), "the kernel works for it");
        let maps = format!("ld!open64 ld!open_verify ld!_dl_map_object ld!_dl_map_object_deps ld!dl_main {rest}");
        assert_eq!(loader(&maps).as_deref(), Some("opening and mapping libraries"));
        // What a program loads itself.
        let opens = "/lib/libc.so.6!dlopen app!main /lib/libc.so.6!__libc_start_main app!_start";
        let part = format!("ld!_dl_relocate_object ld!dl_open_worker ld!_dl_open {opens}");
        assert_eq!(loader(&part).as_deref(), Some("relocation"));
        let part = format!("/x/plug.so!init ld!call_init ld!_dl_init ld!dl_open_worker ld!_dl_open {opens}");
        assert_eq!(loader(&part).as_deref(), Some("static initialisers of plug.so"));
        let part = format!("ld!_dl_lookup_symbol_x ld!_dl_fixup ld!_dl_runtime_resolve_xsave {opens}");
        assert_eq!(loader(&part).as_deref(), Some("main"), "a function is bound when it is first called");
    }

    #[test]
    fn what_a_loader_with_names_calls_for_itself_is_its_own_work() {
        let stack = format!("/l/libc.so.6!__lll_elision_init {LD}!dl_main {LD}!_dl_sysdep_start {LD}!_dl_start {LD}!");
        assert_eq!(of(&stack).as_deref(), Some("dynamic linker"));
    }

    #[test]
    fn without_names_the_frames_tell() {
        assert_eq!(of(&format!("{LD}! {LD}! {LD}!")).as_deref(), Some("dynamic linker"));
        let initialiser = format!("/lib/libc.so.6!malloc /l/libfoo.so!f /l/libfoo.so! {LD}! {LD}! {LD}!");
        assert_eq!(of(&initialiser).as_deref(), Some("static initialisers of libfoo.so"));
    }

    #[test]
    fn the_program_begins_before_main() {
        let start = "/lib/libc.so.6!__libc_start_main@@GLIBC_2.34 app!_start";
        assert_eq!(of(&format!("app!work app!main /lib/libc.so.6! {start}")).as_deref(), Some("main"));
        assert_eq!(of(&format!("app! app! /lib/libc.so.6! {start}")).as_deref(), Some("main"), "it has no names");
        assert_eq!(of(&format!("/lib/libc.so.6!__cxa_atexit {start}")).as_deref(), Some("before main"));
        let initialiser = format!("app!spin app!_GLOBAL__sub_I_x {start}");
        assert_eq!(of(&initialiser).as_deref(), Some("static initialisers of app"));
        let named = "/lib/libc.so.6!call_init /lib/libc.so.6!__libc_start_main_impl app!_start";
        let initialiser = format!("app!spin app!Slow::Slow() app!_GLOBAL__sub_I_x {named}");
        assert_eq!(of(&initialiser).as_deref(), Some("static initialisers of app"), "the C library's names are known");
        let older = format!("app!spin app!init app!__libc_csu_init {start}");
        assert_eq!(of(&older).as_deref(), Some("static initialisers of app"));
    }

    #[test]
    fn exec_is_the_kernels_and_other_threads_are_in_no_part() {
        assert_eq!(of("load_elf_binary bprm_execve __x64_sys_execve do_syscall_64").as_deref(), Some("exec"));
        assert_eq!(of("app!work /lib/libc.so.6!start_thread /lib/libc.so.6!__clone3"), None);
        assert_eq!(of("app!work"), None, "a stack that is told in part");
        assert_eq!(of(""), None);
    }
}
