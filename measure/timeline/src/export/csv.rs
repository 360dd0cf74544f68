//! Comma-separated values, as spreadsheets and data frames read them. Times are nanoseconds of the trace's clock.

use crate::intervals::intervals;
use crate::trace::{Phase, Trace, Type};
use std::borrow::Cow;
use std::io::{self, Write};

/// An interval a line.
pub fn write_intervals(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    let (objects, all) = intervals(trace);
    let last = trace.events.last().map_or(0, |event| event.at_ns);
    out.write_all(
        b"object,address,type,source,wait_ns,exec_ns,done_ns,waited_ns,worked_ns,pid,posted_by_tid,worked_by_tid\n",
    )?;
    let number = |number: Option<u64>| number.map_or(String::new(), |number| number.to_string());
    for one in &all {
        let thread = |of: Option<(u64, u32)>| of.and_then(|(_, thread)| trace.threads.get(thread as usize));
        let (posted, worked) = (thread(one.wait), thread(one.exec));
        let process = posted.or(worked).and_then(|of| trace.processes.get(of.process as usize));
        writeln!(
            out,
            "{},{:#x},{},{},{},{},{},{},{},{},{},{}",
            cell(objects.name(one.object).unwrap_or_default()),
            objects.address(one.object),
            cell(trace.type_name(one.type_id)),
            cell(&source(one.type_id.and_then(|id| trace.types.get(&id)))),
            number(one.wait.map(|(at, _)| at)),
            number(one.exec.map(|(at, _)| at)),
            number(one.done),
            one.waited(last),
            one.worked(last),
            number(process.map(|of| of.pid.into())),
            number(posted.map(|of| of.tid.into())),
            number(worked.map(|of| of.tid.into())),
        )?;
    }
    Ok(())
}

/// An event a line.
pub fn write_events(trace: &Trace, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"at_ns,pid,tid,phase,object,type,source,other,text\n")?;
    for event in &trace.events {
        let thread = trace.threads.get(event.thread as usize);
        let process = thread.and_then(|of| trace.processes.get(of.process as usize));
        writeln!(
            out,
            "{},{},{},{},{:#x},{},{},{},{}",
            event.at_ns,
            process.map_or(0, |of| of.pid),
            thread.map_or(0, |of| of.tid),
            phase(event.phase),
            event.object,
            cell(event.type_id.map_or("", |id| trace.type_name(Some(id)))),
            cell(&source(event.type_id.and_then(|id| trace.types.get(&id)))),
            event.other.map_or(String::new(), |other| format!("{other:#x}")),
            cell(event.text.as_deref().unwrap_or_default()),
        )?;
    }
    Ok(())
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Name => "name",
        Phase::Mark => "mark",
        Phase::Wait => "wait",
        Phase::Exec => "exec",
        Phase::Done => "done",
        Phase::Link => "link",
        Phase::Arg => "arg",
        Phase::Free => "free",
    }
}

fn source(of: Option<&Type>) -> String {
    of.filter(|of| !of.file.is_empty()).map_or(String::new(), |of| format!("{}:{}", of.file, of.line))
}

/// RFC 4180: quoted where it holds what would end it.
fn cell(text: &str) -> Cow<'_, str> {
    if text.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\"")).into();
    }
    text.into()
}
