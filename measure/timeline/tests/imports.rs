//! Files that other programs wrote (`fixtures/timeline`), whole and cut.

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use timeline::{Form, Interval, Objects, Phase, Rules, Trace, form_of, intervals, read, read_by, report};

const FILES: [(&str, Form); 7] = [
    ("net-log.json", Form::NetLog),
    ("chrome-trace.json", Form::Chrome),
    ("archive.har", Form::Har),
    ("firefox-gecko.json", Form::Firefox),
    ("moz-log.txt", Form::MozLog),
    ("visual-event-tracer.json", Form::VisualEventTracer),
    ("chromium.pftrace", Form::Perfetto),
];

fn fixture(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/timeline").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn of(name: &str) -> Trace {
    read(&fixture(name), None).unwrap()
}

/// A trace's intervals of a type, as object, wait, exec, done.
struct Told {
    trace: Trace,
    objects: Objects,
    all: Vec<Interval>,
}

impl Told {
    fn new(trace: Trace) -> Self {
        let (objects, all) = intervals(&trace);
        Self { trace, objects, all }
    }

    fn of_type(&self, name: &str) -> Vec<&Interval> {
        self.all.iter().filter(|one| self.trace.type_name(one.type_id) == name).collect()
    }

    /// Milliseconds waited and worked in all of a type, on objects whose name ends so.
    fn sum(&self, type_name: &str, object: &str) -> (f64, f64) {
        let last = self.trace.events.last().map_or(0, |event| event.at_ns);
        let of = self.of_type(type_name);
        let named = of.iter().filter(|one| self.objects.name(one.object).is_some_and(|name| name.ends_with(object)));
        named.fold((0.0, 0.0), |(waited, worked), one| {
            (waited + one.waited(last) as f64 / 1e6, worked + one.worked(last) as f64 / 1e6)
        })
    }
}

fn names(trace: &Trace) -> BTreeMap<u64, &str> {
    trace
        .events
        .iter()
        .filter(|it| it.phase == Phase::Name)
        .map(|it| (it.object, it.text.as_deref().unwrap()))
        .collect()
}

#[test]
fn every_form_is_known_by_its_content_and_read_without_damage() {
    for (name, form) in FILES {
        let bytes = fixture(name);
        assert_eq!(form_of(&bytes), Some(form), "{name}");
        let trace = read(&bytes, None).unwrap();
        assert_eq!(trace.form, form, "{name}");
        assert!(trace.events.is_sorted_by_key(|event| event.at_ns), "{name}");
        let excused =
            |damage: &String| damage.contains("packets are no track events") || damage.contains("did not begin");
        assert!(trace.damage.iter().all(excused), "{name}: {:?}", trace.damage);
        assert!(!intervals(&trace).1.is_empty(), "{name}");
        assert!(trace.events.iter().all(|event| (event.thread as usize) < trace.threads.len()), "{name}");
    }
    for none in [&b""[..], b"{}", b"[]", b"dear diary", b"{\"a\":1}", b"\x0a\xff\xff", b"[1,2]", b"\x1f\x8b"] {
        assert_eq!(form_of(none), None, "{none:?}");
        assert!(read(none, None).unwrap_err().to_string().contains("no form that thaw knows"));
    }
}

#[test]
fn a_pool_wait_of_a_net_log_ends_with_the_socket_whose_holder_is_told() {
    let told = Told::new(of("net-log.json"));
    let waits: Vec<_> =
        told.of_type("net::socket_pool").into_iter().filter(|one| one.waited(u64::MAX) > 100_000_000).collect();
    assert!(waits.len() >= 4, "{}", waits.len());
    let names = names(&told.trace);
    let events = |phase| told.trace.events.iter().filter(move |event| event.phase == phase);
    for wait in waits {
        let (end, job) = (wait.exec.unwrap().0, told.objects.address(wait.object));
        // The socket hands itself over to the job at the moment in which its wait ends.
        let ms = |at: u64| at / 1_000_000;
        let link = events(Phase::Link).find(|event| event.other == Some(job) && ms(event.at_ns) == ms(end)).unwrap();
        assert!(names[&link.object].contains("(SOCKET "), "{}", names[&link.object]);
        let of_socket: Vec<_> = told
            .of_type("net::socket::SOCKET_IN_USE")
            .into_iter()
            .filter(|one| told.objects.address(one.object) == link.object)
            .collect();
        // It is in use by the job some milliseconds later, when that is told of it.
        let begun = of_socket.iter().filter_map(|one| one.exec).map(|(at, _)| at).find(|at| *at >= end).unwrap();
        assert!(begun - end <= 10_000_000, "{begun} {end}");
        let before = of_socket.iter().filter_map(|one| one.done).filter(|done| *done <= end).max();
        assert!(before.is_some_and(|done| end - done <= 10_000_000), "somebody held it just before: {before:?} {end}");
        // Its result goes to a request with a URL.
        let given = events(Phase::Link).find(|event| event.object == job && event.at_ns >= end).unwrap();
        assert!(names[&given.other.unwrap()].starts_with("http://127.0.0.1"));
    }
    assert!(told.trace.clock.is_monotonic);
    assert_eq!(told.trace.clock.step_ns, 1_000_000);
    let (waited, _) = told.sum("net::delegate::ResourceScheduler", ".svg");
    assert!(waited > 10.0, "{waited}");
}

