//! The answers about a fleet as OpenMetrics 1.0 text: gauges, without time stamps, so that it is also what the textfile
//! collector of node_exporter reads. What each means: docs/fleet-query.md.

use super::fleet::estimate;
use fleet::answer::{Cells, Class, Verdict};
use fleet::report::Report;
use ping::Day;
use stats::Interval;
use std::collections::BTreeMap;

/// Families in their order: name without `thaw_fleet_`, unit, help.
const FAMILIES: [(&str, &str, &str); 33] = [
    ("threshold", "", "Fewest distinct machines of a cell that is shown"),
    ("suppressed_cells", "", "Cells of an answer that are hidden, of all versions"),
    ("starts", "", "Starts of all versions that may be shown"),
    ("machines", "", "Distinct machines of all versions that may be shown"),
    ("first_day_timestamp_seconds", "seconds", "Begin of the day of the first start, since 1970"),
    ("last_day_timestamp_seconds", "seconds", "Begin of the day of the last start, since 1970"),
    ("version_starts", "", "Starts of a version"),
    ("version_machines", "", "Distinct machines of a version"),
    ("version_start_seconds", "seconds", "Percentile of the time until ready, by version"),
    ("version_start_low_seconds", "seconds", "Lower end of the 95 % interval of that percentile"),
    ("version_start_high_seconds", "seconds", "Upper end of the 95 % interval of that percentile"),
    ("class_starts", "", "Starts of a version on a class of hardware"),
    ("class_machines", "", "Distinct machines of a version on a class of hardware"),
    ("class_start_seconds", "seconds", "Percentile of the time until ready, by version and class of hardware"),
    ("class_start_low_seconds", "seconds", "Lower end of the 95 % interval of that percentile"),
    ("class_start_high_seconds", "seconds", "Upper end of the 95 % interval of that percentile"),
    ("state_starts", "", "Starts of a version in a state of the page cache"),
    ("state_machines", "", "Distinct machines of a version in a state of the page cache"),
    ("state_start_seconds", "seconds", "Percentile of the time until ready, by version and state of the page cache"),
    ("state_start_low_seconds", "seconds", "Lower end of the 95 % interval of that percentile"),
    ("state_start_high_seconds", "seconds", "Upper end of the 95 % interval of that percentile"),
    ("cold_ratio", "ratio", "Cold starts among those whose state is known, 0 to 1"),
    ("cold_low_ratio", "ratio", "Lower end of the 95 % interval of that share"),
    ("cold_high_ratio", "ratio", "Upper end of the 95 % interval of that share"),
    ("change_ratio", "ratio", "Median of a version over that of the version before, by class of hardware"),
    ("change_low_ratio", "ratio", "Lower end of the 95 % interval of that change"),
    ("change_high_ratio", "ratio", "Upper end of the 95 % interval of that change"),
    ("change_verdict", "", "What that change is: 1 slower, -1 faster, 0 no more than chance"),
    ("moved_most_ratio", "ratio", "The figure that moved most with a class that became slower, new over old"),
    ("remedy_ratio", "ratio", "Median with a remedy over that without it, over groups of equal machines"),
    ("remedy_low_ratio", "ratio", "Lower end of the 95 % interval of that ratio"),
    ("remedy_high_ratio", "ratio", "Upper end of the 95 % interval of that ratio"),
    ("remedy_p", "", "Chance of such a ratio if the remedy did nothing"),
];

