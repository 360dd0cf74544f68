//! A process that is killed while it sets cookies: nothing that was acknowledged is lost, and nothing is made up.

mod common;

use common::NOW;
use std::collections::HashMap;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use thaw_cookies::{Context, Jar, Options};
use thaw_log::memory::Random;

const FOLDER: &str = "COOKIES_TEST_KILLED_IN";
const FIRST: &str = "COOKIES_TEST_FIRST_VERSION";

fn open(path: &Path) -> Jar {
    let options = Options { delay: Duration::from_millis(3), compact: 20_000, ..Options::new(path) };
    Jar::open(options).unwrap()
}

/// The part of the process that is killed.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let first: u64 = std::env::var(FIRST).unwrap().parse().unwrap();
    let jar = open(Path::new(&folder));
    let mut random = Random(first + 1);
    let mut out = std::io::stdout().lock();
    for version in first.. {
        let number = random.below(400);
        let url = format!("https://h{}.example/", number / 10);
        let value = "x".repeat(random.below(200) as usize);
        writeln!(out, "\nset {number} {version}").unwrap();
        let text = format!("n{number}={version}.{value}; Max-Age=99999");
        jar.set(text.as_bytes(), &url, NOW + version, &Context::default()).unwrap();
        if version % 5 == 0 {
            jar.wait_for(jar.flush()).unwrap();
            writeln!(out, "\ndone 0 {version}").unwrap();
        }
    }
}

#[test]
fn killed_while_it_sets_cookies_it_loses_nothing_that_was_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random(std::process::id().into());
    let mut asked: HashMap<u64, Vec<u64>> = HashMap::new();
    let mut sure: HashMap<u64, u64> = HashMap::new();
    let (mut first, mut acknowledged) = (1, 0);
    for round in 0..20 {
        let upto = 50 + random.below(300);
        let (began, mut open_now) = (first.to_string(), Vec::new());
        // What it says after it was killed counts too.
        testing::killed(&[(FOLDER, folder.path().as_os_str()), (FIRST, began.as_ref())], upto, |words| {
            let [what @ ("set" | "done"), number, version] = words[..] else { return false };
            let (Ok(number), Ok(version)) = (number.parse::<u64>(), version.parse::<u64>()) else { return false };
            first = first.max(version + 1);
            if what == "set" {
                asked.entry(number).or_default().push(version);
                open_now.push((number, version));
            } else {
                sure.extend(open_now.drain(..));
                acknowledged += 1;
            }
            true
        });
        if round % 3 == 1 {
            // The next one begins after a crash, not after the end of the one that looks.
            continue;
        }
        let jar = open(folder.path());
        jar.wait_whole();
        let all = jar.all().unwrap();
        let there: HashMap<u64, u64> = { all.iter() }
            .map(|cookie| {
                let number = String::from_utf8(cookie.name[1..].to_vec()).unwrap().parse().unwrap();
                let version = String::from_utf8(cookie.value.clone()).unwrap();
                (number, version.split('.').next().unwrap().parse().unwrap())
            })
            .collect();
        for (number, versions) in &asked {
            let least = sure.get(number).copied().unwrap_or(0);
            let version = there.get(number).copied().unwrap_or(0);
            assert!(version >= least, "round {round}: of {number} there is {version}, not {least}");
            assert!(version == 0 || versions.contains(&version), "round {round}: {version} was never set");
        }
    }
    assert!(acknowledged > 300, "{acknowledged}");
}
