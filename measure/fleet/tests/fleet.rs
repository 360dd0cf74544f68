//! A small fleet with known truths through the store, all engines, and forgetting.

use fleet::answer::{Cells, Document, Verdict, answer};
use fleet::engine::{self, Python, Rows};
use fleet::questions::{About, Question};
use fleet::report::{Report, Versions, report};
use fleet::{forget, import, segments};
use model::Exit;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The generator of the claim: what it plants is in its head.
#[allow(dead_code, reason = "its main is the example's")]
#[path = "../examples/made_fleet.rs"]
mod made_fleet;

fn made(folder: &Path, machines: usize, pings: usize, seed: u64, change: f64) {
    made_fleet::make(folder, machines, pings, seed, change).unwrap();
}

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("thaw-fleet-").tempdir_in("/var/tmp").unwrap()
}

fn imported(folder: &Path, db: &Path) -> import::Imported {
    import::import(folder, db, &mut |_, _| ()).unwrap()
}

fn about(k: u64) -> About {
    About { app: None, old: Some("4".into()), new: Some("5".into()), k }
}

fn asked(question: Question, db: &Path, k: u64) -> Document {
    let rows = engine::sqlite(db, &about(k).sql(question).unwrap()).unwrap();
    answer(question, &about(k), &rows).unwrap()
}

/// A segment with these lines.
fn segment(folder: &Path, name: &str, lines: &[String]) -> PathBuf {
    let path = folder.join("dt=2026-11-26/app=demo").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut bytes = lines.join("\n").into_bytes();
    bytes.push(b'\n');
    std::fs::write(&path, zstd::encode_all(bytes.as_slice(), 3).unwrap()).unwrap();
    path
}

fn line(id: u128, machine: u128, version: &str, disk: &str, wall_us: u64) -> String {
    format!(
        r#"{{"schema":"thaw.ping/1","id":"{id:032x}","machine":"{machine:032x}","app":"demo","version":"{version}","#
    ) + r#""day":"2026-11-26","state":"hot","ready":"exit","#
        + &format!(r#""wall_us":{wall_us},"user_us":10,"system_us":10,"minor_faults":1,"major_faults":1,"#)
        + r#""read_bytes":null,"max_rss_bytes":1000,"milestones":{"window":5},"cpus":"2","memory":"4-8G","#
        + &format!(r#""disk":"{disk}","kernel":"6.18","distribution":"debian","remedies":[]}}"#)
}

#[test]
fn what_was_planted_is_found() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    made(&folder, 1200, 60_000, 3, 0.12);
    let done = imported(&folder, &db);
    assert_eq!((done.pings, done.duplicates, done.refused, done.damaged.len()), (60_000, 0, 0, 0));
    let Cells::Regressions(cells) = asked(Question::Regressions, &db, 20).cells else { panic!("other cells") };
    assert_eq!(cells.len(), 12);
    let slower: Vec<_> = cells.iter().filter(|cell| cell.verdict != Verdict::Unclear).collect();
    let [slower] = slower.as_slice() else { panic!("{slower:#?}") };
    let class = [&slower.class.cpus, &slower.class.memory, &slower.class.disk].map(String::as_str);
    assert_eq!((class, slower.verdict), (["3-4", "4-8G", "ssd"], Verdict::Slower));
    assert!(slower.interval.unwrap().contains(1.12), "{slower:#?}");
    assert_eq!(slower.moved_most, Some("read_bytes"), "{slower:#?}");
    let Cells::Remedies(effects) = asked(Question::Remedies, &db, 2).cells else { panic!("other cells") };
    let effect = |name: &str| effects.iter().find(|effect| effect.remedy == name).unwrap();
    let preload = effect("preload").interval.unwrap();
    assert!(preload.contains(0.92) && preload.high < 1.0, "{effects:#?}");
    assert!(effect("packed").interval.unwrap().contains(1.0), "{effects:#?}");
    let Cells::Cold(cells) = asked(Question::Cold, &db, 20).cells else { panic!("other cells") };
    assert_eq!(cells.len(), 60);
    let held = cells.iter().filter(|cell| cell.interval.unwrap().contains(0.08 / 0.98)).count();
    assert!(held >= 57, "{held} of 60 intervals hold the truth, of which each is to hold it 19 times of 20");
}

#[test]
fn all_engines_give_the_same_bytes() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    made(&folder, 600, 10_000, 1, 0.04);
    // The same pings once more in another segment, and one whose bytes are not known.
    let first = segments::list(&folder).unwrap().remove(0).path;
    std::fs::copy(&first, first.with_file_name("again.ndjson.zst")).unwrap();
    segment(&folder, "odd.ndjson.zst", &[line(1, 1, "1", "network", 7), line(2, 2, "5", "unknown", 1 << 36)]);
    let done = imported(&folder, &db);
    assert_eq!((done.pings, done.duplicates), (10_002, 1000));
    let target = std::env::current_exe().unwrap().ancestors().nth(3).unwrap().to_owned();
    let python = Python { program: target.join("engines/bin/python") };
    if !python.program.exists() {
        return testing::skip("needs Spark and ClickHouse: dev/engines");
    }
    // Cells of single machines too: all that the engines say is compared.
    let about = about(1);
    let sql = Question::ALL.map(|question| about.sql(question).unwrap());
    let sql = sql.each_ref().map(|sql| &**sql);
    let text = |question, rows: &Rows| serde_json::to_string(&answer(question, &about, rows).unwrap()).unwrap();
    let expected = sql.map(|sql| engine::sqlite(&db, sql).unwrap());
    let spark = engine::spark(&python, &folder, sql, Some("local[2]"));
    for (name, answers) in [("clickhouse", engine::clickhouse(&python, &folder, sql)), ("spark", spark)] {
        let answers = match answers {
            Err(error) if error.exit == Exit::Machine && error.to_string().contains("is not here") => {
                testing::skip(&error.to_string());
                continue;
            }
            answers => answers.unwrap(),
        };
        for ((question, expected), rows) in Question::ALL.into_iter().zip(&expected).zip(&answers) {
            let expected = text(question, expected);
            assert!(expected.len() > 190, "{expected}");
            assert_eq!(text(question, rows), expected, "{} by {name}", question.name());
        }
    }
}

