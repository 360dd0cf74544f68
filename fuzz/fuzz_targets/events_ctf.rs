//! Bytes as a trace of CTF: a text up to a zero byte describes it, a stream is behind that. Whatever they are, they are
//! read or refused, and add up.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let stream = bytes.get(text.len() + 1..).unwrap_or_default();
    // A right beginning, so that the fuzzer works on what follows.
    let described = [b"/* CTF 1.8 */\n", text].concat();
    if let Ok(trace) = timeline::read_ctf("metadata", &described, std::iter::once(Ok(("stream".to_owned(), stream)))) {
        timeline::report(&trace, 10);
        timeline::export(&trace, timeline::Format::Csv, &mut std::io::sink()).expect("a sink takes everything");
    }
    // As metadata alone, in packets.
    timeline::read_ctf("metadata", bytes, std::iter::empty::<model::Result<(String, &[u8])>>()).ok();
});