#[test]
fn a_chrome_trace_has_requests_with_initiators_and_tasks_that_wait_to_be_run() {
    let told = Told::new(of("chrome-trace.json"));
    let requests = told.of_type("devtools::request");
    assert!(requests.len() >= 10 && requests.iter().any(|one| one.waited(u64::MAX) > 0 && one.done.is_some()));
    let names = names(&told.trace);
    let initiated = told.trace.events.iter().filter(|event| {
        event.phase == Phase::Link
            && event.other.and_then(|to| names.get(&to)).is_some_and(|name| name.ends_with(".css"))
            && names.get(&event.object).is_some_and(|name| name.ends_with(":43805/"))
    });
    assert!(initiated.count() >= 5);
    let posted = told.of_type("toplevel.flow::SequenceManager PostTask");
    assert!(posted.iter().any(|one| one.wait.is_some() && one.exec.is_some()), "{}", posted.len());
    assert!(told.trace.threads.iter().any(|thread| thread.name == "CrRendererMain"));
    assert!(told.trace.clock.is_monotonic);
}

#[test]
fn an_entry_of_an_archive_waits_and_works_in_its_parts() {
    let told = Told::new(of("archive.har"));
    for (part, sum) in [("blocked", (2.0, 0.0)), ("dns", (3.0, 0.0)), ("connect", (2.0, 0.0)), ("ssl", (4.0, 0.0))] {
        assert_eq!(told.sum(&format!("har::{part}"), "127.0.0.1/"), sum, "{part}");
    }
    assert_eq!(told.sum("har::receive", "127.0.0.1/"), (0.0, 8.0));
    assert_eq!(told.sum("har::entry", "a.js"), (0.0, 12.5));
    let link = told.trace.events.iter().find(|event| event.phase == Phase::Link).unwrap();
    assert_eq!((link.object, link.other), (1, Some(2)));
    assert_eq!(told.trace.clock.realtime_ns, 1_795_574_427_000_000_000);
}

#[test]
fn a_document_is_asked_for_by_the_browser_and_a_redirected_request_waits_once() {
    let event = |name: &str, pid: u32, ts: u32, more: &str| {
        format!(
            r#"{{"name":"{name}","cat":"devtools.timeline","ph":"I","pid":{pid},"tid":{pid},"ts":{ts},
            "args":{{"data":{{{more}}}}}}}"#
        )
    };
    let document = r#""requestId":"D0C""#;
    let image = r#""requestId":"2.7""#;
    let of = |id: &str, url: &str| format!(r#"{id},"url":"{url}""#);
    let file = [
        event("ResourceWillSendRequest", 1, 10, document),
        event("ResourceSendRequest", 2, 30, &of(document, "http://a/")),
        event("ResourceReceiveResponse", 2, 31, document),
        event("ResourceFinish", 2, 35, document),
        event("ResourceSendRequest", 2, 40, &of(image, "http://a/x")),
        event("ResourceSendRequest", 2, 50, &of(image, "http://b/y")),
        event("ResourceReceiveResponse", 2, 60, image),
        event("ResourceReceivedData", 2, 61, image),
        event("ResourceFinish", 2, 70, image),
    ];
    let told = Told::new(read(format!("[{}]", file.join(",\n")).as_bytes(), None).unwrap());
    assert_eq!(told.trace.damage, [] as [&str; 0]);
    let requests = told.of_type("devtools::request");
    let times = |one: &&Interval| (told.objects.name(one.object).unwrap().to_owned(), one.begin(), one.done.unwrap());
    let seen: Vec<_> = requests.iter().map(times).collect();
    let expected = [("http://a/".to_owned(), 10_000, 35_000), ("http://b/y".to_owned(), 40_000, 70_000)];
    assert_eq!(seen, expected);
    let links = told.trace.events.iter().filter(|event| event.phase == Phase::Link);
    assert_eq!(links.count(), 2 + 5, "who asks, and who gets the response, data and the end");
}