#[test]
fn an_engine_that_is_not_installed_is_said_with_the_way_to_it() {
    let room = scratch();
    segment(room.path(), "1.ndjson.zst", &[line(1, 1, "1", "ssd", 7)]);
    let ask = |program: &str| {
        let python = Python { program: program.into() };
        engine::clickhouse(&python, room.path(), ["select 1 as one"]).unwrap_err()
    };
    let error = ask("/nonexistent/python");
    assert_eq!(error.exit, Exit::Machine);
    assert!(error.hint.unwrap().contains("pip install chdb"));
    // A Python without the module: its own search path is switched off.
    let bare = room.path().join("python");
    testing::write_script(&bare, "#!/bin/sh\nexec python3 -I -S \"$@\"\n");
    let error = ask(bare.to_str().unwrap());
    assert_eq!(error.exit, Exit::Machine);
    assert!(error.to_string().contains("chdb is not installed"), "{error}");
}

#[test]
fn a_segment_counts_once_and_as_a_whole() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    let lines: Vec<String> = (0..50).map(|at| line(at, at % 7, "1", "ssd", 1000 + at as u64)).collect();
    segment(&folder, "1.ndjson.zst", &lines[..30]);
    // Its first ten pings can be read: they must not stay.
    let torn = segment(&folder, "2.ndjson.zst", &lines[30..40]);
    let mut whole = std::fs::read(&torn).unwrap();
    let rest = lines[40..].join("\n") + "\n";
    whole.extend(zstd::encode_all(rest.as_bytes(), 3).unwrap());
    std::fs::write(&torn, &whole[..whole.len() - 9]).unwrap();
    let first = imported(&folder, &db);
    assert_eq!((first.pings, first.segments), (30, 1));
    assert_eq!(first.damaged[0].segment, "dt=2026-11-26/app=demo/2.ndjson.zst");
    let counted = |db: &Path| {
        let Cells::Percentiles(cells) = asked(Question::Versions, db, 1).cells else { panic!("other cells") };
        (cells[0].starts, cells[0].machines)
    };
    assert_eq!(counted(&db), (30, 7));
    // Mended, it is read; what is known is not read again.
    std::fs::write(&torn, &whole).unwrap();
    let second = imported(&folder, &db);
    assert_eq!((second.pings, second.segments, second.segments_known), (20, 1, 1));
    let third = imported(&folder, &db);
    assert_eq!((third.pings, third.segments, third.segments_known), (0, 0, 2));
    // Under another name its pings are known by their ids; a line that is no ping is counted, and the others stay.
    segment(&folder, "3.ndjson.zst", &[lines[0].clone(), "{}".into(), line(99, 1, "1", "ssd", 1)]);
    let fourth = imported(&folder, &db);
    assert_eq!((fourth.pings, fourth.duplicates, fourth.refused), (1, 1, 1));
    assert!(fourth.first_refused.unwrap().starts_with("dt=2026-11-26/app=demo/3.ndjson.zst, line 2: "));
    assert_eq!(counted(&db), (51, 7));
}

