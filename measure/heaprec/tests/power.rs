//! A power cut at any moment while a recording is finished: each process is in its stream or in its finished file, as a
//! whole; it is read the same, and finished to the same files afterwards. The syncs are needed for it.

use heap_wire::{ChunkHeader, PAGE};
use heapfile::reader::Reader;
use heapfile::summary::Summary;
use heaprec::finish::{Ahead, Following, finish, finish_ahead};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use testing::power::{Content, Disk, Syncs, needless_syncs};

/// What a recording looks like before it is finished.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// Two streams.
    Streams,
    /// Two streams; one has all events, and sums beside it that thaw was killed over.
    WholeBesideSums,
    /// The same, but part of the stream was freed: its sums are what is left.
    RestBesideSums,
    /// Two streams that are followed; their program ends when they are half read.
    Followed,
    /// Two streams that are followed; their processes end, and then the program.
    FollowedToTheirEnds,
}

/// Finishes what the program has left, or has not even left yet.
fn finish_it(before: Before, directory: &Path) {
    let (rate, start) = Reader::open(directory).map(|it| (it.rate(), it.recording().start_ticks)).unwrap();
    let mut following = Following::new(directory, start, Ahead::default());
    let stop = AtomicBool::new(false);
    match before {
        Before::Followed => {
            let held = ["2230-0.stream", "2232-0.stream"].map(|name| fs::File::open(directory.join(name)).unwrap());
            following.poll(middle(directory), rate, &stop);
            drop(held);
        }
        // What nothing comes from is looked at now and then.
        Before::FollowedToTheirEnds => {
            while !["2230-0.events", "2232-0.events"].iter().all(|name| directory.join(name).exists()) {
                following.poll(u64::MAX - 1, rate, &stop);
            }
        }
        Before::Streams | Before::WholeBesideSums | Before::RestBesideSums => {}
    }
    let done = finish_ahead(directory, following.stop(), &mut |_| {}).unwrap();
    let followed = matches!(before, Before::Followed | Before::FollowedToTheirEnds);
    assert_eq!((done.ahead, done.again), (if followed { 2 } else { 0 }, 0), "{before:?}");
}

/// The time of the event in the middle of the first process.
fn middle(directory: &Path) -> u64 {
    let reader = Reader::open(directory).unwrap();
    let mut events = reader.events(reader.processes()[0].id).unwrap();
    let mut times = Vec::new();
    while let Some(event) = events.next().unwrap() {
        times.push(event.ticks);
    }
    times[times.len() / 2]
}

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heap/recordings").join(name)
}

fn make(before: Before, directory: &Path) {
    fs::create_dir(directory).unwrap();
    for name in ["2230-0.stream", "2232-0.stream", "recording.json"] {
        fs::copy(kept("streams.heap").join(name), directory.join(name)).unwrap();
    }
    if matches!(before, Before::WholeBesideSums | Before::RestBesideSums) {
        fs::copy(kept("sums.heap/2275-0.sums"), directory.join("2230-0.sums")).unwrap();
    }
    if matches!(before, Before::RestBesideSums) {
        let path = directory.join("2230-0.stream");
        let mut bytes = fs::read(&path).unwrap();
        // The chunk that is first now was not the first of its lane.
        bytes[PAGE + offset_of!(ChunkHeader, sequence)] = 1;
        fs::write(path, bytes).unwrap();
    }
}

/// Path, bytes.
type Files = BTreeMap<String, Vec<u8>>;