#[test]
fn a_firefox_profile_has_the_waits_of_requests_and_flows_between_threads() {
    let told = Told::new(of("firefox-gecko.json"));
    let (waited, _) = told.sum("network::first_byte", "i40.svg");
    assert!(waited > 1.0, "{waited}");
    assert!(told.sum("network::queue", "i40.svg").0 > 100.0);
    assert!(told.all.iter().any(|one| told.objects.address(one.object) >> 46 == 1 && one.wait.is_some()));
    assert!(told.trace.processes.len() >= 2 && told.trace.clock.is_monotonic);
    assert!(told.trace.threads.iter().any(|thread| thread.name == "GeckoMain"));
}

#[test]
fn a_moz_log_is_read_by_its_rules() {
    let told = Told::new(of("moz-log.txt"));
    let (waited, _) = told.sum("net::http::channel::cache_entry", "/i40.svg");
    assert!((120.0..125.0).contains(&waited), "{waited}");
    assert!(told.sum("net::http::transaction::connection", "/i40.svg").0 > 100.0);
    assert!(told.sum("net::http::channel", "/i40.svg").1 > 300.0);
    let own = "[[rule]]\nmodule = \"m\"\nline = \"open {x} at {y}\"\n\
               says = [\"wait {x} own::file\", \"name {x} <{y}>\", \"link {x} {y} own::link\"]\n";
    let log = b"2026-11-25 02:44:05.5 UTC - [P 7: T]: D/m open 0xab at cd\n\tmore of it\n";
    let trace = read_by(log, None, Some(&Rules::parse(own).unwrap())).unwrap();
    let seen: Vec<_> = trace.events.iter().map(|it| (it.phase, it.object, it.other, it.text.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (Phase::Wait, 0xab, None, None),
            (Phase::Name, 0xab, None, Some("<cd>")),
            (Phase::Link, 0xab, Some(0xcd), None)
        ]
    );
    for (wrong, why) in [
        ("[[rule]]\nmodule = \"m\"\nline = \"{a}{b}\"\nsays = []", "two placeholders"),
        ("[[rule]]\nmodule = \"m\"\nline = \"{a\"\nsays = []", "in braces"),
        ("[[rule]]\nmodule = \"m\"\nline = \"a\"\nsays = [\"sing {a} b\"]", "says nothing"),
        ("rule = 7", "invalid type"),
    ] {
        assert!(Rules::parse(wrong).unwrap_err().to_string().contains(why), "{wrong}");
    }
    let timeless = read(b"[Parent 1: Main Thread]: D/nsHttp nsHttpChannel::AsyncOpen [this=12]\n", None).unwrap();
    assert!(timeless.damage[0].contains("MOZ_LOG=timestamp"), "{:?}", timeless.damage);
}

#[test]
fn the_visual_event_tracer_put_quotes_into_its_texts_and_cut_them() {
    let told = Told::new(of("visual-event-tracer.json"));
    let one = told.of_type("net::http::transaction")[0];
    assert_eq!(told.objects.name(one.object), Some("http://host/?q=\"quoted\""));
    assert_eq!((one.wait, one.exec, one.done), (Some((1_750_000, 1)), Some((4_250_000, 2)), Some(9_000_000)));
    let cut = b"{\n\"version\": 1,\n\"records\":[\n{\"thread\":\"a\",\"log\":[\n\
                {\"e\":\"S\",\"t\":1,\"f\":0,\"i\":\"1\",\"n\":\"long\
                {\"e\":\"S\",\"t\":2,\"f\":0,\"i\":\"1\",\"n\":\"next\"}\n]}\n]}";
    let trace = read(cut, None).unwrap();
    assert_eq!((trace.events.len(), &trace.damage[..]), (2, &["record 1 is cut".to_owned()][..]));
}

