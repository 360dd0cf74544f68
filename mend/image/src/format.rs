//! Numbers of the format EROFS, as the kernel's `fs/erofs/erofs_fs.h` names them, and its checksum, which a test holds
//! against the catalogue's. No other code: the writer and the reader have their own, so that one does not repeat a
//! mistake of the other.

/// Bytes of a block, and of a logical cluster.
pub const BLOCK: u64 = 4096;
/// Where the superblock is.
pub const SUPER: usize = 1024;
/// Its length without extensions.
pub const SUPER_LEN: usize = 128;
/// Its first word.
pub const MAGIC: u32 = 0xE0F5_E1E2;
/// A checksum of the first block is kept.
pub const COMPAT_SUM: u32 = 1;
/// Times are modification times.
pub const COMPAT_MTIME: u32 = 2;
/// Compressed data end with their last block; zeros are in front.
pub const PADDED: u32 = 1;
/// Settings of the compression stand behind the superblock; a cluster may take several blocks.
pub const BIG_CLUSTERS: u32 = 2;
/// Several ranges of files may share one physical cluster (Linux 6.1).
pub const SHARED: u32 = 0x20;

/// Bytes of an inode in its long form.
pub const INODE: usize = 64;
/// Places of inodes are counted in these.
pub const SLOT: u64 = 32;
/// The bit of the long form.
pub const LONG: u16 = 1;
/// Layouts of data, the bits above [`LONG`].
pub const PLAIN: u16 = 0;
/// An index entry of eight bytes for each block.
pub const INDEXED: u16 = 1;
/// Data, or their last part, behind the inode.
pub const INLINE: u16 = 2;

/// The head of an inode's extended attributes.
pub const ATTRIBUTES_HEAD: usize = 12;
/// Prefixes of attributes' names that have numbers.
pub const PREFIXES: [(&[u8], u8); 5] = [
    (b"user.", 1),
    (b"system.posix_acl_access", 2),
    (b"system.posix_acl_default", 3),
    (b"trusted.", 4),
    (b"security.", 6),
];

/// The head of an inode's index.
pub const INDEX_HEAD: usize = 8;
/// What lies between it and the first entry.
pub const INDEX_GAP: usize = 8;
/// Bytes of an entry of an index.
pub const INDEX_ENTRY: usize = 8;
/// In the head of an index: clusters may take several blocks.
pub const INDEX_BIG: u16 = 2;
/// Types of entries: stored as they are,
pub const STORED: u16 = 0;
/// the first block of a compressed cluster,
pub const HEAD: u16 = 1;
/// a further one.
pub const MORE: u16 = 2;
/// In the first number of the second entry of a cluster: it is the count of physical blocks.
pub const BLOCK_COUNT: u16 = 1 << 11;

/// Most bytes of a cluster, before it is compressed; what a window of zstd holds. The kernel has memory for as much on
/// each CPU.
pub const LONGEST: u64 = 1 << 19;

/// Bytes of an entry of a directory without its name.
pub const ENTRY: usize = 12;

/// Numbers of the ways to compress.
pub const LZ4: u8 = 0;
/// As above.
pub const ZSTD: u8 = 3;

/// The checksum of the superblock: CRC-32C without the last inversion, as the kernel computes it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 })
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_that_of_the_catalogue() {
        // CRC-32C of "123456789" is E3069283, with the last inversion.
        assert_eq!(!super::crc32c(b"123456789"), 0xE306_9283);
    }
}
