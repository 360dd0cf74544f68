//! Reads an image, as far as it uses the format as thaw does: walks its directories, reads its files. It trusts no
//! byte, and shares nothing but numbers of the format with the writer.

use crate::format::*;
use crate::tree::{Node, Tree};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What an image is read from.
pub trait Source {
    /// All of its bytes.
    fn size(&self) -> u64;
    /// Fills `bytes`.
    ///
    /// # Errors
    /// There are not so many.
    fn read_into(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;
}

impl Source for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_into(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(at).ok().and_then(|at| self.get(at..)?.get(..bytes.len()));
        bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Source for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |about| about.len())
    }

    fn read_into(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(bytes, at)
    }
}

/// Why something is no image of thaw's, or a damaged one.
pub type Read<T> = Result<T, String>;

/// The kernel takes no longer paths.
const LONGEST_PATH: usize = 4096;

/// An image that is read.
pub struct Image<'a> {
    source: &'a dyn Source,
    /// Bytes of the file system.
    len: u64,
    root: u64,
    inodes: u64,
    /// Number of the way to compress.
    way: u8,
    /// Clusters may be shared.
    is_shared: bool,
}

/// Pages of a file in one piece of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first page in the file.
    pub page: u64,
    /// How many pages.
    pub pages: u64,
    /// The first block in the image.
    pub block: u64,
    /// How many blocks, if they are compressed.
    pub compressed: Option<u64>,
}

impl Piece {
    /// How many blocks it takes.
    pub fn blocks(&self) -> u64 {
        self.compressed.unwrap_or(self.pages)
    }
}

/// Where the data of an inode are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In one piece.
    Bytes(u64),
    /// Behind an index, of which this is the first entry.
    Index(u64),
}

/// What an inode says.
struct Inode {
    node: Node,
    /// Bytes of data.
    size: u64,
    place: Place,
}

/// What an image holds.
pub struct Contents {
    /// Its directories and files.
    pub tree: Tree,
    places: Vec<(u64, Place)>,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

fn must(holds: bool, why: &str) -> Read<()> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

impl<'a> Image<'a> {
    /// Reads the superblock.
    ///
    /// # Errors
    /// It is no EROFS image, is cut off, or uses what thaw does not.
    pub fn open(source: &'a dyn Source) -> Read<Self> {
        let mut block = vec![0; BLOCK as usize];
        must(source.size() >= BLOCK, "it is shorter than a block")?;
        source.read_into(0, &mut block).map_err(|cause| cause.to_string())?;
        let sb = &block[SUPER..];
        must(u32_at(sb, 0) == MAGIC, "it is no EROFS image")?;
        must(sb[12] == 12, "its blocks are not of 4096 bytes")?;
        must(u32_at(sb, 8) == COMPAT_SUM | COMPAT_MTIME, "it uses parts of the format that thaw does not")?;
        let mut summed = sb.to_vec();
        summed[4..8].fill(0);
        must(crc32c(&summed) == u32_at(sb, 4), "the checksum of its first block is wrong")?;
        let needs = u32_at(sb, 80);
        let is_usual =
            needs & !SHARED == PADDED | BIG_CLUSTERS && sb[13] == 0 && sb[86..SUPER_LEN].iter().all(|byte| *byte == 0);
        must(is_usual && u64_at(sb, 40) == 0, "it uses parts of the format that thaw does not")?;
        let way = match u16_at(sb, 84) {
            ways if ways == 1 << LZ4 => LZ4,
            ways if ways == 1 << ZSTD => ZSTD,
            _ => return Err("it is compressed in a way that thaw does not use".to_owned()),
        };
        let len = u64::from(u32_at(sb, 36)) * BLOCK;
        must(len <= source.size(), "it was cut off")?;
        let (root, inodes) = (u64::from(u16_at(sb, 14)), u64_at(sb, 16));
        Ok(Self { source, len, root, inodes, way, is_shared: needs & SHARED != 0 })
    }