#[test]
fn small_cells_are_in_no_answer() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    let mut lines = Vec::new();
    // Machines of a class: 25 have an SSD, 30 a hard disk, 3 something else, each starts four times.
    for (machine, disk) in (0..58).map(|at| {
        (
            at,
            if at < 25 {
                "ssd"
            } else if at < 55 {
                "hdd"
            } else {
                "network"
            },
        )
    }) {
        for version in ["4", "5"] {
            lines.extend((0..4).map(|_| (machine, version, disk)));
        }
    }
    let lines: Vec<String> =
        (0..).zip(lines).map(|(id, (machine, version, disk))| line(id, machine, version, disk, 1000)).collect();
    segment(&folder, "1.ndjson.zst", &lines);
    imported(&folder, &db);
    for question in Question::ALL {
        let text = serde_json::to_string(&asked(question, &db, 20)).unwrap();
        assert!(!text.contains("network"), "{text}");
        // The three machines are the total less the other two classes: the smaller one is hidden with them.
        assert!(!text.contains("\"ssd\""), "{text}");
        let shows_class = matches!(question, Question::Classes | Question::Cold | Question::Regressions);
        assert_eq!(text.contains("\"hdd\""), shows_class, "{text}");
    }
    assert!(serde_json::to_string(&asked(Question::Classes, &db, 1)).unwrap().contains("network"));
    let hidden = asked(Question::Classes, &db, 20).suppressed;
    assert_eq!((hidden.small, hidden.beside_small), (2, 2));
}

fn reported(db: &Path, versions: &Versions) -> model::Result<Report> {
    report(None, 20, versions, &mut |sql| engine::sqlite(db, sql))
}

#[test]
fn a_report_compares_each_version_with_the_one_before_and_counts_what_is_shown() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    // 1.10 is newer than 1.9. Version 1.8 has too few machines: nothing may speak of it, the sums neither.
    let of = |version: &'static str, machines: u128, wall_us| {
        (0..machines * 3).map(move |at| (version, at % machines, wall_us + at as u64))
    };
    let starts = of("1.9", 40, 1000).chain(of("1.10", 30, 2000)).chain(of("1.8", 19, 7000)).chain(of("1.2", 25, 900));
    let lines: Vec<String> =
        (0..).zip(starts).map(|(id, (version, machine, wall_us))| line(id, machine, version, "ssd", wall_us)).collect();
    segment(&folder, "1.ndjson.zst", &lines);
    imported(&folder, &db);
    let all = reported(&db, &Versions::Newest(6)).unwrap();
    assert_eq!(all.courses[0].versions, ["1.2", "1.9", "1.10"]);
    let pairs = |report: &Report| report.regressions().map(|(old, new, _)| format!("{old} {new}")).collect::<Vec<_>>();
    assert_eq!(pairs(&all), ["1.2 1.9", "1.9 1.10"]);
    let Cells::Apps(apps) = &all.answers[0].cells else { panic!("other cells") };
    assert_eq!((apps[0].versions, apps[0].starts, apps[0].machines), (3, 3 * (40 + 30 + 25), 40));
    assert_eq!((apps[0].first_day.as_str(), apps[0].last_day.as_str()), ("2026-11-26", "2026-11-26"));
    let text = serde_json::to_string(&all).unwrap();
    assert!(!text.contains("\"1.8\"") && !text.contains(":70"), "{text}");
    // Fewer versions, or others.
    let newest = reported(&db, &Versions::Newest(2)).unwrap();
    assert_eq!(pairs(&newest), ["1.9 1.10"]);
    assert!(newest.percentiles(Question::Worst).all(|cell| cell.version != "1.2"));
    assert!(newest.cold().all(|cell| cell.version != "1.2") && newest.cold().count() == 2);
    let these = Versions::These(vec!["1.10".into(), "1.2".into()]);
    assert_eq!(pairs(&reported(&db, &these).unwrap()), ["1.10 1.2"]);
    // One that is hidden is as unknown as one that never was.
    for version in ["1.8", "3"] {
        let error = reported(&db, &Versions::These(vec![version.into()])).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.to_string().contains(version), "{error}");
    }
}

