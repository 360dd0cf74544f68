//! Disks: models of them, what a recorded start would have cost on them, and a disk that can be chosen.
//!
//! - [`model`]: a disk as a handful of figures, with the formulas and where they come from; [`preset`]: disks by name;
//!   [`fit`]: the disk of this machine, measured.
//! - [`simulate`]: a recorded start on another disk, as its requests came and sorted by place. Pure.
//! - [`report`]: that in a few figures for each disk, as it is shown. Pure.
//! - [`replay`]: the same requests really read again in both orders; [`fio`]: the same as a log for fio.
//! - [`simulated`]: the program under test on a disk that is as slow as a model says.
//!
//! Not for tracing what a start asks for (that is `io`), nor for starting programs (that is `bench`).

pub mod fio;
pub mod fit;
pub mod model;
pub mod preset;
pub mod replay;
pub mod report;
mod ring;
pub mod simulate;
pub mod simulated;
