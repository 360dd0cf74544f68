//! The commands in a file of Chromium's (SNSS), and the values in a command. Pure.

use crate::oscrypt;
use std::borrow::Cow;

/// The version whose commands are encrypted one by one.
const ENCRYPTED: u8 = 5;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command<'b> {
    /// Its kind: what it means depends on the file's name.
    pub kind: u8,
    /// Its content.
    pub content: &'b [u8],
}

/// A file as one whose commands are not encrypted, and what is wrong behind those that could be decrypted: in version 5
/// each is four bytes of length and the encrypted kind and content.
///
/// # Errors
/// The first one cannot be decrypted.
pub(crate) fn in_the_clear(bytes: &[u8]) -> Result<(Cow<'_, [u8]>, Option<String>), String> {
    let Some(mut rest) = bytes.strip_prefix(&[b'S', b'N', b'S', b'S', ENCRYPTED, 0, 0, 0]) else {
        return Ok((bytes.into(), None));
    };
    let mut out = b"SNSS\x03\0\0\0".to_vec();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let split = rest
            .split_first_chunk()
            .and_then(|(len, rest)| rest.split_at_checked(usize::try_from(u32::from_le_bytes(*len)).ok()?));
        let why = match split.map(|(encrypted, behind)| (oscrypt::decrypted(encrypted), behind)) {
            Some((Ok(command), behind)) => match u16::try_from(command.len()) {
                Ok(len) => {
                    out.extend(len.to_le_bytes());
                    out.extend(command);
                    rest = behind;
                    continue;
                }
                Err(_) => "is longer than one can be",
            },
            Some((Err(why), _)) if at == 8 => return Err(format!("its commands are encrypted: {why}")),
            Some((Err(why), _)) => why,
            None => "is cut off",
        };
        let left = rest.len();
        return Ok((
            out.into(),
            Some(format!("at byte {at} a command cannot be read: {why}: {left} bytes are not read")),
        ));
    }
    Ok((out.into(), None))
}

/// The commands of a file, and what is wrong behind them.
///
/// # Errors
/// It is no such file, or of a version that cannot be read.
pub(crate) fn commands(bytes: &[u8]) -> Result<(Vec<Command<'_>>, Option<String>), String> {
    let Some((head, mut rest)) = bytes.split_at_checked(8).filter(|parts| parts.0.starts_with(b"SNSS")) else {
        return Err("it does not begin with SNSS".into());
    };
    match u32::from_le_bytes([head[4], head[5], head[6], head[7]]) {
        1 | 3 => {}
        other => return Err(format!("it is of version {other}; 1, 3 and 5 can be read")),
    }
    let mut all = Vec::new();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let cut = || format!("at byte {at} a command is cut off: {} bytes are not read", bytes.len() - at);
        let Some((len, behind)) = rest.split_first_chunk() else { return Ok((all, Some(cut()))) };
        let len = usize::from(u16::from_le_bytes(*len));
        if len == 0 {
            return Ok((all, Some(format!("at byte {at} a command has no length: {} bytes are not read", rest.len()))));
        }
        let Some((command, behind)) = behind.split_at_checked(len) else { return Ok((all, Some(cut()))) };
        all.push(Command { kind: command[0], content: &command[1..] });
        rest = behind;
    }
    Ok((all, None))
}

/// Values one behind the other: those of structs (`align` 1: the caller says where) and of pickles (each begins at a
/// multiple of four).
pub(crate) struct Reader<'b>(pub &'b [u8]);

impl<'b> Reader<'b> {
    /// A pickle: its length, then its values.
    pub fn pickle(content: &'b [u8]) -> Option<Reader<'b>> {
        let (len, rest) = content.split_first_chunk()?;
        Some(Reader(rest.get(..u32::from_le_bytes(*len) as usize)?))
    }

    fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub fn int(&mut self) -> Option<i32> {
        Some(i32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    pub fn long(&mut self) -> Option<i64> {
        Some(i64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Bytes of a pickle, and what fills them up to a multiple of four.
    fn filled(&mut self, len: usize) -> Option<&'b [u8]> {
        let taken = self.take(len)?;
        // At the very end it may be missing.
        let fill = len.wrapping_neg() % 4;
        self.take(fill.min(self.0.len()))?;
        Some(taken)
    }

    pub fn text(&mut self) -> Option<String> {
        let len = usize::try_from(self.int()?).ok()?;
        Some(String::from_utf8_lossy(self.filled(len)?).into())
    }

    pub fn text16(&mut self) -> Option<String> {
        let len = usize::try_from(self.int()?).ok()?.checked_mul(2)?;
        let units = self.filled(len)?.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        Some(char::decode_utf16(units).map(|letter| letter.unwrap_or('\u{FFFD}')).collect())
    }
}
