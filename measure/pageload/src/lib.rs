//! The room that loads a page in real browsers and says how long that took, through which cache: on a first visit,
//! warm, on a reload, and cold, when whoever owns the cache was started anew and its files are in no memory.
//!
//! [`site`] and [`origin`] are a page that is the same everywhere and its server; [`drive`] holds the browsers,
//! [`conduct`] decides what is loaded when, [`report`] is what came of it.
//!
//! Not for what happens inside a load (`thaw timeline` reads browsers' traces), and not for starts of browsers
//! (`thaw record`): both are running when a clock starts.

pub mod conduct;
pub mod drive;
pub mod ground;
pub mod origin;
pub mod pin;
pub mod plan;
pub mod program;
pub mod report;
pub mod site;
mod talk;
mod websocket;
