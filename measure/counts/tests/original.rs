//! The same bytes as the program `counts` 1.0.7 writes, where it writes any: `cargo install counts`, found in PATH or
//! at $COUNTS.

use counts::{Concordance, Erase, Weight};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::Write;
use std::process::{Command, Stdio};

fn original(program: &str, flags: &[&str], text: &str) -> Vec<u8> {
    let mut child =
        Command::new(program).args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it ran before");
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{flags:?} {text:?}");
    output.stdout
}

fn ours(weight: Weight, erase: Erase, text: &str) -> Vec<u8> {
    let mut lines = Concordance::new(weight, erase);
    lines.read("text", &mut text.as_bytes()).unwrap();
    let mut out = Vec::new();
    lines.write(&mut out).unwrap();
    out
}

#[test]
fn the_bytes_are_those_of_the_original() {
    let program = std::env::var("COUNTS").unwrap_or_else(|_| "counts".into());
    let version = Command::new(&program).arg("--version").output();
    if !version.is_ok_and(|version| version.stdout.starts_with(b"counts-1.0")) {
        testing::skip("needs the original: cargo install counts");
        return;
    }
    let line = prop_oneof![
        "[ab]{0,2}[-+]{0,2}[0-9]{0,3}\\.{0,2}[0-9]{0,2}[ x]{0,2}",
        "[aé] [-+0-9.]{0,9} ?[a.]",
        "[ -~é\r]{0,30}",
    ];
    let text = (prop::collection::vec(line, 0..40), prop::sample::select(vec!["", "\n", "\n\n"]));
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(120) });
    let cases: [(&[&str], Weight, Erase); 6] = [
        (&[], Weight::Unit, Erase::Nothing),
        (&["-i"], Weight::Integral, Erase::Nothing),
        (&["-f"], Weight::Fractional, Erase::Nothing),
        (&["-i", "-e"], Weight::Integral, Erase::Numbers),
        (&["-f", "-e"], Weight::Fractional, Erase::Numbers),
        (&["-e"], Weight::Unit, Erase::Numbers),
    ];
    runner
        .run(&text, |(lines, end)| {
            let text = lines.join("\n") + end;
            // There the original ends with an error: a number of more than 64 bits, a sum that a double does not hold.
            prop_assume!(!text.split(|letter: char| !letter.is_ascii_digit()).any(|digits| digits.len() > 14));
            for (flags, weight, erase) in cases {
                let [ours, original] = [ours(weight, erase, &text), original(&program, flags, &text)];
                prop_assert_eq!(String::from_utf8_lossy(&ours), String::from_utf8_lossy(&original), "{:?}", flags);
            }
            Ok(())
        })
        .unwrap();
}
