//! The example of a small HTTP client (`embed/events/example/client.cpp`): the path names what was planted, and a
//! replay says what a change would bring.

use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use timeline::{Change, Class, Ends, Path as CriticalPath, Trace, compare, parse, path, waits, whatif};

struct Client {
    home: TempDir,
    program: PathBuf,
}

impl Client {
    /// `None` (counted as skipped): there is no compiler.
    fn built() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let events = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../embed/events");
        let program = home.path().join("client");
        let mut compiler = Command::new("c++");
        compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread", "-I"]);
        compiler.arg(events.join("include")).arg(events.join("example/client.cpp")).arg("-o").arg(&program);
        testing::compiled(&mut compiler).then_some(Self { home, program })
    }

    fn trace(&self, words: &[&str]) -> Trace {
        let events = self.home.path().join("events");
        std::fs::create_dir(&events).unwrap();
        let output = Command::new(&self.program).args(words).env("THAW_EVENTS", &events).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let file = std::fs::read_dir(&events).unwrap().next().unwrap().unwrap().path();
        let trace = parse(&std::fs::read(file).unwrap(), None).unwrap();
        std::fs::remove_dir_all(events).unwrap();
        trace
    }
}

fn whole(trace: &Trace) -> CriticalPath {
    let path = path(trace, Ends::default()).unwrap();
    assert_eq!(path.steps.iter().map(|step| step.ns).sum::<u64>(), path.span_ns);
    path
}

#[test]
fn too_few_connections_are_what_the_path_stands_in_line_for() {
    let Some(client) = Client::built() else { return };
    let trace = client.trace(&["--pool", "2"]);
    let path = whole(&trace);
    let first = &path.contended[0];
    assert_eq!(first.resource, "pool::in_use", "{:#?}", path.contended);
    assert!(first.ns > path.span_ns / 2 && first.handed_over >= 5, "{first:?} of {}", path.span_ns);
    let through = path.steps.iter().filter(|step| step.through.starts_with("connection ")).count();
    assert!(through >= 5, "the connections that were handed over have their names: {:#?}", path.steps);
    // All but the first two waits for a connection are known to be for one that somebody had.
    let sums = waits(&trace, usize::MAX);
    let resource = sums.classes.iter().find(|row| row.class == Class::Resource).unwrap();
    assert!(resource.waits.count >= 22, "{:#?}", sums.classes);
    assert!(sums.blockers.iter().any(|row| row.resource == "connection 2"), "{:#?}", sums.blockers);
    // The same with as many connections as it takes stands in line for none.
    let after = whole(&client.trace(&["--pool", "12", "--requests", "12"]));
    let in_line = after.contended.iter().filter(|row| row.resource == "pool::in_use").map(|row| row.ns).sum::<u64>();
    assert!(in_line < after.span_ns / 2, "{:#?}", after.contended);
    let compared = compare(&path, &after);
    assert_eq!((compared.before_ns, compared.after_ns), (path.span_ns, after.span_ns));
    assert_eq!(compared.steps.iter().map(|step| step.before_ns).sum::<u64>(), path.span_ns);
    assert_eq!(compared.steps.iter().map(|step| step.after_ns).sum::<u64>(), after.span_ns);
}

#[test]
fn a_slow_resource_is_the_greatest_owner() {
    let Some(client) = Client::built() else { return };
    let path = whole(&client.trace(&["--pool", "12", "--slow-ms", "500"]));
    let first = &path.owners[0];
    assert_eq!((first.object.as_str(), first.name.as_str()), ("http://localhost/slow.js", "http::response"));
    assert!(first.wait_ns >= 500_000_000, "{first:?}");
    // Which of the others had how much time left is the machine's to say; that they had some is not.
    assert!(path.others.iter().any(|other| other.object != first.object && other.slack_ns > 0), "{:#?}", path.others);
}

#[test]
fn too_few_threads_are_what_the_path_stands_in_line_for() {
    let Some(client) = Client::built() else { return };
    let path = whole(&client.trace(&["--pool", "12", "--workers", "2"]));
    let workers = path.contended.iter().find(|row| row.resource == "worker").expect("the threads");
    assert!(workers.ns > path.span_ns / 2, "{:#?}", path.contended);
}

#[test]
fn a_slow_server_is_a_type_that_nothing_in_the_events_explains() {
    let Some(client) = Client::built() else { return };
    let path = whole(&client.trace(&["--requests", "12", "--pool", "12", "--server-ms", "200"]));
    let first = &path.types[0];
    assert_eq!(first.name, "http::response");
    let unexplained = path.classes.iter().find(|row| row.class == Class::Unexplained).unwrap();
    assert!(unexplained.ns >= 200_000_000, "{:#?}", path.classes);
}

#[test]
fn a_replay_of_the_unchanged_client_takes_what_was_measured_and_changes_bring_what_they_must() {
    let Some(client) = Client::built() else { return };
    let trace = client.trace(&["--pool", "2", "--server-ms", "20"]);
    let what = |change: Change| whatif(&trace, Ends::default(), &[change]).unwrap();
    let more = what(Change::Resource { name: "pool::in_use".into(), capacity: 4 });
    assert!(more.error < 0.15, "{more:?}");
    let ratio = more.predicted_ns as f64 / more.measured_ns as f64;
    assert!((0.4..0.75).contains(&ratio), "half as many in line: {more:?}");
    let resources: Vec<_> = more.resources.iter().map(|row| (row.name.as_str(), row.capacity, row.taken)).collect();
    assert_eq!(resources, [("pool::in_use", 2, 24), ("worker", 12, 24)]);
    let faster = what(Change::Faster { name: "http::*".into(), factor: 4.0 });
    assert!(faster.predicted_ns < faster.measured_ns / 2, "{faster:?}");
    let fewer = what(Change::Resource { name: "worker".into(), capacity: 1 });
    assert!(fewer.predicted_ns > fewer.measured_ns * 3 / 2, "{fewer:?}");
    let unknown = whatif(&trace, Ends::default(), &[Change::Resource { name: "pool".into(), capacity: 4 }]);
    assert!(format!("{:?}", unknown.unwrap_err()).contains("pool::in_use"), "the resources are named");
}

#[test]
fn a_replay_without_a_slow_resource_leaves_all_of_it_out() {
    let Some(client) = Client::built() else { return };
    let trace = client.trace(&["--pool", "6", "--slow-ms", "500"]);
    let without = Change::Without { name: "http://localhost/slow.js".into() };
    let without = whatif(&trace, Ends::default(), &[without]).unwrap();
    assert!(without.measured_ns - without.predicted_ns > 300_000_000, "{without:?}");
}
