//! What `/proc` says, with one parser for each of its texts: `mountinfo`, `stat`, `maps`.
//!
//! A parser leaves out what makes no sense and never fails: a later kernel may write more. What the words mean for
//! disks is [`crate::mounts`]' to say. Programs that may share no code with this room (the guest of a heap recording,
//! `embed`, the second opinion of `mend/pack`) read these texts by themselves.

pub(crate) mod cpu;
pub(crate) mod maps;
pub(crate) mod mountinfo;
pub(crate) mod number;
pub(crate) mod process;
pub(crate) mod stat;
pub(crate) mod value;
