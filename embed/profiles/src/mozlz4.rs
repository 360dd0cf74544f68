//! Firefox's packed JSON: eight bytes, the length, one block of LZ4. Pure; fuzzed.

/// What a file begins with.
pub const MAGIC: &[u8; 8] = b"mozLz40\0";
/// LZ4 makes at most so many bytes of one.
const MOST: u64 = 255;

/// The bytes inside.
///
/// # Errors
/// What is wrong with the file.
pub fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin with mozLz40")?;
    let (len, block) = rest.split_first_chunk().ok_or("it ends within its length")?;
    let len = u32::from_le_bytes(*len);
    // It may say anything, and memory is asked for by it.
    if u64::from(len) > (block.len() as u64 + 1) * MOST {
        return Err(format!("it says that {} bytes are {len} when unpacked, which they cannot be", block.len()));
    }
    let all = lz4_flex::block::decompress(block, len as usize);
    let all = all.map_err(|error| format!("its block of LZ4 is damaged: {error}"))?;
    if all.len() != len as usize {
        return Err(format!("it says {len} bytes and has {}", all.len()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let block = lz4_flex::block::compress(text);
        [&MAGIC[..], &(text.len() as u32).to_le_bytes(), &block].concat()
    }

    #[test]
    fn what_was_packed_is_unpacked_and_damage_is_said() {
        let text = b"{\"a\": 1, \"a\": 1, \"a\": 1, \"a\": 1, \"a\": 1, \"b\": 2}";
        let file = packed(text);
        assert_eq!(unpack(&file).unwrap(), text);
        assert_eq!(unpack(&packed(b"")).unwrap(), b"");
        for len in 0..file.len() {
            assert!(unpack(&file[..len]).is_err(), "{len}");
        }
        let mut wrong = file.clone();
        wrong[0] = b'M';
        assert!(unpack(&wrong).unwrap_err().contains("mozLz40"));
        let mut huge = file.clone();
        huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(unpack(&huge).unwrap_err().contains("cannot be"));
        let mut short = file;
        short[8] -= 1;
        assert!(unpack(&short).is_err());
    }
}
