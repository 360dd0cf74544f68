//! The page of a fleet: spreads of start times, maps of classes by versions, tables. It gets values and words and
//! computes no figure. Drawn as HTML that reflows, not as one picture: it is read on telephones too.

use crate::plain::{escaped, head, ticks};
use std::fmt::Write;

/// A page.
#[derive(Clone, Debug)]
pub struct FleetOf {
    /// Its title.
    pub title: String,
    /// What is said first.
    pub sentence: String,
    /// Applications, one after the other.
    pub apps: Vec<AppOf>,
    /// What is said last.
    pub remarks: Vec<String>,
}

/// An application.
#[derive(Clone, Debug)]
pub struct AppOf {
    /// Its name.
    pub name: String,
    /// Figures of the whole: what, how much.
    pub facts: Vec<(String, String)>,
    /// What is shown of it.
    pub sections: Vec<SectionOf>,
}

/// Something under a heading.
#[derive(Clone, Debug)]
pub struct SectionOf {
    /// The heading.
    pub title: String,
    /// How it is read.
    pub note: String,
    /// What it shows.
    pub body: BodyOf,
}

/// What a section shows.
#[derive(Clone, Debug)]
pub enum BodyOf {
    /// Times of several groups on one scale in seconds, and how they are said.
    Spreads(Vec<SpreadOf>, fn(f64) -> String),
    /// Rows by columns.
    Map(MapOf),
    /// Words and figures.
    Table(TableOf),
}

/// Times of a group.
#[derive(Clone, Debug)]
pub struct SpreadOf {
    /// Which.
    pub name: String,
    /// How many.
    pub count: String,
    /// Percentiles, the lowest first.
    pub marks: Vec<MarkOf>,
}

/// A percentile.
#[derive(Clone, Debug)]
pub struct MarkOf {
    /// Its value, with its interval.
    pub text: String,
    /// In seconds.
    pub value: f64,
    /// In seconds; `None`: not known.
    pub interval: Option<(f64, f64)>,
}

/// A map.
#[derive(Clone, Debug)]
pub struct MapOf {
    /// What the rows are.
    pub of: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Names of the rows with their cells, one for each column.
    pub rows: Vec<(String, Vec<CellOf>)>,
}

/// A cell of a map.
#[derive(Clone, Debug)]
pub struct CellOf {
    /// What it says.
    pub text: String,
    /// And in smaller letters.
    pub more: String,
    /// What it is coloured like.
    pub shade: Shade,
}

