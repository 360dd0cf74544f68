//! Which bytes of its files a start really touches, and in which order; not for timing starts (that is `bench`).

mod page;

pub use page::pages;
