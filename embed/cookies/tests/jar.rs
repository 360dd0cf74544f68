//! What a jar promises: nobody waits, what is asked for comes first, little is written, what is forgotten is gone.

mod common;

use common::*;
use std::sync::Arc;
use std::time::Duration;
use thaw_cookies::{Context, Jar, Limits, Lookup, News, Options, Stored};
use thaw_log::memory::{Memory, Op};

/// A disk with a jar of many hosts, closed in order.
fn many(hosts: usize) -> Arc<Memory> {
    let disk = empty();
    let jar = jar(&disk);
    for host in 0..hosts {
        for number in 0..3 {
            let text = format!("n{number}={}; Max-Age=1000; Path=/", "v".repeat(100));
            set(&jar, &text, &format!("https://www.h{host}.example/"), NOW);
        }
    }
    flush(&jar);
    drop(jar);
    disk
}

#[test]
fn what_was_set_is_there_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/here");
    let open = || Jar::open(Options { delay: Duration::from_secs(1 << 20), ..Options::new(&path) }).unwrap();
    let jar = open();
    set(&jar, "a=1; Max-Age=100", "https://example.com/", NOW);
    set(&jar, "b=2; Max-Age=100; HttpOnly; SameSite=Lax; Secure", "https://example.com/x/y", NOW);
    set(&jar, "a=3; Max-Age=100", "https://example.com/", NOW + 1);
    let before = all(&jar);
    // Dropping it writes.
    drop(jar);
    let jar = open();
    assert_eq!(all(&jar), before);
    assert_eq!(sent(&jar, "https://example.com/x/z", NOW), "b=2; a=3");
    set(&jar, "a=; Max-Age=0", "https://example.com/", NOW + 2);
    drop(jar);
    assert_eq!(sent(&open(), "https://example.com/x/z", NOW), "b=2");
}

#[test]
fn no_call_waits_for_a_disk_that_does_not_answer() {
    let disk = many(10);
    disk.close_gate();
    let (jar, context, url) = (jar(&disk), Context::default(), "https://www.h3.example/");
    assert_eq!(jar.cookies(url, NOW, &context), Ok(Lookup::NotLoadedYet));
    assert_eq!(jar.set(b"n1=new; Max-Age=9; Path=/", url, NOW, &context), Ok(Stored::Later));
    assert_eq!(jar.all(), None);
    let tickets = [jar.forget("h4.example"), jar.forget_since(NOW + HOUR), jar.flush()];
    disk.wait_held();
    assert!(jar.news().is_empty());
    disk.open_gate();
    tickets.into_iter().for_each(|ticket| jar.wait_for(ticket).unwrap());
    assert!(sent(&jar, url, NOW).contains("n1=new"));
    assert_eq!(sent(&jar, "https://www.h4.example/", NOW), "");
    // And while it writes.
    disk.close_gate();
    let before = disk.lock().held;
    set(&jar, "m=1; Max-Age=9; Path=/", url, NOW);
    let ticket = jar.flush();
    while disk.lock().held == before {
        std::thread::yield_now();
    }
    set(&jar, "m=2; Max-Age=9; Path=/", url, NOW);
    assert!(sent(&jar, url, NOW).contains("m=2"));
    disk.open_gate();
    jar.wait_for(ticket).unwrap();
}

#[test]
fn the_cookies_of_a_host_need_the_index_and_one_page() {
    let disk = many(900);
    let len = disk.lock().files["cookies"].len() as u64;
    assert!(len > 400_000, "the jar is large: {len}");
    disk.lock().note_reads = true;
    let before = disk.len();
    disk.close_gate();
    let (jar, url) = (jar(&disk), "https://www.h777.example/");
    assert_eq!(jar.cookies(url, NOW, &Context::default()), Ok(Lookup::NotLoadedYet));
    disk.open_gate();
    assert!(sent(&jar, url, NOW).starts_with("n0=vvv"));
    jar.wait_whole();
    let ops = disk.lock().ops[before..].to_vec();
    let reads: Vec<(u64, usize)> = { ops.iter() }
        .map(|op| if let Op::Read { at, len, .. } = op { (*at, *len) } else { panic!("{op:?}") })
        .collect();
    assert_eq!(reads[0], (0, 16_384));
    // The second is the page, before the first of the rest.
    let rest = reads[2..].iter().position(|read| *read == reads[1]).expect("the rest has all pages");
    assert!(rest > 0 && reads[1].1 < 40_000, "{reads:?}");
    let first = jar.news().into_iter().next();
    assert_eq!(first, Some(News::Loaded("www.h777.example".into())));
    assert_eq!(all(&jar).len(), 2700);
}

