//! Prints what is in a profile as JSON: `export firefox|chromium PROFILE` (of Chromium, the directory `Default`).

use std::path::PathBuf;
use std::process::ExitCode;
use thaw_profiles::{chromium, export, firefox};

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let [browser, profile] = &words[..] else {
        eprintln!("usage: export firefox|chromium PROFILE");
        return ExitCode::from(2);
    };
    let profile = PathBuf::from(profile);
    let read = match browser.to_str() {
        Some("firefox") => firefox::session(&profile).and_then(|session| Ok((session, firefox::cookies(&profile)?))),
        Some("chromium") => chromium::session(&profile).and_then(|session| Ok((session, chromium::cookies(&profile)?))),
        _ => {
            eprintln!("{} is no browser that is read: firefox, chromium", browser.display());
            return ExitCode::from(2);
        }
    };
    match read {
        Ok((session, cookies)) => println!("{:#}", export(&session, &cookies)),
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
