//! The words and sums of the states; the states themselves are made in `tests/states.rs`.

use super::*;

fn row(path: &str, owner: Owner, kind: FileKind, needed: u64, resident: u64) -> Row {
    let row = ResidencyRow { path: path.into(), needed: Bytes(needed), resident: Bytes(resident) };
    Row { row, owner, kind, ranges: Vec::new() }
}

fn rows() -> Vec<Row> {
    vec![
        row("/opt/app/libapp.so", Owner::App, FileKind::Regular, 9_000_000, 0),
        row("/opt/app/data", Owner::App, FileKind::Regular, 1_000_000, 50_000),
        row("/usr/lib/libc.so.6", Owner::System, FileKind::Regular, 2_000_000, 1_990_000),
        row("/dev/vda", Owner::System, FileKind::Metadata, 1_000_000, 500_000),
    ]
}

#[test]
fn metadata_counts_for_cold_only() {
    let rows = rows();
    assert_eq!(share(&rows, Row::is_own), Some(0.005));
    assert_eq!(share(&rows, Row::is_systems), Some(0.995));
    assert_eq!(share(&rows, |_| true), Some(2_540_000.0 / 13_000_000.0));
    assert_eq!(share(&rows[..2], Row::is_systems), None, "nothing is needed of the system");
}

#[test]
fn what_stays_is_named_with_its_size_the_largest_first() {
    let text = stays(&rows(), |_| true, COLD_LIMIT);
    assert!(
        text.starts_with(
            "19.5 % of the 13.0 MB that a start needs stay in memory, at most 5.0 % may: /usr/lib/libc.so.6 2.0 MB"
        ),
        "{text}"
    );
    assert!(!text.contains("libapp.so"), "{text}");
}

#[test]
fn what_is_missing_is_named() {
    let text = lacks(&rows(), Row::is_own);
    assert_eq!(
        text,
        "only 0.5 % of what a start needs are in memory, 99.0 % must be; missing: /opt/app/libapp.so 9.0 MB, \
            /opt/app/data 950.0 kB"
    );
}

#[test]
fn a_remainder_of_a_hundredth_is_not_worth_a_warning() {
    let rows: Vec<ResidencyRow> = rows().into_iter().map(|row| row.row).collect();
    assert!(remainder(&rows[..2]).is_none());
    assert_eq!(remainder(&rows).unwrap().kind, WarningKind::StaysResident);
}

#[test]
fn ranges_beyond_the_end_of_a_file_are_no_need_of_it() {
    let mut ranges =
        vec![(FileOffset(0), Bytes(4096)), (FileOffset(8192), Bytes(8192)), (FileOffset(40960), Bytes(4096))];
    clip(&mut ranges, 10_000);
    assert_eq!(ranges, [(FileOffset(0), Bytes(4096)), (FileOffset(8192), Bytes(1808))]);
}

#[test]
fn what_is_learned_later_is_added() {
    let need = |path: &str, ranges: &[(u64, u64)]| Need {
        path: path.into(),
        kind: FileKind::Regular,
        owner: Owner::App,
        ranges: ranges.iter().map(|&(offset, len)| (FileOffset(offset), Bytes(len))).collect(),
    };
    let known = vec![need("a", &[(0, 8192), (16384, 4096)]), need("b", &[(0, 4096)])];
    let more = vec![need("c", &[(0, 4096)]), need("a", &[(4096, 8192), (20480, 4096), (40960, 4096)])];
    let all = joined(known, more);
    assert_eq!(
        all,
        [need("a", &[(0, 12288), (16384, 8192), (40960, 4096)]), need("b", &[(0, 4096)]), need("c", &[(0, 4096)]),]
    );
}

#[test]
fn libraries_are_told_by_their_names() {
    let are = ["/usr/lib/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/usr/lib/x/libnss3.so"];
    let are_not = ["/usr/bin/ls", "/etc/ld.so.cache", "/etc/ld.so.conf.d", "/usr/share/soft", "/usr/lib/so"];
    assert!(are.iter().all(|path| is_library(Path::new(path))));
    assert!(!are_not.iter().any(|path| is_library(Path::new(path))));
}

#[test]
fn what_a_run_read_can_contradict_its_state() {
    let row = |read: Option<u64>, major_faults: u64| RunRow {
        read_bytes: read.map(Bytes),
        major_faults,
        ..crate::conduct::blank_row(0, CacheState::Hot, model::RunKind::Timed, 0)
    };
    let expected = |needed: u64, absent: u64| Expected { needed: Bytes(needed << 20), absent: Bytes(absent << 20) };
    let hot = |read, faults| contradiction(CacheState::Hot, expected(64, 0), &row(read, faults));
    assert_eq!(hot(Some(600_000), 100), None, "1 % of 64 MiB is more");
    let why = hot(Some(9_600_000), 2000).unwrap();
    assert!(why.contains("9.6 MB") && why.contains("2000 page faults"), "{why}");
    assert_eq!(contradiction(CacheState::Hot, expected(1, 0), &row(Some(256 << 10), 0)), None, "the floor");
    assert!(contradiction(CacheState::Hot, expected(1, 0), &row(Some(257 << 10), 0)).is_some());
    // Without the control group's figures there are the faults.
    assert_eq!(hot(None, HOT_FAULTS), None);
    assert!(hot(None, HOT_FAULTS + 1).unwrap().contains("65 page faults"));

    let cold = |read, absent| contradiction(CacheState::Cold, expected(64, absent), &row(read, 0));
    assert_eq!(cold(Some(32 << 20), 64), None);
    assert!(cold(Some((32 << 20) - 1), 64).unwrap().contains("somebody else read them"));
    assert_eq!(cold(Some(0), 2), None, "as little as read-ahead alone makes");
    assert_eq!(cold(None, 64), None, "nobody can tell what it read");
    assert_eq!(contradiction(CacheState::Cold, Expected::default(), &row(Some(0), 0)), None, "nothing was learned");
}

fn need(path: impl Into<PathBuf>, at: u64) -> Need {
    let ranges = vec![(FileOffset(at), Bytes(PAGE))];
    Need { path: path.into(), kind: FileKind::Regular, owner: Owner::App, ranges }
}

#[test]
fn a_hundred_thousand_needs_are_joined_while_one_looks() {
    let needs = |at| (0..100_000).map(|number| need(format!("/srv/app/modules/{number}/index.js"), at)).collect();
    let both = joined(joined(Vec::new(), needs(0)), needs(PAGE));
    assert_eq!(both.len(), 100_000);
    assert!(both.iter().all(|need| need.ranges == [(FileOffset(0), Bytes(2 * PAGE))]));
    assert_eq!(both[99_999].path, Path::new("/srv/app/modules/99999/index.js"));
}

#[test]
fn more_needs_than_descriptors_leave_some_for_the_rest() {
    let _many = ManyFiles::allow();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
    let own = std::env::current_exe().unwrap();
    let needs: Vec<Need> = (0..30_000).map(|_| need(own.clone(), 0)).collect();
    let mut files = OpenNeeds::default();
    let mut tick = |_| {};
    files.open(&needs, Owner::App, &mut Beat::new(&mut tick)).unwrap();
    let room = (limit as usize).saturating_sub(SPARE_FILES);
    assert_eq!(files.0.len(), room.min(30_000));
    assert!(File::open("/dev/null").is_ok());
}