#[test]
fn an_index_that_is_longer_than_the_first_read_needs_one_more() {
    let disk = empty();
    let open = || {
        let limits = Limits { total: 10_000, ..Limits::default() };
        Jar::on(disk.clone(), Options { limits, ..options() }).unwrap()
    };
    let jar = open();
    for host in 0..4500 {
        set(&jar, &format!("n={}; Max-Age=1000", "v".repeat(4000)), &format!("https://h{host}.example/"), NOW);
    }
    drop(jar);
    disk.lock().note_reads = true;
    let before = disk.len();
    disk.close_gate();
    let (jar, url) = (open(), "https://h4321.example/");
    assert_eq!(jar.cookies(url, NOW, &Context::default()), Ok(Lookup::NotLoadedYet));
    disk.open_gate();
    assert!(sent(&jar, url, NOW).starts_with("n=vvv"));
    assert_eq!(all(&jar).len(), 4500);
    let ops = disk.lock().ops[before..].to_vec();
    let [Op::Read { at: 0, len: 16_384, .. }, Op::Read { at: 16_384, len, .. }, Op::Read { len: page, .. }, ..] =
        ops[..]
    else {
        panic!("{:?}", &ops[..4])
    };
    assert!(len < 16_384 && page < 40_000, "the rest of the index, and the page: {len} {page}");
    assert_eq!(jar.news().into_iter().next(), Some(News::Loaded("h4321.example".into())));
}

#[test]
fn what_was_changed_since_is_read_with_them() {
    let disk = many(900);
    let url = "https://www.h777.example/";
    let one = jar(&disk);
    one.wait_whole();
    set(&one, "n0=newer; Max-Age=1000; Path=/", url, NOW);
    set(&one, "n1=; Max-Age=0; Path=/", url, NOW);
    set(&one, "n9=another; Max-Age=1000; Path=/", "https://nobody.example/", NOW);
    drop(one);
    disk.lock().note_reads = true;
    let before = disk.len();
    disk.close_gate();
    let two = jar(&disk);
    for url in [url, "https://nobody.example/"] {
        assert_eq!(two.cookies(url, NOW, &Context::default()), Ok(Lookup::NotLoadedYet));
    }
    disk.open_gate();
    let there = sent(&two, url, NOW);
    assert!(there.starts_with("n0=newer; n2=vv") && !there.contains("n1"), "{there}");
    assert_eq!(sent(&two, "https://nobody.example/", NOW), "n9=another");
    two.wait_whole();
    let news: Vec<News> = two.news().into();
    assert!(matches!(&news[..], [News::Loaded(_), News::Loaded(_), News::Whole]), "{news:?}");
    let reads = disk.lock().ops[before..].iter().filter(|op| matches!(op, Op::Read { .. })).count();
    let pages = disk.lock().files["cookies"].len() / 16_384 + 3;
    assert!((5..=4 + pages).contains(&reads), "index, changes, two pages, and each page once: {reads}");
}

#[test]
fn changes_are_coalesced_and_written_in_one_piece() {
    let disk = empty();
    let jar = jar(&disk);
    set(&jar, "first=1; Max-Age=100", "https://example.com/", NOW);
    flush(&jar);
    let before = disk.len();
    for number in 0..500 {
        set(&jar, &format!("a={number}; Max-Age=100"), "https://example.com/", NOW + number);
    }
    flush(&jar);
    let ops = writes(&disk, before);
    let [Op::Write { bytes, .. }, Op::Sync(_)] = &ops[..] else { panic!("{ops:?}") };
    assert!(bytes.len() < 200, "one record: {}", bytes.len());
    flush(&jar);
    assert_eq!(writes(&disk, before).len(), 2, "nothing has changed");
}

#[test]
fn a_change_is_written_though_nobody_asks() {
    let disk = empty();
    let jar = Jar::on(disk.clone(), Options { delay: Duration::from_millis(5), ..options() }).unwrap();
    set(&jar, "a=1; Max-Age=100", "https://example.com/", NOW);
    while !holds(&disk, "example.com") {
        std::thread::yield_now();
    }
}

