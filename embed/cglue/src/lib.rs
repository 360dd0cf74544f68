//! What the libraries for C share: pointers that callers hand over, checked before they are used; the codes that all of
//! them have; and no panic that unwinds into a caller.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// It was done.
pub const OK: c_int = 0;
/// There is none.
pub const EMPTY: c_int = 1;
/// A pointer is NULL that must not be.
pub const NULL: c_int = -1;
/// A number is out of its range, a text is none.
pub const INVALID: c_int = -2;

/// What a function returns: a code of either kind.
pub type Done = Result<c_int, c_int>;

/// Does the work of a function, and returns its code; `panic`, if it has panicked.
pub fn guard(panic: c_int, work: impl FnOnce() -> Done) -> c_int {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(panic)).unwrap_or_else(|code| code)
}

/// What a pointer leads to.
///
/// # Errors
/// [`NULL`].
///
/// # Safety
/// NULL, or what the library handed out and has not taken back.
pub unsafe fn object<'a, T>(pointer: *const T) -> Result<&'a T, c_int> {
    // SAFETY: as above.
    unsafe { pointer.as_ref() }.ok_or(NULL)
}

/// Puts a value where a pointer leads to.
///
/// # Errors
/// [`NULL`].
///
/// # Safety
/// NULL, or a place for it; what was there has nothing to drop.
pub unsafe fn put<T>(to: *mut T, value: T) -> Result<(), c_int> {
    if to.is_null() {
        return Err(NULL);
    }
    // SAFETY: not NULL, and the caller has room there.
    unsafe { to.write(value) };
    Ok(())
}

/// Things that lie in a row.
///
/// # Errors
/// [`NULL`] though there are some; [`INVALID`]: more than can be.
///
/// # Safety
/// So many of them, which stay as they are meanwhile; NULL, or anything, if there are none.
pub unsafe fn slice<'a, T>(from: *const T, length: usize) -> Result<&'a [T], c_int> {
    if length == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(NULL);
    }
    if length.checked_mul(size_of::<T>()).is_none_or(|bytes| isize::try_from(bytes).is_err()) {
        return Err(INVALID);
    }
    // SAFETY: not NULL, and the caller has so many there.
    Ok(unsafe { std::slice::from_raw_parts(from, length) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn what_is_null_or_too_long_is_a_code_and_a_panic_too() {
        let units = [1_u16, 2, 3];
        let mut to = 0_u64;
        // SAFETY: NULL, or what is above; what is too long is not looked at.
        unsafe {
            assert_eq!(object::<u16>(ptr::null()), Err(NULL));
            assert_eq!(object(&raw const units[1]), Ok(&2));
            assert_eq!((put(ptr::null_mut(), 7_u64), put(&raw mut to, 7)), (Err(NULL), Ok(())));
            assert_eq!(to, 7);
            assert_eq!(slice(units.as_ptr(), 3), Ok(&units[..]));
            assert_eq!((slice::<u16>(ptr::null(), 0), slice::<u16>(ptr::null(), 1)), (Ok(&[][..]), Err(NULL)));
            for long in [usize::MAX, isize::MAX as usize, isize::MAX as usize / 2 + 1] {
                assert_eq!(slice(units.as_ptr(), long), Err(INVALID));
            }
        }
        assert_eq!((guard(-9, || Ok(1)), guard(-9, || Err(INVALID)), guard(-9, || panic!("a defect"))), (1, -2, -9));
    }
}
