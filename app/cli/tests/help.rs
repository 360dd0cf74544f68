//! Help, man pages and completions: from one definition. What each help text looks like is tested beside it, in `args`.

use crate::scratch::{Said, Scratch, root};

const ELF_VERBS: [&str; 5] = ["stat", "pack", "restore", "fix-relr", "verify"];

/// The verbs that the help of thaw lists.
fn verbs(help: &str) -> Vec<&str> {
    let list = help.split_once("Commands:").unwrap().1.split_once("\n\n").unwrap().0;
    // Descriptions that go on in a further line are indented more.
    let verb = |line: &&'_ str| line.starts_with("  ") && !line.starts_with("   ");
    let verbs: Vec<&str> = list.lines().filter(verb).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.len() > 20, "{help}");
    verbs
}

#[test]
fn thaw_alone_explains_itself_and_its_exit_codes() {
    let scratch = Scratch::new();
    let help = scratch.thaw(["--help"]).exits(0).says("Exit codes:").out();
    let verbs = verbs(&help);
    assert!(["record", "elf", "completions", "man"].iter().all(|verb| verbs.contains(verb)), "{help}");
    for document in ["README.md", "docs/commands.md"] {
        let text = std::fs::read_to_string(root().join(document)).unwrap();
        for verb in verbs.iter().filter(|verb| **verb != "help") {
            assert!(text.contains(&format!("thaw {verb}")), "{document} does not name thaw {verb}: add it");
        }
    }
    scratch.thaw::<_, &str>([]).exits(2).complains("record");
    scratch.thaw(["--version"]).exits(0).says(concat!("thaw ", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_is_mistyped_is_said_once_with_a_hint() {
    let scratch = Scratch::new();
    scratch.thaw(["recrod"]).exits(2).complains("thaw: unrecognized subcommand 'recrod'").hints("record");
    scratch.thaw(["report", "--jsno", "x"]).exits(2).complains("thaw: unexpected argument '--jsno'").hints("--json");
}

#[test]
fn every_verb_has_a_man_page() {
    let scratch = Scratch::new();
    scratch.thaw(["man", "man1"]).exits(0);
    let elf = ELF_VERBS.map(|verb| format!("elf-{verb}"));
    let help = scratch.thaw(["--help"]).exits(0).out();
    let verbs = verbs(&help).into_iter().filter(|verb| !["completions", "man", "help"].contains(verb));
    for verb in verbs.chain(elf.iter().map(String::as_str)) {
        let page = std::fs::read_to_string(scratch.path(format!("man1/thaw-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Examples:"), "{verb}");
    }
    assert!(scratch.path("man1/thaw.1").exists());
}

#[test]
fn the_documents_are_found_beside_the_command() {
    let scratch = Scratch::new();
    let thaw = scratch.path("bin/thaw");
    std::fs::create_dir(scratch.path("bin")).unwrap();
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &thaw);
    let print = || {
        let mut command = scratch.command_of(&thaw);
        command.args(["docs", "--print"]);
        Said::of(command)
    };
    print().exits(3).complains("the documents are not installed").hints("make site");
    let front = scratch.write("share/doc/thaw/site/index.html", "");
    assert_eq!(print().exits(0).out(), format!("{}\n", front.canonicalize().unwrap().display()));
}

#[test]
fn shells_get_completions() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        scratch.thaw(["completions", shell]).exits(0).says("resident").says("record");
    }
    scratch.thaw(["completions", "tcsh"]).exits(2);
}

/// What each shell makes of a verb, an option and a recording's name when TAB is pressed.
#[test]
fn shells_complete_verbs_options_and_names_of_recordings() {
    let scratch = Scratch::new();
    scratch.write("firefox-cold.thaw", "");
    for (shell, file) in [("bash", "thaw.bash"), ("zsh", "functions/_thaw"), ("fish", "thaw.fish")] {
        scratch.write(file, scratch.thaw(["completions", shell]).exits(0).out());
    }
    const TYPED: [(&str, &str); 4] = [
        ("thaw rec", "thaw record"),
        ("thaw heap at", "thaw heap attach"),
        ("thaw record --reada", "thaw record --readahead"),
        ("thaw report fire", "thaw report firefox-cold.thaw"),
    ];
    // A shell at a terminal of zsh's completes; what is then put before the line prints it.
    let at_a_terminal = |shell: &str, before: &str, print: &str| {
        let lines = TYPED.map(|(typed, _)| format!("zpty -n -w inner '{typed}'$'\\t\\x01{print} +\\n'"));
        let script = format!(
            "zmodload zsh/zpty; zpty inner 'TERM=dumb {shell}'; zpty -w inner '{before}'; {}; zpty -w inner exit; \
             while zpty -r inner line; do print -r -- \"$line\"; done",
            lines.join("; ")
        );
        ["zsh".to_owned(), "-c".to_owned(), script]
    };
    let zsh = "PS1= fpath=($PWD/functions $fpath); autoload -Uz compinit; compinit -u -D; bindkey -e";
    let fish = format!("source thaw.fish; {}", TYPED.map(|(typed, _)| format!("complete -C \"{typed}\"")).join("; "));
    let shells = [
        ("bash", at_a_terminal("bash --norc -i", "PS1=; source ./thaw.bash", "echo")),
        ("zsh", at_a_terminal("zsh -f -i", zsh, "print -r --")),
        ("fish", ["fish".to_owned(), "-c".to_owned(), fish]),
    ];
    for (shell, [program, option, script]) in shells {
        if let Some(missing) = [shell, &program].iter().find(|it| os::spawn::resolve_program((**it).as_ref()).is_err())
        {
            testing::skip(&format!("needs {missing} (Debian: the package {missing})"));
            continue;
        }
        let mut command = std::process::Command::new(program);
        command.args([option, script]).current_dir(scratch.path("")).env("HOME", scratch.path(""));
        let said = Said::of(command).exits(0);
        for (_, whole) in TYPED {
            // fish lists the words that the last one may become.
            let expected = match shell {
                "fish" => whole.rsplit(' ').next().unwrap().to_owned(),
                _ => format!("+{whole}"),
            };
            assert!(said.out().replace("+ ", "+").contains(&expected), "{shell}: {expected}: {}", said.out());
        }
    }
}

#[test]
fn man_finds_nothing_to_warn_of() {
    if os::spawn::resolve_program("man".as_ref()).is_err() {
        return testing::skip("needs man (Debian: the package man-db)");
    }
    let scratch = Scratch::new();
    scratch.thaw(["man", "man1"]).exits(0);
    for page in scratch.names("man1") {
        let mut man = std::process::Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(scratch.path("man1").join(&page));
        man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80");
        let said = Said::of(man).exits(0);
        assert_eq!(said.err(), "", "{page}");
    }
}

#[test]
fn presets_are_listed_shown_and_extended() {
    let scratch = Scratch::new();
    scratch.thaw(["presets"]).exits(0).says("firefox-esr").says("chromium").says("built in");
    assert_eq!(scratch.thaw(["presets", "--packages", "chromium"]).exits(0).out(), "chromium\n");
    // What is shown is a preset: it can be saved, changed and used.
    let shown = scratch.thaw(["presets", "firefox-esr"]).exits(0).out();
    scratch.write("config/thaw/apps/mine.toml", shown.replace("firefox-esr", "other-browser"));
    let json = scratch.thaw(["presets", "mine", "--json"]).exits(0).json();
    assert_eq!(json["schema"], "thaw.presets/1");
    assert_eq!(json["presets"][0]["program"], "other-browser");
    scratch.write("config/thaw/apps/chromium.toml", "program = \"/opt/chromium\"\n");
    scratch.thaw(["presets", "chromium"]).exits(0).says("program = \"/opt/chromium\"").says("built in + ");
    scratch.write("config/thaw/apps/bad.toml", "program = 3\n");
    scratch
        .thaw(["presets"])
        .exits(2)
        .complains("this is not a preset")
        .complains("bad.toml")
        .hints("thaw presets firefox-esr");
}
