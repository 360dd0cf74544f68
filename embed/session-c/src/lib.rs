//! The functions of `include/thaw_session.h` as a library for C and C++: they are those of the crate for Rust.

pub use session::c::*;
