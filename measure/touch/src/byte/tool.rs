//! Where Valgrind and our tool for it are, and how they start a program.

use model::{Error, Exit, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A program for each processor that Valgrind can run here has this name before its dash.
const NAME: &str = "icegrind";
const BUILD: &str = "build it with `make icegrind` (dev/icegrind; it needs a C compiler and the package valgrind)";

/// Valgrind with our tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    valgrind: PathBuf,
    library: PathBuf,
}

impl Tool {
    /// Looks for the tool in directories, the first first, and for Valgrind in PATH.
    ///
    /// # Errors
    /// Machine: one of them is not there; the hint says how to get it.
    pub fn find(directories: &[PathBuf]) -> Result<Self> {
        let missing = |what: &'static str, name: &str| Error::new(Exit::Machine, what, name);
        let has_tool = |directory: &&PathBuf| directory.join(format!("{NAME}-amd64-linux")).is_file();
        let Some(library) = directories.iter().find(has_tool) else {
            let looked: Vec<String> = directories.iter().map(|path| model::shown(path)).collect();
            return Err(missing("the byte engine needs its Valgrind tool:", NAME)
                .because(format!("it is not in {}", looked.join(", ")))
                .hint(BUILD));
        };
        // Debian's `valgrind` is a script that sets LD_LIBRARY_PATH, which the program under test would inherit.
        let valgrind = ["valgrind.bin", "valgrind"]
            .into_iter()
            .find_map(|name| os::spawn::resolve_program(name.as_ref()).ok())
            .ok_or_else(|| {
                missing("the byte engine needs a program:", "valgrind").hint("install the package valgrind")
            })?;
        let library = std::path::absolute(library).unwrap_or_else(|_| library.clone());
        Ok(Self { valgrind, library })
    }

    /// Where the tool is.
    pub fn directory(&self) -> &Path {
        &self.library
    }

    /// The words that start a program so that everything it does is seen and written into a directory, which must
    /// exist.
    ///
    /// # Errors
    /// Machine: Valgrind does not start programs with more rights than their caller.
    pub fn command(&self, directory: &Path, program: &Path, argv: &[OsString]) -> Result<Vec<OsString>> {
        use std::os::unix::fs::MetadataExt;
        if std::fs::metadata(program).is_ok_and(|meta| meta.mode() & 0o6000 != 0) {
            return Err(Error::on(Exit::Machine, "the byte engine cannot watch a set-user-ID program:", program)
                .because("Valgrind does not start it")
                .hint("use `--engine page`: it needs root, and changes nothing in the program"));
        }
        let mut out = OsString::from("--icegrind-out=");
        out.push(directory);
        let options = ["-q", "--tool=icegrind", "--command-line-only=yes", "--vgdb=no", "--trace-children=yes"];
        let words = std::iter::once(self.valgrind.clone().into_os_string()).chain(options.map(OsString::from));
        Ok(words.chain([out, "--".into()]).chain(argv.iter().cloned()).collect())
    }

    /// Variables that Valgrind needs.
    pub fn environment(&self) -> Vec<(OsString, Option<OsString>)> {
        vec![("VALGRIND_LIB".into(), Some(self.library.clone().into_os_string())), ("VALGRIND_OPTS".into(), None)]
    }

    /// Libraries that Valgrind puts into a program, by their real names.
    pub(super) fn guests(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.library).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.path().canonicalize().ok()).collect()
    }
}
