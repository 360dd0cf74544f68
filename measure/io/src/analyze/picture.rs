//! Traces drawn as pictures, for tests.
//!
//! A script has one line per event, in time order; the column is the page of the file.
//!
//! ```text
//! prog a |  f       |     a fault on page 2 of file `a`
//! prog a |  ####    |     pages 2 to 5 come into the cache, one by one
//! prog a |  RRRR    |     a block request reads them (`R` of one request side by side)
//! prog a | rrr      |     a read asks for pages 1 to 3 (said after the fill)
//! prog a | mmm      |     pages are mapped around
//! prog a | OOOO     |     one large folio comes in
//! kworker a | WW    |     a block request writes them
//! ```
//! Files lie on the disk one after the other, 100 pages each: `a` at 0, `b` at 100, ... unless a scene
//! says otherwise. `$` is the file system's metadata: the disk itself.

use crate::{raw::*, resolve::*};
use model::*;

/// The disk of the scenes.
pub(crate) const DISK: u64 = 0xfe00;
/// The program's process; others are not of the tree.
pub(crate) const PROG: u32 = 10;

/// A scene: a trace and what is known of its files.
pub(crate) struct Scene {
    pub(crate) raw: RawTrace,
    pub(crate) resolved: Resolved,
    clock: u64,
}

/// The inode of a file of a scene.
pub(crate) fn inode(name: &str) -> Inode {
    match name {
        "$" => Inode { dev: 3, ino: DISK },
        _ => Inode { dev: DISK, ino: u64::from(name.as_bytes()[0]) },
    }
}

impl Scene {
    /// No file, no event.
    pub(crate) fn new() -> Self {
        let raw = RawTrace {
            processes: vec![RawProcess { pid: PROG, comm: "prog".into(), ..RawProcess::default() }],
            ..RawTrace::default()
        };
        Self { raw, resolved: Resolved::default(), clock: 0 }
    }

    /// Files `a`, `b` and `c` in one piece each, and the metadata.
    pub(crate) fn usual() -> Self {
        let mut scene = Self::new();
        for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
            scene.lies(name, &[(0, index as u64 * 100, 100)]);
        }
        scene.metadata();
        scene
    }

    /// A file in pieces: (page of the file, page of the disk, pages).
    pub(crate) fn lies(&mut self, name: &str, pieces: &[(u64, u64, u64)]) -> &mut ResolvedFile {
        let mut file = ResolvedFile::unknown(inode(name));
        file.row.kind = FileKind::Regular;
        file.row.path = format!("/{name}").into();
        file.row.size = Bytes(pieces.iter().map(|piece| (piece.0 + piece.2) * PAGE).max().unwrap_or(0));
        file.row.extents = Some(pieces.len() as u32);
        file.place = Place::Known;
        file.extents = pieces
            .iter()
            .map(|(offset, disk, pages)| DiskExtent {
                offset: FileOffset(offset * PAGE),
                dev: DISK,
                disk: DiskOffset(disk * PAGE),
                len: Bytes(pages * PAGE),
            })
            .collect();
        self.resolved.files.insert(inode(name), file);
        self.resolved.files.get_mut(&inode(name)).expect("just inserted")
    }

    /// The disk itself, 10,000 pages.
    pub(crate) fn metadata(&mut self) -> &mut ResolvedFile {
        let file = self.lies("$", &[(0, 0, 10_000)]);
        file.row.kind = FileKind::Metadata;
        file.row.path = "/dev/disk".into();
        file
    }

    /// Plays a script.
    pub(crate) fn play(&mut self, script: &str) -> &mut Self {
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (who, pages) = line.split_once('|').expect("a line is `who file | pages |`");
            let mut words = who.split_whitespace();
            let (who, file) = (words.next().expect("who"), words.next().expect("file"));
            let pages = pages.split_once('|').expect("the picture ends with |").0;
            self.line(who, file, pages, words.next().unwrap_or(""));
        }
        self
    }

    fn line(&mut self, who: &str, file: &str, pages: &str, flags: &str) {
        let (pid, tid) = match who {
            "prog" => (PROG, PROG),
            "thread" => (PROG, PROG + 1),
            _ => (999, 999),
        };
        let inode = inode(file);
        for (mark, span) in marks(pages) {
            self.clock += 10;
            let at = Nanos(self.clock);
            match mark {
                '#' => self.raw.fills.extend((span.first..span.end()).map(|page| RawFill {
                    at,
                    pid,
                    tid,
                    inode,
                    span: Span { first: page, pages: 1 },
                })),
                'O' => self.raw.fills.push(RawFill { at, pid, tid, inode, span }),
                'r' => self.raw.reads.push(RawRead { at, pid, tid, inode, span }),
                'f' => self.raw.faults.push(RawFault { at, pid, tid, inode, span, around: false }),
                'm' => self.raw.faults.push(RawFault { at, pid, tid, inode, span, around: true }),
                'R' | 'W' => {
                    let place = self.place(file, span.first);
                    let flags = format!("{mark}{flags}");
                    self.raw.blocks.push(RawBlock {
                        start: at,
                        done: Some(at + Nanos(5)),
                        pid: (pid == PROG).then_some(pid),
                        tid,
                        comm: who.into(),
                        dev: DISK,
                        disk: place,
                        len: Bytes(span.pages * PAGE),
                        flags,
                    });
                }
                other => panic!("no such mark: {other}"),
            }
        }
    }

    /// Where a page of a file lies.
    fn place(&self, file: &str, page: u64) -> DiskOffset {
        let known = self.resolved.files.get(&inode(file));
        let extent = known.and_then(|file| {
            file.extents
                .iter()
                .find(|extent| (extent.offset.0..extent.offset.0 + extent.len.0).contains(&(page * PAGE)))
        });
        match extent {
            Some(extent) => DiskOffset(extent.disk.0 + page * PAGE - extent.offset.0),
            None => DiskOffset((5_000 + page) * PAGE),
        }
    }

    /// What the room makes of it.
    pub(crate) fn rows(&self) -> TraceRows {
        crate::attribute(&self.raw, &self.resolved)
    }
}

