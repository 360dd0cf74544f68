//! What the options for commands around the starts mean: each program with its own.

use crate::args::around::AroundArgs;
use crate::parameters::Named;
use bench::around::Around;
use model::{Error, Exit, Result};
use std::ffi::{OsStr, OsString};

/// The programs (name and words) with the commands around their starts. With `--shell` a program is one line for that.
///
/// # Errors
/// Usage: a command that is given neither once nor once for each program; an empty one.
pub fn with(programs: Vec<(String, Vec<OsString>)>, args: &AroundArgs) -> Result<Vec<Named>> {
    let count = programs.len();
    let options = [
        ("--setup", &args.setup),
        ("--prepare", &args.prepare),
        ("--conclude", &args.conclude),
        ("--cleanup", &args.cleanup),
    ];
    for (option, lines) in options {
        if lines.len() > 1 && lines.len() != count {
            let given = format!("{} for {count} programs", lines.len());
            return Err(Error::new(
                Exit::Usage,
                "this option is given neither once nor once for each program:",
                option,
            )
            .because(given)
            .hint("a program that needs none gets 'true'"));
        }
        if lines.iter().any(|line| line.is_empty()) {
            return Err(Error::new(Exit::Usage, "there is no command after", option));
        }
    }
    let of = |lines: &[OsString], index: usize| lines.get(index).or(lines.first()).cloned();
    let named = |(index, (name, argv)): (usize, (String, Vec<OsString>))| Named {
        name,
        argv: match &args.shell {
            Some(shell) => vec![shell.clone().into_os_string(), "-c".into(), argv.join(OsStr::new(" "))],
            None => argv,
        },
        around: Around {
            shell: args.shell.clone(),
            setup: of(&args.setup, index),
            prepare: of(&args.prepare, index),
            conclude: of(&args.conclude, index),
            cleanup: of(&args.cleanup, index),
        },
        base_list: None,
    };
    Ok(programs.into_iter().enumerate().map(named).collect())
}

/// Lines as they are kept in the recording.
pub fn shown(lines: &[OsString]) -> Vec<String> {
    lines.iter().map(|line| line.to_string_lossy().into_owned()).collect()
}
