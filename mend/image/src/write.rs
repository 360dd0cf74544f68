//! Writes an image: metadata in front, what starts need of it first; then clusters in the order of [`crate::order`];
//! then what thaw adds ([`crate::about`]). Equal directories, needs and settings give equal bytes.
//!
//! Where each inode lies is known before anything is compressed, because an index has an entry for each page whatever
//! becomes of it. So data are compressed and written one after the other, and metadata at the end, into their place.

use crate::about::{About, Origin};
use crate::covered::Covered;
use crate::format::*;
use crate::inodes;
use crate::order::{Class, Cluster, Need, Pages, clusters};
use crate::tree::{Detail, Node, Tree};
use model::{Bytes, Error, Exit, Result};
use rayon::prelude::*;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Clusters that are compressed at a time.
const BATCH: usize = 256;
/// Bits of zstd's window.
const WINDOW: u32 = LONGEST.ilog2();

/// How clusters are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Every kernel with EROFS reads it (5.13), and erofs-utils of every age.
    Lz4,
    /// With this level; Linux 6.10.
    Zstd(i32),
}

impl Compression {
    /// What is said of it.
    pub fn name(self) -> String {
        match self {
            Self::Lz4 => "lz4".to_owned(),
            Self::Zstd(level) => format!("zstd {level}"),
        }
    }

    /// From what is said of it; `None`: an image of another version.
    pub fn of_name(name: &str) -> Option<Self> {
        match name.strip_prefix("zstd ") {
            Some(level) => level.parse().ok().map(Self::Zstd),
            None => (name == "lz4").then_some(Self::Lz4),
        }
    }

    /// Pages of a cluster that starts need. For a fault the kernel unpacks the whole cluster of zstd; of lz4 what comes
    /// before the page, for each page again.
    pub(crate) fn needed_pages(self) -> u64 {
        match self {
            Self::Lz4 => 4,
            Self::Zstd(_) => 16,
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Lz4 => LZ4,
            Self::Zstd(_) => ZSTD,
        }
    }
}

/// What becomes an image.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The directory, or directories.
    pub covered: &'a Covered,
    /// What they hold, as far as it is to be in the image, whole.
    pub tree: &'a Tree,
    /// [`Tree::sum`] of that as it is, without changed copies in the place of files.
    pub sum: [u8; 32],
    /// What starts need; files are numbers of the tree's nodes.
    pub needs: &'a [Need],
    /// The starts that tell all they needed.
    pub whole: &'a [u32],
}

/// Writes the image of a directory into an empty file.
///
/// # Errors
/// Something in the directory cannot be read, cannot be in an image, or was changed meanwhile; the file cannot be
/// written.
pub fn write(source: &Source<'_>, compression: Compression, origin: Origin, out: &File) -> Result<About> {
    let layout = Layout::of(source)?;
    let mut metadata = vec![0_u8; (layout.end * BLOCK) as usize];
    let mut data = Data { source, compression, out, next: layout.end, sum: Sha256::new(), known: HashMap::new() };
    let files = layout.indexed(source.tree);
    let mut placed =
        Placed { shared: Bytes(0), stored: Bytes(0), by_all: 0, needed: 0, blocks: vec![0; layout.at.len()] };
    let clusters = clusters(&files, source.needs, source.whole, compression.needed_pages());
    for batch in clusters.chunks(BATCH) {
        os::interrupt::check()?;
        data.place(batch, &layout, &mut metadata, &mut placed)?;
    }
    let blocks = data.next;
    let is_shared = placed.shared.0 > 0;
    layout.encode(source, &placed.blocks, compression, &mut metadata)?;
    superblock(&mut metadata, &layout, compression, blocks, is_shared);
    put(out, &metadata, 0)?;
    let mut inodes = inodes::of(source.covered.root(), source.tree).unwrap_or_default();
    inodes.resize(inodes.len().next_multiple_of(BLOCK as usize), 0);
    let now = Tree::of(source.covered, Detail::Names)?;
    if now.sum() != source.sum {
        return Err(changed(&source.covered.whole()));
    }
    let needed = if placed.needed == 0 { layout.end } else { placed.needed };
    let of_kind = |kind: fn(&Node) -> bool| source.tree.nodes.iter().filter(|node| kind(node)).count() as u64;
    let about = About {
        origin,
        compression: compression.name(),
        files: of_kind(Node::is_file),
        directories: of_kind(Node::is_directory),
        content: source.tree.nodes.iter().filter(|node| node.is_file()).map(|node| Bytes(node.size)).sum(),
        image: Bytes(blocks * BLOCK),
        metadata: Bytes(layout.end * BLOCK),
        by_all: Bytes(placed.by_all.max(layout.end) * BLOCK),
        start: Bytes(needed * BLOCK),
        shared: placed.shared,
        stored: placed.stored,
        tree_sum: source.sum.into(),
        inodes: Bytes(inodes.len() as u64),
        inodes_sum: <[u8; 32]>::from(Sha256::digest(&inodes)).into(),
        // Without them every directory is a request of its own, and nothing else.
        places: inodes::places(source.covered, source.tree).unwrap_or_default(),
        metadata_sum: <[u8; 32]>::from(Sha256::digest(&metadata)).into(),
        data_sum: <[u8; 32]>::from(data.sum.finalize()).into(),
    };
    inodes.extend(about.encode()?);
    put(out, &inodes, blocks * BLOCK)?;
    Ok(about)
}

