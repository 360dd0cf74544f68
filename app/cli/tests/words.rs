//! The words that people read: terms of the field (docs/glossary.md), in place of phrases that readers stumbled over.

use crate::scratch::root;
use std::path::{Path, PathBuf};

/// What is not said, and what is said instead.
const BANNED: [(&str, &str); 11] = [
    ("more runs must tell", "is not known yet; record more runs"),
    ("do not prove", "are too few or too unlike to be sure"),
    ("head's way", "seek distance"),
    ("like the run before\"", "autocorrelation"),
    ("fault RA", "read-ahead of a fault"),
    ("asked for", "requested"),
    ("rows stand in only where", "a row is indented only where"),
    ("a word about a field", "a view leaves out words about fields"),
    ("not known is what", "unknown:"),
    ("\"waiting\"", "disk wait"),
    ("doubts", "warnings"),
];

/// Files of this ending below a directory, tests apart.
fn files(directory: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !["tests", "target", "node_modules", "test", "types"].contains(&name.as_str()) {
                files(&path, ending, found);
            }
        } else if name.ends_with(ending) && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// The texts in quotation marks of a source file, with their line numbers, quotes kept; tests at its end and comments
/// left out.
fn literals(source: &str) -> Vec<(usize, String)> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    let (mut line, mut rest) = (1, code);
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\") {
            rest[1..].find('\'').map_or(1, |end| end + 2)
        } else if first == '"' {
            let length = quoted(rest);
            found.push((line, rest[..length].to_owned()));
            length
        } else {
            first.len_utf8()
        };
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// Length of a literal, both marks included.
fn quoted(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn complain(path: &Path, line: usize, text: &str, wrong: &mut Vec<String>) {
    let lower = text.to_lowercase();
    for (phrase, better) in BANNED {
        if lower.contains(&phrase.to_lowercase()) {
            wrong.push(format!("{}:{line}: '{phrase}'; say '{better}'", path.display()));
        }
    }
}

#[test]
fn messages_and_help_use_the_words_of_the_glossary() {
    let mut sources = Vec::new();
    for room in ["app/cli/src", "measure", "mend"] {
        files(&root().join(room), ".rs", &mut sources);
    }
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for path in &sources {
        for (line, text) in literals(&std::fs::read_to_string(path).unwrap()) {
            seen += 1;
            complain(path, line, &text, &mut wrong);
        }
    }
    assert!(seen > 5000, "only {seen} texts were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn documents_use_the_words_of_the_glossary() {
    let names = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut documents = names.map(|name| root().join(name)).to_vec();
    files(&root().join("docs"), ".md", &mut documents);
    let mut wrong = Vec::new();
    for path in &documents {
        for (number, line) in std::fs::read_to_string(path).unwrap().lines().enumerate() {
            complain(path, number + 1, line, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What stands between the places of values in a message is as somebody wrote it in the source.
#[test]
fn troubleshooting_names_messages_that_thaw_has() {
    let mut sources = Vec::new();
    for room in ["app/cli/src", "app/work/src", "base", "measure", "mend"] {
        files(&root().join(room), ".rs", &mut sources);
    }
    let mut said = String::new();
    for (_, text) in sources.iter().flat_map(|path| literals(&std::fs::read_to_string(path).unwrap())) {
        // A literal may go on in the next line.
        let lines: Vec<&str> = text.split("\\\n").map(str::trim_start).collect();
        said.push_str(&lines.concat());
    }
    let page = std::fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let (mut seen, mut wrong) = (0, Vec::new());
    for message in page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()) {
        for piece in message.split('…').map(str::trim).filter(|piece| !piece.is_empty()) {
            seen += 1;
            if !said.contains(piece) {
                wrong.push(format!("'{piece}' of '{message}'"));
            }
        }
    }
    assert!(seen > 30, "only {seen} pieces of messages were found");
    assert!(wrong.is_empty(), "docs/troubleshooting.md has what thaw does not say:\n{}", wrong.join("\n"));
}

#[test]
fn literals_are_found_where_they_are() {
    let source =
        "let a = \"one\"; // \"no\"\nlet b = '\"'; \"tw\\\"o\";\n/* \"no\" */\n#[cfg(test)]\nmod tests { \"no\" }";
    let texts = literals(source);
    assert_eq!(texts, [(1, "\"one\"".to_owned()), (2, "\"tw\\\"o\"".to_owned())]);
}
