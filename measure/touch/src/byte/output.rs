//! Reads what `icegrind` writes: the format is told in `inject/icegrind/README.md`. Programs write these files while
//! they run and may be killed any time, and may have damaged them: a file that ends early is read as far as it goes, a
//! wrong one is refused.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// How every output begins; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"thawice1";
/// Behind the end of any file: far from overflowing a sum of two.
const LONGEST: u64 = 1 << 60;

/// How a byte was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Access {
    /// It was executed.
    Execute,
    /// An instruction or a system call read it.
    Read,
    /// An instruction or a system call wrote it: the page is needed, its old bytes there are not.
    Write,
}

impl Access {
    /// The word in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// A file, as a program mapped or read it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageFile {
    /// Its name then.
    pub path: PathBuf,
    /// `st_dev`.
    pub dev: u64,
    /// `st_ino`.
    pub ino: u64,
    /// Its size in bytes when it was first seen; 0: not known.
    pub size: u64,
}

/// Bytes of a file that this image had not touched before, in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index into [`Image::files`].
    pub file: u32,
    /// From where in the file.
    pub offset: u64,
    /// How many bytes; not 0.
    pub len: u64,
    /// How.
    pub access: Access,
    /// When the first of them was touched; CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// By which thread.
    pub tid: u32,
}

/// What a read-like system call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadCall {
    /// Index into [`Image::files`].
    pub file: u32,
    /// From where in the file.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// When; CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// By which thread.
    pub tid: u32,
}

/// One program image: from exec or fork to the next exec or the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// What it executes; empty: not known.
    pub program: PathBuf,
    /// When it began; CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// When it ended by itself; `None`: it was killed, or runs still, or executed another program.
    pub end_ns: Option<u64>,
    /// When it called exec for the last time, if that has not failed.
    pub executes_ns: Option<u64>,
    /// Error numbers of exec calls that failed.
    pub refused: Vec<u64>,
    /// The last record is not whole.
    pub cut: bool,
    /// Files, in the order of their first record.
    pub files: Vec<ImageFile>,
    /// Touches in their order.
    pub pieces: Vec<Piece>,
    /// Reads in their order.
    pub reads: Vec<ReadCall>,
}

/// Why reading stopped.
enum Stop {
    /// The bytes end within a record.
    Cut,
    /// They are wrong.
    Wrong(&'static str),
}

/// Reads one output.
///
/// # Errors
/// It does not begin as an output does, or holds what `icegrind` does not write; the text says what.
pub fn parse(bytes: &[u8]) -> Result<Image, &'static str> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Err("it does not begin with the mark of format 1") };
    let mut input = Input { rest };
    let mut reader = match Reader::begin(&mut input) {
        Ok(reader) => reader,
        Err(Stop::Cut) => return Err("it ends within its head"),
        Err(Stop::Wrong(because)) => return Err(because),
    };
    while !input.rest.is_empty() {
        match reader.record(&mut input) {
            Ok(()) => {}
            Err(Stop::Cut) => {
                reader.image.cut = true;
                break;
            }
            Err(Stop::Wrong(because)) => return Err(because),
        }
    }
    Ok(reader.image)
}

/// What is not read yet.
struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<u8, Stop> {
        let (first, rest) = self.rest.split_first().ok_or(Stop::Cut)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Seven bits a byte, the low ones first.
    fn number(&mut self) -> Result<u64, Stop> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Stop::Wrong("a number has more than 64 bits"))
    }

    fn small(&mut self) -> Result<u32, Stop> {
        u32::try_from(self.number()?)
            .map_err(|_| Stop::Wrong("the number of a process or thread has more than 32 bits"))
    }

    fn path(&mut self) -> Result<PathBuf, Stop> {
        let len = usize::try_from(self.number()?).map_err(|_| Stop::Wrong("a name is longer than memory"))?;
        let (name, rest) = self.rest.split_at_checked(len).ok_or(Stop::Cut)?;
        self.rest = rest;
        Ok(PathBuf::from(OsString::from_vec(name.to_vec())))
    }
}

