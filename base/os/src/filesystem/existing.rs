//! What a writer does with what has the name already.

/// What happens to a file that has the target's name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and the new one is an error.
    Keep,
    /// It is replaced as a whole.
    Replace,
}

impl Existing {
    /// What `--force` means: with it, what is there is replaced.
    pub fn forced(force: bool) -> Self {
        if force { Self::Replace } else { Self::Keep }
    }
}
