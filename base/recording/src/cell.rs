//! How one field becomes one SQLite value and comes back.
//!
//! SQLite's integers are signed 64-bit. Unsigned 64-bit fields keep their bits: a value of 2^63 and above (an inode
//! number can be one) is stored as that value minus 2^64.

use model::cpu::{FrameId, StackId};
use model::{Bytes, DiskOffset, FileId, FileOffset, Nanos, RunId};
use rusqlite::types::{ToSqlOutput, Type, Value, ValueRef};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// What is wrong with a stored value, as the end of a sentence about its column.
#[derive(Debug)]
pub(crate) struct Damage(pub String);

impl Damage {
    pub fn new(what: &str) -> Self {
        Self(what.to_owned())
    }
    fn wrong_type(wanted: &str, found: Type) -> Self {
        Self(format!("should be {wanted} but is {found}"))
    }
}

/// A field of a row.
pub(crate) trait Cell: Sized {
    /// Its value in SQLite.
    fn bind(&self) -> ToSqlOutput<'_>;
    /// From its value in SQLite.
    fn read(value: ValueRef<'_>) -> Result<Self, Damage>;
}

fn integer(value: ValueRef<'_>) -> Result<i64, Damage> {
    match value {
        ValueRef::Integer(number) => Ok(number),
        other => Err(Damage::wrong_type("an integer", other.data_type())),
    }
}

fn owned(number: i64) -> ToSqlOutput<'static> {
    ToSqlOutput::Owned(Value::Integer(number))
}

impl Cell for i64 {
    fn bind(&self) -> ToSqlOutput<'_> {
        owned(*self)
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        integer(value)
    }
}

impl Cell for u64 {
    fn bind(&self) -> ToSqlOutput<'_> {
        owned(self.cast_signed())
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        Ok(integer(value)?.cast_unsigned())
    }
}

macro_rules! narrow_cells {
    ($($name:ty),+) => {$(
        impl Cell for $name {
            fn bind(&self) -> ToSqlOutput<'_> {
                owned(i64::from(*self))
            }
            fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
                let number = integer(value)?;
                Self::try_from(number).map_err(|_| Damage(format!("is out of range: {number}")))
            }
        }
    )+};
}
narrow_cells!(u32, i32);

impl Cell for bool {
    fn bind(&self) -> ToSqlOutput<'_> {
        owned(i64::from(*self))
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        match integer(value)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Damage(format!("should be 0 or 1 but is {other}"))),
        }
    }
}

impl Cell for f64 {
    /// SQLite has no NaN; it stores NULL instead, which is what "could not be told" is in this schema.
    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Owned(Value::Real(*self))
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        match value {
            ValueRef::Real(number) => Ok(number),
            other => Err(Damage::wrong_type("a real number", other.data_type())),
        }
    }
}

impl Cell for String {
    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Text(self.as_bytes()))
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        match value {
            ValueRef::Text(bytes) => {
                Self::from_utf8(bytes.to_vec()).map_err(|_| Damage::new("holds text that is not UTF-8"))
            }
            other => Err(Damage::wrong_type("text", other.data_type())),
        }
    }
}

/// TEXT where the name is UTF-8, so that SQL can compare it with a literal; else BLOB.
fn bind_name(name: &OsStr) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(match name.to_str() {
        Some(text) => ValueRef::Text(text.as_bytes()),
        None => ValueRef::Blob(name.as_bytes()),
    })
}

impl Cell for OsString {
    fn bind(&self) -> ToSqlOutput<'_> {
        bind_name(self)
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        match value {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Ok(Self::from_vec(bytes.to_vec())),
            other => Err(Damage::wrong_type("a name", other.data_type())),
        }
    }
}

impl Cell for PathBuf {
    fn bind(&self) -> ToSqlOutput<'_> {
        bind_name(self.as_os_str())
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        OsString::read(value).map(Self::from)
    }
}

impl<T: Cell> Cell for Option<T> {
    fn bind(&self) -> ToSqlOutput<'_> {
        self.as_ref().map_or(ToSqlOutput::Owned(Value::Null), Cell::bind)
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        match value {
            ValueRef::Null => Ok(None),
            some => T::read(some).map(Some),
        }
    }
}

impl Cell for Box<str> {
    fn bind(&self) -> ToSqlOutput<'_> {
        ToSqlOutput::Borrowed(ValueRef::Text(self.as_bytes()))
    }
    fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
        String::read(value).map(String::into_boxed_str)
    }
}

macro_rules! wrapped_cells {
    ($($name:ident($inner:ty)),+ $(,)?) => {$(
        impl Cell for $name {
            fn bind(&self) -> ToSqlOutput<'_> {
                self.0.bind()
            }
            fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
                <$inner>::read(value).map($name)
            }
        }
    )+};
}
wrapped_cells!(FileOffset(u64), DiskOffset(u64), FileId(u32), RunId(i64), StackId(u32), FrameId(u32));

/// Times and sizes: no machine has 2^63 of them, and a negative one would be shown as 584 years.
macro_rules! amount_cells {
    ($($name:ident),+) => {$(
        impl Cell for $name {
            fn bind(&self) -> ToSqlOutput<'_> {
                self.0.bind()
            }
            fn read(value: ValueRef<'_>) -> Result<Self, Damage> {
                let number = integer(value)?;
                u64::try_from(number).map($name).map_err(|_| Damage(format!("is negative: {number}")))
            }
        }
    )+};
}
amount_cells!(Nanos, Bytes);
