//! Programs in C, Python and for Node that use `thaw_cache.h`, against a small origin.

mod client;
mod edges;
mod header;
mod origin;
mod others;
mod programs;
mod rust;