    /// Bytes of the file system.
    pub fn size(&self) -> u64 {
        self.len
    }

    fn bytes(&self, at: u64, len: u64) -> Read<Vec<u8>> {
        must(at.checked_add(len).is_some_and(|end| end <= self.len), "something lies outside of it")?;
        let mut bytes = vec![0; len as usize];
        self.source.read_into(at, &mut bytes).map_err(|cause| cause.to_string())?;
        Ok(bytes)
    }

    fn inode(&self, number: u64) -> Read<Inode> {
        let at = number.checked_mul(SLOT).ok_or("an inode lies outside of it")?;
        let raw = self.bytes(at, INODE as u64)?;
        let format = u16_at(&raw, 0);
        must(format & LONG == LONG && format >> 4 == 0, "an inode has another form")?;
        must(u16_at(&raw, 6) == 0 && raw[48..].iter().all(|byte| *byte == 0), "an inode has bits that nobody knows")?;
        let (mode, size, value) = (u32::from(u16_at(&raw, 4)), u64_at(&raw, 8), u32_at(&raw, 16));
        let kind = mode & libc::S_IFMT;
        let words = u64::from(u16_at(&raw, 2));
        let attributes_len = if words == 0 { 0 } else { ATTRIBUTES_HEAD as u64 + (words - 1) * 4 };
        let behind = at + INODE as u64 + attributes_len;
        let has_data = [libc::S_IFREG, libc::S_IFDIR, libc::S_IFLNK].contains(&kind);
        let is_device = [libc::S_IFBLK, libc::S_IFCHR].contains(&kind);
        must(has_data || is_device || [libc::S_IFIFO, libc::S_IFSOCK].contains(&kind), "an inode is of no kind")?;
        must(has_data || size == 0, "something without data has data")?;
        let place = match format >> 1 {
            PLAIN => Place::Bytes(u64::from(value) * BLOCK),
            INLINE => {
                let room = BLOCK - behind % BLOCK;
                must((1..=room).contains(&size), "data behind an inode cross a block")?;
                Place::Bytes(behind)
            }
            INDEXED if kind == libc::S_IFREG => {
                let head = self.bytes(behind.next_multiple_of(8), INDEX_HEAD as u64)?;
                let is_known = head[..4] == [0; 4] && u16_at(&head, 4) == INDEX_BIG && head[7] == 0;
                must(is_known && head[6] == self.way | self.way << 4, "an index has another form")?;
                Place::Index(behind.next_multiple_of(8) + (INDEX_HEAD + INDEX_GAP) as u64)
            }
            _ => return Err("data lie in a way that thaw does not use".to_owned()),
        };
        let node = Node {
            mode,
            uid: u32_at(&raw, 24),
            gid: u32_at(&raw, 28),
            mtime: u64_at(&raw, 32) as i64,
            mtime_ns: u32_at(&raw, 40),
            size: if kind == libc::S_IFDIR { 0 } else { size },
            device: if is_device { device(value) } else { 0 },
            attributes: attributes(&self.bytes(at + INODE as u64, attributes_len)?)?,
            names: u32_at(&raw, 44),
            ..Node::default()
        };
        Ok(Inode { node, size, place })
    }

    /// All directories, and what is known of what is in them.
    ///
    /// # Errors
    /// They are damaged.
    pub fn contents(&self) -> Read<Contents> {
        let mut walk = Walk {
            image: self,
            contents: Contents { tree: Tree { nodes: Vec::new() }, places: Vec::new() },
            known: BTreeMap::new(),
            found: Vec::new(),
            room: self.len,
        };
        walk.add(PathBuf::new(), self.root, self.root)?;
        let Walk { contents, found, .. } = walk;
        let is_linked = contents.tree.nodes.iter().zip(&found).all(|(node, found)| node.names == *found);
        must(is_linked, "an inode has more or fewer names than it says")?;
        must(contents.tree.nodes.len() as u64 == self.inodes, "it has more or fewer inodes than it says")?;
        Ok(contents)
    }

