//! The page of an ablation: what each part costs, the variants side by side, and every start in its order.

use crate::plain::{escaped, head, ticks};
use std::fmt::Write;

/// A figure with its interval.
#[derive(Clone, Debug)]
pub struct BarOf {
    /// What it is of.
    pub name: String,
    /// Value, lower and upper end, in seconds.
    pub value: (f64, f64, f64),
    /// Whether it stands out.
    pub is_seen: bool,
}

/// The starts of one cache state.
#[derive(Clone, Debug)]
pub struct AblationOf {
    /// The state.
    pub state: String,
    /// What is said of it.
    pub sentence: String,
    /// The effects.
    pub effects: Vec<BarOf>,
    /// The variants' times.
    pub variants: Vec<BarOf>,
    /// Every start that counts in its order: the index of its variant, and its seconds.
    pub runs: Vec<(usize, f64)>,
}

const WIDTH: f64 = 960.0;
const LEFT: f64 = 210.0;
const ROW: f64 = 24.0;
const EDGE: f64 = 26.0;
const HEIGHT: f64 = 300.0;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:62rem;padding:0 1rem;\
color:#1c1c1e;background:#fff}svg{width:100%;height:auto}text{font-size:12px;fill:#444}.grid{stroke:#ddd}\
.zero{stroke:#888}.range{stroke:#8aa;stroke-width:2}.mid{fill:#789}.seen .range{stroke:#c0392b}.seen .mid{fill:#c0392b}\
.run{fill:#9ab}.dirty{fill:#c0392b}.clean{fill:#1763b5}h2{font-size:1.05rem;margin:2rem 0 .3rem}p.note{color:#666}\
@media(prefers-color-scheme:dark){body{color:#eee;background:#17181a}text{fill:#bbb}.grid{stroke:#333}.run{fill:#567}\
.dirty,.seen .mid{fill:#ff7b6b}.seen .range{stroke:#ff7b6b}.clean{fill:#6db3ff}p.note{color:#aaa}}";

/// The page of an ablation; `said` writes seconds.
pub fn ablation_page(name: &str, states: &[AblationOf], said: fn(f64) -> String) -> String {
    let mut out = head(&format!("Ablation: {name}"), STYLE);
    for state in states {
        let _ = writeln!(out, "<p>{}</p>", escaped(&state.sentence));
        let title = format!("What each part costs ({})", state.state);
        bars(
            &mut out,
            &title,
            "median over the random blocks, with its 95 % interval; red: seen",
            &state.effects,
            said,
        );
        let title = format!("The variants side by side ({})", state.state);
        bars(&mut out, &title, "median time until ready, with its 95 % interval", &state.variants, said);
        runs(&mut out, state, said);
    }
    out.push_str("</body></html>\n");
    out
}

/// A forest plot: one row for each figure.
fn bars(out: &mut String, title: &str, note: &str, of: &[BarOf], said: fn(f64) -> String) {
    let ends = of.iter().flat_map(|bar| [bar.value.0, bar.value.1, bar.value.2]).filter(|value| value.is_finite());
    let (low, high) = ends.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let high = if high > low { high } else { low + 1.0 };
    let x = |value: f64| LEFT + (WIDTH - LEFT - 20.0) * (value - low) / (high - low);
    let height = ROW * of.len() as f64 + EDGE;
    let _ = writeln!(
        out,
        "<h2>{0}</h2>\n<p class=\"note\">{note}</p>\n\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{0}\">",
        escaped(title)
    );
    grid(out, &ticks(low, high), &x, height, said);
    let _ =
        writeln!(out, "<line class=\"zero\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{1}\"/>", x(0.0), height - EDGE);
    for (row, bar) in of.iter().enumerate() {
        let y = ROW * (row as f64 + 0.5);
        let (value, from, to) = bar.value;
        let class = if bar.is_seen { " class=\"seen\"" } else { "" };
        let _ = writeln!(
            out,
            "<g{class}><title>{name}: {value_said} [{from_said}, {to_said}]</title>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>\
             <line class=\"range\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
             <circle class=\"mid\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/></g>",
            LEFT - 8.0,
            y + 4.0,
            x(from),
            x(to),
            x(value),
            name = escaped(&bar.name),
            value_said = escaped(&said(value)),
            from_said = escaped(&said(from)),
            to_said = escaped(&said(to)),
        );
    }
    out.push_str("</svg>\n");
}

fn grid(out: &mut String, ticks: &[f64], x: &dyn Fn(f64) -> f64, height: f64, said: fn(f64) -> String) {
    for tick in ticks {
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{1}\"/>\
             <text x=\"{0:.1}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>",
            x(*tick),
            height - EDGE,
            height - 8.0,
            escaped(&said(*tick))
        );
    }
}

/// Every start, in the order taken.
fn runs(out: &mut String, state: &AblationOf, said: fn(f64) -> String) {
    let most = state.runs.iter().map(|(_, seconds)| *seconds).fold(0.0_f64, f64::max).max(1e-9);
    let (bottom, left) = (HEIGHT - 12.0, 80.0);
    let y = |seconds: f64| bottom - (bottom - 8.0) * seconds / most;
    let x = |at: usize| left + (WIDTH - left - 10.0) * (at as f64 + 0.5) / state.runs.len().max(1) as f64;
    let title = format!("Every start, in the order taken ({})", state.state);
    let _ = writeln!(
        out,
        "<h2>{0}</h2>\n<p class=\"note\">red: the whole profile; blue: an empty one; grey: the others (names under the \
         pointer)</p>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{0}\">",
        escaped(&title)
    );
    for tick in ticks(0.0, most) {
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">{3}</text>",
            y(tick),
            left - 8.0,
            y(tick) + 4.0,
            escaped(&said(tick))
        );
    }
    for (at, (variant, seconds)) in state.runs.iter().enumerate() {
        let class = ["dirty", "clean"].get(*variant).copied().unwrap_or("run");
        let name = state.variants.get(*variant).map(|bar| bar.name.as_str()).unwrap_or_default();
        let _ = writeln!(
            out,
            "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"><title>{}: {}</title></circle>",
            x(at),
            y(*seconds),
            escaped(name),
            escaped(&said(*seconds))
        );
    }
    out.push_str("</svg>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_effect_variant_and_start_is_drawn_and_no_name_becomes_markup() {
        let bar = |name: &str, value: f64| BarOf {
            name: name.into(),
            value: (value, value - 0.1, value + 0.1),
            is_seen: value > 0.2,
        };
        let state = AblationOf {
            state: "hot".into(),
            sentence: "A <b>hot</b> start".into(),
            effects: vec![bar("cookies", 0.3), bar("<script>x</script>", -0.05)],
            variants: vec![bar("dirty", 1.0), bar("clean", 0.6), bar("without cookies", 0.7)],
            runs: vec![(0, 1.0), (1, 0.6), (2, 0.7), (2, 0.71)],
        };
        let page = ablation_page("p", &[state, empty()], |value| format!("{value:.2} s"));
        assert_eq!(page.matches("<circle").count(), 2 + 3 + 4);
        assert_eq!((page.matches("class=\"dirty\"").count(), page.matches("class=\"seen\"").count()), (1, 4));
        assert!(page.contains("&lt;script&gt;") && !page.contains("<script") && !page.contains("NaN"));
    }

    fn empty() -> AblationOf {
        AblationOf { state: "cold".into(), sentence: String::new(), effects: vec![], variants: vec![], runs: vec![] }
    }
}