/// Runs of equal marks and the pages that they cover.
fn marks(pages: &str) -> Vec<(char, Span)> {
    let mut found: Vec<(char, Span)> = Vec::new();
    for (page, mark) in pages.chars().enumerate() {
        match found.last_mut() {
            _ if mark == ' ' => {}
            Some((known, span)) if *known == mark && span.end() == page as u64 => span.pages += 1,
            _ => found.push((mark, Span { first: page as u64, pages: 1 })),
        }
    }
    found
}

/// The fills of a file as a picture: `r` read, `f` fault, `.` read-ahead, `w` written, `m` metadata, `?` unknown.
pub(crate) fn filled(rows: &TraceRows, name: &str) -> String {
    let mut picture: Vec<char> = Vec::new();
    for fill in rows.fills.iter().filter(|fill| rows.files[fill.file.0 as usize].ino == inode(name).ino) {
        let mark = match fill.cause {
            Cause::Read => 'r',
            Cause::Fault => 'f',
            Cause::ReadAhead => '.',
            Cause::Metadata => 'm',
            Cause::Write => 'w',
            Cause::Unknown => '?',
        };
        let first = (fill.offset.0 / PAGE) as usize;
        let end = first + (fill.len.0 / PAGE) as usize;
        picture.resize(picture.len().max(end), ' ');
        picture[first..end].fill(mark);
    }
    picture.into_iter().collect()
}

/// What each block request served: `a+2` is page 2 of file `a`, then for whom.
pub(crate) fn served(rows: &TraceRows) -> Vec<String> {
    let name = |file: FileId| shown(&rows.files[file.0 as usize].path);
    rows.blocks
        .iter()
        .map(|block| {
            let what = match block.served {
                Served::File(file, offset) => format!("{}+{}", name(file), offset.0 / PAGE),
                Served::Metadata => "metadata".into(),
                Served::Unknown => "unknown".into(),
            };
            let whose = if block.pid == Some(PROG) { "ours" } else { "others" };
            format!("{what} {whose}")
        })
        .collect()
}
