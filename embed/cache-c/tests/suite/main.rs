//! Programs in C, Python and for Node that use `thaw_cache.h`, against a small origin.

mod client;
mod origin;
mod programs;
