//! The functions that `.eh_frame` describes. Only places and lengths are read, not how to unwind: a linear walk over
//! 270,000 entries takes some milliseconds. The format is that of the Linux Standard Base (Core, "Exception Frames")
//! and of DWARF 4, section 6.4.1.

use object::Endianness;

/// Pointer encodings (DW_EH_PE_*): the low four bits are the format, the next three what it is relative to.
const ABSOLUTE: u8 = 0x00;
const PC_RELATIVE: u8 = 0x10;
const INDIRECT: u8 = 0x80;

/// Address and length of every function, in the order of the table. A damaged entry ends the walk.
pub fn functions(table: &[u8], address: u64, endian: Endianness, is_64: bool) -> impl Iterator<Item = (u64, u64)> {
    let big = endian == Endianness::Big;
    let mut walk = Walk { table, address, big, is_64, next: 0, known: None };
    std::iter::from_fn(move || walk.next_function())
}

/// What the `.eh_frame_hdr` at this address says is the address of `.eh_frame`.
pub fn eh_frame_address(header: &[u8], address: u64, endian: Endianness, is_64: bool) -> Option<u64> {
    let mut cursor = Cursor { bytes: header, at: 0, big: endian == Endianness::Big, is_64 };
    let version = cursor.byte()?;
    let encoding = cursor.byte()?;
    // Encodings of the count and of the table, which is not needed.
    cursor.skip(2)?;
    (version == 1).then(|| cursor.pointer(encoding, address)).flatten()
}

struct Walk<'a> {
    table: &'a [u8],
    address: u64,
    big: bool,
    is_64: bool,
    next: usize,
    /// The common entry that was read last, by its offset.
    known: Option<(usize, Option<Common>)>,
}

/// What matters of a common information entry.
#[derive(Clone, Copy)]
struct Common {
    /// How the entries that name it encode addresses.
    encoding: u8,
    /// Frames of signal handlers: their entry begins one byte before the code, in nobody's function.
    signal: bool,
}

impl Walk<'_> {
    fn cursor(&self, at: usize, end: usize) -> Cursor<'_> {
        Cursor { bytes: &self.table[..end.min(self.table.len())], at, big: self.big, is_64: self.is_64 }
    }

    fn next_function(&mut self) -> Option<(u64, u64)> {
        loop {
            let mut cursor = self.cursor(self.next, self.table.len());
            let (body, end) = cursor.entry()?;
            self.next = end;
            let mut cursor = self.cursor(body, end);
            let pointer = u64::from(cursor.u32()?);
            if pointer == 0 {
                continue;
            }
            // The pointer counts back from itself.
            let Some(common_at) = body.checked_sub(usize::try_from(pointer).ok()?) else { continue };
            let at = cursor.at;
            let Some(common) = self.common(common_at) else { continue };
            let mut cursor = self.cursor(at, end);
            let start = cursor.pointer(common.encoding, self.address);
            let len = cursor.pointer(common.encoding & 0x0f, 0);
            if let (Some(start), Some(len), false) = (start, len, common.signal) {
                return Some((start, len));
            }
        }
    }

    fn common(&mut self, at: usize) -> Option<Common> {
        if self.known.is_none_or(|(known, _)| known != at) {
            self.known = Some((at, self.read_common(at)));
        }
        self.known.and_then(|(_, common)| common)
    }

    fn read_common(&self, at: usize) -> Option<Common> {
        let (body, end) = self.cursor(at, self.table.len()).entry()?;
        let mut cursor = self.cursor(body, end);
        if cursor.u32()? != 0 {
            return None;
        }
        let version = cursor.byte()?;
        let augmentation = cursor.text()?;
        if augmentation == b"eh" {
            cursor.skip(if self.is_64 { 8 } else { 4 })?;
        }
        cursor.uleb()?;
        // The data alignment is signed, but as long either way.
        cursor.uleb()?;
        if version == 1 {
            cursor.byte()?;
        } else {
            cursor.uleb()?;
        }
        let mut common = Common { encoding: ABSOLUTE, signal: false };
        let Some(letters) = augmentation.strip_prefix(b"z") else { return Some(common) };
        cursor.uleb()?;
        for letter in letters {
            match letter {
                b'R' => common.encoding = cursor.byte()?,
                b'S' => common.signal = true,
                b'L' => cursor.skip(1)?,
                b'P' => {
                    let encoding = cursor.byte()?;
                    cursor.pointer(encoding & !INDIRECT, 0)?;
                }
                b'B' => {}
                _ => return None,
            }
        }
        Some(common)
    }
}

/// Reads numbers one after the other; `None` at the end.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    big: bool,
    is_64: bool,
}

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(len)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(taken)
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.take(len).map(drop)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    /// An unsigned number of 1 to 8 bytes.
    fn number(&mut self, len: usize) -> Option<u64> {
        let bytes = self.take(len)?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.big { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) })
    }

    fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|number| number as u32)
    }

    fn uleb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let len = rest.iter().position(|byte| *byte == 0)?;
        self.at += len + 1;
        Some(&rest[..len])
    }

    /// The length of an entry: where its body begins and ends. `None` at the terminator and behind the end.
    fn entry(&mut self) -> Option<(usize, usize)> {
        let len = match self.u32()? {
            0 => return None,
            0xffff_ffff => self.number(8)?,
            len => u64::from(len),
        };
        let end = self.at.checked_add(usize::try_from(len).ok()?)?;
        (end <= self.bytes.len()).then_some((self.at, end))
    }

    /// An encoded pointer; `address` is that of the first byte that this cursor reads.
    fn pointer(&mut self, encoding: u8, address: u64) -> Option<u64> {
        let place = address.wrapping_add(self.at as u64);
        let width = if self.is_64 { 8 } else { 4 };
        let value = match encoding & 0x0f {
            0x00 => self.number(width)?,
            0x01 => self.uleb()?,
            0x02 => self.number(2)?,
            0x03 => self.number(4)?,
            0x04 | 0x0c => self.number(8)?,
            0x0a => self.number(2)? as u16 as i16 as u64,
            0x0b => self.number(4)? as u32 as i32 as u64,
            _ => return None,
        };
        let value = match encoding & 0xf0 {
            ABSOLUTE => value,
            PC_RELATIVE => place.wrapping_add(value),
            _ => return None,
        };
        Some(if self.is_64 { value } else { value & 0xffff_ffff })
    }
}