fn changed(path: &Path) -> Error {
    Error::on(Exit::Machine, "it was changed while its image was made:", path).hint("make the image again")
}

fn put(out: &File, bytes: &[u8], at: u64) -> Result<()> {
    out.write_all_at(bytes, at).map_err(|cause| Error::new(Exit::Machine, "cannot write the image", "").because(cause))
}

/// Where data of an inode are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// There are none.
    Empty,
    /// Behind the inode.
    Inline,
    /// In blocks of the metadata, from this one on.
    Blocks(u64),
    /// In clusters; the entries of the index begin here.
    Index(u64),
}

/// Where inodes are.
pub(crate) struct Layout {
    /// By node: the first byte.
    at: Vec<u64>,
    /// By node: the data.
    form: Vec<Form>,
    /// By node: its extended attributes as they are written.
    attributes: Vec<Vec<u8>>,
    /// By node: the directory that has its first name.
    parents: Vec<usize>,
    /// Blocks of all metadata.
    pub(crate) end: u64,
}

impl Layout {
    pub(crate) fn of(source: &Source<'_>) -> Result<Self> {
        let tree = source.tree;
        let count = tree.nodes.len();
        let mut parents = vec![0; count];
        for (number, node) in tree.nodes.iter().enumerate().rev() {
            node.children.iter().for_each(|(_, child)| parents[*child] = number);
        }
        let mut layout = Self {
            at: vec![0; count],
            form: vec![Form::Empty; count],
            attributes: Vec::with_capacity(count),
            parents,
            end: 0,
        };
        for node in &tree.nodes {
            layout.attributes.push(attributes(node)?);
        }
        let mut next = (SUPER + SUPER_LEN + 16) as u64;
        let mut in_blocks: Vec<(usize, u64)> = Vec::new();
        for number in layout.ranked(source) {
            let node = &tree.nodes[number];
            let head = (INODE + layout.attributes[number].len()) as u64;
            let len = data_len(tree, number);
            let fits = head + len <= BLOCK;
            // What is read through its inode alone must not begin in one block and end in another.
            let together = if fits { head + len } else { head.min(BLOCK) };
            next = next.next_multiple_of(SLOT);
            if next / BLOCK != (next + together - 1) / BLOCK {
                next = next.next_multiple_of(BLOCK);
            }
            layout.at[number] = next;
            next += head;
            layout.form[number] = match () {
                () if len == 0 => Form::Empty,
                () if fits => {
                    next += len;
                    Form::Inline
                }
                () if node.is_file() => {
                    let entries = next.next_multiple_of(8) + (INDEX_HEAD + INDEX_GAP) as u64;
                    next = entries + len.div_ceil(BLOCK) * INDEX_ENTRY as u64;
                    Form::Index(entries)
                }
                () => {
                    in_blocks.push((number, len.div_ceil(BLOCK)));
                    Form::Empty
                }
            };
        }
        layout.end = next.div_ceil(BLOCK);
        for (number, blocks) in in_blocks {
            layout.form[number] = Form::Blocks(layout.end);
            layout.end += blocks;
        }
        Ok(layout)
    }

