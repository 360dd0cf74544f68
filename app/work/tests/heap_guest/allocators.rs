//! Functions that only one allocator has, and every form of those that all have: what stays is known exactly.

use super::{Bench, Recorded, renamed};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// A fixture, compiled with a library; `None`: there is no such library.
fn linked(bench: &Bench, source: &str, flags: &[&str]) -> Option<OsString> {
    let compiler = if source.ends_with(".cpp") { "c++" } else { "cc" };
    let program = bench.path("linked");
    let built = Command::new(compiler)
        .args(["-O2", "-g", "-w", "-fno-builtin", "-o"])
        .arg(&program)
        .arg(super::root().join("fixtures/heap").join(source))
        .args(flags)
        .output();
    built.is_ok_and(|output| output.status.success()).then(|| program.into())
}

fn once(sizes: impl IntoIterator<Item = u64>) -> BTreeMap<u64, u64> {
    sizes.into_iter().map(|size| (size, 1)).collect()
}

#[track_caller]
fn ended_well(recorded: &Recorded) {
    assert_eq!(recorded.recording.code, Some(0), "{:#?}", recorded.report.warnings);
    recorded.is_consistent();
    let doubts = recorded.reader.processes().iter().map(|process| process.doubt.as_str());
    assert_eq!(doubts.collect::<String>(), "");
}

#[test]
fn heaps_of_mimalloc_go_with_their_blocks() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = linked(&bench, "mi.c", &["-lmimalloc"]) else {
        return testing::skip("needs libmimalloc-dev");
    };
    for sample in [None, Some(heaprec::record::Sample { bytes: 1, seed: Some(1) })] {
        let recorded = Recorded::of(&super::Plan { sample, ..bench.plan(vec![program.clone()]) });
        ended_well(&recorded);
        assert_eq!(recorded.leaks(6000..6100), once(6001..=6021));
        assert_eq!(recorded.leaks(3000..4000), [].into());
    }
}

#[test]
fn what_jemalloc_resizes_in_place_is_told() {
    let Some(bench) = Bench::new() else { return };
    let expected = once([6001, 6002, 6003, 6140, 6200, 6290, 6400]);
    let Some(shared) = linked(&bench, "je.c", &["-DPREFIX=", "-ljemalloc"]) else {
        return testing::skip("needs libjemalloc-dev");
    };
    let recorded = bench.record(&[shared]);
    ended_well(&recorded);
    assert_eq!(recorded.leaks(6000..7000), expected);
    assert_eq!(recorded.leaks(500..800), [].into());
    let Some(library) = renamed(&bench, "libjemalloc.a", "_rjem_") else {
        return testing::skip("needs objcopy");
    };
    let Some(fixed) =
        linked(&bench, "je.c", &["-DPREFIX=_rjem_", library.to_str().unwrap(), "-lm", "-lstdc++", "-lpthread"])
    else {
        panic!("a static jemalloc cannot be linked");
    };
    let recorded = bench.record(&[fixed]);
    assert_eq!(recorded.recording.code, Some(0));
    recorded.is_consistent();
    assert_eq!(recorded.leaks(6000..7000), expected);
}

#[test]
fn every_form_of_new_and_of_the_c_library_is_seen() {
    let Some(bench) = Bench::new() else { return };
    let library = |name: &str| Path::new("/usr/lib/x86_64-linux-gnu").join(format!("lib{name}.so")).exists();
    for name in ["c", "tcmalloc_minimal", "tcmalloc", "jemalloc", "mimalloc"] {
        if !library(name) {
            testing::skip(&format!("needs lib{name}.so of a -dev package"));
            continue;
        }
        let flags = ["-std=c++17", "-Wl,--no-as-needed", &format!("-l{name}")];
        let program = linked(&bench, "variants.cpp", &flags).expect("it compiles");
        let calm = if name == "mimalloc" { vec![program, "calm".into()] } else { vec![program] };
        let recorded = bench.record(&calm);
        ended_well(&recorded);
        let (mut expected, others) = (once(7001..=7017), recorded.leaks(7018..20_000));
        if name == "c" {
            // libstdc++ asks aligned_alloc for whole alignments.
            (7005..=7008).for_each(|size| assert_eq!(expected.remove(&size), Some(1)));
            assert_eq!(others, [(7040, 2), (7168, 1), (8192, 1), (8194, 1)].into());
        } else {
            assert_eq!(others, [(8194, 1)].into(), "{name}: getline's line");
        }
        assert_eq!(recorded.leaks(7001..7018), expected, "{name}: {:#?}", recorded.report);
        assert_eq!(recorded.leaks_of("/linked", 501..513), [].into(), "{name}");
    }
}
