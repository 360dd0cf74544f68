//! How a start grows: with the values of a parameter, or with each start when nothing is put back between them.

use crate::recorded::{Loaded, growth};
use crate::report::{Next, Source};
use crate::shell::command_line;
use crate::words::units::{seconds, times};
use bench::growth::{CYCLE, Swept};
use model::{Error, Exit, Result, Warning, WarningKind};
use recording::Reader;
use serde::Serialize;
use stats::{Order, Untold};
use std::path::Path;

/// `thaw.sweep/1`: how the starts of a recording grow.
#[derive(Debug, Serialize)]
pub struct SweepDocument {
    /// Name and version of this document.
    pub schema: &'static str,
    /// Where it comes from.
    pub recording: Source,
    /// One sentence for each parameter, program and state: how the time until ready grows.
    pub answer: Vec<String>,
    /// How each figure grows.
    pub growth: Vec<Swept>,
    /// What makes the figures less certain.
    pub warnings: Vec<Warning>,
    /// What to type next.
    pub next: Vec<Next>,
}

/// What a recording says of growth, and what that foretells `at` other values of the parameter.
///
/// # Errors
/// No recording; data: nothing was varied in it, or at too few values.
pub fn read(path: &Path, at: &[f64]) -> Result<SweepDocument> {
    let reader = Reader::open(path)?;
    let loaded = Loaded::of(path, &reader)?;
    let mut statistics = bench::analyze::analyze(&loaded.input());
    let growth = growth(&loaded, &statistics, at);
    if growth.is_empty() {
        let (what, hint) = match loaded.asked.cycles {
            true => (
                "it has too few starts that count",
                format!("{} at least: --cycles 100", stats::LEVELS * stats::VALUES),
            ),
            false => (
                "nothing was varied in it over four values or more",
                "thaw sweep --sweep n=1,10,100,1000 -- PROGRAM {n}, or --cycles 200".to_owned(),
            ),
        };
        return Err(Error::on(Exit::Data, "cannot tell how the starts grow in", path).because(what).hint(hint));
    }
    let file = loaded.source.file.clone();
    Ok(SweepDocument {
        schema: "thaw.sweep/1",
        answer: growth.iter().map(sentence).collect(),
        growth,
        // That starts drift where nothing is put back is the answer, not a doubt.
        warnings: std::mem::take(&mut statistics.warnings)
            .into_iter()
            .filter(|warning| !(loaded.asked.cycles && warning.kind == WarningKind::Drift))
            .collect(),
        next: vec![Next {
            command: command_line(&["thaw".into(), "report".into(), file.into()]),
            why: "shows every state and what the starts read".to_owned(),
        }],
        recording: loaded.source,
    })
}

/// How the time until ready grows.
fn sentence(swept: &Swept) -> String {
    let what = format!("The time until ready of {} ({})", swept.of, swept.state.name());
    let with =
        if swept.parameter == CYCLE { "with each start".to_owned() } else { format!("with {}", swept.parameter) };
    let wall = swept.figures.iter().find(|figure| figure.name == "wall_s");
    let ends = wall.and_then(|wall| Some((wall, swept.values.first()?, wall.medians.first()?, swept.values.last()?)));
    let Some((wall, from, first, to)) = ends else { return format!("{what} is not known at every value.") };
    let last = first * wall.growth.ratio.value;
    let ends = format!("{} at {from:.0}, {} at {to:.0}: {}", seconds(*first), seconds(last), times(&wall.growth.ratio));
    let growth = &wall.growth;
    match (growth.order, growth.untold) {
        (Some(Order::Constant), _) => format!("{what} does not grow {with} ({ends})."),
        (Some(order), _) => format!("{what} grows {with} as {} ({ends}).", order.notation()),
        (None, Some(Untold::Several)) => {
            let likely = growth.likely().map(Order::notation);
            let likely = likely.collect::<Vec<_>>().join(" or ");
            format!("{what} grows {with}, as {likely}: the runs cannot tell which ({ends}).")
        }
        (None, Some(Untold::NoneFits)) => format!("{what} grows {with}, and in none of the usual orders ({ends})."),
        (None, Some(Untold::Falls)) => format!("{what} falls {with} ({ends})."),
        (None, _) => format!("Whether {} grows {with} cannot be told ({ends}).", what.replacen('T', "t", 1)),
    }
}
