//! What the programs stand on, when it is not the machine's own disk. The app brings one; this room only says when.

use model::Result;
use std::fmt::Debug;

/// A disk of the app's making, with the programs' files on it.
pub trait Ground: Debug {
    /// Puts everything on it back as it was at first, and makes it cold. No program uses it any more. Until
    /// [`Ground::begin`] it is as quick as it can be.
    ///
    /// # Errors
    /// Somebody still uses it.
    fn put_back(&mut self) -> Result<()>;
    /// A run is about to be measured: from now on it behaves as it was chosen to.
    ///
    /// # Errors
    /// It is gone.
    fn begin(&mut self) -> Result<()>;
    /// The run is over, with all its processes: it is as quick as it can be again.
    ///
    /// # Errors
    /// It is gone.
    fn end(&mut self) -> Result<()>;
}
