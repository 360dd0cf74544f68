//! From what the images of a process tree touched to the rows of one run: each byte of each file once, at its first
//! touch by anybody. Beside the names and sizes of files it looks into ELF files for their sections.

use super::output::{Image, ImageFile, Piece};
use crate::function::sections;
use model::{Bytes, FileId, FileKind, FileOffset, FileRow, Nanos, Owner, ProcessRow, ReadRow};
use model::{TouchEngine, TouchRow, TraceInfo, TraceRows};
use os::mapped::Mapped;
use os::mounts::Backing;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// What the engine cannot know whatever it watches, one sentence each.
const CANNOT: [&str; 6] = [
    "the order within a straight-line piece of code: all its bytes count when its first instruction runs, even if a \
        later one faults",
    "what the kernel itself reads to start a program (the heads of ELF files)",
    "how much a system call uses of what it is given: all of it counts",
    "what the program does on a processor with more than AVX2: Valgrind shows it one without, and libraries choose \
        their code by it",
    "how threads race: Valgrind runs one at a time",
    "bytes of .bss on the last page of .data: they count as the bytes of the file in whose place they are",
];
/// The name of the error that Valgrind gives for programs with more rights than their caller.
const EACCES: u64 = 13;

/// The rows of a run. `foreign`: files that are not the program's. Images are in the order of their start.
pub fn rows(images: &[Image], foreign: &[PathBuf], t0_ns: u64) -> TraceRows {
    let since = |at: u64| Nanos(at.saturating_sub(t0_ns));
    let mut files = Files::default();
    let mut all: Vec<(u64, FileId, &Piece)> = Vec::new();
    let mut reads: Vec<ReadRow> = Vec::new();
    for image in images {
        let ids: Vec<Option<FileId>> =
            image.files.iter().map(|file| (!foreign.contains(&file.path)).then(|| files.id(file))).collect();
        let id = |file: u32| ids.get(file as usize).copied().flatten();
        all.extend(image.pieces.iter().filter_map(|piece| Some((piece.at_ns, id(piece.file)?, piece))));
        reads.extend(image.reads.iter().filter_map(|read| {
            let first = read.offset / model::PAGE * model::PAGE;
            Some(ReadRow {
                at_ns: since(read.at_ns),
                pid: image.pid,
                tid: read.tid,
                file: id(read.file)?,
                offset: FileOffset(first),
                len: Bytes((read.offset + read.len).next_multiple_of(model::PAGE) - first),
            })
        }));
    }
    // Stable: what one image touched stays in its order.
    all.sort_by_key(|(at_ns, ..)| *at_ns);
    reads.sort_by_key(|read| read.at_ns);
    let mut touches: Vec<TouchRow> = Vec::new();
    for (at_ns, file, piece) in all {
        let end = (piece.offset + piece.len).min(files.end(file));
        for (from, until) in files.first_touched(file, piece.offset, end) {
            touches.push(TouchRow {
                file,
                offset: FileOffset(from),
                len: Bytes(until - from),
                order: u32::try_from(touches.len()).ok(),
                at_ns: Some(since(at_ns)),
                tid: Some(piece.tid),
                engine: TouchEngine::Byte,
                name: Some(piece.access.name().to_owned()),
            });
        }
    }
    let info = TraceInfo {
        engine: "valgrind".into(),
        records: images.iter().map(|image| (image.pieces.len() + image.reads.len()) as u64).sum(),
        lost: 0,
        bytes: touches.iter().map(|touch| touch.len).sum(),
        cannot: CANNOT.into_iter().map(String::from).chain(notes(images)).collect(),
    };
    let (files, sections) = files.rows();
    TraceRows { info, files, sections, reads, processes: processes(images, since), touches, ..TraceRows::default() }
}

/// The files of all images.
#[derive(Default)]
struct Files {
    known: Vec<(ImageFile, Touched)>,
    ids: HashMap<(PathBuf, u64, u64), FileId>,
}

/// Disjoint ranges that were touched: where each begins, and the place behind it. Ranges that meet are one.
type Touched = BTreeMap<u64, u64>;

