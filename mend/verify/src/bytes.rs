//! Numbers out of bytes, of either class and byte order; every access is checked.

/// Width of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Elf32,
    Elf64,
}

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// How a file writes its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) class: Class,
    pub(crate) order: Order,
}

impl Format {
    /// Bytes of an address.
    pub(crate) fn word_len(self) -> u64 {
        match self.class {
            Class::Elf32 => 4,
            Class::Elf64 => 8,
        }
    }

    /// One of two values, by class.
    pub(crate) fn pick<T>(self, narrow: T, wide: T) -> T {
        match self.class {
            Class::Elf32 => narrow,
            Class::Elf64 => wide,
        }
    }

    /// The value as an address of this class holds it: arithmetic of the loader wraps around.
    pub(crate) fn wrap(self, value: u64) -> u64 {
        self.pick(value & 0xffff_ffff, value)
    }

    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let raw = bytes.get(at..at.checked_add(2)?)?.try_into().ok()?;
        Some(match self.order {
            Order::Little => u16::from_le_bytes(raw),
            Order::Big => u16::from_be_bytes(raw),
        })
    }

    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let raw = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self.order {
            Order::Little => u32::from_le_bytes(raw),
            Order::Big => u32::from_be_bytes(raw),
        })
    }

    pub(crate) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let raw = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(match self.order {
            Order::Little => u64::from_le_bytes(raw),
            Order::Big => u64::from_be_bytes(raw),
        })
    }

    /// An address.
    pub(crate) fn word(self, bytes: &[u8], at: usize) -> Option<u64> {
        match self.class {
            Class::Elf32 => self.u32(bytes, at).map(u64::from),
            Class::Elf64 => self.u64(bytes, at),
        }
    }

    /// Two or three addresses, from bytes that hold them; zeros where they do not.
    #[inline]
    pub(crate) fn words(self, bytes: &[u8]) -> [u64; 3] {
        match self.class {
            Class::Elf32 => {
                let number = |raw: &[u8; 4]| match self.order {
                    Order::Little => u32::from_le_bytes(*raw).into(),
                    Order::Big => u32::from_be_bytes(*raw).into(),
                };
                numbers(bytes.as_chunks().0, number)
            }
            Class::Elf64 => {
                let number = |raw: &[u8; 8]| match self.order {
                    Order::Little => u64::from_le_bytes(*raw),
                    Order::Big => u64::from_be_bytes(*raw),
                };
                numbers(bytes.as_chunks().0, number)
            }
        }
    }

    /// Writes an address. `None`: it does not fit in.
    pub(crate) fn set_word(self, bytes: &mut [u8], at: usize, value: u64) -> Option<()> {
        let rest = bytes.get_mut(at..)?;
        match self.class {
            Class::Elf32 => {
                let narrow = value as u32;
                *rest.first_chunk_mut()? = match self.order {
                    Order::Little => narrow.to_le_bytes(),
                    Order::Big => narrow.to_be_bytes(),
                };
            }
            Class::Elf64 => {
                *rest.first_chunk_mut()? = match self.order {
                    Order::Little => value.to_le_bytes(),
                    Order::Big => value.to_be_bytes(),
                };
            }
        }
        Some(())
    }
}

#[inline]
fn numbers<const LEN: usize>(raw: &[[u8; LEN]], number: impl Fn(&[u8; LEN]) -> u64) -> [u64; 3] {
    match raw {
        [one, two, three, ..] => [number(one), number(two), number(three)],
        [one, two] => [number(one), number(two), 0],
        _ => [0; 3],
    }
}

/// The text from `at` to its NUL. `None`: outside the table, or without an end.
pub(crate) fn text(table: &[u8], at: u64) -> Option<&[u8]> {
    let rest = table.get(usize::try_from(at).ok()?..)?;
    // SAFETY: looks at the bytes of `rest` alone. Of the standard library's ways none takes long names in large steps.
    let end = unsafe { libc::memchr(rest.as_ptr().cast(), 0, rest.len()) };
    rest.get(..end.addr().checked_sub(rest.as_ptr().addr())?)
}

/// A name for people; long ones are cut.
pub(crate) fn shown(name: &[u8]) -> String {
    const LIMIT: usize = 120;
    if name.len() > LIMIT {
        return format!("{}...", String::from_utf8_lossy(&name[..LIMIT]));
    }
    String::from_utf8_lossy(name).into_owned()
}
