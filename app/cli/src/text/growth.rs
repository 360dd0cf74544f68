//! How starts grow with a parameter, or with each start, as text.

use super::table::{Align, Table};
use super::{Page, harmless, units};
use bench::growth::{Figure, Foretold, Swept};
use stats::{Fit, Growth, Order, Untold};

/// How each figure grows with a parameter: its order, or why that cannot be told, and what it foretells.
pub fn table(page: &mut Page, swept: &Swept) {
    let what = [&*swept.of, swept.state.name(), "with", &*swept.parameter].join(" ");
    page.heading(&format!("How it grows: {}", harmless(&what)));
    let mut table = Table::new([
        ("", Align::Left),
        ("grows as", Align::Left),
        ("first to last", Align::Right),
        ("[95 %]", Align::Left),
        ("at 0", Align::Right),
        ("per unit", Align::Right),
        ("[95 %]", Align::Left),
        ("", Align::Elastic),
    ]);
    for figure in &swept.figures {
        let Growth { order, untold, ratio, .. } = &figure.growth;
        let (value, interval) = units::ratio(ratio);
        let (name, unit) = named(figure);
        let fit = figure.growth.fits.iter().find(|fit| Some(fit.order) == *order);
        let range = |fit: &Fit| {
            fit.slope.interval.map(|range| format!("[{} {}]", unit(range.low), unit(range.high))).unwrap_or_default()
        };
        table.row([
            name.to_owned(),
            order.map_or("cannot tell", Order::notation).to_owned(),
            value,
            interval,
            fit.map(|fit| unit(fit.base.value)).unwrap_or_default(),
            fit.map(|fit| unit(fit.slope.value)).unwrap_or_default(),
            fit.map(range).unwrap_or_default(),
            untold.map(|why| untold_because(why, &figure.growth)).unwrap_or_default(),
        ]);
    }
    page.table(&table.without_empty_columns());
    foretold(page, swept);
}

/// A figure's name, and its unit.
fn named(figure: &Figure) -> (&'static str, fn(f64) -> String) {
    match figure.name {
        "wall_s" => ("time until ready", units::seconds),
        "cpu_s" => ("CPU time", units::seconds),
        "read_bytes" => ("read from disk", units::bytes_f),
        "read_requests" => ("requests", units::count_f),
        "max_rss_bytes" => ("memory", units::bytes_f),
        _ => ("instructions", units::count_f),
    }
}

/// The median of each figure at each value.
pub fn levels(page: &mut Page, swept: &Swept) {
    page.heading(&format!("Medians at each {}", harmless(&swept.parameter)));
    let names = swept.figures.iter().map(|figure| (named(figure).0, Align::Right));
    let mut table = Table::new([(&*harmless(&swept.parameter), Align::Right)].into_iter().chain(names));
    for (at, value) in swept.values.iter().enumerate() {
        let medians = swept.figures.iter().map(|figure| named(figure).1(figure.medians[at]));
        table.row([number(*value)].into_iter().chain(medians));
    }
    page.table(&table);
}

/// A parameter's value: without decimals that it does not have.
fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn foretold(page: &mut Page, swept: &Swept) {
    let mut table = Table::new([
        ("", Align::Left),
        (&*harmless(&swept.parameter), Align::Right),
        ("foretold", Align::Right),
        ("[95 %]", Align::Left),
        ("", Align::Sentence),
    ]);
    for figure in &swept.figures {
        let (name, unit) = named(figure);
        for Foretold { at, value, extrapolated } in &figure.foretold {
            let range = value.interval.map(|range| format!("[{}, {}]", unit(range.low), unit(range.high)));
            let what = if *extrapolated { "extrapolated: nothing was measured there" } else { "" };
            table.row([name.into(), number(*at), unit(value.value), range.unwrap_or_default(), what.to_owned()]);
        }
    }
    if !table.is_empty() {
        page.gap();
        page.table(&table.without_empty_columns());
    }
}

fn untold_because(why: Untold, growth: &Growth) -> String {
    match (why, growth.bend) {
        (Untold::TooFew, _) => "too few values or runs".into(),
        (Untold::TooNoisy, _) => "no trend is seen, but the noise could hide one".into(),
        (Untold::Falls, _) => "it falls".into(),
        (Untold::Several, _) => {
            let orders = growth.likely().map(Order::notation);
            format!("{} fit as well", orders.collect::<Vec<_>>().join(" and "))
        }
        (Untold::NoneFits, Some(bend)) => format!("a straight line that bends near {}", bend.at),
        (Untold::NoneFits, None) => "no order fits".into(),
    }
}