#[test]
fn a_machine_is_forgotten_everywhere() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    let lines: Vec<String> = (0..40).map(|at| line(at, 0xabc0 + at % 4, "1", "ssd", 1000)).collect();
    segment(&folder, "1.ndjson.zst", &lines[..20]);
    let untouched = segment(&folder, "2.ndjson.zst", &[line(100, 0xabc1, "1", "ssd", 5)]);
    let own = segment(&folder, "3.ndjson.zst", &[line(200, 0xabc0, "1", "ssd", 5)]);
    imported(&folder, &db);
    let token = format!("{:032x}", 0xabc0);
    let before = std::fs::read(&untouched).unwrap();
    assert_eq!(forget::forget("abc0", &folder, None).unwrap_err().exit, Exit::Usage);
    let missing = forget::forget(&token, &folder, Some(Path::new("/nonexistent/x.db")));
    assert_eq!(missing.unwrap_err().exit, Exit::Usage);
    let done = forget::forget(&token, &folder, Some(&db)).unwrap();
    assert_eq!((done.segments, done.segments_changed, done.lines, done.pings), (3, 2, 6, Some(6)));
    assert!(!own.exists() && std::fs::read(&untouched).unwrap() == before);
    for segment in segments::list(&folder).unwrap() {
        let text = zstd::decode_all(std::fs::read(&segment.path).unwrap().as_slice()).unwrap();
        assert!(!String::from_utf8(text).unwrap().contains(&token), "{}", segment.name);
    }
    let bytes = std::fs::read(&db).unwrap();
    assert!(!bytes.windows(token.len()).any(|part| part == token.as_bytes()), "the token is still in the store");
    // Importing again brings nothing back.
    assert_eq!(imported(&folder, &db).pings, 0);
    // What cannot be read is said.
    let mut torn = std::fs::OpenOptions::new().append(true).open(&untouched).unwrap();
    torn.write_all(b"more").unwrap();
    assert_eq!(forget::forget(&token, &folder, None).unwrap().unread.len(), 1);
}

#[test]
fn what_is_no_store_is_named() {
    let room = scratch();
    let other = room.path().join("other.db");
    std::fs::write(&other, "no database at all, but long enough to be one ".repeat(30)).unwrap();
    segment(room.path(), "1.ndjson.zst", &[line(1, 1, "1", "ssd", 7)]);
    assert_eq!(engine::sqlite(&other, "select 1").unwrap_err().exit, Exit::Data);
    assert_eq!(import::import(room.path(), &other, &mut |_, _| ()).unwrap_err().exit, Exit::Data);
    assert_eq!(engine::sqlite(room.path(), "select 1").unwrap_err().exit, Exit::Usage);
    let db = room.path().join("empty.db");
    rusqlite::Connection::open(&db).unwrap().execute_batch("create table t (x)").unwrap();
    assert_eq!(engine::sqlite(&db, "select 1").unwrap_err().exit, Exit::Data);
    assert_eq!(import::import(Path::new("/nonexistent"), &db, &mut |_, _| ()).unwrap_err().exit, Exit::Usage);
}

