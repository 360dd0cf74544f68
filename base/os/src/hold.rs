//! Changes of the machine that are held as long as a run or a recording needs them, and given back after `kill -9` too:
//! the journal that says so, control groups, settings.
//!
//! The [`journal`] knows entries; who makes a change gives it the hand that undoes it; [`mend`] knows all hands.

pub mod cgroup;
pub mod journal;
pub mod mend;
pub mod settings;
