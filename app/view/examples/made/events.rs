//! Made-up events of programs.

use super::PathStep;
use timeline::Class;
use timeline::{Builder, Clock, Event, Form, Lost, Object, Phase, Trace};

fn builder() -> Builder {
    Builder::new(Form::Events, Clock { is_monotonic: true, is_calibrated: true, step_ns: 1, ..Clock::default() })
}

/// As many events of a busy program: waits, work, names and links of objects that come and go, at random times.
pub fn busy(events: usize) -> Trace {
    let mut builder = builder();
    let process = builder.process(7, "/usr/bin/busy");
    let threads: Vec<u32> = (0..8).map(|tid| builder.thread(process, 100 + tid, "worker")).collect();
    let types: Vec<u32> = (0..60).map(|n| builder.type_of(&format!("net::part{}::job{n}", n % 7), "a.cc", n)).collect();
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) % below
    };
    let (mut now, mut made, mut object) = (5_000_000_000_u64, 0, 0x7f00_0000_0000_u64);
    let mut before: Vec<u64> = Vec::new();
    while made < events {
        object += 64 * (1 + random(5));
        builder.name(now, threads[0], object, &format!("https://example.org/asset/{}.js", random(900)));
        if !before.is_empty() {
            let parent = before[before.len() - 1 - random(before.len().min(40) as u64) as usize];
            builder.link(now + random(900), threads[0], parent, object, Some(types[1]));
        }
        before.push(object);
        made += 2;
        let mut at = now;
        for _ in 0..random(60) {
            let of = types[random(60) as usize];
            let (waited, worked) = (random(400_000), random(90_000));
            builder.says(Phase::Wait, at, threads[random(8) as usize], object, Some(of));
            let worker = threads[random(8) as usize];
            builder.says(Phase::Exec, at + waited, worker, object, Some(of));
            builder.says(Phase::Done, at + waited + worked, worker, object, Some(of));
            at += waited + worked + random(200_000);
            made += 3;
        }
        now += random(300_000);
    }
    builder.build()
}

/// A page that loads: a document that causes scripts, which wait for one connection; all times are round.
pub fn load() -> Trace {
    const MS: u64 = 1_000_000;
    let mut builder = builder();
    let process = builder.process(42, "/usr/bin/browser");
    let [main, socket, disk] =
        [(42, "main"), (43, "socket"), (44, "disk")].map(|(tid, name)| builder.thread(process, tid, name));
    let transaction = builder.type_of("net::http::transaction", "net/http/transaction.cc", 120);
    let connection = builder.type_of("net::http::connection", "net/http/connection.cc", 33);
    let cache = builder.type_of("disk::read", "cache/read.cc", 7);
    let reset = builder.type_of("net::reset", "net/http/connection.cc", 90);
    let at = |ms: u64| 1_000 * MS + ms * MS;
    let (document, wire, file) = (1, 2, 3);
    builder.name(at(0), main, document, "https://example.org/index.html");
    builder.arg(at(0), main, document, "priority", "high");
    builder.name(at(0), socket, wire, "example.org:443");
    builder.name(at(0), disk, file, "/home/user/cache/entry-1");
    builder.says(Phase::Wait, at(0), main, document, Some(transaction));
    builder.says(Phase::Exec, at(10), socket, document, Some(transaction));
    builder.says(Phase::Done, at(30), socket, document, Some(transaction));
    builder.link(at(30), socket, document, file, Some(transaction));
    builder.says(Phase::Exec, at(5), socket, wire, Some(connection));
    builder.says(Phase::Done, at(90), socket, wire, Some(connection));
    builder.says(Phase::Mark, at(60), socket, wire, Some(reset));
    builder.says(Phase::Wait, at(30), main, file, Some(cache));
    builder.says(Phase::Exec, at(34), disk, file, Some(cache));
    builder.says(Phase::Done, at(38), disk, file, Some(cache));
    for script in 0..6 {
        let object = 10 + script;
        let begin = 31 + script;
        builder.name(at(begin), main, object, &format!("https://example.org/script-{script}.js"));
        builder.link(at(begin), main, document, object, Some(transaction));
        builder.says(Phase::Wait, at(begin), main, object, Some(transaction));
        builder.says(Phase::Exec, at(40 + 8 * script), socket, object, Some(transaction));
        builder.says(Phase::Done, at(46 + 8 * script), socket, object, Some(transaction));
        builder.link(at(46 + 8 * script), socket, object, 10 + (script + 1) % 6, Some(connection));
    }
    // It never ends.
    builder.says(Phase::Wait, at(95), main, 99, Some(transaction));
    builder.says(Phase::Mark, at(100), main, document, Some(reset));
    builder.build()
}

