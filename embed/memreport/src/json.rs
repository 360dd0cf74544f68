//! A collected report as text, in the form in which Firefox saves memory reports. `thaw` is ours; Firefox ignores it.

use crate::{Collected, Moment};
use std::fmt::Write;

/// Whether the pointers that were measured are in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    Without,
    With,
}

impl Collected {
    /// `{"version":1,"hasMozMallocUsableSize":true,"reports":[...],"thaw":[...]}`
    pub fn json(&self) -> String {
        self.text(Blocks::Without)
    }

    /// The same with every pointer that was measured, for `thaw heap dark`.
    pub fn json_with_blocks(&self) -> String {
        self.text(Blocks::With)
    }

    pub(crate) fn text(&self, blocks: Blocks) -> String {
        let mut out = String::from("{\"version\":1,\"hasMozMallocUsableSize\":true,\"reports\":[");
        let process = text(&self.process);
        list(&mut out, &self.reports, |out, report| {
            let (kind, units) = (report.kind as u8, report.units as u8);
            let (path, description) = (text(&report.path), text(&report.description));
            let _ = write!(
                out,
                "\n{{\"process\":{process},\"path\":{path},\"kind\":{kind},\"units\":{units},\"amount\":{},\"description\":{description}}}",
                report.amount
            );
        });
        let _ = write!(
            out,
            "],\"thaw\":[{{\"schema\":\"thaw.memreport/1\",\"process\":{process},\"reason\":{},\"measured_bytes\":{},\"measured_blocks\":{},\"reporters\":[",
            text(&self.reason),
            self.measured_bytes,
            self.measured_blocks
        );
        list(&mut out, &self.reporters, |out, reporter| {
            let _ = write!(
                out,
                "\n{{\"name\":{},\"measured_bytes\":{},\"reported_heap_bytes\":{}}}",
                text(&reporter.name),
                reporter.measured_bytes,
                reporter.reported_heap_bytes
            );
        });
        out.push_str("],\"reported_more_than_once\":[");
        list(&mut out, &self.shared, |out, shared| {
            let _ = write!(out, "\n{{\"bytes\":{},\"blocks\":{},\"reports\":[", shared.bytes, shared.blocks);
            list(out, &shared.reports, |out, (reporter, path)| {
                let _ = write!(out, "{{\"reporter\":{},\"path\":{}}}", text(reporter), text(path));
            });
            out.push_str("]}");
        });
        out.push_str("],\"wrong_pointers\":[");
        list(&mut out, &self.wrong_pointers, |out, wrong| {
            let _ = write!(
                out,
                "\n{{\"reporter\":{},\"path\":{},\"why\":{},\"count\":{},\"example\":\"{:#x}\"}}",
                text(&wrong.reporter),
                text(&wrong.path),
                text(wrong.why),
                wrong.count,
                wrong.example
            );
        });
        out.push_str("],\"broken_rules\":[");
        list(&mut out, &self.broken_rules, |out, rule| out.push_str(&text(rule)));
        out.push(']');
        if blocks == Blocks::With {
            self.write_blocks(&mut out);
        }
        out.push_str("}]}\n");
        out
    }

    /// Three lists of the same length: a block takes about 25 bytes.
    fn write_blocks(&self, out: &mut String) {
        let _ = write!(out, ",\"blocks\":{{\"pid\":{},\"began\":", std::process::id());
        moment(out, self.began);
        out.push_str(",\"ended\":");
        moment(out, self.ended);
        out.push_str(",\"report_sets\":[");
        list(out, &self.report_sets, |out, set| {
            out.push('[');
            list(out, set, |out, (reporter, path)| {
                let _ = write!(out, "[{},{}]", text(reporter), text(path));
            });
            out.push(']');
        });
        type Column = (&'static str, fn(&crate::Block) -> usize);
        let columns: [Column; 3] = [
            ("address", |block| block.address),
            ("usable_bytes", |block| block.usable_bytes),
            ("report_set", |block| block.report_set),
        ];
        for (name, value) in columns {
            let _ = write!(out, "],\n\"{name}\":[");
            list(out, &self.blocks, |out, block| {
                let _ = write!(out, "{}", value(block));
            });
        }
        out.push_str("]}");
    }
}

fn moment(out: &mut String, moment: Moment) {
    let ticks = moment.ticks.map_or("null".into(), |ticks| ticks.to_string());
    let _ = write!(out, "{{\"ticks\":{ticks},\"monotonic_ns\":{}}}", moment.monotonic_ns);
}

fn list<T>(out: &mut String, items: &[T], mut each: impl FnMut(&mut String, &T)) {
    for (number, item) in items.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        each(out, item);
    }
}

/// A JSON string.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            letter if u32::from(letter) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_text_is_a_string() {
        for plain in ["", "a\"b\\c\n\u{1}ü\u{2028}", "\\\\"] {
            assert_eq!(serde_json::from_str::<String>(&super::text(plain)).unwrap(), plain);
        }
    }
}