/// All that a store says, by ids.
fn told(db: &Path) -> Vec<String> {
    let store = rusqlite::Connection::open(db).unwrap();
    let all = |sql: &str| -> Vec<String> {
        let mut query = store.prepare(sql).unwrap();
        let rows = query.query_map([], |row| row.get(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    assert_eq!(all("pragma integrity_check"), ["ok"]);
    assert_eq!(all("select name from sqlite_schema where name = 'ping_id'"), ["ping_id"]);
    let mut told = all("select json_array(id, machine, app, version, day, wall_us, read_bytes, remedies) from \
                        (select *, preload + 2 * packed as remedies from pings) order by id");
    told.extend(all("select json_array(hex(p.id), m.name, m.us) from milestone m join ping p using (ping) order by 1"));
    told.extend(all("select token from machine order by token"));
    told.extend(all("select json_array(name, bytes, sha256) from segment order by name"));
    told
}

#[test]
fn little_that_comes_later_and_all_at_once_make_the_same_store() {
    let room = scratch();
    let (folder, db, at_once) = (room.path().join("pings"), room.path().join("fleet.db"), room.path().join("other.db"));
    made(&folder, 100, 5000, 1, 0.04);
    imported(&folder, &db);
    let first = segments::list(&folder).unwrap().remove(0).path;
    let text = String::from_utf8(zstd::decode_all(std::fs::read(&first).unwrap().as_slice()).unwrap()).unwrap();
    let known = text.lines().next().unwrap().to_owned();
    // One that is there, two that are new, and one of those once more.
    let [new, other] = [1, 2].map(|id| line(id, 0xabc, "1", "ssd", 7));
    segment(&folder, "later.ndjson.zst", &[known.clone(), new.clone(), other, new]);
    let later = imported(&folder, &db);
    assert_eq!((later.segments, later.segments_known, later.pings, later.duplicates), (1, 10, 2, 2));
    let all = imported(&folder, &at_once);
    assert_eq!((all.segments, all.pings, all.duplicates), (11, 5002, 2));
    assert!(told(&db) == told(&at_once));
    // Much that is torn leaves nothing of itself: its machine least of all.
    let before = told(&db);
    let lines: Vec<String> = (0..9000).map(|at| line((1 << 99) + at, (1 << 100) + at * 77, "9", "ssd", 7)).collect();
    let torn = segment(&folder, "torn.ndjson.zst", &lines);
    let whole = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &whole[..whole.len() - 5]).unwrap();
    assert_eq!(imported(&folder, &db).damaged.len(), 1);
    assert!(told(&db) == before);
}

/// Not a test: what the next one starts, and which kills itself in the middle of an import.
#[test]
#[ignore = "is started by another test"]
fn import_that_is_killed() {
    let Some(words) = std::env::var_os("THAW_KILLED_IMPORT") else { return };
    let words = words.into_string().unwrap();
    let [folder, db, at] = words.split('\n').collect::<Vec<_>>()[..] else { panic!("{words}") };
    // SAFETY: no other thread uses SQLite. Pages go to the file early, as those of a large import do.
    unsafe { rusqlite::ffi::sqlite3_soft_heap_limit64(1 << 20) };
    let at: usize = at.parse().unwrap();
    let _ = import::import(Path::new(folder), Path::new(db), &mut |done, _| {
        if done == at {
            // SAFETY: it ends this process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
    });
}

#[test]
fn after_kill_9_the_store_is_as_it_was() {
    let room = scratch();
    let (folder, db) = (room.path().join("pings"), room.path().join("fleet.db"));
    let killed = |folder: &Path, at: usize| {
        let words = format!("{}\n{}\n{at}", folder.display(), db.display());
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "import_that_is_killed", "--ignored"]).env("THAW_KILLED_IMPORT", words);
        let status = child.stdout(std::process::Stdio::null()).status().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
    };
    let size = || db.metadata().unwrap().len();
    made(&folder, 500, 60_000, 1, 0.04);
    // A new store, with rows in its file already.
    killed(&folder, 9);
    assert!(size() > 1 << 20, "nothing was written when it was killed");
    let cells = asked(Question::Versions, &db, 1).cells;
    assert!(matches!(&cells, Cells::Percentiles(cells) if cells.is_empty()), "{cells:?}");
    assert_eq!(imported(&folder, &db).pings, 60_000);
    let (before, bytes) = (told(&db), size());
    // One that was there: much that comes takes its index away, little does not.
    for (seed, (name, machines, pings)) in (2..).zip([("little", 10, 3000), ("much", 500, 50_000)]) {
        let more = room.path().join(name);
        made(&more, machines, pings, seed, 0.04);
        for segment in segments::list(&more).unwrap() {
            let path = folder.join(segment.name.replace(".ndjson", &format!("-{name}.ndjson")));
            std::fs::rename(segment.path, path).unwrap();
        }
        killed(&folder, segments::list(&folder).unwrap().len() - 1);
        assert!(size() > bytes, "nothing was written when it was killed");
        // Who asks sees it too, before the next import.
        assert!(matches!(asked(Question::Versions, &db, 1).cells, Cells::Percentiles(cells) if cells.len() == 5));
        assert!(told(&db) == before, "{name}");
    }
    assert_eq!(imported(&folder, &db).pings, 53_000);
}