impl Files {
    fn id(&mut self, file: &ImageFile) -> FileId {
        let next = FileId(self.known.len() as u32);
        let id = *self.ids.entry((file.path.clone(), file.dev, file.ino)).or_insert(next);
        if id == next {
            let size = meta(file).map_or(0, |meta| meta.len()).max(file.size);
            self.known.push((ImageFile { size, ..file.clone() }, Touched::new()));
        }
        let known = &mut self.known[id.0 as usize].0;
        known.size = known.size.max(file.size);
        id
    }

    /// Behind the last byte: what is mapped behind that is none of the file's.
    fn end(&self, id: FileId) -> u64 {
        match self.known[id.0 as usize].0.size {
            0 => u64::MAX,
            size => size,
        }
    }

    /// The parts of a range that nobody touched before; touches them.
    fn first_touched(&mut self, id: FileId, from: u64, until: u64) -> Vec<(u64, u64)> {
        if from >= until {
            return Vec::new();
        }
        let touched = &mut self.known[id.0 as usize].1;
        let mut fresh = Vec::new();
        let (mut start, mut end, mut at) = (from, until, from);
        // Ranges that overlap or meet this one, the last first.
        let meeting: Vec<(u64, u64)> =
            touched.range(..=until).rev().take_while(|(_, behind)| **behind >= from).map(|(a, b)| (*a, *b)).collect();
        for (begin, behind) in meeting.into_iter().rev() {
            if begin > at {
                fresh.push((at, begin));
            }
            at = at.max(behind);
            (start, end) = (start.min(begin), end.max(behind));
            touched.remove(&begin);
        }
        if at < until {
            fresh.push((at, until));
        }
        touched.insert(start, end);
        fresh
    }

    fn rows(self) -> (Vec<FileRow>, Vec<model::SectionRow>) {
        let (mut files, mut all) = (Vec::new(), Vec::new());
        for (number, (file, _)) in (0..).zip(self.known) {
            let there = meta(&file).and_then(|_| std::fs::File::open(&file.path).ok());
            let bytes = there.as_ref().and_then(Mapped::of);
            let bytes = bytes.as_deref().unwrap_or_default();
            all.extend(sections(FileId(number), bytes));
            files.push(FileRow {
                kind: kind(&file),
                owner: Owner::System,
                dev: file.dev,
                ino: file.ino,
                size: Bytes(file.size),
                extents: None,
                build_id: elf::build_id(bytes),
                path: file.path,
            });
        }
        (files, all)
    }
}

/// The file's metadata, if it still has its name.
fn meta(file: &ImageFile) -> Option<std::fs::Metadata> {
    let meta = std::fs::metadata(&file.path).ok()?;
    (meta.is_file() && meta.dev() == file.dev && meta.ino() == file.ino).then_some(meta)
}

fn kind(file: &ImageFile) -> FileKind {
    if file.path.starts_with("/memfd:") {
        return FileKind::Memory;
    }
    match meta(file).and_then(|_| rustix::fs::statfs(&file.path).ok()) {
        Some(found) if matches!(Backing::of_magic(found.f_type as u64), Backing::Memory | Backing::Kernel) => {
            FileKind::Memory
        }
        Some(_) => FileKind::Regular,
        None => FileKind::Unnamed,
    }
}

/// One row for each process: what it executed last.
fn processes(images: &[Image], since: impl Fn(u64) -> Nanos) -> Vec<ProcessRow> {
    let mut rows: Vec<ProcessRow> = Vec::new();
    for image in images {
        let exe = (!image.program.as_os_str().is_empty()).then(|| image.program.clone());
        let name = image.program.file_name().unwrap_or_default().to_string_lossy();
        let row = ProcessRow {
            pid: image.pid,
            parent: image.parent,
            // As the kernel cuts it.
            comm: name.chars().take(15).collect(),
            exe,
            start_ns: since(image.start_ns),
            end_ns: image.end_ns.map(&since),
        };
        match rows.iter_mut().find(|known| known.pid == image.pid) {
            Some(known) => *known = ProcessRow { start_ns: known.start_ns, ..row },
            None => rows.push(row),
        }
    }
    rows
}