    /// Where the pages of a file are; none for one whose content stands behind its inode.
    ///
    /// # Errors
    /// Its index is damaged.
    pub fn pieces(&self, contents: &Contents, node: usize) -> Read<Vec<Piece>> {
        let (size, Place::Index(entries)) = contents.places[node] else { return Ok(Vec::new()) };
        let pages = size.div_ceil(BLOCK);
        must(pages <= self.len / INDEX_ENTRY as u64, "an index lies outside of it")?;
        let raw = self.bytes(entries, pages * INDEX_ENTRY as u64)?;
        let mut raw = raw.chunks_exact(INDEX_ENTRY).map(|entry| (u16_at(entry, 0), u16_at(entry, 2), u32_at(entry, 4)));
        let mut pieces: Vec<Piece> = Vec::new();
        let mut page = 0;
        while let Some((kind, offset, block)) = raw.next() {
            must(offset == 0, "a cluster begins within a page")?;
            let block = u64::from(block);
            match kind {
                STORED => {
                    match pieces.last_mut() {
                        Some(last) if last.compressed.is_none() && last.block + last.pages == block => last.pages += 1,
                        _ => pieces.push(Piece { page, pages: 1, block, compressed: None }),
                    }
                    page += 1;
                }
                HEAD => {
                    let Some((MORE, 0, second)) = raw.next() else {
                        return Err("a compressed cluster has one page".to_owned());
                    };
                    let (count, left) = (second & 0xffff, u64::from(second >> 16));
                    must(count & u32::from(BLOCK_COUNT) != 0, "a cluster does not say how many blocks it takes")?;
                    let blocks = u64::from(count & !u32::from(BLOCK_COUNT));
                    let pages = left + 1;
                    let fits = (1..pages).contains(&blocks) && pages <= LONGEST / BLOCK;
                    must(fits, "a cluster has too many pages or blocks")?;
                    for at in 2..pages {
                        let expected = (MORE, 0, at as u32 | ((pages - at) as u32) << 16);
                        must(raw.next() == Some(expected), "the entries of a cluster contradict each other")?;
                    }
                    pieces.push(Piece { page, pages, block, compressed: Some(blocks) });
                    page += pages;
                }
                _ => return Err("an index begins within a cluster".to_owned()),
            }
        }
        for piece in &pieces {
            let end = (piece.block + piece.blocks()) * BLOCK;
            must(piece.block > 0 && end <= self.len, "a cluster lies outside of it")?;
        }
        Ok(pieces)
    }

    /// Reads a file, one piece after the other.
    ///
    /// # Errors
    /// It is damaged, or what `each` says.
    pub fn read(&self, contents: &Contents, node: usize, each: &mut dyn FnMut(&[u8]) -> Read<()>) -> Read<()> {
        let (size, place) = contents.places[node];
        if let Place::Bytes(at) = place {
            return if size == 0 { Ok(()) } else { each(&self.bytes(at, size)?) };
        }
        for piece in self.pieces(contents, node)? {
            let raw = self.bytes(piece.block * BLOCK, piece.blocks() * BLOCK)?;
            let len = (piece.pages * BLOCK).min(size - piece.page * BLOCK) as usize;
            match piece.compressed {
                None => {
                    must(raw[len..].iter().all(|byte| *byte == 0), "there is something behind the end of a file")?;
                    each(&raw[..len])?;
                }
                Some(_) => each(&self.unpacked(&raw, len)?)?,
            }
        }
        Ok(())
    }

