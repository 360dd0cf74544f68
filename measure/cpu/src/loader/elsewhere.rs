//! Machines whose loader cannot be watched.

use super::Watched;
use model::{Error, Exit, Result};

/// A program under watch: there is none here.
#[derive(Debug)]
pub struct Attached(std::convert::Infallible);

impl Attached {
    /// Says why not.
    ///
    /// # Errors
    /// Always.
    pub fn to(pid: u32) -> Result<Self> {
        Err(Error::new(Exit::Machine, "cannot watch the loader of process", pid)
            .because("this is known for x86-64 alone")
            .hint("leave this out: --no-loader"))
    }

    /// Not reached.
    pub fn enough(&self) {
        match self.0 {}
    }

    /// Not reached.
    ///
    /// # Errors
    /// None.
    pub fn finish(self) -> Result<Watched> {
        match self.0 {}
    }
}
