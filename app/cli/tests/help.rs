//! Help, man pages and completions: from one definition. What each help text looks like is tested beside it, in `args`.

use crate::scratch::Scratch;

const VERBS: [&str; 22] = [
    "record", "report", "view", "compare", "gate", "heap", "counts", "memory", "timeline", "io", "query", "preload",
    "optimize", "touch", "order", "archive", "frag", "flush", "resident", "elf", "doctor", "presets",
];
const ELF_VERBS: [&str; 5] = ["stat", "pack", "restore", "fix-relr", "verify"];

#[test]
fn thaw_alone_explains_itself_and_its_exit_codes() {
    let scratch = Scratch::new();
    let help = scratch.thaw(["--help"]).exits(0).says("Exit codes:").out();
    assert!(VERBS.iter().all(|verb| help.contains(&format!("  {verb} "))), "{help}");
    assert!(help.contains("  completions ") && help.contains("  man "), "{help}");
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
    for verb in VERBS.into_iter().chain(elf.iter().map(String::as_str)) {
        let page = std::fs::read_to_string(scratch.path(format!("man1/thaw-{verb}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains("Examples:"), "{verb}");
    }
    assert!(scratch.path("man1/thaw.1").exists());
}

#[test]
fn shells_get_completions() {
    let scratch = Scratch::new();
    for shell in ["bash", "zsh", "fish"] {
        scratch.thaw(["completions", shell]).exits(0).says("resident").says("record");
    }
    scratch.thaw(["completions", "tcsh"]).exits(2);
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