    /// The nodes in the order of their inodes: the root, what starts need in the order of first touch, each after the
    /// directories that lead to it, and the rest.
    fn ranked(&self, source: &Source<'_>) -> Vec<usize> {
        let mut first: Vec<(u64, usize)> = source.needs.iter().map(|need| (need.first, need.file)).collect();
        first.sort_unstable();
        let mut is_taken = vec![false; self.at.len()];
        let mut ranked = Vec::with_capacity(self.at.len());
        let all = 0..self.at.len();
        for number in std::iter::once(0).chain(first.into_iter().map(|(_, file)| file)).chain(all) {
            let mut way = vec![number];
            while let Some(last) = way.last().copied()
                && last != 0
            {
                way.push(self.parents[last]);
            }
            for number in way.into_iter().rev() {
                if !std::mem::replace(&mut is_taken[number], true) {
                    ranked.push(number);
                }
            }
        }
        ranked
    }

    /// The files whose data are in clusters.
    pub(crate) fn indexed(&self, tree: &Tree) -> Vec<Pages> {
        let all = self.form.iter().enumerate().filter(|(_, form)| matches!(form, Form::Index(_)));
        all.map(|(file, _)| Pages { file, pages: tree.nodes[file].size.div_ceil(BLOCK) }).collect()
    }

    fn number(&self, node: usize) -> u64 {
        self.at[node] / SLOT
    }

    /// Writes inodes, attributes, directories, small files.
    fn encode(&self, source: &Source<'_>, blocks: &[u32], compression: Compression, metadata: &mut [u8]) -> Result<()> {
        for (number, node) in source.tree.nodes.iter().enumerate() {
            let (layout, value) = match self.form[number] {
                Form::Empty if node.device != 0 => (PLAIN, device(node.device)?),
                Form::Empty => (PLAIN, 0),
                Form::Inline => (INLINE, 0),
                Form::Blocks(block) => (PLAIN, block as u32),
                Form::Index(_) => (INDEXED, blocks[number]),
            };
            let attributes = &self.attributes[number];
            let words = match attributes.len() {
                0 => 0,
                len => (len - ATTRIBUTES_HEAD) / 4 + 1,
            };
            let data = if node.is_file() { Vec::new() } else { self.data(source.tree, number) };
            let size = if node.is_file() { node.size } else { data.len() as u64 };
            let mut inode = Vec::with_capacity(INODE);
            inode.extend((layout << 1 | LONG).to_le_bytes());
            inode.extend((words as u16).to_le_bytes());
            inode.extend((node.mode as u16).to_le_bytes());
            inode.extend([0; 2]);
            inode.extend(size.to_le_bytes());
            inode.extend(value.to_le_bytes());
            inode.extend((number as u32 + 1).to_le_bytes());
            inode.extend(node.uid.to_le_bytes());
            inode.extend(node.gid.to_le_bytes());
            inode.extend(node.mtime.to_le_bytes());
            inode.extend(node.mtime_ns.to_le_bytes());
            inode.extend(node.names.to_le_bytes());
            inode.resize(INODE, 0);
            inode.extend(attributes);
            let at = self.at[number];
            let behind = at + inode.len() as u64;
            set(metadata, at, &inode);
            match self.form[number] {
                Form::Inline if node.is_file() => set(metadata, behind, &content(source, number, 0, node.size)?),
                Form::Inline => set(metadata, behind, &data),
                Form::Blocks(block) => set(metadata, block * BLOCK, &data),
                Form::Index(entries) => {
                    let way = compression.number();
                    let head = [0, 0, 0, 0, INDEX_BIG as u8, 0, way | way << 4, 0];
                    set(metadata, entries - (INDEX_HEAD + INDEX_GAP) as u64, &head);
                }
                Form::Empty => {}
            }
        }
        Ok(())
    }

