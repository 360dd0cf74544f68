//! Paths in the journal's JSON, also those that are no UTF-8.

/// One path: text if they are UTF-8, else their bytes.
pub(super) mod path_text {
    use serde::{Deserialize, Serialize};
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    pub(super) enum Form {
        Text(String),
        Bytes(Vec<u8>),
    }

    impl Form {
        pub(super) fn of(path: &Path) -> Self {
            match path.to_str() {
                Some(text) => Self::Text(text.to_owned()),
                None => Self::Bytes(path.as_os_str().as_bytes().to_vec()),
            }
        }
        pub(super) fn path(self) -> PathBuf {
            match self {
                Self::Text(text) => text.into(),
                Self::Bytes(bytes) => std::ffi::OsString::from_vec(bytes).into(),
            }
        }
    }

    pub(in super::super) fn serialize<S: serde::Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        Form::of(path).serialize(out)
    }
    pub(in super::super) fn deserialize<'a, D: serde::Deserializer<'a>>(from: D) -> Result<PathBuf, D::Error> {
        Form::deserialize(from).map(Form::path)
    }
}

/// The same for lists of paths.
pub(super) mod paths_text {
    use super::path_text::Form;
    use serde::Deserialize;
    use std::path::PathBuf;

    pub(in super::super) fn serialize<S: serde::Serializer>(paths: &[PathBuf], out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(paths.iter().map(|path| Form::of(path)))
    }
    pub(in super::super) fn deserialize<'a, D: serde::Deserializer<'a>>(from: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<Form>::deserialize(from)?.into_iter().map(Form::path).collect())
    }
}
