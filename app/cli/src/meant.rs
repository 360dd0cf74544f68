//! What a user probably meant who gave a verb something that it cannot use: the verb that can, or the program that
//! lacks its `--`.

use crate::args::mistakes;
use model::{Error, Exit};
use os::kind::{self, Kind};
use std::ffi::OsString;
use std::path::Path;
use work::shell::command_line;

/// Verbs that read a kind of file, and the one to look at it with.
struct Readers {
    verbs: &'static [&'static str],
    what: &'static str,
    look: &'static str,
}

fn readers(kind: Kind) -> Readers {
    let (verbs, what, look): (&[&str], _, _) = match kind {
        Kind::Recording => (
            &[
                "record", "why", "ablate", "sweep", "report", "view", "compare", "gate", "io", "query", "preload",
                "optimize", "touch", "order", "archive",
            ],
            "a recording of starts",
            "thaw report",
        ),
        Kind::Heap => (&["heap", "view"], "a heap recording", "thaw heap report"),
        Kind::MemoryReport => (&["memory", "view", "heap"], "a memory report", "thaw memory show"),
        Kind::MemoryWatch => (&["memory", "view"], "a memory watch", "thaw memory show"),
        Kind::Events => (&["timeline", "view"], "a file of events", "thaw timeline report"),
        Kind::PreloadManifest => (&["preload"], "a preload manifest", "thaw preload status"),
        Kind::Archive => (&["archive"], "an archive", "thaw archive stat"),
        Kind::Elf => (&["elf", "record"], "an ELF file", "thaw elf stat"),
        Kind::Script => (&["record"], "a script", "thaw record --"),
    };
    Readers { verbs, what, look }
}

/// The error with a better hint, where there is one. `typed` is the command line, the program's name first.
pub fn said(error: Error, typed: &[OsString]) -> Error {
    if !matches!(error.exit, Exit::Usage | Exit::Data) || error.object.is_empty() {
        return error;
    }
    // Of a file that nobody typed, the error knows better what is wrong with it.
    if !typed.iter().any(|word| *word == *error.object) {
        return error;
    }
    let path = Path::new(&error.object);
    // What is wrong with the use of a file that could be read is no matter of its kind.
    let better = match (path.symlink_metadata().is_ok(), error.exit) {
        (true, Exit::Data) => other_verb(path, typed),
        (true, _) => None,
        (false, _) => program_without_dashes(&error.object, typed),
    };
    match better {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

fn other_verb(path: &Path, typed: &[OsString]) -> Option<String> {
    let verb = typed.get(1)?.to_str()?;
    let readers = readers(kind::of(path)?);
    (!readers.verbs.contains(&verb))
        .then(|| format!("it is {}: {} {}", readers.what, readers.look, command_line(&[path.into()])))
}

/// `thaw touch firefox`: no file of that name, but a program.
fn program_without_dashes(word: &str, typed: &[OsString]) -> Option<String> {
    if typed.iter().any(|word| word == "--") {
        return None;
    }
    os::spawn::resolve_program(word.as_ref()).ok()?;
    mistakes::forgotten_dashes(word, typed)
}
