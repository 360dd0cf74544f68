//! The page of a history: each series by commit as a chart, with its steps. One HTML file, drawn here as SVG: it has no
//! script, and needs none.

use crate::plain::{escaped, head};
use std::fmt::Write;

/// A commit in a chart.
#[derive(Clone, Debug)]
pub struct CommitOf {
    /// What is said of it: its name, first line, figure.
    pub title: String,
    /// Its median.
    pub value: f64,
    /// The least and the largest run.
    pub runs: (f64, f64),
}

/// A step in a chart.
#[derive(Clone, Debug)]
pub struct StepOf {
    /// Index of the commit that begins the new level.
    pub at: usize,
    /// With 95 % probability it is one of these, ends included.
    pub between: (usize, usize),
    /// What is said of it.
    pub text: String,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct ChartOf {
    /// What it is of.
    pub title: String,
    /// Commits, in their order.
    pub commits: Vec<CommitOf>,
    /// Where the level changed.
    pub steps: Vec<StepOf>,
    /// How a value of the scale is said.
    pub said: fn(f64) -> String,
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 90.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 12.0;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;\
color:#1c1c1e;background:#fff}svg{width:100%;height:auto}.run{stroke:#9ab;stroke-width:1}.mid{fill:#1763b5}\
.step{stroke:#c0392b;stroke-width:2}.place{fill:#c0392b;opacity:.13}text{font-size:12px;fill:#666}\
.grid{stroke:#ddd}h2{font-size:1.05rem;margin:2rem 0 .3rem}.none{color:#666}\
@media(prefers-color-scheme:dark){body{color:#eee;background:#17181a}.mid{fill:#6db3ff}.grid{stroke:#333}\
text,.none{fill:#aaa;color:#aaa}.run{stroke:#567}.step{stroke:#ff7b6b}.place{fill:#ff7b6b}}";

/// The page of a history.
pub fn history_page(name: &str, charts: &[ChartOf], warnings: &[String]) -> String {
    let mut out = head(&format!("History: {name}"), STYLE);
    out.push_str(
        "<p>Each dot is the median of a commit's runs, the line through it reaches from its least to its largest run. \
         A red line is where the level changed; with 95 % probability the change lies in the band.</p>\n",
    );
    for warning in warnings {
        let _ = writeln!(out, "<p class=\"none\">{}</p>", escaped(warning));
    }
    charts.iter().for_each(|chart| draw(&mut out, chart));
    out.push_str("</body></html>\n");
    out
}

fn draw(out: &mut String, chart: &ChartOf) {
    let _ = writeln!(out, "<h2>{}</h2>", escaped(&chart.title));
    let high = chart.commits.iter().map(|commit| commit.runs.1).fold(f64::NEG_INFINITY, f64::max);
    let low = chart.commits.iter().map(|commit| commit.runs.0).fold(f64::INFINITY, f64::min);
    let room = if high > low { (high - low) * 0.05 } else { high.abs().max(1.0) * 0.05 };
    let (low, high) = ((low - room).max(0.0), high + room);
    let step = (WIDTH - LEFT - 10.0) / chart.commits.len().max(1) as f64;
    let x = |index: f64| LEFT + step * (index + 0.5);
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / (high - low);
    let label = escaped(&chart.title);
    let _ = writeln!(out, "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">");
    for line in 0..=4 {
        let value = low + (high - low) * f64::from(line) / 4.0;
        let (at, said) = (y(value), escaped(&(chart.said)(value)));
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{said}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for step in &chart.steps {
        let (from, to) = (x(step.between.0 as f64 - 1.0), x(step.between.1 as f64));
        let at = x(step.at as f64 - 0.5);
        let (text, width, height) = (escaped(&step.text), to - from, HEIGHT - TOP - BOTTOM);
        let _ = writeln!(
            out,
            "<g><title>{text}</title><rect class=\"place\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>\
             <line class=\"step\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{:.1}\"/></g>",
            HEIGHT - BOTTOM
        );
    }
    for (index, commit) in chart.commits.iter().enumerate() {
        let (at, title) = (x(index as f64), escaped(&commit.title));
        let (least, most, middle) = (y(commit.runs.0), y(commit.runs.1), y(commit.value));
        let _ = writeln!(
            out,
            "<g><title>{title}</title><line class=\"run\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{least:.1}\" \
             y2=\"{most:.1}\"/><circle class=\"mid\" cx=\"{at:.1}\" cy=\"{middle:.1}\" r=\"3\"/></g>"
        );
    }
    out.push_str("</svg>\n");
    if chart.steps.is_empty() {
        out.push_str("<p class=\"none\">No step.</p>\n");
        return;
    }
    out.push_str("<ul>\n");
    chart.steps.iter().for_each(|step| {
        let _ = writeln!(out, "<li>{}</li>", escaped(&step.text));
    });
    out.push_str("</ul>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_every_commit_and_step_and_no_text_becomes_markup() {
        let commit = |value: f64| CommitOf { title: "<b>\"x\" & y".into(), value, runs: (value, value + 1.0) };
        let chart = ChartOf {
            title: "app <script>".into(),
            commits: vec![commit(1.0), commit(1.0), commit(5.0)],
            steps: vec![StepOf { at: 2, between: (1, 2), text: "<i>five times</i>".into() }],
            said: |value| format!("{value:.1}"),
        };
        let page = history_page("h & co", &[chart], &["<u>".into()]);
        assert_eq!((page.matches("<circle").count(), page.matches("class=\"step\"").count()), (3, 1));
        assert!(page.contains("&lt;b&gt;&quot;x&quot; &amp; y") && page.contains("&lt;u&gt;"));
        assert!(!page.contains("<script") && !page.contains("<i>") && !page.contains("NaN"));
    }

    #[test]
    fn equal_values_and_one_commit_are_drawn() {
        for value in [0.0, 7.0] {
            let commits = vec![CommitOf { title: String::new(), value, runs: (value, value) }];
            let chart = ChartOf { title: "x".into(), commits, steps: Vec::new(), said: |value| value.to_string() };
            let page = history_page("h", &[chart], &[]);
            assert!(page.contains("No step.") && !page.contains("NaN") && !page.contains("inf"), "{page}");
        }
    }
}