    /// What a directory or a link has as data.
    fn data(&self, tree: &Tree, number: usize) -> Vec<u8> {
        let node = &tree.nodes[number];
        if !node.is_directory() {
            return node.target.clone();
        }
        let up = self.parents[number];
        let entry = |name: &[u8], node: usize| (name.to_vec(), self.number(node), type_of(&tree.nodes[node]));
        let mut entries: Vec<_> = node.children.iter().map(|(name, child)| entry(name, *child)).collect();
        entries.extend([entry(b".", number), entry(b"..", up)]);
        directory(entries)
    }
}

fn set(metadata: &mut [u8], at: u64, bytes: &[u8]) {
    metadata[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

/// How many bytes of data an inode has.
fn data_len(tree: &Tree, number: usize) -> u64 {
    let node = &tree.nodes[number];
    match node.is_directory() {
        true => {
            let names = node.children.iter().map(|(name, _)| name.clone()).chain([b".".to_vec(), b"..".to_vec()]);
            directory(names.map(|name| (name, 0, 0)).collect()).len() as u64
        }
        false => node.size.max(node.target.len() as u64),
    }
}

/// A directory: in each block entries sorted by name, then their names.
fn directory(mut entries: Vec<(Vec<u8>, u64, u8)>) -> Vec<u8> {
    entries.sort_unstable();
    let mut data: Vec<u8> = Vec::new();
    let mut rest = &entries[..];
    while !rest.is_empty() {
        let mut room = BLOCK as usize;
        let fits = rest.iter().take_while(|(name, ..)| {
            let fits = ENTRY + name.len() <= room;
            room = room.saturating_sub(ENTRY + name.len());
            fits
        });
        let (block, later) = rest.split_at(fits.count());
        data.resize(data.len().next_multiple_of(BLOCK as usize), 0);
        let mut name_at = ENTRY * block.len();
        for (name, number, kind) in block {
            data.extend(number.to_le_bytes());
            data.extend((name_at as u16).to_le_bytes());
            data.extend([*kind, 0]);
            name_at += name.len();
        }
        block.iter().for_each(|(name, ..)| data.extend(name));
        rest = later;
    }
    data
}

/// What a directory says of the kind of an entry.
fn type_of(node: &Node) -> u8 {
    match node.kind() {
        libc::S_IFREG => 1,
        libc::S_IFDIR => 2,
        libc::S_IFCHR => 3,
        libc::S_IFBLK => 4,
        libc::S_IFIFO => 5,
        libc::S_IFSOCK => 6,
        libc::S_IFLNK => 7,
        _ => 0,
    }
}

/// The number of a device, as the kernel writes it in 32 bits.
fn device(number: u64) -> Result<u32> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    match major < 1 << 12 && minor < 1 << 20 {
        true => Ok(minor & 0xff | major << 8 | (minor & !0xff) << 12),
        false => Err(Error::new(Exit::Data, "an image cannot hold the device", format!("{major}:{minor}"))),
    }
}

/// Extended attributes as they stand behind an inode; empty: there are none.
fn attributes(node: &Node) -> Result<Vec<u8>> {
    if node.attributes.is_empty() {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; ATTRIBUTES_HEAD];
    for (name, value) in &node.attributes {
        let known = PREFIXES.iter().find_map(|(prefix, number)| {
            let rest = name.strip_prefix(*prefix)?;
            (prefix.ends_with(b".") || rest.is_empty()).then_some((rest, *number))
        });
        let (Some((rest, number)), Ok(len)) = (known, u16::try_from(value.len())) else {
            let name = String::from_utf8_lossy(name);
            return Err(Error::on(Exit::Data, format!("an image cannot hold the attribute {name} of"), &node.path)
                .hint("setfattr -x takes it away, if the program does not need it"));
        };
        // The kernel has no names that are longer.
        bytes.extend([rest.len() as u8, number]);
        bytes.extend(len.to_le_bytes());
        bytes.extend(rest);
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    match bytes.len() / 4 < usize::from(u16::MAX) {
        true => Ok(bytes),
        false => Err(Error::on(Exit::Data, "an image cannot hold so many extended attributes:", &node.path)),
    }
}

/// Bytes of a file. The name is looked up for each piece: thousands of files would be more than may be open.
fn content(source: &Source<'_>, node: usize, at: u64, len: u64) -> Result<Vec<u8>> {
    let node = &source.tree.nodes[node];
    let path = node.instead.clone().unwrap_or_else(|| source.covered.root().join(&node.path));
    let mut bytes = vec![0; len as usize];
    let read = os::file::open_regular(&path).and_then(|file| file.read_exact_at(&mut bytes, at));
    match read {
        Ok(()) => Ok(bytes),
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Err(changed(&path)),
        Err(cause) => Err(Error::on(Exit::Machine, "cannot read", &path).because(cause)),
    }
}

/// What came of the clusters.
struct Placed {
    /// Content that lies elsewhere already.
    shared: Bytes,
    /// Content that is stored as it is.
    stored: Bytes,
    /// The block behind what all starts need.
    by_all: u64,
    /// The block behind what any start needs; 0: nothing is.
    needed: u64,
    /// By node: blocks that its clusters take.
    blocks: Vec<u32>,
}

/// A cluster as it is written.
pub(crate) struct Packed {
    sum: [u8; 32],
    /// Whole blocks; `None` where compression saves none.
    pub(crate) packed: Option<Vec<u8>>,
    pub(crate) raw: Vec<u8>,
}

/// Where clusters go.
struct Data<'a> {
    source: &'a Source<'a>,
    compression: Compression,
    out: &'a File,
    /// The next free block.
    next: u64,
    sum: Sha256,
    /// By the sum of their content: the first block of clusters that are written, and how many blocks they take if
    /// they are compressed.
    known: HashMap<[u8; 32], (u32, Option<u32>)>,
}

impl Data<'_> {
    fn place(&mut self, clusters: &[Cluster], layout: &Layout, metadata: &mut [u8], placed: &mut Placed) -> Result<()> {
        let (source, compression) = (self.source, self.compression);
        let packed: Vec<Packed> = clusters
            .par_iter()
            .map_init(|| Packer::new(compression), |packer, cluster| pack(source, packer.as_mut(), cluster))
            .collect::<Result<_>>()?;
        let mut bytes = Vec::new();
        let first = self.next;
        for (cluster, packed) in clusters.iter().zip(packed) {
            let (block, compressed) = match self.known.get(&packed.sum) {
                Some(known) => {
                    placed.shared += Bytes(packed.raw.len() as u64);
                    *known
                }
                None => {
                    let block = u32::try_from(self.next).map_err(|_| {
                        Error::new(Exit::Data, "the image would be longer than 16 TiB", "")
                            .hint("take less of the directory")
                    })?;
                    let compressed = packed.packed.as_ref().map(|packed| (packed.len() as u64 / BLOCK) as u32);
                    if compressed.is_none() {
                        placed.stored += Bytes(packed.raw.len() as u64);
                    }
                    bytes.extend(packed.packed.unwrap_or(packed.raw));
                    bytes.resize(bytes.len().next_multiple_of(BLOCK as usize), 0);
                    self.next = first + bytes.len() as u64 / BLOCK;
                    self.known.insert(packed.sum, (block, compressed));
                    (block, compressed)
                }
            };
            if cluster.class == Class::All {
                placed.by_all = self.next;
            }
            if cluster.class != Class::None {
                placed.needed = self.next;
            }
            placed.blocks[cluster.file] += compressed.unwrap_or(cluster.pages as u32);
            let Form::Index(entries) = layout.form[cluster.file] else {
                return Err(Error::bug("a cluster of a file without an index"));
            };
            let index = index(cluster.pages, block, compressed);
            set(metadata, entries + cluster.page * INDEX_ENTRY as u64, &index);
        }
        self.sum.update(&bytes);
        put(self.out, &bytes, first * BLOCK)
    }
}

