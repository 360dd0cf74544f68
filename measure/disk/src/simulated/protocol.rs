//! The part of the FUSE protocol that one file needs: bytes in, bytes out, no system calls.
//!
//! Why not a library: `fuser` (MIT, alive, needs no libfuse) would bring fifteen more crates, mounts at a path, so that
//! a killed thaw leaves a dead mount behind, and answers from threads of our own process, which then could never
//! unmount its disk while it is being killed (see `server.rs`). One file in one directory needs seven kinds of
//! requests.
//!
//! Layouts are those of `linux/fuse.h`, version 7.31; all numbers are in the byte order of the machine.

/// The version that the layouts here belong to.
pub(super) const MAJOR: u32 = 7;
const MINOR: u32 = 31;

/// Largest read or write that the kernel sends: 256 pages, its limit for those without special rights.
pub(super) const LARGEST: usize = 1 << 20;
pub(super) const IN_HEADER: usize = 40;
pub(super) const OUT_HEADER: usize = 16;
/// The kernel refuses to read into less.
pub(super) const BUFFER: usize = LARGEST + 4096;

/// The directory and the file in it.
const ROOT: u64 = 1;
const FILE: u64 = 2;
/// What the file is called.
pub(super) const NAME: &str = "disk";

const FUSE_ASYNC_READ: u32 = 1;
const FUSE_BIG_WRITES: u32 = 1 << 5;
const FUSE_ASYNC_DIO: u32 = 1 << 15;
const FUSE_MAX_PAGES: u32 = 1 << 22;
/// The page cache is that of the file system on top, not this file's.
const FOPEN_DIRECT_IO: u32 = 1;
const FOPEN_PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
/// How long the kernel may remember names and attributes, in seconds: for ever.
const VALID: u64 = 1 << 30;
/// Requests that may wait at the disk.
pub(super) const IN_FLIGHT: u16 = 512;

/// A request of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// Start of the conversation; holds the kernel's version and flags.
    Init {
        major: u32,
        flags: u32,
    },
    /// A name in the root directory: ours or another one.
    Lookup {
        ours: bool,
    },
    /// Attributes of a node.
    Attributes {
        node: u64,
    },
    Open {
        node: u64,
    },
    Read {
        at: u64,
        len: u32,
    },
    /// The bytes follow the request's head: this many bytes from its beginning.
    Write {
        at: u64,
        len: u32,
        data: usize,
    },
    /// Everything written must be safe.
    Sync,
    /// Answered with success and nothing else.
    Nod,
    /// Must not be answered.
    Silent,
    /// Not for us.
    Unknown,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The request's number and what it wants. `None`: too short to be one.
pub(super) fn parse(request: &[u8]) -> Option<(u64, Call)> {
    let (opcode, unique, node) = (u32_at(request, 4)?, u64_at(request, 8)?, u64_at(request, 16)?);
    let body = request.get(IN_HEADER..)?;
    let call = match opcode {
        1 => Call::Lookup { ours: node == ROOT && body.split(|&byte| byte == 0).next() == Some(NAME.as_bytes()) },
        3 => Call::Attributes { node },
        14 => Call::Open { node },
        15 if node == FILE => Call::Read { at: u64_at(body, 8)?, len: u32_at(body, 16)? },
        16 if node == FILE => {
            let len = u32_at(body, 16)?;
            body.get(40..40 + len as usize)?;
            Call::Write { at: u64_at(body, 8)?, len, data: IN_HEADER + 40 }
        }
        20 => Call::Sync,
        // FORGET, INTERRUPT, BATCH_FORGET.
        2 | 36 | 42 => Call::Silent,
        // RELEASE, FLUSH, DESTROY.
        18 | 25 | 38 => Call::Nod,
        // The kernel's minor version and its read-ahead lie between them.
        26 => Call::Init { major: u32_at(body, 0)?, flags: u32_at(body, 12)? },
        _ => Call::Unknown,
    };
    Some((unique, call))
}

/// An answer without data of the disk.
pub(super) struct Answer {
    bytes: [u8; 160],
    len: usize,
}

