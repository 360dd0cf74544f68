//! What the stores of `embed` share: a directory and what is done to it ([`disk`]), files of checked and numbered
//! records ([`frame`], [`book`]), one thread that does jobs by their priority ([`clerk`], [`queue`]), and a queue of
//! news with a descriptor ([`bell`]). No store of ours waits for a disk on its caller's thread, and all are judged by
//! the same disk that fails and loses its power (`memory`, a feature for tests).

pub mod bell;
pub mod book;
pub mod clerk;
pub mod disk;
pub mod frame;
#[cfg(feature = "memory")]
pub mod memory;
pub mod queue;