/// The entries of a cluster.
fn index(pages: u64, block: u32, compressed: Option<u32>) -> Vec<u8> {
    let mut entries = Vec::with_capacity(pages as usize * INDEX_ENTRY);
    let mut entry = |kind: u16, value: u32| {
        entries.extend(kind.to_le_bytes());
        entries.extend([0; 2]);
        entries.extend(value.to_le_bytes());
    };
    for page in 0..pages as u32 {
        let left = (pages as u32 - page) << 16;
        match (compressed, page) {
            (None, _) => entry(STORED, block + page),
            (Some(_), 0) => entry(HEAD, block),
            (Some(blocks), 1) => entry(MORE, u32::from(BLOCK_COUNT) | blocks | left),
            (Some(_), _) => entry(MORE, page | left),
        }
    }
    entries
}

/// Compresses clusters, one after the other.
pub(crate) enum Packer {
    Lz4,
    Zstd(Box<zstd::bulk::Compressor<'static>>),
}

impl Packer {
    pub(crate) fn new(compression: Compression) -> io::Result<Self> {
        let Compression::Zstd(level) = compression else { return Ok(Self::Lz4) };
        let mut zstd = zstd::bulk::Compressor::new(level)?;
        zstd.window_log(WINDOW)?;
        // The kernel compares it where it unpacks a whole cluster.
        zstd.include_checksum(true)?;
        Ok(Self::Zstd(Box::new(zstd)))
    }

