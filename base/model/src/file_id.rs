//! Which file a row of a trace speaks of.

use serde::{Deserialize, Serialize};

/// Index into [`crate::TraceRows::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FileId(pub u32);
