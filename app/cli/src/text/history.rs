//! `thaw history` as text and as a page.

use super::table::{Align, Table};
use super::{BOLD, GREEN, Page, RED, RESET, YELLOW, errors, harmless, units};
use history::{Added, Point, Series, Step};
use ping::Day;
use view::{ChartOf, CommitOf, StepOf};
use work::histories::{AddDocument, BlameDocument, ListDocument, SetupDocument, ShowDocument};

/// Points of a sparkline.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What became of each recording.
pub fn added(document: &AddDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for of_commit in document.recordings.chunk_by(|one, next| one.commit.id == next.commit.id) {
        for recording in of_commit {
            let what = match recording.added {
                Added::New => format!("{}, added", units::plural(recording.figures as u64, "figure", "figures")),
                Added::Grown => "there with fewer runs; now with these".to_owned(),
                Added::Already => "there already".to_owned(),
            };
            page.labelled(GREEN, &format!("{}: ", harmless(&recording.file)), &what);
        }
        let commit = &of_commit[0].commit;
        page.paragraph(&format!("Commit {} {}", short(&commit.id), harmless(&commit.subject)));
    }
    if document.dirty {
        page.labelled(YELLOW, "the tree has changes: ", "kept and marked, but no point of any series; commit first");
    }
    page
}

/// Recordings, machines and set-ups.
pub fn list(document: &ListDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    let mut table = Table::new([
        ("commit", Align::Left),
        ("set-up", Align::Right),
        ("runs", Align::Right),
        ("tree", Align::Left),
        ("recording", Align::Elastic),
        ("subject", Align::Left),
    ]);
    let mut rows: Vec<_> = document.recordings.iter().collect();
    rows.sort_by_key(|row| (row.commit.ancestors, row.commit.committed_unix_s, row.recording));
    for row in rows {
        table.row([
            short(&row.commit.id).to_owned(),
            row.setup.to_string(),
            units::count(row.runs),
            if row.dirty { "changed".to_owned() } else { String::new() },
            harmless(&row.file),
            harmless(&row.commit.subject),
        ]);
    }
    page.table(&table.without_empty_columns());
    page.heading("Machines and set-ups");
    document.setups.iter().for_each(|setup| about(&mut page, setup));
    page
}

fn about(page: &mut Page, setup: &SetupDocument) {
    let words = setup.programs.values().map(|words| words.join(" ")).collect::<Vec<_>>().join(" | ");
    page.labelled(BOLD, &format!("{}  ", setup.setup), &harmless(&words));
    for it in &setup.differences {
        page.remark(&harmless(&format!("   {} {}: {} there, {} here", it.kind.word(), it.name, it.before, it.after)));
    }
}

/// Each series as a table with a sparkline, and its steps.
pub fn show(document: &ShowDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    for series in &document.series {
        page.heading(&harmless(&title(series)));
        if series.points.is_empty() {
            page.line("No commit: all recordings are of trees with changes.");
            continue;
        }
        page.line(&sparkline(&series.points, width));
        let mut table = Table::new([
            ("commit", Align::Left),
            ("median", Align::Right),
            ("runs", Align::Right),
            ("from", Align::Right),
            ("to", Align::Right),
            ("step", Align::Right),
            ("subject", Align::Sentence),
        ]);
        for (index, point) in series.points.iter().enumerate() {
            let step = series.steps.iter().find(|step| step.at == index);
            let (least, most) = range(point);
            table.row([
                short(&point.commit.id).to_owned(),
                value(&series.metric, point.median),
                units::count(point.values.len() as u64),
                value(&series.metric, least),
                value(&series.metric, most),
                step.map(size).unwrap_or_default(),
                harmless(&point.commit.subject),
            ]);
        }
        page.table(&table.without_empty_columns());
        match series.steps.as_slice() {
            [] => page.remark("No step."),
            steps => steps.iter().for_each(|step| page.paragraph(&harmless(&sentence(series, step)))),
        }
    }
    errors::warnings(&mut page, &document.warnings);
    page
}

