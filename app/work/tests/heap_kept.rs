//! Recordings that an earlier thaw made still open and say what they said: `fixtures/heap/recordings`.

use heap::export::{Export, Format};
use heap::modes::{Figures, Held, Measure, Split, Window};
use heap::named::{Cut, Filter, Named, Wrappers};
use heap::report;
use heapfile::event::{Event, Origin, What};
use heapfile::reader::Reader;
use heaprec::finish;
use heaprec::record::Existing;
use model::Bytes;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heap/recordings").join(name)
}

/// A recording that may be changed.
fn copy(name: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(kept(name)).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), home.path().join(entry.file_name())).unwrap();
    }
    home
}

/// What was made, by the innermost function of the program, but for times.
fn by_function(reader: &Reader) -> BTreeMap<String, Figures> {
    let named = Named::read(reader, Window::default(), Split::Stack, &Filter::default()).unwrap();
    let mut functions: BTreeMap<String, Figures> = BTreeMap::new();
    for row in named.rows(Measure::Made, Cut { frames: usize::MAX, wrappers: Wrappers::Kept }, 0) {
        let own = row.frames.iter().find(|frame| frame.object() == "kept").and_then(|frame| frame.function.clone());
        let figures = functions.entry(own.unwrap_or_default()).or_default();
        figures.add(&Figures { lifetime_ns: Default::default(), ..row.figures });
    }
    functions
}

/// The events as LogAlloc's lines, and what is said of these.
fn logged(directory: &Path) -> (String, Vec<String>) {
    let reader = Reader::open(directory).unwrap();
    let named = Named::read(&reader, Window::default(), Split::Stack, &Filter::default()).unwrap();
    let export = Export { reader: &reader, named: &named, measure: Measure::Made, window: Window::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let said = export.write(Format::LogAlloc, &path, Existing::Keep).unwrap();
    (fs::read_to_string(path).unwrap(), said.into_iter().map(|warning| warning.text).collect())
}

#[track_caller]
fn is_as_it_was(directory: &Path) {
    let reader = Reader::open(directory).unwrap();
    assert_eq!(reader.warnings(), []);
    let held = |bytes, blocks| Held { bytes, blocks };
    let functions = by_function(&reader);
    let made: Vec<_> = ["leak", "pass", "churn", "make"].map(|name| functions[name].made).to_vec();
    assert_eq!(made, [held(3000, 3), held(21 + 500 + 50000, 3), held(40 * 64, 40), held(4096, 1)]);
    assert_eq!((functions["leak"].end, functions["pass"].end), (held(3000, 3), held(0, 0)));
    assert_eq!((functions["churn"].temporary, functions["make"].handed_over), (held(40 * 64, 40), held(4096, 1)));
    assert_eq!(functions["main"].made, held(300 + 288, 2), "the child's, and what the C library has for a thread");
    let report = report::report(&reader).unwrap();
    let [parent, child] = &report.processes[..] else { panic!("{:#?}", report.processes) };
    assert_eq!((parent.exe.as_str(), parent.origin, child.origin), ("/tmp/thaw-kept/kept", "exec", "fork"));
    assert_eq!((child.forked_from, child.allocations, child.inherited_frees), (Some(parent.pid), 1, 1));
    assert_eq!((parent.lost, parent.inconsistencies, parent.skipped_stacks, parent.cut_stacks), (0, 0, 0, 0));
    assert_eq!((parent.threads, parent.reallocs), (2, 1));
    let leaks = parent.leaks.iter().filter(|leak| (leak.blocks, leak.bytes) == (1, Bytes(1000)));
    assert_eq!(leaks.count(), 3, "the compiler unrolled the loop: {:#?}", parent.leaks);
    assert_eq!(parent.peak_bytes, Bytes(53_000));
    assert!(parent.maps > 0);
}

#[test]
fn streams_of_an_earlier_thaw_are_read_and_finished() {
    is_as_it_was(&kept("streams.heap"));
    let log = fs::read_to_string(kept("streams.log")).unwrap();
    assert!(logged(&kept("streams.heap")).0 == log);
    let home = copy("streams.heap");
    assert_eq!(finish::finish(home.path(), &mut |_| {}).unwrap().streams, 2);
    is_as_it_was(home.path());
    assert!(logged(home.path()).0 == log);
}

#[test]
fn what_an_earlier_thaw_finished_is_read() {
    is_as_it_was(&kept("finished.heap"));
    assert!(logged(&kept("finished.heap")).0 == fs::read_to_string(kept("finished.log")).unwrap());
    let reader = Reader::open(&kept("finished.heap")).unwrap();
    assert_eq!(reader.processes().iter().map(|it| it.origin).collect::<Vec<_>>(), [Origin::Exec, Origin::Fork]);
    let mut events = reader.events(reader.processes()[0].id).unwrap();
    let mut named = Vec::new();
    while let Some(Event { what, thread, .. }) = events.next().unwrap() {
        if what == What::ThreadNamed {
            named.push(events.thread_name(thread).unwrap().to_owned());
        }
    }
    assert!(named.contains(&"maker".to_owned()), "{named:?}");
}

/// `calloc(3,7)`: streams have the product alone, so the line has all bytes of the call, and it is said that its
/// elements are not known.
#[test]
fn what_logalloc_cannot_be_told_is_said() {
    let (log, said) = logged(&kept("streams.heap"));
    let callocs: Vec<&str> = log.lines().filter_map(|line| line.split_once("calloc(")).map(|(_, call)| call).collect();
    assert!(callocs.len() == 2 && callocs[0].starts_with("1,21)="), "{callocs:?}");
    let [said] = &said[..] else { panic!("{said:?}") };
    assert!(said.starts_with("2 calls of calloc are written as calloc(1,BYTES)"), "{said}");
}

#[test]
fn what_an_earlier_thaw_added_up_is_read() {
    is_as_it_was(&kept("sums.heap"));
}
