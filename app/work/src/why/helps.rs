//! What would help, as a document: what the room says, with commands that can be typed.

use super::Start;
use super::loader::LoaderShare;
use crate::shell::command_line;
use cpu::{Help, Known};
use serde::Serialize;
use std::ffi::OsString;

/// Something that would make a start faster.
#[derive(Debug, Serialize)]
pub struct HelpRow {
    /// What the room says of it.
    #[serde(flatten)]
    pub help: Help,
    /// What to type; `None`: thaw has no command for this.
    pub command: Option<String>,
}

/// What would help starts of a program in a state, the largest gain first.
pub(super) fn helps(start: &Start, shares: &[LoaderShare], recording: &str) -> Vec<HelpRow> {
    let share = shares.iter().find(|share| share.variant_name == start.variant_name);
    let loader = share.map(|share| (&share.rows[..], share.measured));
    let known = Known { ready_ns: start.ready_ns, owners: &start.owners, report: &start.report, loader, recording };
    let row = |help: Help| {
        let words: Vec<OsString> = help.command.iter().map(OsString::from).collect();
        HelpRow { command: (!words.is_empty()).then(|| command_line(&words)), help }
    };
    cpu::helps(&known).into_iter().map(row).collect()
}