#[test]
fn a_read_alone_writes_nothing_and_an_old_access_goes_with_others() {
    let disk = empty();
    let url = "https://example.com/";
    let one = jar(&disk);
    set(&one, "a=1; Max-Age=100000", url, NOW);
    flush(&one);
    let before = disk.len();
    assert_eq!(sent(&one, url, NOW + HOUR - 1), "a=1");
    flush(&one);
    drop(one);
    assert_eq!(writes(&disk, before), [], "not within an hour, not even at the end");
    let one = jar(&disk);
    assert_eq!(sent(&one, url, NOW + HOUR), "a=1");
    // The jar is at rest: what is due is done before what is asked for.
    one.wait_whole();
    assert_eq!(writes(&disk, before), [], "nor for itself after one");
    drop(one);
    assert_eq!(writes(&disk, before).len(), 2, "at the end it is");
    let one = jar(&disk);
    assert_eq!(all(&one)[0].accessed_us, NOW + HOUR);
}

#[test]
fn session_cookies_are_in_no_file_unless_it_is_asked_for() {
    let disk = empty();
    let url = "https://example.com/";
    let one = jar(&disk);
    set(&one, "passing=by", url, NOW);
    set(&one, "stays=1; Max-Age=100", url, NOW);
    flush(&one);
    set(&one, "passing=again", url, NOW);
    set(&one, "stays=2", url, NOW);
    flush(&one);
    assert!(!holds(&disk, "passing") && holds(&disk, "stays"));
    assert_eq!(sent(&one, url, NOW), "passing=again; stays=2");
    drop(one);
    assert_eq!(sent(&jar(&disk), url, NOW), "", "what has become one is gone from the file");
    let keeps = || Jar::on(disk.clone(), Options { keep_session: true, ..options() }).unwrap();
    let one = keeps();
    set(&one, "passing=by", url, NOW);
    drop(one);
    assert!(holds(&disk, "passing"));
    assert_eq!(sent(&keeps(), url, NOW), "passing=by");
    assert_eq!(sent(&jar(&disk), url, NOW), "");
}

#[test]
fn the_file_is_written_anew_when_changes_are_most_of_it_and_what_expired_goes() {
    let disk = empty();
    let small = Options { compact: 2000, ..options() };
    let jar = Jar::on(disk.clone(), small).unwrap();
    let url = "https://example.com/";
    // Where nobody looks for it, nor sets another one.
    set(&jar, "expires=soon; Max-Age=1", "https://other.example/", NOW);
    flush(&jar);
    for number in 0..200_u64 {
        set(&jar, &format!("a={number}; Max-Age=100"), url, NOW + number * 10_000);
        flush(&jar);
    }
    let renames = disk.lock().made;
    assert!((5..30).contains(&renames), "{renames}");
    assert!(disk.used() < 5000 && !holds(&disk, "soon"), "{}", disk.used());
}

#[test]
fn what_is_forgotten_is_in_no_file() {
    let disk = empty();
    let one = jar(&disk);
    set(&one, "a=alpha; Max-Age=100; Domain=one.example", "https://www.one.example/", NOW);
    set(&one, "a=beta; Max-Age=100", "https://www.one.example/", NOW);
    set(&one, "a=gamma; Max-Age=100", "https://two.example/", NOW);
    set(&one, "b=delta; Max-Age=100", "https://two.example/late", NOW + 10);
    set(&one, "a=epsilon; Max-Age=100", "https://notone.example/", NOW);
    flush(&one);
    disk.lock().files.insert("cookies.damaged-1".into(), b"one.example alpha".to_vec());
    drop(one);
    let one = jar(&disk);
    one.wait_for(one.forget("One.example")).unwrap();
    assert!(!holds(&disk, "alpha") && !holds(&disk, "beta") && !holds(&disk, ".one.example"));
    assert!(holds(&disk, "gamma") && holds(&disk, "notone.example"));
    assert_eq!(sent(&one, "https://www.one.example/", NOW), "");
    one.wait_for(one.forget_since(NOW + 5)).unwrap();
    assert!(!holds(&disk, "delta") && holds(&disk, "gamma"));
    assert_eq!(sent(&one, "https://two.example/late", NOW), "a=gamma");
    assert_eq!(disk.lock().files.len(), 1);
}

