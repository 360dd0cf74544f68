//! Folded stacks: one line for each different stack, in the order of the texts. Weights are nanoseconds of CPU time:
//! samples times the tick.

use super::sampled;
use crate::trace::{Frame, Trace};
use std::collections::BTreeMap;
use std::io::{self, Write};

pub fn write(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (thread, samples) in sampled(trace) {
        for sample in samples {
            let mut words: Vec<String> = trace.stacks.walk(sample.stack).map(Frame::label).collect();
            words.push(thread.name.clone());
            let words: Vec<String> = words.iter().rev().map(|word| one_word(word)).collect();
            *lines.entry(words.join(";")).or_default() += trace.tick.0;
        }
    }
    for (words, ns) in lines.into_iter().filter(|(_, ns)| *ns > 0) {
        writeln!(out, "{words} {ns}")?;
    }
    Ok(())
}

/// Without what separates frames and lines.
fn one_word(label: &str) -> String {
    label.replace(';', ":").replace(['\n', '\r'], " ")
}