/// A path through [`load`].
pub fn path() -> Vec<PathStep> {
    const MS: u64 = 1_000_000;
    let step = |from: u64, to: u64, object: Option<u32>, class, why: &str| PathStep {
        from_ns: (1_000 + from) * MS,
        to_ns: (1_000 + to) * MS,
        object: object.map(Object),
        class,
        why: why.into(),
    };
    vec![
        step(0, 10, Some(1), Class::Queue, "the socket thread ran another object"),
        step(10, 30, Some(0), Class::Work, "it was worked on"),
        step(30, 40, Some(2), Class::Linked, "LINK at 30 ms"),
        step(40, 80, Some(1), Class::Resource, "the connection was held"),
        step(80, 95, Some(8), Class::Heuristic, "same thread"),
        step(95, 100, None, Class::Unexplained, "no event says what happened"),
    ]
}

/// One object, and this many intervals on it.
pub fn lane(intervals: u64) -> Trace {
    let mut builder = builder();
    let process = builder.process(7, "/usr/bin/lane");
    let thread = builder.thread(process, 7, "main");
    let of = builder.type_of("lane::work", "lane.c", 1);
    builder.name(0, thread, 1, "the only one");
    for n in 0..intervals {
        let at = n * 1_000 + n * 7919 % 400;
        builder.says(Phase::Exec, at, thread, 1, Some(of));
        builder.says(Phase::Done, at + 100 + n * 104_729 % 400, thread, 1, Some(of));
    }
    builder.build()
}

/// 5,000 objects on 2,000 threads with 70,000 types, names that mean harm, a circle of links, and damage.
pub fn hostile() -> Trace {
    let mut builder = builder();
    let process = builder.process(9, "</script><script>alert(1)</script>");
    let names = [
        "</script><script>alert(1)</script>".to_owned(),
        "two\nlines \"quoted\" 'single' \u{202e}turned".to_owned(),
        String::from_utf8_lossy(b"not \xff\xfe UTF-8").into_owned(),
        "\0nul".to_owned(),
        format!("long {}", "x".repeat(1 << 20)),
        String::new(),
    ];
    let threads: Vec<u32> = (0..2_000).map(|tid| builder.thread(process, tid, "t\u{1b}[31m")).collect();
    let types: Vec<u32> = (0..70_000)
        .map(|n| builder.type_of(&format!("space{}::part{}::<b>type{n}</b>", n % 50, n % 700), "a<b>.c", n))
        .collect();
    let deep = builder.type_of("a::::b::", "", 0);
    let empty = builder.type_of("", "", 0);
    for n in 0..70_000_u64 {
        let object = 1 + n % 5_000;
        if n < 5_000 {
            builder.name(n * 10, threads[0], object, &names[n as usize % names.len()]);
            builder.link(n * 10, threads[0], object, 1 + (object % 5_000), None);
            builder.arg(n * 10, threads[0], object, "<i>key</i>", "=value\n");
        }
        let of = Some(types[n as usize]);
        let thread = threads[n as usize % threads.len()];
        builder.says(Phase::Wait, n * 10, thread, object, of);
        builder.says(Phase::Exec, n * 10 + 4_000, thread, object, of);
        builder.says(Phase::Done, n * 10 + 9_000, thread, object, of);
    }
    builder.says(Phase::Mark, 5, threads[1], 7, Some(deep));
    builder.says(Phase::Wait, 6, threads[1], 7, Some(empty));
    builder.damage("chunk 3: </script> is no event".into());
    let mut trace = builder.build();
    trace.lost = Lost { events: 12, overwritten: 3, types: 1, texts_cut: 2 };
    // A thread and a type that nobody named.
    let event = |phase| Event {
        at_ns: 700_000,
        thread: 999_999,
        phase,
        is_shared: false,
        object: u64::MAX,
        type_id: Some(u32::MAX),
        other: None,
        text: None,
    };
    trace.events.extend([event(Phase::Wait), event(Phase::Mark)]);
    trace
}