/// Families of percentiles: starts, machines, the value, the ends of its interval.
type OfPercentiles = [&'static str; 5];
const VERSION: OfPercentiles = [
    "version_starts",
    "version_machines",
    "version_start_seconds",
    "version_start_low_seconds",
    "version_start_high_seconds",
];
const CLASS: OfPercentiles =
    ["class_starts", "class_machines", "class_start_seconds", "class_start_low_seconds", "class_start_high_seconds"];
const STATE: OfPercentiles =
    ["state_starts", "state_machines", "state_start_seconds", "state_start_low_seconds", "state_start_high_seconds"];

/// Labels in their order.
type Labels<'a> = Vec<(&'static str, &'a str)>;

/// Lines of samples, by family.
#[derive(Default)]
struct Samples(BTreeMap<&'static str, Vec<String>>);

impl Samples {
    fn put(&mut self, family: &'static str, labels: &[(&str, &str)], value: f64) {
        debug_assert!(FAMILIES.iter().any(|(name, ..)| *name == family), "{family} has no help");
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        self.0.entry(family).or_default().push(format!("thaw_fleet_{family}{labels} {value}\n"));
    }

    /// The value and the ends of its interval, as far as they are known.
    fn estimate(&mut self, families: [&'static str; 3], labels: &Labels<'_>, value: f64, interval: Option<Interval>) {
        self.put(families[0], labels, value);
        if let Some(ends) = interval {
            self.put(families[1], labels, ends.low);
            self.put(families[2], labels, ends.high);
        }
    }
}

/// As it may stand between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn with<'a>(labels: &[(&'static str, &'a str)], more: &[(&'static str, &'a str)]) -> Labels<'a> {
    [labels, more].concat()
}

fn of_class(class: &Class) -> [(&'static str, &str); 3] {
    [("cpus", &class.cpus), ("memory", &class.memory), ("disk", &class.disk)]
}

/// The text.
pub fn text(report: &Report) -> String {
    let mut samples = Samples::default();
    samples.put("threshold", &[], report.k as f64);
    for document in &report.answers {
        if document.version_old.is_none() {
            for (reason, cells) in [("small", document.suppressed.small), ("beside", document.suppressed.beside_small)]
            {
                samples.put("suppressed_cells", &[("question", document.question), ("reason", reason)], cells as f64);
            }
        }
        put(&mut samples, &document.cells);
    }
    for (old, new, cell) in report.regressions() {
        let labels: Labels<'_> = vec![("app", &cell.app), ("version", new), ("version_old", old)];
        let labels = with(&labels, &of_class(&cell.class));
        let families = ["change_ratio", "change_low_ratio", "change_high_ratio"];
        samples.estimate(families, &labels, cell.ratio, cell.interval);
        let verdict = match cell.verdict {
            Verdict::Slower => 1.0,
            Verdict::Faster => -1.0,
            Verdict::Unclear => 0.0,
        };
        samples.put("change_verdict", &labels, verdict);
        let most = cell.moved.iter().find(|moved| Some(moved.figure) == cell.moved_most);
        if let Some((figure, ratio)) = most.and_then(|moved| Some((moved.figure, moved.ratio?))) {
            samples.put("moved_most_ratio", &with(&labels, &[("figure", figure)]), ratio);
        }
    }
    let mut out = String::new();
    for (name, unit, help) in FAMILIES {
        let Some(lines) = samples.0.get(name) else { continue };
        out.push_str(&format!("# TYPE thaw_fleet_{name} gauge\n"));
        if !unit.is_empty() {
            out.push_str(&format!("# UNIT thaw_fleet_{name} {unit}\n"));
        }
        out.push_str(&format!("# HELP thaw_fleet_{name} {help}.\n{}", lines.concat()));
    }
    out.push_str("# EOF\n");
    out
}

fn put(samples: &mut Samples, cells: &Cells) {
    match cells {
        Cells::Apps(cells) => {
            for cell in cells {
                let labels: Labels<'_> = vec![("app", &cell.app)];
                samples.put("starts", &labels, cell.starts as f64);
                samples.put("machines", &labels, cell.machines as f64);
                let days =
                    [("first_day_timestamp_seconds", &cell.first_day), ("last_day_timestamp_seconds", &cell.last_day)];
                for (family, day) in days {
                    if let Some(day) = Day::parse(day) {
                        samples.put(family, &labels, 86_400.0 * day.since(Day::of_seconds(0)) as f64);
                    }
                }
            }
        }
        Cells::Percentiles(cells) => {
            for cell in cells {
                let labels: Labels<'_> = vec![("app", &cell.app), ("version", &cell.version)];
                let (labels, [starts, machines, value, low, high]) = match (&cell.class, &cell.state) {
                    (Some(class), _) => (with(&labels, &of_class(class)), CLASS),
                    (None, Some(state)) => (with(&labels, &[("state", state)]), STATE),
                    (None, None) => (labels, VERSION),
                };
                samples.put(starts, &labels, cell.starts as f64);
                samples.put(machines, &labels, cell.machines as f64);
                for one in &cell.percentiles {
                    let (time, percent) = (estimate(one), one.percent.to_string());
                    let labels = with(&labels, &[("percentile", &percent)]);
                    samples.estimate([value, low, high], &labels, time.value, time.interval);
                }
            }
        }
        Cells::Cold(cells) => {
            for cell in cells {
                let labels: Labels<'_> = vec![("app", &cell.app), ("version", &cell.version)];
                let labels = with(&labels, &of_class(&cell.class));
                if let Some(share) = cell.share {
                    let families = ["cold_ratio", "cold_low_ratio", "cold_high_ratio"];
                    samples.estimate(families, &labels, share, cell.interval);
                }
            }
        }
        Cells::Remedies(cells) => {
            for cell in cells {
                let labels: Labels<'_> = vec![("app", &cell.app), ("remedy", &cell.remedy)];
                if let Some(ratio) = cell.ratio {
                    let families = ["remedy_ratio", "remedy_low_ratio", "remedy_high_ratio"];
                    samples.estimate(families, &labels, ratio, cell.interval);
                    samples.put("remedy_p", &labels, cell.p);
                }
            }
        }
        // With their versions, above.
        Cells::Regressions(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet::engine::{Cell, Rows};
    use fleet::report::{Versions, report};
    use testing::openmetrics::{Sample, parse};

    /// Names that no import lets in, but Spark and ClickHouse may.
    #[test]
    fn names_are_escaped_and_the_text_is_right() {
        let word = |text: &str| Cell::Text(text.to_owned());
        let (app, version) = ("a\"b\\c\nd", "1}\",");
        let mut ask = |sql: &str| {
            let of_versions = sql.starts_with("-- How long do starts take, by version?");
            let names = ["app", "version", "n", "machines"].map(str::to_owned).into_iter();
            let columns =
                ["p50", "p75", "p95"].iter().flat_map(|name| ["", "_low", "_high"].map(|end| format!("{name}{end}")));
            let row = || {
                let counts = [word(app), word(version), Cell::Whole(400), Cell::Whole(100)].into_iter();
                counts.chain((1..=9).map(|at| Cell::Whole(1_000_000 * at))).collect()
            };
            Ok(Rows::new(names.chain(columns).collect(), if of_versions { vec![row()] } else { Vec::new() }))
        };
        let text = text(&report(None, 20, &Versions::Newest(6), &mut ask).unwrap());
        let samples = parse(&text).unwrap_or_else(|why| panic!("{why}\n{text}"));
        let of = |name: &str| samples.iter().filter(|sample| sample.name == name).collect::<Vec<&Sample>>();
        let medians = of("thaw_fleet_version_start_seconds");
        assert_eq!(medians.len(), 3, "{text}");
        let median = medians.into_iter().find(|sample| sample.labels["percentile"] == "50").unwrap();
        assert_eq!((median.labels["app"].as_str(), median.labels["version"].as_str()), (app, version));
        assert_eq!((median.value, of("thaw_fleet_version_start_high_seconds")[0].value), (1.0, 3.0));
        assert_eq!(of("thaw_fleet_threshold")[0].value, 20.0);
    }
}
