//! `thaw presets`: which programs does thaw know how to start?

use crate::args::presets::PresetsArgs;
use crate::preset::{self, Preset};
use crate::{output, text};
use model::{Exit, Result};
use serde::Serialize;

/// `thaw.presets/1`
#[derive(Serialize)]
struct PresetsDocument {
    schema: &'static str,
    presets: Vec<Preset>,
}

/// Lists the presets, or shows one.
///
/// # Errors
/// No preset of that name, or a file that is no preset.
pub fn run(args: &PresetsArgs) -> Result<Exit> {
    let width = text::width::of_terminal();
    let caller = os::user::caller()?;
    let home = caller.as_ref().map(|caller| caller.home.as_path());
    let chosen = args.name.as_deref().map(|name| preset::find(name, home)).transpose()?;
    match chosen {
        _ if args.json => {
            let presets = chosen.map_or_else(|| preset::all(home), |one| Ok(vec![one]))?;
            output::json(&PresetsDocument { schema: "thaw.presets/1", presets })?;
        }
        Some(one) if args.packages => output::page(&text::presets::packages(&one, width))?,
        Some(one) => output::page(&text::presets::one(&one, width))?,
        None => output::page(&text::presets::list(&preset::all(home)?, width))?,
    }
    Ok(Exit::Done)
}
