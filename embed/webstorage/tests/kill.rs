//! A process that is killed while it sets one key again and again: what the kernel was given is there.

mod common;

use common::{area, get, set};
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use thaw_log::memory::Random;
use thaw_webstorage::{News, Options, Storage};

const FOLDER: &str = "WEBSTORAGE_TEST_KILLED_IN";
const FIRST: &str = "WEBSTORAGE_TEST_FIRST";
const A: &str = "https://a.example";

fn options() -> Options {
    Options { write: Duration::from_millis(1), sync: Duration::from_millis(20), ..Options::default() }
}

fn value(number: u64) -> String {
    format!("{number} {}", "x".repeat((number % 97) as usize * 40))
}

/// The process that is killed: it says what it has set, and when the kernel has it.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let storage = Storage::open(Path::new(&folder), options()).unwrap();
    let a = area(&storage, A);
    let mut out = std::io::stdout().lock();
    for number in first.. {
        let batches = storage.stats().batches;
        writeln!(out, "\nset {number}").unwrap();
        set(&a, "k", &value(number));
        if number % 5 == 4 {
            storage.flush_and_wait();
            writeln!(out, "\nflushed {number}").unwrap();
        } else {
            // There is nothing else to be given to the kernel.
            while storage.stats().batches == batches {
                std::thread::sleep(Duration::from_micros(100));
            }
            writeln!(out, "\nhas {number}").unwrap();
        }
    }
}

#[test]
fn killed_while_it_sets_a_key_it_loses_nothing_that_the_kernel_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(std::process::id().into());
    let (mut last_set, mut last_given) = (0, 0);
    for round in 0..20 {
        let (upto, began) = (5 + random.below(150), (last_set + 1).to_string());
        // What it says after it was killed counts too.
        testing::killed(&[(FOLDER, folder.path().as_os_str()), (FIRST, began.as_ref())], upto, |words| {
            let [what @ ("set" | "has" | "flushed"), number] = words[..] else { return false };
            let Ok(number) = number.parse::<u64>() else { return false };
            if what == "set" {
                last_set = number
            } else {
                last_given = number
            }
            true
        });
        let storage = Storage::open(folder.path(), options()).unwrap();
        let there = get(&area(&storage, A), "k").unwrap();
        let number: u64 = there.split(' ').next().unwrap().parse().unwrap();
        assert_eq!(there, value(number), "round {round}: a wrong byte");
        assert!((last_given..=last_set).contains(&number), "round {round}: {number} of {last_given} to {last_set}");
        assert!(!storage.news().iter().any(|news| matches!(news, News::Damaged(..))));
    }
    assert!(last_given > 200, "{last_given}");
}
