//! What a recorded program executes and loads: nothing of it is lost without a word.

use super::Bench;
use std::path::Path;

#[test]
fn programs_are_recorded_that_start_without_the_environment() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("exec", &[]);
    let recorded = bench.record(&[program]);
    assert_eq!(recorded.recording.code, Some(0));
    recorded.is_consistent();
    assert_eq!(recorded.leaks(8000..8020), (8000..=8011).map(|size| (size, 1)).collect());
    assert_eq!(recorded.recording.unseen, []);
    assert!(!bench.path("out.heap/executed").exists());
}

/// As `dlopen("./plugin.so")` does, and `LD_LIBRARY_PATH=.`: whoever reads the recording is somewhere else.
#[test]
fn a_library_that_was_loaded_by_a_relative_path_has_its_names() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.compile("late", &[]);
    let plugin = bench.compile("plugin", &["-shared", "-fPIC"]);
    let plugin = Path::new(&plugin).canonicalize().unwrap();
    let folder = plugin.parent().unwrap();
    let command = format!("cd '{}' && exec '{}' ./plugin", folder.display(), program.to_str().unwrap());
    let recorded = bench.record(&["sh".into(), "-c".into(), command.into()]);
    assert_eq!(recorded.recording.code, Some(0));
    let modules = recorded.report.processes.iter().flat_map(|process| &process.leaks).flat_map(|leak| &leak.stack);
    let modules: Vec<&str> = modules.filter_map(|frame| frame.module.as_deref()).collect();
    assert!(modules.iter().any(|module| Path::new(module) == plugin), "{modules:?}");
    assert!(modules.iter().all(|module| module.starts_with('/') || !module.contains('/')), "{modules:?}");
}
