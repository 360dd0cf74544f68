//! How every part says that it went no further.

use crate::report::{Reason, Refusal};
use model::Error;

/// Why a step went no further.
#[derive(Debug)]
pub enum Stop {
    /// The file is not one for packing.
    Refused(Refusal),
    /// Packing went wrong.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A refusal; the sentence is about "it", the file.
pub fn refuse(reason: Reason, sentence: impl Into<String>) -> Stop {
    Stop::Refused(Refusal { reason, sentence: sentence.into(), hint: None })
}

/// A refusal with what to type instead.
pub fn refuse_with_hint(reason: Reason, sentence: impl Into<String>, hint: impl Into<String>) -> Stop {
    Stop::Refused(Refusal { reason, sentence: sentence.into(), hint: Some(hint.into()) })
}
