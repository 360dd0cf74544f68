//! `thaw ablate`: what parts of a profile cost. Programs that sleep, so that how busy the machine is matters little.

use crate::scratch::{Said, Scratch};
use serde_json::Value;

/// A profile of four parts, two of which are slow, and a program that is slow with them.
fn profile(scratch: &Scratch) {
    std::fs::create_dir_all(scratch.path("p/cache")).unwrap();
    for (name, text) in [("cache/1", "one"), ("cache/2", "two"), ("cookies", "c"), ("history", "hh"), ("theme", "t")] {
        std::fs::write(scratch.path("p").join(name), text).unwrap();
    }
    let body = "test -e $1/history && sleep 0.2\ntest -e $1/cookies && sleep 0.1\n\
                test \"$2\" = --slow && sleep 0.15\ntest -n \"$SLOW\" && sleep 0.15\nsleep 0.02\nexit 0";
    scratch.script("app", body);
}

fn ablate(scratch: &Scratch, options: &[&str], words: &[&str]) -> Said {
    let first = ["ablate", "--profile", "p", "-o", "a.thaw", "--force", "--verbose"];
    let runs = if options.contains(&"--runs") { &[][..] } else { &["--runs", "8"] };
    let program = ["--", "./app", "{profile}"];
    let words = first.iter().chain(runs).chain(options).chain(&program).chain(words);
    scratch.thaw(words.copied().collect::<Vec<_>>())
}

fn effect<'a>(document: &'a Value, factors: &[&str]) -> &'a Value {
    let effects = document["states"][0]["effects"]["effects"].as_array().unwrap();
    effects.iter().find(|effect| effect["factors"] == serde_json::json!(factors)).unwrap()
}

fn seconds(effect: &Value) -> f64 {
    effect["seconds"]["value"].as_f64().unwrap()
}

/// Everything below the profile, with what is in it.
fn contents(scratch: &Scratch) -> Vec<(String, String)> {
    let read = |name: &str| (name.to_owned(), std::fs::read_to_string(scratch.path("p").join(name)).unwrap());
    let names = ["cache/1", "cache/2", "cookies", "history", "theme"];
    assert_eq!((scratch.names("p").len(), scratch.names("p/cache").len()), (4, 2));
    names.map(read).into()
}

#[test]
fn what_each_part_costs_is_told_and_the_profile_is_only_read() {
    let scratch = Scratch::new();
    profile(&scratch);
    let before = contents(&scratch);
    let said = ablate(&scratch, &["--html", "a.html"], &[]).exits(0);
    said.says("Most of it is history").says("not explained").says("seen");
    assert_eq!(contents(&scratch), before);
    let document = scratch.thaw(["ablate", "--from", "a.thaw", "--json"]).exits(0).json();
    assert_eq!((&document["schema"], &document["ablation"]["design"]), (&"thaw.ablate/1".into(), &"one-out".into()));
    for (name, truth) in [("history", 0.2), ("cookies", 0.1), ("cache", 0.0), ("theme", 0.0)] {
        let effect = effect(&document, &[name]);
        assert!((seconds(effect) - truth).abs() < 0.05, "{name}: {effect:#}");
        // What costs nothing is called seen once in twenty times: that is the level (measure/ablate tests it).
        assert!(effect["is_seen"] == true || truth == 0.0, "{name}: {effect:#}");
    }
    let page = std::fs::read_to_string(scratch.path("a.html")).unwrap();
    let runs = document["states"][0]["runs"].as_array().unwrap().len();
    assert_eq!(runs, 6 * 8, "six variants, eight blocks");
    assert_eq!(page.matches("<circle").count(), runs + 6 + 5, "every start, every variant, every effect and the rest");
    // It is an ordinary recording.
    scratch.thaw(["report", "a.thaw"]).exits(0).says("without history");
    assert!(scratch.names("run").is_empty(), "copies are left: {:?}", scratch.names("run"));
}

#[test]
fn words_variables_and_files_are_factors_and_all_combinations_tell_what_is_slow_together() {
    let scratch = Scratch::new();
    profile(&scratch);
    let factors = ["--factor", "word=arg:--slow", "--factor", "variable=env:SLOW", "--factor", "files=cookies,his*"];
    let options = [&factors[..], &["--env", "SLOW=1", "--design", "full", "--json"]].concat();
    let document = ablate(&scratch, &options, &["--slow"]).exits(0).json();
    assert_eq!(document["ablation"]["cells"].as_array().unwrap().len(), 8);
    for (name, truth) in [("word", 0.15), ("variable", 0.15), ("files", 0.3)] {
        assert!((seconds(effect(&document, &[name])) - truth).abs() < 0.05, "{name}");
    }
    assert!(seconds(effect(&document, &["word", "files"])).abs() < 0.05);
}

#[test]
fn the_one_file_among_many_is_found() {
    let scratch = Scratch::new();
    for name in 0..40 {
        let place = scratch.path(format!("p/{}", name / 10));
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(format!("f{name}")), "x").unwrap();
    }
    scratch.script("app", "test -e $1/2/f27 && sleep 0.3\nsleep 0.02");
    let line = "ablate --profile p --design bisect --json -- ./app {profile}";
    let document = scratch.thaw(line.split(' ')).exits(0).json();
    assert_eq!(document["suspects"], serde_json::json!(["2/f27"]), "{document:#}");
    assert!((document["seconds"]["value"].as_f64().unwrap() - 0.3).abs() < 0.1);
    assert!(document["measurements"].as_array().unwrap().len() <= 7, "six halvings of 40, and the proof");
}

#[test]
fn factors_that_do_not_exist_are_refused_and_profiles_that_change_are_named() {
    let scratch = Scratch::new();
    profile(&scratch);
    ablate(&scratch, &["--factor", "x=nothing"], &[]).exits(2).complains("'nothing'").hints("cookies");
    ablate(&scratch, &["--factor", "x=arg:--none"], &[]).exits(2).complains("--none");
    ablate(&scratch, &["--factor", "x=env:THAW_NO_SUCH"], &[]).exits(2).complains("THAW_NO_SUCH");
    ablate(&scratch, &["--without", "what"], &[]).exits(2).complains("what").hints("cookies");
    ablate(&scratch, &["--factor", "oops"], &[]).exits(2);
    scratch.thaw(["ablate", "--profile", "p", "--", "./app", "p"]).exits(2).hints("{profile}");
    scratch.thaw(["ablate", "--profile", "none", "--", "./app", "{profile}"]).exits(2).complains("none");
    scratch.thaw(["record", "-o", "r.thaw", "--state", "hot", "--runs", "1", "--needed", "no", "--", "true"]).exits(0);
    scratch.thaw(["ablate", "--from", "r.thaw"]).exits(5).complains("r.thaw");
    // A program that writes into the profile itself, not into its copy.
    let real = scratch.path("p/log");
    scratch.script("app", &format!("echo started >> {}", real.display()));
    ablate(&scratch, &["--factor", "c=cookies", "--runs", "3"], &[]).exits(0).says("changed meanwhile").says("p/log");
    assert!(scratch.names("run").is_empty(), "copies are left: {:?}", scratch.names("run"));
}
