//! The requirements that a cache has, a module for each part of the specifications. All run through one small world: a
//! store in memory, an origin that answers what a test says, a clock that a test moves, and bodies that are compared.

mod conditional;
mod dictionary;
mod format;
mod freshness;
mod invalidation;
mod keys;
mod partial;
mod requests;
mod stale;
mod storing;
mod targeted;
mod updates;
mod vary;
mod world;