impl Answer {
    fn new(unique: u64, error: i32) -> Self {
        let mut answer = Self { bytes: [0; 160], len: 0 };
        answer.u32(0).u32(error.wrapping_neg() as u32).u64(unique);
        answer
    }

    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        self
    }

    fn u32(&mut self, value: u32) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.put(&value.to_ne_bytes())
    }

    /// The bytes to write to the kernel.
    pub(super) fn bytes(&mut self) -> &[u8] {
        let len = self.len as u32;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        &self.bytes[..self.len]
    }

    /// Success, or an error number.
    pub(super) fn result(unique: u64, error: i32) -> Self {
        Self::new(unique, error)
    }

    /// What we speak.
    pub(super) fn init(unique: u64, kernel_flags: u32) -> Self {
        let flags = kernel_flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES);
        let mut answer = Self::new(unique, 0);
        // max_readahead, flags, then max_background and congestion_threshold (16 bits each).
        answer.u32(MAJOR).u32(MINOR).u32(0).u32(flags).put(&IN_FLIGHT.to_ne_bytes()).put(&IN_FLIGHT.to_ne_bytes());
        // max_write, time granularity, then max_pages and map_alignment (16 bits each), and 32 bytes for later
        // versions.
        answer.u32(LARGEST as u32).u32(1).put(&((LARGEST / 4096) as u16).to_ne_bytes()).put(&[0; 2]).put(&[0; 32]);
        answer
    }

    pub(super) fn entry(unique: u64, size: u64) -> Self {
        let mut answer = Self::new(unique, 0);
        answer.u64(FILE).u64(0).u64(VALID).u64(VALID).u32(0).u32(0).attributes(FILE, size);
        answer
    }

    pub(super) fn attributes_of(unique: u64, node: u64, size: u64) -> Self {
        let mut answer = Self::new(unique, 0);
        answer.u64(VALID).u32(0).u32(0).attributes(node, size);
        answer
    }

    /// `struct fuse_attr`.
    fn attributes(&mut self, node: u64, size: u64) -> &mut Self {
        let (mode, links, size) = if node == ROOT { (0o040_500, 2, 0) } else { (0o100_600, 1, size) };
        self.u64(node).u64(size).u64(size / 512).u64(0).u64(0).u64(0).u32(0).u32(0).u32(0);
        self.u32(mode).u32(links).u32(0).u32(0).u32(0).u32(4096).u32(0)
    }

    pub(super) fn open(unique: u64, node: u64) -> Self {
        let flags = if node == FILE { FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES } else { 0 };
        let mut answer = Self::new(unique, 0);
        answer.u64(0).u32(flags).u32(0);
        answer
    }

    pub(super) fn written(unique: u64, len: u32) -> Self {
        let mut answer = Self::new(unique, 0);
        answer.u32(len).u32(0);
        answer
    }
}

/// The head of an answer that `len` bytes of data follow.
pub(super) fn head(unique: u64, len: usize) -> [u8; OUT_HEADER] {
    let mut head = [0; OUT_HEADER];
    head[..4].copy_from_slice(&((OUT_HEADER + len) as u32).to_ne_bytes());
    head[8..].copy_from_slice(&unique.to_ne_bytes());
    head
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((IN_HEADER + body.len()) as u32).to_ne_bytes());
        bytes.extend(opcode.to_ne_bytes());
        bytes.extend(77u64.to_ne_bytes());
        bytes.extend(node.to_ne_bytes());
        bytes.extend([0; 16]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn requests_are_understood() {
        let mut read = vec![0; 40];
        read[8..16].copy_from_slice(&4096u64.to_ne_bytes());
        read[16..20].copy_from_slice(&512u32.to_ne_bytes());
        assert_eq!(parse(&request(15, FILE, &read)), Some((77, Call::Read { at: 4096, len: 512 })));
        assert_eq!(parse(&request(15, ROOT, &read)), Some((77, Call::Unknown)), "the directory is not the disk");
        assert_eq!(parse(&request(16, FILE, &read)), None, "512 bytes to write must follow");
        read.extend([9; 512]);
        assert_eq!(parse(&request(16, FILE, &read)), Some((77, Call::Write { at: 4096, len: 512, data: 80 })));
        assert_eq!(parse(&request(1, ROOT, b"disk\0")), Some((77, Call::Lookup { ours: true })));
        assert_eq!(parse(&request(1, ROOT, b"dis\0")), Some((77, Call::Lookup { ours: false })));
        assert_eq!(parse(&request(2, FILE, &[0; 8])), Some((77, Call::Silent)));
        let init: Vec<u8> = [7u32, 45, 131_072, 0xABCD].into_iter().flat_map(u32::to_ne_bytes).collect();
        assert_eq!(parse(&request(26, 0, &init)), Some((77, Call::Init { major: 7, flags: 0xABCD })));
    }

    #[test]
    fn answers_have_the_sizes_of_the_kernels_structs() {
        let sizes = [
            Answer::result(1, 0).bytes().len(),
            Answer::init(1, !0).bytes().len(),
            Answer::entry(1, 5).bytes().len(),
            Answer::attributes_of(1, ROOT, 5).bytes().len(),
            Answer::open(1, FILE).bytes().len(),
            Answer::written(1, 5).bytes().len(),
        ];
        assert_eq!(sizes, [16, 16 + 64, 16 + 128, 16 + 104, 16 + 16, 16 + 8]);
        let mut refused = Answer::result(3, libc::ENOSYS);
        assert_eq!(refused.bytes()[..8], [16u32.to_ne_bytes(), (-libc::ENOSYS as u32).to_ne_bytes()].concat());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_it_panic(opcode in 0u32..60, node in 0u64..3, body in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = parse(&request(opcode, node, &body));
            let _ = parse(&body);
        }
    }
}