/// The steps, the largest first.
pub fn blame(document: &BlameDocument, width: usize) -> Page {
    let mut page = Page::new(width);
    if document.steps.is_empty() {
        page.line(&format!("No step in {}.", units::plural(document.series as u64, "series", "series")));
    }
    for blamed in &document.steps {
        let step = &blamed.step;
        let worse = step.ratio.is_none_or(|ratio| ratio.value > 1.0);
        let (setup, metric) = (blamed.setup, harmless(&blamed.metric));
        let whose = format!("{}, {}, {metric}, set-up {setup}: ", harmless(&blamed.variant), blamed.state);
        page.labelled(if worse { RED } else { GREEN }, &whose, &size(step));
        page.paragraph(&format!("  {BOLD}{}{RESET} {}", step.commit.id, harmless(&step.commit.subject)));
        let range = match (&blamed.after, blamed.commits) {
            (Some(after), Some(commits)) => format!(
                "it lies in {}..{} with 95 % ({})",
                short(after),
                short(&blamed.until),
                units::plural(commits, "commit", "commits")
            ),
            _ => format!("it lies at or before {} with 95 %", short(&blamed.until)),
        };
        page.paragraph(&format!(
            "  written {}; it is this one with {}, {range}; {}",
            date(step.commit.authored_unix_s),
            units::percent(step.place_probability),
            units::p_value(step.p)
        ));
    }
    errors::warnings(&mut page, &document.warnings);
    page
}

/// The page with charts.
pub fn html(document: &ShowDocument) -> String {
    let charts: Vec<ChartOf> = document.series.iter().filter(|series| !series.points.is_empty()).map(chart).collect();
    let warnings: Vec<String> = document.warnings.iter().map(|warning| warning.text.clone()).collect();
    view::history_page(&document.history, &charts, &warnings)
}

fn chart(series: &Series) -> ChartOf {
    let commit = |point: &Point| CommitOf {
        title: format!(
            "{} {}: {}, {}",
            short(&point.commit.id),
            point.commit.subject,
            value(&series.metric, point.median),
            units::plural(point.values.len() as u64, "run", "runs")
        ),
        value: point.median,
        runs: range(point),
    };
    ChartOf {
        title: title(series),
        commits: series.points.iter().map(commit).collect(),
        steps: series
            .steps
            .iter()
            .map(|step| StepOf { at: step.at, between: step.between, text: sentence(series, step) })
            .collect(),
        said: match kind(&series.metric) {
            Kind::Time => units::seconds,
            Kind::Bytes => units::bytes_f,
            Kind::Count => units::count_f,
        },
    }
}

fn title(series: &Series) -> String {
    let commits = units::plural(series.points.len() as u64, "commit", "commits");
    format!("{}, {}, {}, set-up {}: {commits}", series.variant, series.state, series.metric, series.setup)
}

/// `+20.0 % [+19.0 %, +21.0 %] at 1234567890 …`
fn sentence(series: &Series, step: &Step) -> String {
    let id = |index: usize| short(&series.points[index].commit.id);
    let place = match step.between {
        (from, to) if from == to => "for certain (95 %)".to_owned(),
        (from, to) => format!("between {} and {} (95 %)", id(from), id(to)),
    };
    format!(
        "{} at {} {}: this commit with {}, {place}; {}",
        size(step),
        short(&step.commit.id),
        step.commit.subject,
        units::percent(step.place_probability),
        units::p_value(step.p)
    )
}

fn size(step: &Step) -> String {
    step.ratio.as_ref().map_or_else(|| "from nothing".to_owned(), units::change_estimate)
}

fn range(point: &Point) -> (f64, f64) {
    let fold = |start: f64, of: fn(f64, f64) -> f64| point.values.iter().copied().fold(start, of);
    (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
}

/// The medians as bars, of the last commits that the page has room for.
fn sparkline(points: &[Point], width: usize) -> String {
    let points = &points[points.len().saturating_sub(width.max(1))..];
    let medians = || points.iter().map(|point| point.median);
    let (low, high) = (medians().fold(f64::INFINITY, f64::min), medians().fold(f64::NEG_INFINITY, f64::max));
    let bar = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    medians().map(bar).collect()
}

enum Kind {
    Time,
    Bytes,
    Count,
}

fn kind(metric: &str) -> Kind {
    match metric {
        "time" | "cpu" => Kind::Time,
        "bytes" | "memory" => Kind::Bytes,
        _ if metric.split_once(':').is_some_and(|(size, _)| memory::course::SIZES.contains(&size)) => Kind::Bytes,
        _ if metric.starts_with("milestone:") => Kind::Time,
        _ => Kind::Count,
    }
}

fn value(metric: &str, value: f64) -> String {
    match kind(metric) {
        Kind::Time => units::seconds(value),
        Kind::Bytes => units::bytes_f(value),
        Kind::Count => units::count_f(value),
    }
}

/// `2026-11-27`, in UTC.
fn date(unix_s: i64) -> String {
    Day::of_seconds(0).plus(unix_s.div_euclid(86_400)).to_string()
}

/// The beginning of a commit's name.
pub(super) fn short(id: &str) -> &str {
    id.get(..10).unwrap_or(id)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix_s, day) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_737_600, "2026-11-27"), (-1, "1969-12-31")]
        {
            assert_eq!(date(unix_s), day);
        }
    }
}
