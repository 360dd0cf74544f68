//! What people type by habit, or by mistake, and what the scripts of `dev/` do about other people's locks.

use crate::scratch::{Said, Scratch, root};
use std::process::Command;

#[test]
fn help_is_a_verb_too() {
    let scratch = Scratch::new();
    let help = scratch.thaw(["help", "record"]).exits(0).out();
    assert_eq!(help, scratch.thaw(["record", "--help"]).exits(0).out());
    scratch.thaw(["heap", "help", "run"]).exits(0).says("What does my program allocate");
}

#[test]
fn a_program_without_its_dashes_is_shown_with_them() {
    let scratch = Scratch::new();
    for (typed, right) in [
        (&["record", "true", "--x"][..], "thaw record -- true --x"),
        (&["touch", "true"], "thaw touch -- true"),
        (&["preload", "run", "true"], "thaw preload run -- true"),
        (&["memory", "watch", "true"], "thaw memory watch -- true"),
        (&["heap", "run", "true"], "thaw heap run -- true"),
    ] {
        scratch.thaw(typed).exits(2).hints(right);
    }
}

#[test]
fn data_is_not_to_be_made_executable() {
    let scratch = Scratch::new();
    scratch.thaw(["record", "--", "/etc/passwd"]).exits(2).complains("not an executable file").hints("it is data");
}

#[test]
fn a_verb_that_cannot_read_a_file_names_the_one_that_can() {
    let scratch = Scratch::new();
    scratch.write("a.heap/recording.json", "{}");
    scratch.write("a.memory", "{\"schema\":\"thaw.memory-watch/1\"}\n");
    scratch.write("a.json", "{\"version\": 1, \"reports\": []}");
    scratch.thaw(["record", "-o", "a.thaw", "--state", "hot", "--runs", "1", "--", "true"]).exits(0);
    for (typed, right) in [
        (&["report", "a.heap"][..], "thaw heap report a.heap"),
        (&["query", "a.memory", "select 1"], "thaw memory show a.memory"),
        (&["report", "a.json"], "thaw memory show a.json"),
        (&["heap", "report", "a.thaw"], "thaw report a.thaw"),
        (&["memory", "show", "a.thaw"], "thaw report a.thaw"),
        (&["elf", "stat", "a.thaw"], "thaw report a.thaw"),
        (&["report", "/bin/true"], "thaw elf stat /bin/true"),
    ] {
        scratch.thaw(typed).hints(right);
    }
}

#[test]
fn a_missing_file_is_a_mistake_on_the_command_line_for_every_verb() {
    let scratch = Scratch::new();
    for line in [
        "report no.thaw",
        "view no.thaw --no-browser",
        "compare no.thaw no.thaw",
        "gate no.thaw no.thaw --max-regression 5%",
        "query no.thaw x",
        "io model no.thaw",
        "io replay no.thaw",
        "preload make no.thaw -o x",
        "preload run no.preload",
        "preload status no.preload",
        "optimize no.thaw -o x",
        "heap report no.heap",
        "heap diff no.heap no.heap",
        "heap slop no.heap",
        "heap growth no.heap",
        "heap finish no.heap",
        "heap export no.heap --format dhat -o x",
        "counts no.txt",
        "memory show no.json",
        "memory diff no.json no.json",
        "touch no.thaw",
        "order no.thaw",
        "archive stat no.zip",
        "image stat no.img",
        "image verify no.img",
        "image extract no.img -o x",
        "frag no.file",
        "flush no.file",
        "resident no.file",
        "elf stat no.so",
        "elf pack no.so -o x",
        "elf verify no.so no.so",
        "record --base no.list -- true",
    ] {
        scratch.thaw(line.split(' ')).exits(2).complains("thaw: ");
    }
}

#[test]
fn a_process_is_a_word_or_an_option() {
    if !crate::heap::guest() {
        return;
    }
    let scratch = Scratch::new();
    for typed in [&["heap", "attach", "999999999"][..], &["heap", "attach", "--pid", "999999999"]] {
        scratch.thaw(typed).complains("999999999");
    }
    for typed in [&["memory", "watch", "999999999"][..], &["memory", "watch", "--pid", "999999999"]] {
        scratch.thaw(typed).exits(2).complains("there is no process");
    }
    for typed in [&["memory", "show", "999999999"][..], &["memory", "show", "--pid", "999999999"]] {
        scratch.thaw(typed).complains("no memory reporters in process '999999999'");
    }
    scratch.thaw(["heap", "attach", "1", "--pid", "2"]).exits(2);
}

#[test]
fn the_ending_of_a_reports_file_chooses_its_form() {
    let scratch = Scratch::new();
    scratch.thaw(["record", "-o", "a.thaw", "--state", "hot", "--runs", "2", "--", "true"]).exits(0);
    for (name, beginning) in [("a.html", "<!"), ("a.json", "{\n  \"schema\""), ("a.txt", "true starts in ")] {
        scratch.thaw(["report", "a.thaw", "-o", name]).exits(0);
        let text = std::fs::read_to_string(scratch.path(name)).unwrap();
        assert!(text.starts_with(beginning) && !text.contains('\u{1b}'), "{name}: {}", &text[..40]);
    }
    scratch.thaw(["report", "a.thaw", "-o", "a.pdf"]).exits(2).hints(".html");
    assert!(!scratch.path("a.pdf").exists());
}