fn files_of(directory: &Path) -> Files {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

/// Per process: blocks made and given back, bytes asked for, bytes and blocks live at the end.
fn figures(directory: &Path) -> Vec<[u64; 5]> {
    let reader = Reader::open(directory).unwrap();
    let of = |process| {
        let (summary, _) = Summary::read(&reader, process).unwrap();
        let totals = summary.totals();
        [totals.allocations, totals.frees, totals.allocated.0, totals.live.0, totals.live_blocks]
    };
    let mut all: Vec<_> = reader.processes().iter().map(of).collect();
    all.sort_unstable();
    all
}

/// Finishes a recording on a disk that loses its power; how many syncs there were, and how many states.
fn survives(before: Before, syncs: Syncs) -> (usize, Result<usize, String>) {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let home = home.path().canonicalize().unwrap();
    let (recording, state) = (home.join("recording"), home.join("state"));
    make(before, &recording);
    fs::create_dir(&state).unwrap();
    // SAFETY: this process has one test, and no other thread that looks at the environment.
    unsafe { std::env::set_var("THAW_STATE_DIR", &state) };
    let (old, old_figures) = (files_of(&recording), figures(&recording));
    let disk = Disk::of(&[&home], syncs);
    disk.run(|| finish_it(before, &recording));
    let (new, new_figures) = (files_of(&recording), figures(&recording));
    assert!(new.keys().all(|name| !name.ends_with(".stream")), "{:?}", new.keys());
    let mut seen = HashSet::new();
    let survived = disk.survives(&[]).and_then(|_| {
        disk.each(|state| {
            let here = |name: &str| state.held(&recording.join(name));
            let holds = |name: &str, from: &Files| {
                let is = |held: &Option<&Content>| held.map(|it| &it.bytes[..]) == from.get(name).map(|it| &it[..]);
                from.contains_key(name) && here(name).iter().all(is)
            };
            for stream in old.keys().filter(|name| name.ends_with(".stream")) {
                let rewritten = [stream.replace(".stream", ".events"), stream.replace(".stream", ".sums")];
                if !holds(stream, &old) && !rewritten.iter().any(|name| new.contains_key(name) && holds(name, &new)) {
                    return Err(format!("neither {stream} nor what is made of it is whole in {state:?}"));
                }
                if state.is_end && here(stream) != [None] {
                    return Err(format!("{stream} may still be there in the end"));
                }
            }
            // As a machine finds it that starts again: read, finished once more. What may hold several things holds the
            // first and the last.
            for variant in [0, state.variants() - 1] {
                let found = state.variant(variant).into_iter().filter(|(path, _)| path.starts_with(&recording));
                let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
                let found: Files = found.map(|(path, held)| (name(path), held.bytes.to_vec())).collect();
                if seen.insert(found.clone()) {
                    again(&found, [&old_figures, &new_figures], &new)?;
                }
            }
            Ok(())
        })
    });
    (disk.syncs(), survived)
}

/// Reads what a power cut left, and finishes it.
fn again(found: &Files, figures_may_be: [&Vec<[u64; 5]>; 2], new: &Files) -> Result<(), String> {
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    for (name, bytes) in found {
        fs::write(home.path().join(name), bytes).unwrap();
    }
    let names: Vec<&String> = found.keys().collect();
    let read = figures(home.path());
    if !figures_may_be.contains(&&read) {
        return Err(format!("{names:?} is read as {read:?}"));
    }
    finish(home.path(), &mut |_| {}).map_err(|error| format!("{names:?} cannot be finished: {error}"))?;
    let made = files_of(home.path());
    if made.keys().ne(new.keys()) || figures(home.path()) != *figures_may_be[1] {
        return Err(format!("{names:?} is finished to {:?}", made.keys()));
    }
    Ok(())
}

#[test]
fn a_power_cut_leaves_the_stream_or_the_finished_file_and_its_syncs_are_needed() {
    // For each file that is written, of its content and of its name; for each that is removed, of its name; five of the
    // journal. A stream that comes back beside its finished file does no harm, and the next sync takes it away: of the
    // two that are removed, only the last one needs its own.
    for (before, count, of_first_removed) in [
        (Before::Streams, 11, 5),
        (Before::WholeBesideSums, 12, 6),
        (Before::RestBesideSums, 11, 5),
        (Before::Followed, 11, 5),
        // Both are removed when the program ends.
        (Before::FollowedToTheirEnds, 11, 9),
    ] {
        let states = survives(before, Syncs::Kept).1.unwrap();
        assert!(states > 50, "{before:?}: {states} states");
        assert_eq!(needless_syncs(|syncs| survives(before, syncs)), (vec![of_first_removed], count), "{before:?}");
    }
}
