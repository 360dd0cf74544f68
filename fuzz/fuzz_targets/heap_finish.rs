//! Any bytes as blocks of a finished heap recording, with checksums that fit: the reader ends with events or an error. Any bytes as a stream:
//! finished, it has the same events.
#![no_main]

use heaprec::finish;
use heapfile::ledger::Ledger;
use heapfile::event::Event;
use heapfile::reader::Reader;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

const HEAD: &str = r#"{"schema":"thaw.heap/1","thaw_version":"","command":[],"cwd":"","created_unix_ns":0,"start_ticks":0,
    "ticks_per_second":1e9,"finished":true,"code":null,"signal":null,"cpu_s":null,"max_rss_bytes":null,"nothing":null,"running":[]}"#;
/// Columns of a block.
const COLUMNS: usize = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let home = tempfile::tempdir().expect("a directory");
    std::fs::write(home.path().join("recording.json"), HEAD).expect("a head");
    let stream = if choice & 1 == 0 { stream(bytes) } else { stream(&[]) };
    std::fs::write(home.path().join("1-0.stream"), stream).expect("a stream");
    let exact = events(home.path()).expect("streams are read with warnings");
    finish::finish(home.path(), &mut |_| {}).expect("every stream can be finished");
    if choice & 1 == 0 {
        let mut finished = events(home.path()).expect("what was written can be read");
        assert_eq!(exact.len(), finished.len());
        for (exact, finished) in exact.iter().zip(&mut finished) {
            (finished.at, finished.ticks) = (exact.at, exact.ticks);
        }
        assert_eq!(exact, finished);
        return;
    }
    let path = home.path().join("1-0.events");
    let mut file = std::fs::read(&path).expect("the finished file");
    // Only the beginning stays: magic, version, head.
    let length = u32::from_le_bytes([file[13], file[14], file[15], file[16]]) as usize;
    file.truncate(12 + 9 + length);
    for block in bytes.split(|byte| *byte == 0xfe) {
        section(&mut file, 2, &columns(block));
    }
    section(&mut file, 3, &[*choice, 0]);
    std::fs::write(&path, file).expect("the finished file");
    let _ = events(home.path());
});

/// The events of the first process, which the books take too.
fn events(directory: &Path) -> model::Result<Vec<Event>> {
    let reader = Reader::open(directory)?;
    let Some(process) = reader.processes().first() else { return Ok(Vec::new()) };
    let mut events = reader.events(process.id)?;
    let mut ledger = Ledger::new(process.origin);
    let mut all = Vec::new();
    while let Some(event) = events.next()? {
        ledger.enter(&event);
        all.push(event);
    }
    Ok(all)
}

/// One lane of these bytes.
fn stream(bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 4096];
    file[..8].copy_from_slice(b"THAWHEAP");
    file[8] = 2;
    for (number, part) in bytes.chunks(4000).enumerate() {
        let mut chunk = vec![0; 4096];
        chunk[..4].copy_from_slice(b"CHNK");
        chunk[8..12].copy_from_slice(&(number as u32).to_le_bytes());
        chunk[12..16].copy_from_slice(&4096u32.to_le_bytes());
        chunk[32..32 + part.len()].copy_from_slice(part);
        file.extend_from_slice(&chunk);
    }
    file
}

/// A block: the first bytes are the number of events and the lengths of the columns, which are stored as they are.
fn columns(bytes: &[u8]) -> Vec<u8> {
    let (head, mut rest) = bytes.split_at(bytes.len().min(COLUMNS + 1));
    let mut block = vec![head.first().copied().unwrap_or(0) & 127];
    for column in 0..COLUMNS {
        let wanted = usize::from(head.get(column + 1).copied().unwrap_or(0));
        let (part, more) = rest.split_at(wanted.min(rest.len()));
        rest = more;
        // Two bytes are enough for a number below 256.
        let length = [part.len() as u8 | 128, (part.len() >> 7) as u8];
        block.extend(length);
        if !part.is_empty() {
            block.push(0);
            block.extend(length);
            block.extend(part);
        }
    }
    block
}

fn section(file: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&[kind]);
    sum.update(content);
    file.push(kind);
    file.extend((content.len() as u32).to_le_bytes());
    file.extend(sum.finalize().to_le_bytes());
    file.extend(content);
}