#[test]
fn what_is_forgotten_before_it_is_loaded_does_not_come() {
    let disk = many(5);
    disk.close_gate();
    let jar = jar(&disk);
    let context = Context::default();
    jar.set(b"x=1; Max-Age=9", "https://www.h1.example/", NOW, &context).unwrap();
    jar.set(b"x=1; Max-Age=9", "https://www.h2.example/", NOW + 50, &context).unwrap();
    let tickets = [jar.forget("www.h1.example"), jar.forget_since(NOW + 40)];
    jar.set(b"y=1; Max-Age=9", "https://www.h1.example/", NOW + 60, &context).unwrap();
    disk.open_gate();
    tickets.into_iter().for_each(|ticket| jar.wait_for(ticket).unwrap());
    assert_eq!(sent(&jar, "https://www.h1.example/", NOW), "y=1");
    assert!(sent(&jar, "https://www.h2.example/", NOW).starts_with("n0=v"));
    assert!(!sent(&jar, "https://www.h2.example/", NOW).contains("x=1"));
    drop(jar);
    assert!(!holds(&disk, "x") || all(&common::jar(&disk)).iter().all(|cookie| cookie.name != b"x"));
}

#[test]
fn a_cookie_set_before_its_site_is_loaded_keeps_the_rules() {
    let disk = empty();
    let one = jar(&disk);
    set(&one, "a=1; Max-Age=100; Secure; Path=/", "https://example.com/", NOW);
    drop(one);
    disk.close_gate();
    let one = jar(&disk);
    let context = Context::default();
    for (text, url) in [("a=2; Path=/", "http://example.com/"), ("b=2", "http://example.com/")] {
        assert_eq!(one.set(text.as_bytes(), url, NOW + 5, &context), Ok(Stored::Later));
    }
    disk.open_gate();
    assert_eq!(sent(&one, "https://example.com/", NOW), "a=1; b=2");
    one.wait_whole();
    assert!(one.news().iter().any(|news| matches!(news, News::Refused(wrong) if wrong.to_string().contains("secure"))));
}

#[test]
fn another_list_of_suffixes_finds_all_cookies_too() {
    let disk = empty();
    let plain = jar(&disk);
    for host in 0..300 {
        let text = format!("a={}; Max-Age=100", "v".repeat(200));
        set(&plain, &text, &format!("https://h{host}.co.uk/"), NOW);
        // So that there are more pages than that of co.uk.
        set(&plain, &text, &format!("https://h{host}.example/"), NOW);
    }
    drop(plain);
    let listed = || {
        let suffixes = Arc::new(|domain: &str| ["uk", "co.uk"].contains(&domain));
        Jar::on(disk.clone(), Options { suffixes, suffixes_name: "2".into(), ..options() }).unwrap()
    };
    let context = Context::default();
    disk.close_gate();
    let jar = listed();
    for host in 0..300 {
        // Before all that nobody asks for, where the file has no page of this site.
        assert_eq!(jar.cookies(&format!("https://h{host}.co.uk/"), NOW, &context), Ok(Lookup::NotLoadedYet));
    }
    disk.open_gate();
    assert!((0..300).all(|host| sent(&jar, &format!("https://h{host}.co.uk/"), NOW).starts_with("a=v")));
    assert!(jar.set(b"a=1; Domain=co.uk", "https://h1.co.uk/", NOW, &context).is_err());
    set(&jar, "b=1; Max-Age=100", "https://h1.co.uk/", NOW);
    drop(jar);
    let jar = listed();
    assert!((0..300).all(|host| sent(&jar, &format!("https://h{host}.co.uk/"), NOW).contains("a=v")));
}

#[test]
fn there_are_never_more_than_the_limits_say() {
    let disk = empty();
    let limits = Limits { per_domain: 5, total: 40 };
    let open = || Jar::on(disk.clone(), Options { limits, ..options() }).unwrap();
    let jar = open();
    for number in 0..200_u64 {
        let url = format!("https://h{}.example/", number % 20);
        set(&jar, &format!("n{number}=1; Max-Age=100"), &url, NOW + number);
        let all = all(&jar);
        assert!(all.len() <= 40);
        assert!((0..20).all(|host| all.iter().filter(|it| it.domain == format!("h{host}.example")).count() <= 5));
        assert!(all.iter().any(|it| it.name == format!("n{number}").into_bytes()), "the newest stays");
    }
    let before = all(&jar);
    drop(jar);
    assert_eq!(all(&open()), before, "what was given up is gone from the file");
}