    fn pack(&mut self, raw: &[u8]) -> io::Result<Vec<u8>> {
        match self {
            Self::Lz4 => Ok(lz4_flex::block::compress(raw)),
            Self::Zstd(zstd) => zstd.compress(raw),
        }
    }
}

pub(crate) fn pack(
    source: &Source<'_>,
    packer: std::result::Result<&mut Packer, &mut io::Error>,
    cluster: &Cluster,
) -> Result<Packed> {
    let size = source.tree.nodes[cluster.file].size;
    let at = cluster.page * BLOCK;
    let raw = content(source, cluster.file, at, (cluster.pages * BLOCK).min(size - at))?;
    let failed = |cause: String| Error::new(Exit::Machine, "cannot compress", "").because(cause);
    let packed = packer.map_err(|cause| failed(cause.to_string()))?.pack(&raw);
    let packed = packed.map_err(|cause| failed(cause.to_string()))?;
    let blocks = (packed.len() as u64).div_ceil(BLOCK);
    // The data end with the last block: zeros are in front.
    let padded = |packed: Vec<u8>| [vec![0; (blocks * BLOCK) as usize - packed.len()], packed].concat();
    let packed = (blocks < cluster.pages).then(|| padded(packed));
    Ok(Packed { sum: Sha256::digest(&raw).into(), packed, raw })
}

fn superblock(metadata: &mut [u8], layout: &Layout, compression: Compression, blocks: u64, is_shared: bool) {
    let id: [u8; 32] = Sha256::digest(&metadata[..]).into();
    let mut block = vec![0_u8; SUPER_LEN];
    let mut word = |at: usize, bytes: &[u8]| block[at..at + bytes.len()].copy_from_slice(bytes);
    word(0, &MAGIC.to_le_bytes());
    word(8, &(COMPAT_SUM | COMPAT_MTIME).to_le_bytes());
    word(12, &[BLOCK.ilog2() as u8]);
    // The root's inode is the first one.
    word(14, &(layout.number(0) as u16).to_le_bytes());
    word(16, &(layout.at.len() as u64).to_le_bytes());
    word(36, &(blocks as u32).to_le_bytes());
    word(48, &id[..16]);
    let shared = if is_shared { SHARED } else { 0 };
    word(80, &(PADDED | BIG_CLUSTERS | shared).to_le_bytes());
    word(84, &(1_u16 << compression.number()).to_le_bytes());
    match compression {
        Compression::Lz4 => {
            block.extend(14_u16.to_le_bytes());
            block.extend(u16::MAX.to_le_bytes());
            block.extend(((LONGEST / BLOCK) as u16).to_le_bytes());
        }
        Compression::Zstd(_) => {
            block.extend(6_u16.to_le_bytes());
            block.extend([0, WINDOW as u8 - 10]);
        }
    }
    metadata[SUPER..SUPER + block.len()].copy_from_slice(&block);
    let sum = crc32c(&metadata[SUPER..BLOCK as usize]);
    set(metadata, SUPER as u64 + 4, &sum.to_le_bytes());
}
