//! From a recorded start to one that is faster: which remedies are worth a try, what each would gain, and what became
//! of it.
//!
//! - [`remedy`]: what can be done to a program from outside;
//! - [`environment`]: pure: which variables of the environment a remedy sets, and for which programs;
//! - [`caches`]: which directories have a cache of their files, and what builds it;
//! - [`predict`]: pure: the request log that a remedy would leave, and how long a disk takes for it;
//! - [`choose`]: pure: which sets of remedies to measure, and which to keep;
//! - [`files`]: the program's files: which may be changed, and whether they stay as they are;
//! - [`packages`]: which of them an upgrade replaces;
//! - [`manifest`]: what was done, as the file beside the copies;
//! - [`applied`]: what was changed in the system, so that it can be changed back;
//! - [`kept`]: originals of replaced files.
//!
//! Not for doing any of it to a file (that is `pack`, `layout` and `preload`), nor for measuring (`bench`): the app
//! introduces them.

pub mod applied;
pub mod caches;
pub mod choose;
pub mod environment;
pub mod files;
pub mod kept;
pub mod manifest;
pub mod packages;
pub mod predict;
pub mod remedy;
