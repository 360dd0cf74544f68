//! What a file or directory is, by its first bytes: so that a verb that was given the wrong one can name the right
//! verb. Says nothing of whether it is whole: that is for its reader to find.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// What thaw has a reader for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A recording of starts, or another SQLite file.
    Recording,
    /// The directory of a heap recording.
    Heap,
    /// A memory report, plain or packed.
    MemoryReport,
    /// Resident memory over time.
    MemoryWatch,
    /// Events that a program wrote with `embed/events`.
    Events,
    /// A list of ranges to read ahead.
    PreloadManifest,
    /// A zip archive, or one with its directory in front.
    Archive,
    /// A program, a library or an object file (ELF).
    Elf,
    /// A program for an interpreter.
    Script,
}

/// The head of each; the longest is read. A gzip file is taken for a memory report: nothing else of ours is packed so.
const HEADS: [(&[u8], Kind); 9] = [
    (b"SQLite format 3\0", Kind::Recording),
    (b"{\"schema\":\"thaw.memory-watch/", Kind::MemoryWatch),
    (b"\x1f\x8b", Kind::MemoryReport),
    (b"thawevt\x01", Kind::Events),
    (b"\x7fELF", Kind::Elf),
    (b"#!", Kind::Script),
    (b"PK\x03\x04", Kind::Archive),
    (b"PK\x05\x06", Kind::Archive),
    (b"thaw preload manifest ", Kind::PreloadManifest),
];

/// The kind of what is at `path`; `None`: nothing that thaw knows, or it cannot be read. Waits for no pipe.
pub fn of(path: &Path) -> Option<Kind> {
    if path.is_dir() {
        return path.join("recording.json").is_file().then_some(Kind::Heap);
    }
    let mut head = Vec::new();
    let file: File = crate::file::open_regular(path).ok()?;
    file.take(4096).read_to_end(&mut head).ok()?;
    if let Some((_, kind)) = HEADS.iter().find(|(start, _)| head.starts_with(start)) {
        return Some(*kind);
    }
    // Mozilla's archives begin with the size of the part to read ahead, and then their directory.
    if head.get(4..8) == Some(b"PK\x01\x02") {
        return Some(Kind::Archive);
    }
    let text = String::from_utf8_lossy(&head);
    let report = text.trim_start().starts_with('{') && text.contains("\"reports\"");
    report.then_some(Kind::MemoryReport)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_their_heads() {
        let home = tempfile::tempdir().unwrap();
        for (bytes, kind) in [
            (&b"SQLite format 3\0rest"[..], Some(Kind::Recording)),
            (b"{\"schema\":\"thaw.memory-watch/1\"}", Some(Kind::MemoryWatch)),
            (b"{\"version\": 1, \"reports\": []}", Some(Kind::MemoryReport)),
            (b"\x1f\x8b\x08", Some(Kind::MemoryReport)),
            (b"thawevt\x01\x01", Some(Kind::Events)),
            (b"\x7fELF\x02", Some(Kind::Elf)),
            (b"#!/bin/sh", Some(Kind::Script)),
            (b"PK\x03\x04", Some(Kind::Archive)),
            (b"\x10\0\0\0PK\x01\x02", Some(Kind::Archive)),
            (b"root:x:0:0", None),
            (b"", None),
        ] {
            let path = home.path().join("it");
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(of(&path), kind, "{}", String::from_utf8_lossy(bytes));
        }
        assert_eq!(of(home.path()), None);
        std::fs::write(home.path().join("recording.json"), "{}").unwrap();
        assert_eq!(of(home.path()), Some(Kind::Heap));
        assert_eq!(of(&home.path().join("missing")), None);
    }
}