struct Reader {
    image: Image,
    /// Indices of files by the numbers that the tool gave them.
    numbers: HashMap<u64, u32>,
    now_ns: u64,
    tid: u32,
    /// Behind the last piece.
    end: u64,
}

impl Reader {
    fn begin(input: &mut Input<'_>) -> Result<Self, Stop> {
        let (pid, parent, tid) = (input.small()?, input.small()?, input.small()?);
        let start_ns = input.number()?;
        let image = Image {
            pid,
            parent,
            program: input.path()?,
            start_ns,
            end_ns: None,
            executes_ns: None,
            refused: Vec::new(),
            cut: false,
            files: Vec::new(),
            pieces: Vec::new(),
            reads: Vec::new(),
        };
        Ok(Self { image, numbers: HashMap::new(), now_ns: start_ns, tid, end: 0 })
    }

    fn record(&mut self, input: &mut Input<'_>) -> Result<(), Stop> {
        match input.byte()? {
            b'F' => self.file(input),
            b'T' => {
                self.tid = input.small()?;
                Ok(())
            }
            b'X' => self.piece(input, Access::Execute),
            b'R' => self.piece(input, Access::Read),
            b'W' => self.piece(input, Access::Write),
            b'S' => self.read_call(input),
            b'C' => {
                self.image.executes_ns = Some(self.time(input)?);
                Ok(())
            }
            b'c' => {
                let errno = input.number()?;
                self.image.executes_ns = None;
                self.image.refused.push(errno);
                Ok(())
            }
            b'E' => {
                self.image.end_ns = Some(self.time(input)?);
                Ok(())
            }
            _ => Err(Stop::Wrong("it has a record of an unknown kind")),
        }
    }

    fn file(&mut self, input: &mut Input<'_>) -> Result<(), Stop> {
        let number = input.number()?;
        let (dev, ino, size) = (input.number()?, input.number()?, input.number()?);
        let path = input.path()?;
        let index = u32::try_from(self.image.files.len()).map_err(|_| Stop::Wrong("it has too many files"))?;
        if self.numbers.insert(number, index).is_some() {
            return Err(Stop::Wrong("two files have one number"));
        }
        self.image.files.push(ImageFile { path, dev, ino, size });
        Ok(())
    }

