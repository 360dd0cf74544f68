//! `thaw proxy` becomes the program beside it. What that does is tested in its own crate.

use crate::scratch::{Said, Scratch};

#[test]
fn the_program_beside_thaw_gets_all_words() {
    let scratch = Scratch::new();
    let thaw = scratch.path("thaw");
    testing::copy_program(env!("CARGO_BIN_EXE_thaw"), &thaw);
    let said = |words: &[&str]| {
        let mut command = scratch.command_of(&thaw);
        command.args(words);
        Said::of(command)
    };
    said(&["proxy"]).exits(3).complains("the proxy is not beside thaw").hints("install both programs");
    scratch.script("thaw-proxy", "printf '[%s]' \"$@\"; exit 7");
    let out = said(&["proxy", "--reverse", "http://a b", "--drain", "3"]).exits(7).out();
    assert_eq!(out, "[--reverse][http://a b][--drain][3]");
    assert_eq!(said(&["proxy", "--", "--help"]).exits(7).out(), "[--help]");
}
