//! Tests: what help texts look like, and that every command that is written down parses: the examples of `--help` and
//! all `thaw …` in the documents of the repository. Nothing is executed.

use super::Args;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, Parser};
use std::path::{Path, PathBuf};

/// Columns of a help text.
const WIDTH: usize = 100;

/// How much of a command is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// A line of a code block or an example: it can be typed.
    Whole,
    /// Code within a sentence: what it has must exist, but it may leave the rest out.
    Named,
}

/// The verb and all below it.
fn verbs(command: &Command, before: &str, all: &mut Vec<(String, Command)>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{before} {}", verb.get_name());
        verbs(verb, &name, all);
        all.push((name, verb.clone()));
    }
}

fn examples(command: &Command) -> Vec<String> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let block = after.strip_prefix("Examples:\n").unwrap_or_default();
    let lines = block.lines().take_while(|line| !line.is_empty());
    // What stands further right explains the line above.
    lines.filter(|line| !line.starts_with("   ")).map(|line| line.trim_start().to_owned()).collect()
}

#[test]
fn help_begins_with_a_question_and_ends_with_examples_that_can_be_typed() {
    let thaw = Args::command();
    let mut all = vec![("thaw".to_owned(), thaw.clone())];
    verbs(&thaw, "thaw", &mut all);
    assert!(all.len() > 40, "the verbs were not found: {}", all.len());
    for (name, command) in &all {
        let about = command.get_long_about().unwrap_or_else(|| panic!("{name} says nothing")).to_string();
        let first = about.lines().next().unwrap();
        assert!(first.ends_with('?') || first.contains("? "), "{name} does not begin with a question: {first}");
        let examples = examples(command);
        assert!((1..=3).contains(&examples.len()), "{name} has {} examples", examples.len());
        let mut own = 0;
        for example in &examples {
            assert!(example.len() <= WIDTH - 2, "{name}: this is broken into two lines: {example}");
            for words in typed(example) {
                parse(&words, Written::Whole, &format!("the help of {name}: {example}"));
                own += usize::from(format!("{} ", words.join(" ")).starts_with(&format!("{name} ")));
            }
        }
        // One may show what has to be done before.
        assert!(own + 1 >= examples.len(), "{name} has examples of something else: {examples:?}");
    }
    let hidden = thaw.get_subcommands().filter(|verb| verb.is_hide_set());
    for example in hidden.flat_map(examples) {
        typed(&example).iter().for_each(|words| parse(words, Written::Whole, &example));
    }
}

#[test]
fn every_command_in_the_documents_parses() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut checked = 0;
    for document in documents(root) {
        let text = std::fs::read_to_string(&document).unwrap();
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}: {line}", document.strip_prefix(root).unwrap().display(), number + 1);
            if line.starts_with("```") {
                in_block = !in_block;
                continue;
            }
            let pieces: Vec<&str> = if in_block { vec![line] } else { line.split('`').skip(1).step_by(2).collect() };
            let written = if in_block { Written::Whole } else { Written::Named };
            // A block may also show what thaw prints.
            for piece in pieces.into_iter().filter(|piece| piece.contains("thaw ")) {
                for words in typed(piece) {
                    parse(&words, written, &place);
                    checked += 1;
                }
            }
        }
        assert!(!in_block, "{} ends within a code block", document.display());
    }
    assert!(checked > 150, "only {checked} commands were found");
}

/// All Markdown of the repository.
fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut directories = vec![root.to_path_buf()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let foreign = name.starts_with('.') || ["target", "node_modules", "demo"].contains(&name.as_str());
            if entry.file_type().unwrap().is_dir() && !foreign {
                directories.push(path);
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    found
}

fn parse(words: &[String], written: Written, place: &str) {
    let words = words.iter().filter(|word| written == Written::Whole || !["…", "..."].contains(&word.as_str()));
    let Err(error) = Args::try_parse_from(words) else { return };
    let value = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value)) => Some(value.as_str()),
        _ => None,
    };
    let placeholder = |value: &str| value.chars().all(|letter| letter.is_ascii_uppercase());
    let fine = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => written == Written::Named,
        // An option without its value, or with its name in the place of one.
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            written == Written::Named && value.is_some_and(placeholder)
        }
        _ => false,
    };
    assert!(fine, "{place}\n{error}");
}

/// The commands of thaw in a line for the shell, as words. What `$(…)` and `$!` give is taken to be a number, a list of
/// one.
fn typed(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    // Where a redirection goes is no word of the command.
    let mut redirected = false;
    let mut rest = line.chars().peekable();
    while let Some(letter) = rest.next() {
        let end = matches!(letter, ' ' | '|' | '&' | ';' | '>' | '<' | '(' | ')');
        if end && let Some(done) = word.take() {
            let stream = matches!(letter, '>' | '<') && done.parse::<u8>().is_ok();
            if !redirected && !stream {
                commands.last_mut().expect("one").push(done);
            }
            redirected = false;
        }
        match letter {
            '#' if word.is_none() => break,
            '&' if redirected => {}
            ' ' => {}
            '>' | '<' => redirected = true,
            _ if end => commands.push(Vec::new()),
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                quoted.extend(rest.by_ref().take_while(|next| *next != letter));
            }
            '$' if rest.next_if_eq(&'(').is_some() => {
                let within: String = rest.by_ref().take_while(|next| *next != ')').collect();
                commands.splice(0..0, typed(&within));
                word.get_or_insert_default().push('1');
            }
            '$' if rest.next_if_eq(&'!').is_some() => word.get_or_insert_default().push('1'),
            '\\' => word.get_or_insert_default().extend(rest.next()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(done) = word
        && !redirected
    {
        commands.last_mut().expect("one").push(done);
    }
    // Who runs it, and with which variables, stands before it.
    let own = |words: Vec<String>| -> Vec<String> {
        words.into_iter().skip_while(|word| word == "sudo" || word.contains('=')).collect()
    };
    commands.into_iter().map(own).filter(|words| words.first().is_some_and(|first| first == "thaw")).collect()
}

#[test]
fn lines_are_split_as_a_shell_splits_them() {
    let words = |line: &str| typed(line).into_iter().map(|words| words.join("_")).collect::<Vec<_>>();
    assert_eq!(
        words("thaw record --variant new='./server --fast' -- ./server   # two"),
        ["thaw_record_--variant_new=./server --fast_--_./server"]
    );
    assert_eq!(words("thaw heap slop --lines | thaw counts | head"), ["thaw_heap_slop_--lines", "thaw_counts"]);
    assert_eq!(words("strace -f ls 2>&1 >/dev/null | thaw counts -e 2> log -i"), ["thaw_counts_-e_-i"]);
    assert_eq!(words("apt-get install $(thaw presets --packages chromium)"), ["thaw_presets_--packages_chromium"]);
    assert_eq!(
        words("thaw heap run -- ./server &  thaw heap attach $(pidof server)"),
        ["thaw_heap_run_--_./server", "thaw_heap_attach_1"]
    );
    assert_eq!(words("./pages & sleep 1; thaw memory show --pid $!"), ["thaw_memory_show_--pid_1"]);
    assert_eq!(words("sudo THAW_X=1 thaw record -- a=b"), ["thaw_record_--_a=b"]);
    assert_eq!(words("a thaw of snow"), [""; 0]);
}
