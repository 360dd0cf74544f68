//! Where a packed file will run.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Version of a C library; its last number is 0 where it has two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Version(pub u32, pub u32, pub u32);

/// The first glibc that applies DT_RELR.
pub const GLIBC: Version = Version(2, 36, 0);
/// The first musl that applies DT_RELR.
pub const MUSL: Version = Version(1, 2, 4);

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(major, minor, 0) => write!(out, "{major}.{minor}"),
            Self(major, minor, patch) => write!(out, "{major}.{minor}.{patch}"),
        }
    }
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split('.').map(|number| number.parse().map_err(drop));
        let version = Self(numbers.next().ok_or(())??, numbers.next().ok_or(())??, numbers.next().unwrap_or(Ok(0))?);
        if numbers.next().is_some() { Err(()) } else { Ok(version) }
    }
}

/// Where a packed file will run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// On the system below this directory: its loader is read there.
    Root(PathBuf),
    /// Under glibc of this version or a newer one.
    Glibc(Version),
    /// Under musl of this version or a newer one.
    Musl(Version),
    /// Whoever packs the file knows that its loader applies DT_RELR.
    Any,
}

impl Default for Home {
    fn default() -> Self {
        Self::Root(PathBuf::from("/"))
    }
}

impl FromStr for Home {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let version = |text: &str| Version::from_str(text).map_err(|()| format!("'{text}' is no version"));
        match text.split_once(':') {
            None if text == "any" => Ok(Self::Any),
            Some(("glibc", text)) => Ok(Self::Glibc(version(text)?)),
            Some(("musl", text)) => Ok(Self::Musl(version(text)?)),
            _ => Err("it is glibc:VERSION, musl:VERSION or any".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_read() {
        assert_eq!("glibc:2.36".parse(), Ok(Home::Glibc(GLIBC)));
        assert_eq!("musl:1.2.4".parse(), Ok(Home::Musl(MUSL)));
        assert_eq!("any".parse(), Ok(Home::Any));
        for wrong in ["", "glibc", "glibc:", "musl:1", "glibc:2.36.1.1", "glibc:2.x", "uclibc:1.0"] {
            assert!(wrong.parse::<Home>().is_err(), "{wrong}");
        }
        assert!(Version(2, 4, 0) < GLIBC && Version(1, 2, 3) < MUSL && Version(1, 10, 0) > MUSL);
    }
}