/// What was not seen in this run, one sentence each.
fn notes(images: &[Image]) -> Vec<String> {
    let mut notes = Vec::new();
    let mut told = HashSet::new();
    for image in images {
        let pid = image.pid;
        let name = model::shown(&image.program);
        if image.refused.contains(&EACCES) && told.insert(("refused", pid)) {
            notes.push(format!(
                "what process {pid} ({name}) wanted to execute and was refused: Valgrind starts no set-user-ID programs"
            ));
        }
        let follows = |began: u64| images.iter().any(|other| other.pid == pid && other.start_ns >= began);
        if image.executes_ns.is_some_and(|began| !follows(began)) && told.insert(("executes", pid)) {
            notes.push(format!("what process {pid} ({name}) executed last: it could not be watched"));
        }
        if image.end_ns.is_none() && image.executes_ns.is_none() && told.insert(("killed", pid)) {
            notes.push(format!(
                "what process {pid} ({name}) touched after its last system call: it was killed, or ran on"
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::super::output::{Access, ReadCall};
    use super::*;

    fn image(pid: u32, start_ns: u64, pieces: &[(u64, u64, u64)]) -> Image {
        let piece = |(at_ns, offset, len): &(u64, u64, u64)| Piece {
            file: 0,
            offset: *offset,
            len: *len,
            access: Access::Read,
            at_ns: *at_ns,
            tid: pid,
        };
        Image {
            pid,
            parent: 1,
            program: "/bin/a".into(),
            start_ns,
            end_ns: Some(start_ns + 100),
            executes_ns: None,
            refused: Vec::new(),
            cut: false,
            files: vec![ImageFile { path: "/nowhere/file".into(), dev: 1, ino: 2, size: 5_000 }],
            pieces: pieces.iter().map(piece).collect(),
            reads: Vec::new(),
        }
    }

    fn ranges(rows: &TraceRows) -> Vec<(u64, u64, u32)> {
        rows.touches.iter().map(|touch| (touch.offset.0, touch.len.0, touch.tid.unwrap_or_default())).collect()
    }

    #[test]
    fn a_byte_counts_once_for_all_processes_at_its_first_touch() {
        let images =
            [image(7, 10, &[(11, 100, 10), (30, 0, 200)]), image(8, 12, &[(15, 105, 10), (40, 50, 400), (41, 50, 1)])];
        let rows = rows(&images, &[], 10);
        assert_eq!(
            ranges(&rows),
            [(100, 10, 7), (110, 5, 8), (0, 100, 7), (115, 85, 7), (200, 250, 8)],
            "what others touched before is left out"
        );
        assert_eq!(rows.touches.iter().map(|touch| touch.order.unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(rows.touches[1].at_ns, Some(Nanos(5)));
        assert_eq!(rows.files.len(), 1);
        assert_eq!(rows.info.bytes, Bytes(450));
    }

    #[test]
    fn nothing_is_touched_behind_the_end_of_a_file() {
        let rows = rows(&[image(7, 10, &[(11, 4_990, 100), (12, 6_000, 5)])], &[], 0);
        assert_eq!(ranges(&rows), [(4_990, 10, 7)]);
    }

    #[test]
    fn foreign_files_are_left_out_and_reads_are_rows_of_their_own() {
        let mut one = image(7, 10, &[(11, 0, 1)]);
        one.reads.push(ReadCall { file: 0, offset: 4_000, len: 200, at_ns: 20, tid: 9 });
        let seen = rows(std::slice::from_ref(&one), &[], 10);
        assert_eq!(seen.reads.len(), 1);
        assert_eq!((seen.reads[0].offset, seen.reads[0].len), (FileOffset(0), Bytes(8192)));
        let seen = rows(&[one], &["/nowhere/file".into()], 10);
        assert!(seen.reads.is_empty() && seen.touches.is_empty() && seen.files.is_empty());
    }

    #[test]
    fn what_was_not_seen_is_said() {
        let mut killed = image(7, 10, &[]);
        killed.end_ns = None;
        let mut lost = image(8, 20, &[]);
        (lost.end_ns, lost.executes_ns, lost.refused) = (None, Some(30), vec![EACCES]);
        let seen = |images: &[Image]| rows(images, &[], 0).info.cannot[CANNOT.len()..].join("\n");
        let said = seen(&[killed, lost.clone()]);
        assert!(said.contains("process 7") && said.contains("killed") && said.contains("set-user-ID"), "{said}");
        assert!(said.contains("process 8 (/bin/a) executed last"), "{said}");
        lost.refused.clear();
        assert_eq!(seen(&[lost, image(8, 40, &[])]), "");
    }
}
