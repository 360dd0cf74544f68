//! What an event costs the thread that writes it, in Rust: `peers KIND THREADS EVENTS`, one line: CPU nanoseconds an
//! event, all threads averaged. KIND: nothing, rdtsc, thaw, perfetto, tracy, fastrace. A span counts as two events.

use perfetto_sdk::heap_buffer::HeapBuffer;
use perfetto_sdk::pb_msg::{PbMsg, PbMsgWriter};
use perfetto_sdk::producer::{Backends, Producer, ProducerInitArgsBuilder};
use perfetto_sdk::protos::config::data_source_config::DataSourceConfig;
use perfetto_sdk::protos::config::trace_config::{TraceConfig, TraceConfigBufferConfig, TraceConfigDataSource};
use perfetto_sdk::protos::config::track_event::track_event_config::TrackEventConfig;
use perfetto_sdk::track_event::TrackEvent;
use perfetto_sdk::tracing_session::TracingSession;
use perfetto_sdk::{track_event_begin, track_event_categories, track_event_end};
use std::hint::black_box;

track_event_categories! {
    pub mod cost {
        ("cost", "What an event costs", []),
    }
}
use cost as perfetto_te_ns;

fn cpu_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one `timespec`.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Six events a round of what writes spans and of what writes phases.
fn rounds(kind: &str, rounds: u64) {
    match kind {
        "nothing" => (0..rounds).for_each(|i| (0..6).for_each(|_| _ = black_box(i))),
        "rdtsc" => (0..rounds).for_each(|_| {
            (0..6).for_each(|_| {
                // SAFETY: every x86-64 processor has the counter.
                black_box(unsafe { core::arch::x86_64::_rdtsc() });
            })
        }),
        "thaw" => (0..rounds).for_each(|i| {
            thaw_events::wait!(i, "cost::job");
            thaw_events::exec!(i, "cost::job");
            thaw_events::done!(i, "cost::job");
            thaw_events::wait!(i, "cost::job");
            thaw_events::exec!(i, "cost::job");
            thaw_events::done!(i, "cost::job");
        }),
        "perfetto" => (0..rounds).for_each(|_| {
            track_event_begin!("cost", "job");
            track_event_end!("cost");
            track_event_begin!("cost", "job");
            track_event_end!("cost");
            track_event_begin!("cost", "job");
            track_event_end!("cost");
        }),
        "tracy" => (0..rounds).for_each(|_| {
            drop(tracy_client::span!("job"));
            drop(tracy_client::span!("job"));
            drop(tracy_client::span!("job"));
        }),
        // In batches of 99 spans below a root, as a request has them.
        "fastrace" => {
            let mut left = rounds;
            while left > 0 {
                let root = fastrace::Span::root("root", fastrace::collector::SpanContext::random());
                let _guard = root.set_local_parent();
                for _ in 0..left.min(33) {
                    drop(fastrace::local::LocalSpan::enter_with_local_parent("job"));
                    drop(fastrace::local::LocalSpan::enter_with_local_parent("job"));
                    drop(fastrace::local::LocalSpan::enter_with_local_parent("job"));
                }
                left -= left.min(33);
            }
        }
        other => {
            eprintln!("peers: no such kind: {other}");
            std::process::exit(2);
        }
    }
}

struct Nowhere;
impl fastrace::collector::Reporter for Nowhere {
    fn report(&mut self, spans: Vec<fastrace::collector::SpanRecord>) {
        black_box(spans);
    }
}

fn perfetto() -> TracingSession {
    Producer::init(ProducerInitArgsBuilder::new().backends(Backends::IN_PROCESS).build());
    TrackEvent::init();
    perfetto_te_ns::register().expect("categories");
    let writer = PbMsgWriter::new();
    let buffer = HeapBuffer::new(writer.stream_writer());
    let mut msg = PbMsg::new(&writer).expect("a message");
    TraceConfig { msg: &mut msg }
        .set_buffers(|of: &mut TraceConfigBufferConfig| {
            of.set_size_kb(4096);
        })
        .set_data_sources(|of: &mut TraceConfigDataSource| {
            of.set_config(|of: &mut DataSourceConfig| {
                of.set_name("track_event").set_track_event_config(|of: &mut TrackEventConfig| {
                    of.set_enabled_categories("cost");
                });
            });
        });
    msg.finalize();
    let size = writer.stream_writer().get_written_size();
    let mut bytes = vec![0; size];
    buffer.copy_into(&mut bytes);
    let mut session = TracingSession::in_process().expect("a session");
    session.setup(&bytes);
    session.start_blocking();
    session
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let [_, kind, threads, events] = words.as_slice() else { std::process::exit(2) };
    let (threads, events): (u64, u64) = (threads.parse().expect("threads"), events.parse().expect("events"));
    let session = (kind == "perfetto").then(perfetto);
    let _client = (kind == "tracy").then(tracy_client::Client::start);
    if kind == "fastrace" {
        fastrace::set_reporter(Nowhere, fastrace::collector::Config::default());
    }
    let work = || {
        // The first ones pay for what is made once.
        rounds(kind, events / 60);
        let began = cpu_ns();
        rounds(kind, events / 6);
        (cpu_ns() - began) as f64 / (events / 6 * 6) as f64
    };
    let sum: f64 = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().map(|one| one.join().expect("a thread")).sum()
    });
    println!("{:.3}", sum / threads as f64);
    if let Some(mut session) = session {
        session.stop_blocking();
    }
    // Tracy waits for nobody to come.
    std::process::exit(0);
}
