//! Small texts in fixed buffers, cut where they are too long.

use core::ffi::c_char;

/// Up to N bytes.
pub struct Text<const N: usize> {
    buffer: [u8; N],
    length: usize,
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self { buffer: [0; N], length: 0 }
    }

    /// Adds bytes, as many as fit.
    pub fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(place) = self.buffer.get_mut(self.length) {
                *place = *byte;
                self.length += 1;
            }
        }
    }

    /// Adds a decimal number.
    pub fn push_number(&mut self, number: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }

    /// Lets a function fill the rest; it says how many bytes it wrote.
    pub fn fill(&mut self, fill: impl FnOnce(&mut [u8]) -> usize) {
        if let Some(rest) = self.buffer.get_mut(self.length..) {
            self.length = (self.length + fill(rest)).min(N);
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or(&[])
    }

    /// With the zero that [`Text::with_zero`] put behind it.
    pub fn with_its_zero(&self) -> &[u8] {
        self.buffer.get(..=self.length).unwrap_or(&[0])
    }

    /// Zero-terminated; the last byte is cut off if it is full.
    pub fn with_zero(&mut self) -> &[u8] {
        let end = self.length.min(N - 1);
        self.buffer[end] = 0;
        &self.buffer[..=end]
    }
}

/// A decimal number.
pub fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |sum: u64, digit| sum.wrapping_mul(10).wrapping_add(digit.wrapping_sub(b'0').into()))
}

/// The bytes of a C string without its zero; empty for null.
///
/// # Safety
/// `text` is null or zero-terminated and stays.
pub unsafe fn of_c<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller vouches for the zero.
    unsafe { core::ffi::CStr::from_ptr(text).to_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_not_overrun() {
        let mut text = Text::<8>::new();
        text.push(b"pid ");
        text.push_number(1234567);
        assert_eq!(text.bytes(), b"pid 1234");
        assert_eq!(text.with_zero(), b"pid 123\0");
        let mut zero = Text::<4>::new();
        zero.push_number(0);
        assert_eq!(zero.with_zero(), b"0\0");
    }
}
