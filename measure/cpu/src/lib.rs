//! Who owns each millisecond of a start.
//!
//! A recorder takes down which thread ran where and when, who woke whom, and where the program was when a clock ticked
//! or when it went to sleep ([`Raw`]: addresses, registers, pieces of stacks). After the run these become a [`Trace`]:
//! the same with named stacks. What follows is pure: what each thread did when, and the way back from the moment of
//! readiness to exec, on which every moment has one owner.
//!
//! Not for what a start reads (that is `io`), and not for the events that a program writes itself (`timeline`).

mod analyze;
mod axis;
mod blocked;
mod callers;
mod cuts;
mod differ;
#[cfg(test)]
mod drawn;
pub mod export;
mod flames;
mod helps;
mod lanes;
pub mod loader;
mod merged;
mod objects;
mod owners;
mod path;
mod phase;
mod picture;
mod raw;
mod ready;
mod record;
mod report;
mod resolve;
mod several;
#[cfg(test)]
mod simulated;
mod states;
mod table;
mod unwind;
mod waits;
mod words;

pub use analyze::analyze;
pub use callers::Caller;
pub use cuts::Seen;
pub use differ::{Changed, Difference, differ};
pub use flames::{FlameFrame, Flames, flames};
pub use helps::{Eases, Help, Known, helps};
pub use model::cpu as trace;
pub use model::cpu::{Frame, FrameId, Sample, StackId, Stacks, Switch, Thread, Trace, Wake, Waker, Went};
pub use path::{Doing, Ran};
pub use phase::Phase;
pub use picture::{DrawnPiece, PathPiece, Picture, picture};
pub use raw::{Context, Flags, Raw, RawMapping, RawSample, RawSwitch, RawTask, RawWake, Tick, UserState, What};
pub use ready::noticed_by;
pub use record::{Options, Recorder};
pub use report::{
    BlockedRow, Confidence, Does, EndedBy, Lane, LanePiece, LaneState, LinkRow, ObjectRow, OffPath, Owner, Report,
    StepRow, Taker, ThreadName, Unexplained,
};
pub use resolve::{Given, resolve};
pub use several::{Shared, together};
pub use unwind::{Place, Unwinder, Walked};
pub use waits::Kind;