#[test]
fn a_perfetto_trace_of_chromium_has_its_threads_names_and_flows() {
    let told = Told::new(of("chromium.pftrace"));
    assert!(told.trace.threads.iter().any(|thread| thread.name == "CrBrowserMain"), "{:?}", told.trace.threads);
    assert!(told.all.len() > 50, "{}", told.all.len());
    assert!(told.trace.types.values().any(|of| of.name.contains("::")));
    let span = told.trace.events.last().unwrap().at_ns - told.trace.events[0].at_ns;
    assert!(span < 60_000_000_000, "{span} ns of a start that took seconds");
}

#[test]
fn a_file_cut_at_200_places_is_read_as_far_as_it_goes() {
    for (name, form) in FILES {
        let bytes = fixture(name);
        let whole = read(&bytes, None).unwrap().events.len();
        let mut state = 1_u64;
        for _ in 0..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = 200.max((state >> 33) as usize % bytes.len()).min(bytes.len() - 3);
            let cut = &bytes[..at];
            // A packet of Perfetto's is only known when one is whole.
            if form_of(cut).is_none() && form == Form::Perfetto {
                continue;
            }
            let trace = read(cut, None).unwrap_or_else(|error| panic!("{name} at {at}: {error}"));
            assert_eq!(trace.form, form, "{name} at {at}");
            // A line or a packet that is whole may be the last one.
            assert!(
                !trace.damage.is_empty() || matches!(form, Form::MozLog | Form::Perfetto),
                "{name} at {at} says that it is cut"
            );
            assert!(trace.events.len() <= whole, "{name} at {at}");
            report(&trace, 3);
        }
    }
    for (name, _) in
        FILES.iter().filter(|(_, form)| !matches!(form, Form::Firefox | Form::Har | Form::VisualEventTracer))
    {
        let bytes = fixture(name);
        let (whole, cut) = (of(name).events.len(), read(&bytes[..bytes.len() * 9 / 10], None).unwrap().events.len());
        assert!(cut * 4 >= whole * 3, "{name}: {cut} of {whole}");
    }
}

#[test]
fn names_of_a_mebibyte_with_anything_in_them_survive() {
    let long = "x\\\"\\n\u{1f600}".repeat(100_000);
    let mut json =
        format!("[{{\"ph\":\"b\",\"cat\":\"c\",\"id\":1,\"name\":\"{long}\",\"pid\":1,\"tid\":1,\"ts\":5}},")
            .into_bytes();
    json.extend(b"{\"ph\":\"X\",\"name\":\"a\xff\nb\\ud800\",\"pid\":1,\"tid\":1,\"ts\":6,\"dur\":1.5}]");
    let trace = read(&json, None).unwrap();
    assert_eq!(trace.damage, [] as [&str; 0]);
    let types: Vec<&str> = trace.types.values().map(|of| of.name.as_str()).collect();
    assert_eq!(types[0].len(), "c::".len() + "x\"\n\u{1f600}".repeat(100_000).len());
    assert_eq!(types[1], "a\u{fffd}\nb\u{fffd}");
}

#[test]
fn packed_files_are_read_also_cut() {
    use std::io::Write;
    let bytes = fixture("net-log.json");
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(&bytes).unwrap();
    let packed = packer.finish().unwrap();
    assert_eq!(form_of(&packed), Some(Form::NetLog));
    assert_eq!(read(&packed, None).unwrap().events, of("net-log.json").events);
    let cut = read(&packed[..packed.len() / 2], None).unwrap();
    assert!(!cut.events.is_empty() && cut.damage.iter().any(|damage| damage.contains("packed file ends early")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_makes_an_import_panic(
        which in 0_usize..FILES.len(),
        at in any::<prop::sample::Index>(),
        noise in proptest::collection::vec(any::<u8>(), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = fixture(FILES[which].0);
        let at = at.index(bytes.len());
        for (place, byte) in bytes.iter_mut().skip(at).zip(&noise) {
            *place = *byte;
        }
        let cut = cut.index(bytes.len());
        for bytes in [&bytes[..], &bytes[..cut]] {
            if let Ok(trace) = read(bytes, None) {
                report(&trace, 3);
                timeline::export(&trace, timeline::Format::Chrome, &mut std::io::sink()).unwrap();
            }
        }
    }
}
