//! The C interface of LevelDB (`leveldb/c.h`), as far as it is called here.

use std::ffi::{CString, c_char, c_uchar, c_void};
use std::path::Path;
use std::ptr::null_mut;

unsafe extern "C" {
    fn leveldb_options_create() -> *mut c_void;
    fn leveldb_options_set_create_if_missing(options: *mut c_void, yes: c_uchar);
    fn leveldb_writeoptions_create() -> *mut c_void;
    fn leveldb_writeoptions_set_sync(options: *mut c_void, yes: c_uchar);
    fn leveldb_readoptions_create() -> *mut c_void;
    fn leveldb_open(options: *const c_void, name: *const c_char, error: *mut *mut c_char) -> *mut c_void;
    fn leveldb_close(base: *mut c_void);
    fn leveldb_put(
        base: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        value: *const u8,
        value_len: usize,
        error: *mut *mut c_char,
    );
    fn leveldb_get(
        base: *mut c_void,
        options: *const c_void,
        key: *const u8,
        key_len: usize,
        value_len: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut u8;
    fn leveldb_free(what: *mut c_void);
}

pub struct LevelDb {
    base: *mut c_void,
    write: *mut c_void,
    read: *mut c_void,
}

impl LevelDb {
    pub fn open(path: &Path, sync: bool) -> Result<LevelDb, String> {
        let name = CString::new(path.to_str().ok_or("no UTF-8")?).map_err(|error| error.to_string())?;
        let mut error = null_mut();
        // SAFETY: all pointers are LevelDB's own or live through the call.
        unsafe {
            let options = leveldb_options_create();
            leveldb_options_set_create_if_missing(options, 1);
            let base = leveldb_open(options, name.as_ptr(), &mut error);
            let (write, read) = (leveldb_writeoptions_create(), leveldb_readoptions_create());
            leveldb_writeoptions_set_sync(write, sync.into());
            if base.is_null() { Err("LevelDB cannot be opened".into()) } else { Ok(LevelDb { base, write, read }) }
        }
    }

    pub fn set(&self, key: &[u8], value: &[u8]) {
        let mut error = null_mut();
        // SAFETY: the bytes are read during the call alone.
        unsafe {
            leveldb_put(self.base, self.write, key.as_ptr(), key.len(), value.as_ptr(), value.len(), &mut error);
        }
        assert!(error.is_null(), "LevelDB cannot write");
    }

    pub fn get(&self, key: &[u8]) -> usize {
        let (mut len, mut error) = (0, null_mut());
        // SAFETY: the key is read during the call alone, and the value is ours to free.
        unsafe {
            let value = leveldb_get(self.base, self.read, key.as_ptr(), key.len(), &mut len, &mut error);
            assert!(!value.is_null(), "LevelDB has lost a key");
            leveldb_free(value.cast());
        }
        len
    }
}

impl Drop for LevelDb {
    fn drop(&mut self) {
        // SAFETY: it is open, and nobody uses it any more.
        unsafe { leveldb_close(self.base) }
    }
}
