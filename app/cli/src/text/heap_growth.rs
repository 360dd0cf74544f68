//! `thaw heap growth` as text: which places grow buffers too slowly.

use super::heap_slop::place;
use super::{Page, harmless, units};
use heap::growth::{Finding, How, ProcessGrowth, Report, Shape, Swing};
use model::Bytes;

/// Processes that are printed.
const MOST: usize = 5;

/// The answer.
pub fn page(report: &Report, width: usize) -> Page {
    let mut page = Page::new(width);
    let mut processes: Vec<&ProcessGrowth> = report.processes.iter().collect();
    processes.sort_by_key(|process| {
        std::cmp::Reverse((process.findings.iter().map(Finding::cost_ns).sum::<u64>(), process.allocated_bytes))
    });
    for process in processes.iter().take(MOST) {
        page.heading(&format!("Process {} ({})", process.pid, harmless(&process.exe)));
        page.line(&format!(
            "{} requested; {} grew in several steps",
            units::bytes(process.allocated_bytes),
            units::plural(process.grown_buffers, "buffer", "buffers")
        ));
        if process.findings.is_empty() {
            page.line("No place grows them too slowly.");
        }
        for found in &process.findings {
            page.gap();
            finding(&mut page, found);
        }
        for found in &process.swings {
            page.gap();
            swing(&mut page, found);
        }
    }
    if processes.len() > MOST {
        page.gap();
        let rest = units::plural((processes.len() - MOST) as u64, "process", "processes");
        page.remark(&format!("and {rest} with less to avoid (--json)"));
    }
    super::heap::look::warnings(&mut page, &report.warnings);
    page
}

fn finding(page: &mut Page, found: &Finding) {
    let (rule, cure) = match found.shape {
        Shape::Linear => {
            let step = units::bytes(Bytes(found.typical_step as u64));
            (format!("linear, by {step} a step"), "grow by a factor: 2, or 1.5".to_owned())
        }
        Shape::Exponential => (
            format!("by a factor of {:.3} a step", found.typical_step),
            "grow by a larger factor: 2, or 1.5".to_owned(),
        ),
    };
    let how = match found.how {
        How::Realloc => "realloc",
        How::CopyAndFree => "probable: allocated, copied and freed, seen from the order of events alone",
    };
    page.line(&format!("{rule} ({how})"));
    page.labelled("", "  ", &place(&found.site));
    page.labelled(
        "",
        "  ",
        &format!(
            "{}, up to {}, {}: {} allocated in all, {} and {} avoidable; {} copied",
            units::plural(found.buffers, "buffer", "buffers"),
            units::bytes(found.most_last_bytes),
            units::plural(found.steps, "step", "steps"),
            units::bytes(found.allocated_bytes),
            units::bytes(found.avoidable_bytes),
            units::plural(found.avoidable_calls, "call", "calls"),
            units::bytes(found.copied_bytes),
        ),
    );
    let sizes: Vec<String> = found.example.iter().map(|size| units::count(*size)).collect();
    page.labelled("", "  ", &format!("the largest: {}, \u{2026}", sizes.join(", ")));
    let reserve = if found.predictable {
        let last = units::bytes(found.most_last_bytes);
        format!("; or reserve {last} at once: all of them end there, within 10 %")
    } else {
        String::new()
    };
    page.labelled("", "  cure: ", &format!("{cure}{reserve}"));
}

fn swing(page: &mut Page, found: &Swing) {
    page.line(&format!(
        "smaller and larger by turns, between {} and {} (realloc)",
        units::bytes(found.least_bytes),
        units::bytes(found.most_bytes)
    ));
    page.labelled("", "  ", &place(&found.site));
    page.labelled(
        "",
        "  ",
        &format!(
            "{}, {}: {} in {} allocated; {} copied",
            units::plural(found.buffers, "buffer", "buffers"),
            units::plural(found.turns, "turn", "turns"),
            units::bytes(found.allocated_bytes),
            units::plural(found.calls, "call", "calls"),
            units::bytes(found.copied_bytes),
        ),
    );
    page.labelled("", "  cure: ", "keep what it has, and make it smaller when it is done, or far below half full");
}
