//! From a recorded start to a copy of the program that starts faster: which remedies are worth a try, what each would gain, and what became of it.
//!
//! - [`remedy`]: what can be done to a program from outside;
//! - [`predict`]: pure: the request log that a remedy would leave, and how long a disk takes for it;
//! - [`choose`]: pure: which remedies helped, and which of them go together;
//! - [`tree`]: the program's directory: found, surveyed, copied;
//! - [`manifest`]: what was done, as the file beside the copy;
//! - [`applied`]: what was changed in the system, so that it can be changed back;
//! - [`kept`]: originals of replaced files.
//!
//! Not for doing any of it to a file (that is `pack`, `layout` and `preload`), nor for measuring (`bench`): the app introduces them.

pub mod applied;
pub mod choose;
pub mod kept;
pub mod manifest;
pub mod predict;
pub mod remedy;
pub mod tree;