    fn unpacked(&self, raw: &[u8], len: usize) -> Read<Vec<u8>> {
        let zeros = raw.iter().take_while(|byte| **byte == 0).count();
        must(zeros < BLOCK as usize, "a cluster begins with a block of zeros")?;
        let packed = &raw[zeros..];
        let mut bytes = vec![0; len];
        let found = match self.way {
            LZ4 => lz4_flex::block::decompress_into(packed, &mut bytes).map_err(|cause| cause.to_string()),
            _ => zstd::bulk::decompress_to_buffer(packed, &mut bytes[..]).map_err(|cause| cause.to_string()),
        };
        match found {
            Ok(found) if found == len => Ok(bytes),
            Ok(found) => Err(format!("a cluster holds {found} bytes in the place of {len}")),
            Err(cause) => Err(format!("a cluster cannot be unpacked: {cause}")),
        }
    }

    /// Checks that no two clusters share blocks but by being the same one. How many bytes of the image no file uses.
    ///
    /// # Errors
    /// Some do; an index is damaged.
    pub fn unused(&self, contents: &Contents, metadata: u64) -> Read<u64> {
        let mut pieces: Vec<(u64, u64, Option<u64>)> = Vec::new();
        for node in 0..contents.places.len() {
            pieces.extend(
                self.pieces(contents, node)?.iter().map(|piece| (piece.block, piece.blocks(), piece.compressed)),
            );
        }
        let count = pieces.len();
        pieces.sort_unstable();
        // Stored pages are told apart only where they do not follow each other: one may lie within another's.
        pieces.dedup();
        must(self.is_shared || pieces.len() == count, "clusters are shared, and it does not say so")?;
        let mut end = metadata / BLOCK;
        let mut unused = 0;
        let mut last_compressed = false;
        for (block, blocks, compressed) in pieces {
            let is_compressed = compressed.is_some();
            let overlaps = block < end;
            must(!overlaps || !is_compressed && !last_compressed && self.is_shared, "clusters overlap")?;
            unused += block.saturating_sub(end);
            (end, last_compressed) = (end.max(block + blocks), is_compressed);
        }
        Ok((unused + (self.len / BLOCK).saturating_sub(end)) * BLOCK)
    }
}

struct Walk<'a> {
    image: &'a Image<'a>,
    contents: Contents,
    /// By the number of the inode.
    known: BTreeMap<u64, usize>,
    /// By node: how many names were found.
    found: Vec<u32>,
    /// So many bytes of names and attributes can still be in the image.
    room: u64,
}

impl Walk<'_> {
    fn add(&mut self, path: PathBuf, number: u64, up: u64) -> Read<usize> {
        if let Some(known) = self.known.get(&number) {
            must(!self.contents.tree.nodes[*known].is_directory(), "a directory has two names")?;
            self.found[*known] += 1;
            return Ok(*known);
        }
        must(path.as_os_str().len() < LONGEST_PATH, "a path is too long")?;
        let inode = self.image.inode(number)?;
        let attributes: usize = inode.node.attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
        self.spend(attributes as u64 + INODE as u64)?;
        let node = self.contents.tree.nodes.len();
        self.known.insert(number, node);
        let (is_directory, is_link) = (inode.node.is_directory(), inode.node.kind() == libc::S_IFLNK);
        self.found.push(if is_directory { 2 } else { 1 });
        self.contents.tree.nodes.push(Node { path: path.clone(), ..inode.node });
        self.contents.places.push((inode.size, inode.place));
        if !is_directory && !is_link {
            return Ok(node);
        }
        let Place::Bytes(at) = inode.place else { return Err("a directory or link has an index".to_owned()) };
        self.spend(inode.size)?;
        let data = self.image.bytes(at, inode.size)?;
        if is_link {
            must(!data.is_empty() && data.len() < LONGEST_PATH && !data.contains(&0), "a link points to no path")?;
            self.contents.tree.nodes[node].target = data;
            return Ok(node);
        }
        self.fill(node, &path, &data, (number, up))?;
        Ok(node)
    }

    fn fill(&mut self, node: usize, path: &std::path::Path, data: &[u8], (own, up): (u64, u64)) -> Read<()> {
        let mut last: Option<Vec<u8>> = None;
        let mut special = [None, None];
        for block in data.chunks(BLOCK as usize) {
            for (name, number, kind) in entries(block)? {
                must(last.as_ref().is_none_or(|last| *last < name), "the names of a directory are not in order")?;
                last = Some(name.clone());
                match &name[..] {
                    b"." => special[0] = Some(number),
                    b".." => special[1] = Some(number),
                    _ => {
                        must(!name.is_empty() && !name.contains(&b'/') && !name.contains(&0), "a name is none")?;
                        let child = self.add(path.join(OsStr::from_bytes(&name)), number, own)?;
                        let nodes = &mut self.contents.tree.nodes;
                        must(type_of(nodes[child].kind()) == kind, "a directory says another kind than an inode")?;
                        self.found[node] += u32::from(nodes[child].is_directory());
                        nodes[node].children.push((name, child));
                    }
                }
            }
        }
        must(special == [Some(own), Some(up)], "a directory does not lead to itself and back")
    }

    fn spend(&mut self, bytes: u64) -> Read<()> {
        self.room = self.room.checked_sub(bytes).ok_or("directories share their data")?;
        Ok(())
    }
}

