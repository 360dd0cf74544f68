//! Bytes as a session file of Chromium, and as its file of closed tabs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use thaw_profiles::snss;

fuzz_target!(|input: &[u8]| {
    if let Ok(session) = snss::session(input) {
        assert!(session.selected.is_none_or(|at| at < session.windows.len()));
        for window in &session.windows {
            assert!(window.selected.is_some_and(|at| at < window.tabs.len()));
            assert!(window.tabs.iter().all(|tab| tab.current().is_some()));
        }
    }
    if let Ok((tabs, _)) = snss::closed(input) {
        assert!(tabs.iter().all(|tab| tab.current().is_some()));
    }
});