/// How a cell is coloured. Depths are 0 (not at all) to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shade {
    /// No value to show.
    Hidden,
    /// An amount.
    Amount(u8),
    /// Worse than it was; whether that is no chance.
    Worse(u8, bool),
    /// Better than it was; whether that is no chance.
    Better(u8, bool),
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableOf {
    /// Heads of the columns.
    pub head: Vec<String>,
    /// So many of them, from the left, are words.
    pub words: usize,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

const STYLE: &str = ":root{--ink:#1c1c1e;--paper:#fff;--soft:#5f6368;--line:#d8dade;--faint:#f3f4f6;--mark:#1763b5;\
--worse:192,57,43;--better:23,99,181;color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:var(--ink);\
background:var(--paper)}h1{font-size:1.5rem;margin:0 0 .3rem}h2{font-size:1.25rem;margin:2.2rem 0 .6rem;\
border-top:1px solid var(--line);padding-top:1rem;overflow-wrap:anywhere}h3{font-size:1.05rem;margin:1.8rem 0 .1rem}\
.note{color:var(--soft);margin:.1rem 0 .7rem;max-width:46rem}\
.facts{display:flex;flex-wrap:wrap;gap:.6rem 2rem;margin:0}\
.facts dt{color:var(--soft);font-size:.85rem}.facts dd{margin:0;font-size:1.15rem}\
.spread{display:grid;grid-template-columns:11rem 1fr;gap:0 1rem;padding:.35rem 0;border-top:1px solid var(--line)}\
.spread b{overflow-wrap:anywhere}.spread small,.spread p{color:var(--soft);font-size:.85rem}\
.spread small{display:block}.spread p{margin:0}.spread p span{display:inline-block;margin-right:1.2rem}\
.track{position:relative;height:1.3rem;margin:0 .5rem}.track i{position:absolute}\
.grid{top:-.35rem;bottom:0;width:1px;background:var(--line)}\
.span{top:.6rem;height:.12rem;background:var(--soft);opacity:.55}.range{top:.4rem;height:.5rem;border-radius:.2rem;\
background:var(--mark);opacity:.3}.tick{top:.3rem;width:.15rem;height:.7rem;margin-left:-.07rem;background:var(--soft)}\
.mid{top:.3rem;width:.7rem;height:.7rem;margin-left:-.35rem;border-radius:50%;background:var(--mark)}\
.scale span{position:absolute;transform:translateX(-50%);color:var(--soft);font-size:.8rem;white-space:nowrap}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{padding:.25rem .7rem;\
text-align:right;white-space:nowrap}th{color:var(--soft);font-weight:500;vertical-align:bottom}\
tbody tr{border-top:1px solid var(--line)}th.word,td.word{text-align:left}\
.map thead th{text-align:center}.map tbody th{vertical-align:middle}td.word{white-space:normal}\
.map th:first-child{position:sticky;left:0;background:var(--paper);text-align:left}.map tbody th{color:var(--ink)}\
.map td{text-align:center;border:2px solid var(--paper);background:var(--faint);border-radius:.3rem}\
.map td small{display:block;font-size:.78rem;color:var(--soft)}.map td.hidden{color:var(--soft);background:none;\
border:2px solid var(--paper);outline:1px dashed var(--line);outline-offset:-4px}\
.map td.sure{font-weight:700;outline:2px solid var(--ink);outline-offset:-3px}.map td.sure small{color:var(--ink)}\
.w1{background:rgba(var(--worse),.12)!important}.w2{background:rgba(var(--worse),.25)!important}\
.w3{background:rgba(var(--worse),.4)!important}.w4{background:rgba(var(--worse),.55)!important}\
.b1{background:rgba(var(--better),.12)!important}.b2{background:rgba(var(--better),.25)!important}\
.b3{background:rgba(var(--better),.4)!important}.b4{background:rgba(var(--better),.55)!important}\
.w3 small,.w4 small,.b3 small,.b4 small{color:var(--ink)!important}\
@media(max-width:40rem){body{margin:1rem auto}.spread{grid-template-columns:1fr}.spread small{display:inline;\
margin-left:.6rem}th,td{padding:.25rem .45rem}\
.map tbody th{white-space:normal;min-width:6.5rem}.scale.spread b,.scale span:nth-child(even){display:none}\
.scale span:first-child{transform:none}}\
@media(prefers-color-scheme:dark){:root{--ink:#ececee;--paper:#17181a;--soft:#a3a7ad;--line:#35383d;--faint:#202226;\
--mark:#6db3ff;--worse:255,123,107;--better:90,160,255}}";

/// The page.
pub fn fleet_page(page: &FleetOf) -> String {
    let mut out = head(&page.title, STYLE);
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(&page.sentence));
    for app in &page.apps {
        let _ = writeln!(out, "<h2>{}</h2>\n<dl class=\"facts\">", escaped(&app.name));
        for (what, figure) in &app.facts {
            let _ = writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(what), escaped(figure));
        }
        out.push_str("</dl>\n");
        for section in &app.sections {
            let (title, note) = (escaped(&section.title), escaped(&section.note));
            let _ = writeln!(out, "<section><h3>{title}</h3>\n<p class=\"note\">{note}</p>");
            match &section.body {
                BodyOf::Spreads(spreads, said) => draw(&mut out, spreads, *said),
                BodyOf::Map(of) => map(&mut out, of),
                BodyOf::Table(of) => table(&mut out, of),
            }
            out.push_str("</section>\n");
        }
    }
    for remark in &page.remarks {
        let _ = writeln!(out, "<p class=\"note\">{}</p>", escaped(remark));
    }
    out.push_str("</body></html>\n");
    out
}

/// A row for each group: a dot at the lowest percentile with its interval, ticks at the others.
fn draw(out: &mut String, spreads: &[SpreadOf], said: fn(f64) -> String) {
    let ends = spreads.iter().flat_map(|spread| &spread.marks);
    let high = ends.map(|mark| mark.interval.map_or(mark.value, |(_, high)| high)).fold(0.0_f64, f64::max).max(1e-9);
    let at = |value: f64| format!("{:.2}%", 100.0 * value / high);
    let ticks = ticks(0.0, high);
    let grid: String =
        ticks.iter().map(|tick| format!("<i class=\"grid\" style=\"left:{}\"></i>", at(*tick))).collect();
    for spread in spreads {
        let (name, count) = (escaped(&spread.name), escaped(&spread.count));
        let _ = write!(
            out,
            "<div class=\"spread\"><div><b>{name}</b><small>{count}</small></div><div><div class=\"track\">{grid}"
        );
        if let (Some(first), Some(last)) = (spread.marks.first(), spread.marks.last()) {
            let (from, width) = (at(first.value), at(last.value - first.value));
            let _ = write!(out, "<i class=\"span\" style=\"left:{from};width:{width}\"></i>");
        }
        for (index, mark) in spread.marks.iter().enumerate() {
            if let Some((low, high)) = mark.interval {
                let (from, width) = (at(low), at(high - low));
                let _ = write!(out, "<i class=\"range\" style=\"left:{from};width:{width}\"></i>");
            }
            let class = if index == 0 { "mid" } else { "tick" };
            let _ = write!(out, "<i class=\"{class}\" style=\"left:{}\"></i>", at(mark.value));
        }
        out.push_str("</div><p>");
        for mark in &spread.marks {
            let _ = write!(out, "<span>{}</span> ", escaped(&mark.text));
        }
        out.push_str("</p></div></div>\n");
    }
    out.push_str("<div class=\"spread scale\"><b></b><div class=\"track\">");
    for tick in ticks {
        let _ = write!(out, "<span style=\"left:{}\">{}</span>", at(tick), escaped(&said(tick)));
    }
    out.push_str("</div></div>\n");
}