    fn piece(&mut self, input: &mut Input<'_>, access: Access) -> Result<(), Stop> {
        let file = self.known(input)?;
        let folded = input.number()?;
        let step = (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
        let offset = self.end.wrapping_add_signed(step);
        let len = input.number()?;
        let at_ns = self.time(input)?;
        check(offset, len)?;
        self.end = offset + len;
        self.image.pieces.push(Piece { file, offset, len, access, at_ns, tid: self.tid });
        Ok(())
    }

    fn read_call(&mut self, input: &mut Input<'_>) -> Result<(), Stop> {
        let file = self.known(input)?;
        let (offset, len) = (input.number()?, input.number()?);
        let at_ns = self.time(input)?;
        check(offset, len)?;
        self.image.reads.push(ReadCall { file, offset, len, at_ns, tid: self.tid });
        Ok(())
    }

    fn known(&self, input: &mut Input<'_>) -> Result<u32, Stop> {
        self.numbers.get(&input.number()?).copied().ok_or(Stop::Wrong("a touch is of a file that it does not name"))
    }

    fn time(&mut self, input: &mut Input<'_>) -> Result<u64, Stop> {
        let step = input.number()?;
        self.now_ns = self.now_ns.checked_add(step).ok_or(Stop::Wrong("its time runs over"))?;
        Ok(self.now_ns)
    }
}

fn check(offset: u64, len: u64) -> Result<(), Stop> {
    match len > 0 && offset < LONGEST && len < LONGEST {
        true => Ok(()),
        false => Err(Stop::Wrong("a touch is where no file has bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn record(tag: u8, numbers: &[u64]) -> Vec<u8> {
        let mut out = vec![tag];
        numbers.iter().for_each(|value| number(&mut out, *value));
        out
    }

    fn named(mut record: Vec<u8>, name: &str) -> Vec<u8> {
        number(&mut record, name.len() as u64);
        record.extend(name.as_bytes());
        record
    }

    /// A head, a file, and records.
    fn output(records: &[Vec<u8>]) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        [40, 30, 40, 1_000].iter().for_each(|value| number(&mut head, *value));
        let head = named(head, "/bin/x");
        let file = named(record(b'F', &[300, 5, 6, 7]), "/lib/y");
        [head, file].into_iter().chain(records.iter().cloned()).flatten().collect()
    }

    #[test]
    fn every_record_is_understood() {
        let image = parse(&output(&[
            record(b'X', &[300, 200, 10, 5]),
            record(b'T', &[41]),
            record(b'W', &[300, 2 * 110 - 1, 4, 0]),
            record(b'S', &[300, 4096, 832, 3]),
            record(b'C', &[1]),
            record(b'c', &[13]),
            record(b'R', &[300, 0, 1, 1]),
            record(b'E', &[90]),
        ]))
        .unwrap();
        assert_eq!((image.pid, image.parent, image.start_ns, image.end_ns), (40, 30, 1_000, Some(1_100)));
        assert_eq!(image.program, PathBuf::from("/bin/x"));
        assert_eq!(image.files, [ImageFile { path: "/lib/y".into(), dev: 5, ino: 6, size: 7 }]);
        let piece = |offset, len, access, at_ns, tid| Piece { file: 0, offset, len, access, at_ns, tid };
        assert_eq!(
            image.pieces,
            [
                piece(100, 10, Access::Execute, 1_005, 40),
                piece(0, 4, Access::Write, 1_005, 41),
                piece(4, 1, Access::Read, 1_010, 41)
            ]
        );
        assert_eq!(image.reads, [ReadCall { file: 0, offset: 4096, len: 832, at_ns: 1_008, tid: 41 }]);
        assert_eq!((image.executes_ns, image.refused), (None, vec![13]));
    }

    #[test]
    fn what_is_cut_off_is_read_as_far_as_it_goes() {
        let whole = output(&[record(b'X', &[300, 200, 10, 5]), record(b'R', &[300, 1_000, 1, 500])]);
        let head = output(&[]).len() - named(record(b'F', &[300, 5, 6, 7]), "/lib/y").len();
        for len in 0..head {
            assert!(parse(&whole[..len]).is_err(), "{len}");
        }
        for len in head..whole.len() {
            let image = parse(&whole[..len]).unwrap();
            assert!(image.pieces.len() <= 1, "{len}");
        }
        assert_eq!(parse(&whole[..whole.len() - 1]).unwrap().pieces.len(), 1);
        assert!(parse(&whole[..whole.len() - 1]).unwrap().cut);
        assert!(!parse(&whole).unwrap().cut);
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let wrong = [
            record(b'?', &[]),
            record(b'X', &[7, 0, 1, 0]),
            record(b'X', &[300, 0, 0, 0]),
            record(b'X', &[300, 1, 1, 0]),
            record(b'X', &[300, 0, u64::MAX, 0]),
            record(b'S', &[300, u64::MAX, 1, 0]),
            record(b'E', &[u64::MAX]),
            record(b'T', &[u64::MAX]),
            named(record(b'F', &[300, 5, 6, 7]), "/lib/again"),
            vec![b'T', 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02],
        ];
        for record in wrong {
            assert!(parse(&output(std::slice::from_ref(&record))).is_err(), "{record:?}");
        }
        assert!(parse(b"thawice2").is_err());
        assert!(parse(b"").is_err());
    }
}