#[test]
fn completions_offer_the_values_that_an_option_knows() {
    let scratch = Scratch::new();
    let script = scratch.thaw(["completions", "bash"]).exits(0).out();
    for values in ["hot app boot cold cold,hot", "desktop2010 laptop2010", "chromium firefox-esr"] {
        assert!(script.contains(values), "{values} is not offered");
    }
    assert!(!script.contains("tracer"), "what thaw starts itself with is no verb");
}

#[test]
fn a_parameter_makes_a_variant_of_each_value() {
    let scratch = Scratch::new();
    let line =
        "record -o a.thaw --state hot --runs 1 --needed no --name nap --parameter ms=10..30..10 -- sleep 0.0{ms}";
    scratch.thaw(line.split(' ')).exits(0);
    let json = scratch.thaw(["report", "a.thaw", "--json"]).exits(0).json();
    let names: Vec<&str> = json["variants"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["nap ms=10", "nap ms=20", "nap ms=30"]);
    assert!(json["growth"].is_null(), "three values are too few to tell an order by");
    scratch.thaw(["record", "--parameter", "x=1", "--", "true"]).exits(2).hints("{x}");
}

#[test]
fn how_a_start_grows_with_a_parameter_is_told() {
    let scratch = Scratch::new();
    let line = "record -o a.thaw --state hot --runs 3 --needed no --name nap --parameter n=1,2,4,8 -- sleep 0.{n}";
    scratch.thaw(line.split(' ')).exits(0).says("How it grows: nap hot with n").says("time until ready");
    let json = scratch.thaw(["report", "a.thaw", "--json"]).exits(0).json();
    let swept = &json["growth"][0];
    assert_eq!((&swept["of"], &swept["parameter"], &swept["state"]), (&"nap".into(), &"n".into(), &"hot".into()));
    assert_eq!(swept["values"], serde_json::json!([1.0, 2.0, 4.0, 8.0]));
    let wall = &swept["figures"][0];
    assert_eq!(wall["name"], "wall_s");
    assert!(wall["growth"]["ratio"]["value"].as_f64().unwrap() > 2.0, "{wall}");
}

/// dev/install with made-up package tools in front of the real ones; apt-get finds its lock taken `busy` times, and
/// would remove `here` for a package named `rival`.
fn install(scratch: &Scratch, busy: u32, wait: u32, packages: &[&str]) -> Said {
    let tool = |name: &str, body: &str| {
        scratch.script(&format!("bin/{name}"), body);
    };
    tool("dpkg-query", "exit 1");
    tool("id", "echo 0");
    tool("sleep", "exit 0");
    let count = scratch.path("count");
    std::fs::write(&count, "").unwrap();
    let body = format!(
        "[ \"$1\" != -s ] || {{ case \"$*\" in *rival*) echo 'Remv here [1]';; esac; exit 0; }}\n\
            echo \"$@\" >> '{count}'\n[ $(wc -l < '{count}') -gt {busy} ] || {{ echo 'E: Could not get lock /x'; exit \
            100; }}",
        count = count.display()
    );
    tool("apt-get", &body);
    let mut command = Command::new(root().join("dev/install"));
    let path = format!("{}:{}", scratch.path("bin").display(), std::env::var("PATH").unwrap());
    command.args(packages).env("PATH", path).env("THAW_APT_WAIT", wait.to_string());
    Said::of(command)
}

#[test]
fn the_install_script_waits_for_another_apt() {
    let scratch = Scratch::new();
    install(&scratch, 3, 600, &["no-such-package"]).exits(0).complains("another apt holds the lock");
    let calls = std::fs::read_to_string(scratch.path("count")).unwrap();
    assert!(calls.lines().count() == 5 && calls.contains("DPkg::Lock::Timeout=600"), "{calls}");
    install(&scratch, 9, 0, &["no-such-package"]).exits(100).complains("Could not get lock");
}

#[test]
fn the_install_script_removes_no_package() {
    let scratch = Scratch::new();
    install(&scratch, 0, 0, &["one", "rival", "two"]).exits(0).complains("rival is left out: apt would remove here");
    let calls = std::fs::read_to_string(scratch.path("count")).unwrap();
    let installed = calls.lines().last().unwrap();
    assert!(installed.contains("--no-remove") && installed.ends_with(" one two"), "{calls}");
    install(&scratch, 0, 0, &["rival"]).exits(0).complains("rival is left out");
    assert_eq!(
        std::fs::read_to_string(scratch.path("count")).unwrap().lines().count(),
        1,
        "nothing is left to install"
    );
}

#[test]
fn every_shipped_component_has_an_allowed_licence() {
    let modules = root().join("viewer/node_modules/preact");
    if !modules.exists() {
        return testing::skip("the viewer's packages are not installed");
    }
    let scratch = Scratch::new();
    let mut command = Command::new(root().join("dev/notices"));
    command.arg(scratch.path("."));
    Said::of(command).exits(0).says("components");
    let bill: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.path("sbom.cdx.json")).unwrap()).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    let names: Vec<&str> =
        bill["components"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert!(["clap", "rusqlite", "SQLite", "preact"].iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.contains(&"proptest") && !names.contains(&"serde_derive"), "what is not shipped is not named");
}
