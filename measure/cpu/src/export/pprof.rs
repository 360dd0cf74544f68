//! pprof's protocol buffer, gzipped: nanoseconds by stacks, four sums of each. Threads are labels:
//! `pprof -tagfocus thread=main`.

use super::About;
use crate::flames::{Flames, flames};
use crate::trace::{Frame, Trace};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use wire::pprof::{self, Profile};

/// The unit of all sums.
const UNIT: &str = "nanoseconds";

/// Names of the sums, in the order of a sample's values.
const SUMS: [&str; 4] = ["cpu", "path_cpu", "path_wait", "wait"];

pub fn write(trace: &Trace, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
    let flames = flames(trace);
    let mut profile = Profile::new(GzEncoder::new(out, Compression::default()), &SUMS.map(|name| (name, UNIT)))?;
    samples(&flames, &mut profile)?;
    let mut objects = HashMap::new();
    for (object, number) in ranked(trace, &flames).into_iter().zip(1..) {
        profile.mapping(number, object)?;
        objects.insert(object, number);
    }
    for (frame, number) in flames.frames.iter().zip(1..) {
        profile.frame(&pprof::Frame {
            number,
            mapping: objects.get(&frame.object[..]).copied().unwrap_or(0),
            address: 0,
            line: 0,
            function: &frame.function,
            file: frame.source.as_deref().unwrap_or_default(),
        })?;
    }
    let about = pprof::About {
        started_unix_ns: about.started_unix_ns,
        duration_ns: trace.ready.0,
        period: Some((SUMS[0], UNIT, trace.tick.0)),
        default: SUMS[0],
    };
    profile.finish(&about)?.finish()?;
    Ok(())
}

/// A sample for each stack that has any time.
fn samples(flames: &Flames, profile: &mut Profile<impl Write>) -> io::Result<()> {
    for node in 0..flames.callers.len() {
        let values =
            [flames.ran_ns[node], flames.path_ran_ns[node], flames.path_waited_ns[node], flames.waited_ns[node]];
        if values == [0; 4] {
            continue;
        }
        let mut locations = Vec::new();
        let mut at = Some(node);
        let mut thread = "";
        while let Some(here) = at {
            let what = flames.what[here] as usize;
            match flames.threads.get(what.wrapping_sub(flames.frames.len())) {
                Some(name) => thread = name,
                None => locations.push(what as u64 + 1),
            }
            at = (flames.callers[here] as usize).checked_sub(1);
        }
        profile.sample(locations, values, &[("thread", thread)])?;
    }
    Ok(())
}

/// The objects; pprof takes the first one for the program.
fn ranked<'a>(trace: &Trace, flames: &'a Flames) -> Vec<&'a str> {
    let root = trace.threads.iter().find(|thread| thread.tid == trace.root);
    let is_program = |object: &str| root.is_some_and(|root| object.rsplit('/').next() == Some(&root.name[..]));
    let rank = |object: &str| (!is_program(object), object == Frame::KERNEL);
    let objects: BTreeSet<((bool, bool), &str)> = flames
        .frames
        .iter()
        .filter(|frame| !frame.object.is_empty())
        .map(|frame| (rank(&frame.object), &frame.object[..]))
        .collect();
    objects.into_iter().map(|(_, object)| object).collect()
}
