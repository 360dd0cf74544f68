//! Traces in the formats of other tools. Not for reading these formats: `import` does.
//!
//! A format tells what it can: Chrome's JSON and Perfetto's have waits, work and links; the Firefox Profiler has no
//! arrows in the version that we write; speedscope knows work alone.

mod chrome;
mod csv;
mod firefox;
mod perfetto;
mod speedscope;
mod steps;

use crate::trace::Trace;
use std::io::{self, Write};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chrome's trace event JSON.
    Chrome,
    /// Perfetto's protobuf.
    Perfetto,
    /// A processed profile of the Firefox Profiler.
    Firefox,
    /// speedscope's JSON: work of each thread.
    Speedscope,
    /// An interval a line.
    Csv,
    /// An event a line.
    CsvEvents,
}

/// Writes a trace.
///
/// # Errors
/// Those of `out`.
pub fn export(trace: &Trace, format: Format, out: &mut dyn Write) -> io::Result<()> {
    match format {
        Format::Chrome => chrome::write(trace, out),
        Format::Perfetto => perfetto::write(trace, out),
        Format::Firefox => firefox::write(trace, out),
        Format::Speedscope => speedscope::write(trace, out),
        Format::Csv => csv::write_intervals(trace, out),
        Format::CsvEvents => csv::write_events(trace, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intervals::intervals;
    use crate::read::read;
    use crate::trace::{Builder, Clock, Form, Phase};
    use proptest::prelude::*;

    /// Name, type, wait, exec, done.
    type Row = (Option<String>, String, Option<u64>, Option<u64>, Option<u64>);

    fn rows(trace: &Trace) -> Vec<Row> {
        let (objects, all) = intervals(trace);
        let time = |at: Option<(u64, u32)>| at.map(|(at, _)| at);
        let mut rows: Vec<Row> = all
            .iter()
            .map(|one| {
                let name = objects.name(one.object).map(str::to_owned);
                (name, trace.type_name(one.type_id).to_owned(), time(one.wait), time(one.exec), one.done)
            })
            .collect();
        rows.sort();
        rows
    }

    fn links(trace: &Trace) -> Vec<(u64, String)> {
        let of = |event: &crate::trace::Event| (event.at_ns, trace.type_name(event.type_id).to_owned());
        trace.events.iter().filter(|event| event.phase == Phase::Link).map(of).collect()
    }

    pub(super) fn trace() -> Trace {
        use Phase::{Done, Exec, Mark, Wait};
        let mut builder =
            Builder::new(Form::Events, Clock { is_monotonic: true, boot: "b".into(), step_ns: 1, ..Clock::default() });
        let process = builder.process(7, "a \"program\"");
        let (one, two) = (builder.thread(process, 7, "main"), builder.thread(process, 8, "worker\n"));
        let (a, b) = (builder.type_of("net::a", "a.c", 3), builder.type_of("net::b \u{1f600}", "", 0));
        builder.name(1_000, one, 1, "http://x/\"\\\n\u{1}");
        builder.says(Wait, 1_001, one, 1, Some(a));
        builder.says(Wait, 1_500, one, 2, Some(a));
        builder.link(2_000, two, 2, 1, Some(b));
        builder.says(Exec, 2_003, two, 1, Some(a));
        builder.says(Exec, 2_100, two, 1, Some(b));
        builder.says(Mark, 2_150, two, 1, Some(b));
        builder.says(Done, 2_200, two, 1, Some(a));
        builder.says(Done, 2_300, two, 1, Some(b));
        builder.says(Done, 2_400, two, 2, Some(a));
        builder.says(Exec, 3_000, one, 3, None);
        builder.says(Wait, 3_001, one, 3, Some(b));
        builder.build()
    }

    fn through(trace: &Trace, format: Format) -> Trace {
        let mut bytes = Vec::new();
        export(trace, format, &mut bytes).unwrap();
        let again = read(&bytes, None).unwrap();
        assert_eq!(again.damage, [] as [&str; 0], "{format:?}");
        again
    }

    #[test]
    fn what_is_written_for_chrome_and_perfetto_is_read_as_it_was() {
        let trace = trace();
        let chrome = through(&trace, Format::Chrome);
        assert_eq!((rows(&chrome), links(&chrome)), (rows(&trace), links(&trace)));
        assert_eq!((&chrome.clock.boot, chrome.clock.is_monotonic, chrome.clock.step_ns), (&"b".to_owned(), true, 1));
        let seen: Vec<_> = chrome.threads.iter().map(|of| (of.tid, of.name.as_str())).collect();
        assert_eq!(seen, [(7, "main"), (8, "worker\n")]);
        let perfetto = through(&trace, Format::Perfetto);
        // There each line of an object is one of its own, and what has no type has a name.
        let times = |trace: &Trace| {
            let mut times: Vec<_> = rows(trace).into_iter().map(|row| (row.2, row.3, row.4)).collect();
            times.sort();
            times
        };
        assert_eq!((times(&perfetto), links(&perfetto)), (times(&trace), links(&trace)));
        assert!(perfetto.clock.is_monotonic);
    }

    #[test]
    fn a_firefox_profile_has_what_waits_and_works_as_markers() {
        let firefox = through(&trace(), Format::Firefox);
        let names: Vec<String> = rows(&firefox).into_iter().map(|row| row.1).collect();
        assert!(["Waits::net::a", "Works::net::a"].iter().all(|name| names.iter().any(|of| of == name)), "{names:?}");
        let json: serde_json::Value = {
            let mut bytes = Vec::new();
            export(&trace(), Format::Firefox, &mut bytes).unwrap();
            serde_json::from_slice(&bytes).unwrap()
        };
        assert!(json.to_string().contains("http://x/"), "objects are named");
    }

    #[test]
    fn speedscope_has_work_of_threads_that_opens_and_closes_in_turn() {
        let mut bytes = Vec::new();
        export(&trace(), Format::Speedscope, &mut bytes).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let profile = json["profiles"].as_array().unwrap().iter().find(|of| of["name"] == "worker\n (8)").unwrap();
        let events: Vec<_> = profile["events"].as_array().unwrap().iter().map(|it| it.to_string()).collect();
        assert_eq!(
            events,
            [
                r#"{"at":1003,"frame":0,"type":"O"}"#,
                r#"{"at":1100,"frame":1,"type":"O"}"#,
                // The outer one ends before the inner one.
                r#"{"at":1200,"frame":1,"type":"C"}"#,
                r#"{"at":1200,"frame":0,"type":"C"}"#,
                r#"{"at":1200,"frame":1,"type":"O"}"#,
                r#"{"at":1300,"frame":1,"type":"C"}"#,
            ]
        );
    }

    #[test]
    fn csv_has_an_interval_or_an_event_a_line_with_quotes_where_they_are_needed() {
        let csv = |format| {
            let mut bytes = Vec::new();
            export(&trace(), format, &mut bytes).unwrap();
            String::from_utf8(bytes).unwrap()
        };
        let intervals = csv(Format::Csv);
        assert!(intervals.starts_with("object,address,type,source,wait_ns,exec_ns,done_ns,waited_ns,worked_ns,"));
        let row = "\"http://x/\"\"\\\n\u{1}\",0x1,net::a,a.c:3,1001,2003,2200,1002,197,7,7,8\n";
        assert!(intervals.contains(row), "{intervals}");
        let events = csv(Format::CsvEvents);
        assert!(events.contains("2000,7,8,link,0x2,net::b \u{1f600},,0x1,\n"), "{events}");
    }

    proptest! {
        #[test]
        fn any_trace_can_be_written_and_chrome_reads_the_same_intervals(
            said in proptest::collection::vec((0_u64..50, 0_u64..4, 0_u32..3, 0_u8..7), 0..60)
        ) {
            let mut builder = Builder::new(Form::Events, Clock::default());
            let process = builder.process(1, "p");
            let thread = builder.thread(process, 1, "t");
            let types = ["x", "y", "z"].map(|name| builder.type_of(name, "", 0));
            for (at, object, kind, phase) in said {
                let type_id = Some(types[kind as usize]);
                match phase {
                    0 => builder.name(at, thread, object, "named"),
                    1 | 2 => builder.says(Phase::Exec, at, thread, object, type_id),
                    3 => builder.says(Phase::Wait, at, thread, object, type_id),
                    4 | 5 => builder.says(Phase::Done, at, thread, object, type_id),
                    _ => builder.link(at, thread, object, (object + 1) % 4, type_id),
                }
            }
            let trace = builder.build();
            for format in [Format::Firefox, Format::Speedscope, Format::Csv, Format::CsvEvents, Format::Perfetto] {
                export(&trace, format, &mut Vec::new()).unwrap();
            }
            let mut bytes = Vec::new();
            export(&trace, Format::Chrome, &mut bytes).unwrap();
            if !rows(&trace).is_empty() {
                let again = read(&bytes, None).unwrap();
                let times = |trace: &Trace| {
                    let mut times: Vec<_> =
                        rows(trace).into_iter().map(|row| (row.1, row.2, row.3, row.4)).collect();
                    times.sort();
                    times
                };
                prop_assert_eq!(times(&trace), times(&again));
            }
        }
    }
}