/// The entries of a block of a directory.
fn entries(block: &[u8]) -> Read<Vec<(Vec<u8>, u64, u8)>> {
    must(block.len() > ENTRY, "a directory is cut off")?;
    let heads = usize::from(u16_at(block, 8));
    must(heads > 0 && heads % ENTRY == 0 && heads < block.len(), "the entries of a directory overlap its names")?;
    let mut entries = Vec::with_capacity(heads / ENTRY);
    for at in (0..heads).step_by(ENTRY) {
        let from = usize::from(u16_at(block, at + 8));
        let is_last = at + ENTRY == heads;
        let to = if is_last { block.len() } else { usize::from(u16_at(block, at + ENTRY + 8)) };
        let name = block.get(from..to).filter(|_| from >= heads).ok_or("a name lies outside of its directory")?;
        let len = if is_last { name.iter().position(|byte| *byte == 0).unwrap_or(name.len()) } else { name.len() };
        must(len <= 255 && block[at + 11] == 0, "a name is too long")?;
        entries.push((name[..len].to_vec(), u64_at(block, at), block[at + 10]));
    }
    Ok(entries)
}

fn attributes(bytes: &[u8]) -> Read<Vec<(Vec<u8>, Vec<u8>)>> {
    let Some((head, mut rest)) = bytes.split_at_checked(ATTRIBUTES_HEAD) else { return Ok(Vec::new()) };
    must(head.iter().all(|byte| *byte == 0), "attributes are shared")?;
    let mut attributes = Vec::new();
    while !rest.is_empty() {
        let head = rest.get(..4).ok_or("an attribute is cut off")?;
        let (name_len, value_len) = (usize::from(head[0]), usize::from(u16_at(head, 2)));
        let prefix =
            PREFIXES.iter().find(|(_, number)| *number == head[1]).ok_or("an attribute has no known prefix")?.0;
        must(name_len > 0 || !prefix.ends_with(b"."), "an attribute has no name")?;
        let end = 4 + name_len + value_len;
        let both = rest.get(4..end).ok_or("an attribute is cut off")?;
        attributes.push(([prefix, &both[..name_len]].concat(), both[name_len..].to_vec()));
        rest = rest.get(end.next_multiple_of(4)..).ok_or("an attribute is cut off")?;
    }
    attributes.sort_unstable();
    Ok(attributes)
}

fn type_of(kind: u32) -> u8 {
    match kind {
        libc::S_IFREG => 1,
        libc::S_IFDIR => 2,
        libc::S_IFCHR => 3,
        libc::S_IFBLK => 4,
        libc::S_IFIFO => 5,
        libc::S_IFSOCK => 6,
        _ => 7,
    }
}

/// A device's number as stat(2) says it.
fn device(value: u32) -> u64 {
    libc::makedev(value >> 8 & 0xfff, value & 0xff | value >> 12 & 0xfff00)
}
