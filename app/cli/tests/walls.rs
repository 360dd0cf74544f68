//! Walls inside the app: verbs hand over and do not decide, text knows no verb, and what rooms do together speaks to
//! nobody.

use crate::scratch::root;
use std::path::{Path, PathBuf};

/// Lines of all verbs together. What makes them more decides something: it belongs into `app/work` or into a room.
const MOST_LINES_OF_VERBS: usize = 3100;

/// What speaks, reads what was typed, or ends the process.
const OF_THE_APP: [&str; 7] =
    ["println!", "print!", "io::stdout()", "io::stderr()", "env::args", "process::exit", "dbg!"];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn verbs_hand_over_and_do_not_decide() {
    let files = rust_files(&root().join("app/cli/src/verbs"));
    assert!(files.len() > 20, "the verbs are not where they were: {}", files.len());
    let lines: usize = files.iter().map(|path| std::fs::read_to_string(path).unwrap().lines().count()).sum();
    assert!(lines < MOST_LINES_OF_VERBS, "{lines} lines of verbs: move what decides into app/work, or into its room");
}

#[test]
fn text_knows_no_verb() {
    for path in rust_files(&root().join("app/cli/src/text")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let cure = "move the document to app/work, or into report.rs of its room";
        assert!(!text.contains("crate::verbs"), "{}: {cure}", path.display());
    }
}

#[test]
fn what_rooms_do_together_speaks_to_nobody() {
    for path in rust_files(&root().join("app/work/src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        let found = OF_THE_APP.iter().find(|word| text.contains(**word));
        let cure = "give it back as a value, or let app/cli pass it in";
        assert!(found.is_none(), "{} has {}: {cure}", path.display(), found.unwrap_or(&""));
    }
}