fn map(out: &mut String, map: &MapOf) {
    let _ = write!(out, "<div class=\"wide\"><table class=\"map\"><thead><tr><th>{}</th>", escaped(&map.of));
    for column in &map.columns {
        let _ = write!(out, "<th>{}</th>", escaped(column));
    }
    out.push_str("</tr></thead><tbody>\n");
    for (name, cells) in &map.rows {
        let _ = write!(out, "<tr><th>{}</th>", escaped(name));
        for cell in cells {
            let class = match cell.shade {
                Shade::Hidden => "hidden".to_owned(),
                Shade::Amount(depth) => format!("b{depth}"),
                Shade::Worse(depth, is_sure) => format!("w{depth}{}", if is_sure { " sure" } else { "" }),
                Shade::Better(depth, is_sure) => format!("b{depth}{}", if is_sure { " sure" } else { "" }),
            };
            let (text, more) = (escaped(&cell.text), escaped(&cell.more));
            let _ = write!(out, "<td class=\"{class}\">{text}<small>{more}</small></td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn table(out: &mut String, table: &TableOf) {
    let class = |column: usize| if column < table.words { " class=\"word\"" } else { "" };
    out.push_str("<div class=\"wide\"><table><thead><tr>");
    for (column, name) in table.head.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(column), escaped(name));
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(out, "<td{}>{}</td>", class(column), escaped(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, value: f64) -> String {
        let mark = |value: f64, interval| MarkOf { text: name.into(), value, interval };
        let spread = SpreadOf {
            name: name.into(),
            count: name.into(),
            marks: vec![mark(value, Some((value, value * 1.5))), mark(value * 2.0, None)],
        };
        let cell = |shade| CellOf { text: name.into(), more: name.into(), shade };
        let shades = [Shade::Hidden, Shade::Amount(2), Shade::Worse(4, true), Shade::Better(1, false)];
        let map = MapOf {
            of: name.into(),
            columns: vec![name.into(); 4],
            rows: vec![(name.into(), shades.map(cell).to_vec())],
        };
        let table = TableOf { head: vec![name.into(); 2], words: 1, rows: vec![vec![name.into(); 2]] };
        let section = |body| SectionOf { title: name.into(), note: name.into(), body };
        let app = AppOf {
            name: name.into(),
            facts: vec![(name.into(), name.into())],
            sections: vec![
                section(BodyOf::Spreads(vec![spread], |value| format!("<{value}>"))),
                section(BodyOf::Map(map)),
                section(BodyOf::Table(table)),
            ],
        };
        let (title, sentence) = (name.to_owned(), name.to_owned());
        fleet_page(&FleetOf { title, sentence, apps: vec![app], remarks: vec![name.into()] })
    }

    #[test]
    fn everything_is_drawn_and_no_text_becomes_markup() {
        let text = page("<script>\"x\" & y", 2.0);
        assert!(!text.contains("<script") && !text.contains("<2>") && !text.contains("\"x\""), "{text}");
        // Of each place that a text has: the title twice, all else once; the sections have a title and
        // a note each, the map four cells of two texts.
        let places = 2 + 1 + 1 + 1 + 2 + 3 * 2 + (1 + 1 + 2) + (1 + 4 + 1 + 4 * 2) + (2 + 2);
        assert_eq!(text.matches("&lt;script&gt;&quot;x&quot; &amp; y").count(), places);
        for class in ["class=\"mid\"", "class=\"tick\"", "class=\"w4 sure\"", "class=\"b1\"", "class=\"hidden\""] {
            assert_eq!(text.matches(class).count(), 1, "{class}");
        }
        assert_eq!(text.matches("class=\"range\"").count(), 1);
        // The tick at twice the value is the end of the scale.
        assert!(text.contains("class=\"tick\" style=\"left:100.00%\""), "{text}");
        assert!(!text.contains("://") && !text.contains("url("), "it loads something");
    }

    #[test]
    fn nothing_and_zero_are_drawn() {
        let text = page("x", 0.0);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        let (title, sentence) = (String::new(), String::new());
        assert!(fleet_page(&FleetOf { title, sentence, apps: vec![], remarks: vec![] }).ends_with("</html>\n"));
    }
}
