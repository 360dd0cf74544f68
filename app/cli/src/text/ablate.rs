//! `thaw ablate` as text: what each part of a profile costs.

use super::table::{Align, Table};
use super::{Page, errors, harmless, units};
use ablate::effects::Effect;
use ablate::factor::{Entry, Factor, Part};
use model::Bytes;
use stats::Estimate;
use work::ablating::bisect::BisectDocument;
use work::ablating::{AblateDocument, OfState};

/// The effects.
pub fn page(document: &AblateDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for of in &document.states {
        state(&mut page, of);
    }
    page.end(&document.warnings, &document.next);
    page
}

fn state(page: &mut Page, of: &OfState) {
    let told = &of.effects;
    page.gap();
    let ends = format!(
        "{} with the whole profile, {} with an empty one",
        units::estimate_s(&told.dirty),
        units::estimate_s(&told.clean)
    );
    let cost = match told.together.value < 0.0 {
        true => format!("{} less", signed(&told.together.negated())),
        false => format!("{} more", signed(&told.together)),
    };
    page.paragraph(&format!(
        "A {} start takes {ends}: {cost}{}.",
        of.state.name(),
        match told.together_p < 0.05 {
            true => String::new(),
            false => format!(", which may be chance ({})", units::p_value(told.together_p)),
        }
    ));
    let seen: Vec<&Effect> =
        told.effects.iter().filter(|effect| effect.is_seen && effect.seconds.value > 0.0).collect();
    page.paragraph(&match seen.first() {
        Some(first) => format!(
            "Most of it is {}: {}{}.",
            harmless(&first.factors.join(" with ")),
            signed(&first.seconds),
            first.share.map(|share| format!(", {} of it", units::percent(share))).unwrap_or_default()
        ),
        None => "No single part is seen to slow it down.".to_owned(),
    });
    page.heading(&format!("What each part costs ({})", of.state.name()));
    let mut table = Table::new([
        ("part", Align::Left),
        ("longer by", Align::Right),
        ("[95 %]", Align::Left),
        ("share", Align::Right),
        ("p", Align::Right),
        ("of all", Align::Right),
        ("pairs", Align::Right),
        ("", Align::Left),
    ]);
    for effect in &told.effects {
        table.row([
            harmless(&effect.factors.join(" with ")),
            units::seconds(effect.seconds.value),
            range(&effect.seconds),
            effect.share.map(units::percent).unwrap_or_default(),
            units::p_value(effect.p),
            units::p_value(effect.p_of_all),
            effect.blocks.to_string(),
            if effect.is_seen { "seen" } else { "" }.to_owned(),
        ]);
    }
    if let Some(rest) = &told.not_explained {
        let row = ["not explained", &units::seconds(rest.value), &range(rest), "", "", "", "", ""];
        table.row(row.map(str::to_owned));
    }
    page.table(&table.without_empty_columns());
    page.remark("Medians over the random blocks; p by flipping signs, and corrected for as many parts (Holm).");
}

fn range(estimate: &Estimate) -> String {
    estimate
        .interval
        .map(|range| format!("[{}, {}]", units::seconds(range.low), units::seconds(range.high)))
        .unwrap_or_default()
}

fn signed(estimate: &Estimate) -> String {
    format!("{} {}", units::seconds(estimate.value), range(estimate)).trim_end().to_owned()
}

/// What factors would take away.
pub fn factors(factors: &[Factor], entries: &[Entry], width: usize) -> Page {
    let mut page = Page::new(width);
    let mut table =
        Table::new([("factor", Align::Left), ("bytes", Align::Right), ("what is taken away", Align::Sentence)]);
    for factor in factors {
        let taken = factor.taken(entries).into_iter().map(|entry| entry.path.clone());
        let others = factor.parts.iter().filter_map(|part| match part {
            Part::Path(_) => None,
            Part::Env(name) => Some(format!("env:{name}")),
            Part::Arg(word) => Some(format!("arg:{word}")),
            Part::Pref(name, value) => Some(format!("pref:{name}={value}")),
        });
        let what: Vec<String> = taken.chain(others).collect();
        table.row([harmless(&factor.name), units::bytes(Bytes(factor.bytes(entries))), harmless(&what.join(", "))]);
    }
    page.table(&table);
    page
}

/// The search for one file.
pub fn bisected(document: &BisectDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    match (&document.seconds, &document.suspects[..]) {
        (Some(cost), [file]) => page.paragraph(&format!(
            "{} makes the start slower by {}: found among {} in {}.",
            harmless(file),
            signed(cost),
            units::plural(document.files as u64, "file", "files"),
            units::plural(document.measurements.len() as u64, "measurement", "measurements")
        )),
        _ => {
            let why = document.because.as_deref().unwrap_or("it was not found");
            page.paragraph(&format!("No single file is found: {}.", harmless(why)));
            if document.suspects.len() <= 20 {
                page.paragraph(&format!("Still suspected: {}.", harmless(&document.suspects.join(", "))));
            }
        }
    }
    let mut table = Table::new([
        ("suspects", Align::Right),
        ("pairs", Align::Right),
        ("first without second", Align::Right),
        ("[95 %]", Align::Left),
        ("p", Align::Right),
        ("it is in", Align::Left),
    ]);
    for measured in &document.measurements {
        table.row([
            measured.among.to_string(),
            measured.pairs.to_string(),
            units::seconds(measured.seconds.value),
            range(&measured.seconds),
            units::p_value(measured.p),
            measured.half.to_owned(),
        ]);
    }
    page.gap();
    page.table(&table);
    errors::warnings(&mut page, &document.warnings);
    page
}
