//! The closed lists: what a ping may say in words.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$each:meta])* $word:ident = $text:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum $name { $($(#[$each])* #[serde(rename = $text)] $word),+ }

        impl $name {
            /// All words, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$word),+];

            /// As it stands in a ping.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$word => $text),+ }
            }
        }

        // By hand: what is derived takes `{"cold": null}` too.
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                let known = Self::ALL.iter().find(|word| word.as_str() == text);
                known.copied().ok_or_else(|| D::Error::custom(concat!("no such word in the list ", stringify!($name))))
            }
        }
    };
}

words! {
    /// How much of a start came from the disk.
    State {
        /// Most of it.
        Cold = "cold",
        /// Some of it.
        Warm = "warm",
        /// Next to nothing.
        Hot = "hot",
        /// The kernel did not tell.
        Unknown = "unknown",
    }
}

words! {
    /// The kind of probe that stopped the clock; never its argument.
    Ready {
        /// The program ended.
        Exit = "exit",
        /// It came to rest.
        Settled = "settled",
        /// It wrote a line.
        Line = "line",
        /// It made a file.
        File = "file",
        /// It wrote to a descriptor.
        Fd = "fd",
        /// It listened on a port.
        Listen = "listen",
        /// It answered a request.
        Http = "http",
        /// It told its service manager.
        Notify = "notify",
        /// It showed a window.
        X11 = "x11",
        /// Its page sent a beacon.
        Beacon = "beacon",
    }
}

words! {
    /// How many CPUs, in classes.
    Cpus {
        /// One.
        One = "1",
        /// Two.
        Two = "2",
        /// Three or four.
        Four = "3-4",
        /// Five to eight.
        Eight = "5-8",
        /// Nine to sixteen.
        Sixteen = "9-16",
        /// More.
        More = "17+",
    }
}

words! {
    /// How much memory, in classes; what firmware keeps for itself is allowed for.
    Memory {
        /// Less than 4 GiB.
        Below4 = "<4G",
        /// From 4 GiB.
        From4 = "4-8G",
        /// From 8 GiB.
        From8 = "8-16G",
        /// From 16 GiB.
        From16 = "16-32G",
        /// From 32 GiB.
        From32 = ">=32G",
    }
}

words! {
    /// The kind of disk that holds the program.
    Disk {
        /// Flash on PCI Express.
        Nvme = "nvme",
        /// Other flash.
        Ssd = "ssd",
        /// It turns.
        Hdd = "hdd",
        /// A virtual machine's.
        Virtual = "virtual",
        /// Another machine's.
        Network = "network",
        /// Not to be seen.
        Unknown = "unknown",
    }
}

words! {
    /// Remedies of thaw that a start had.
    Remedy {
        /// Its archive was laid out in the order of use.
        Archive = "archive",
        /// Its functions were.
        Ordered = "ordered",
        /// Its ELF files were packed.
        Packed = "packed",
        /// Its files were read ahead.
        Preload = "preload",
    }
}

impl State {
    /// The rule: hot is at most 64 KiB from the disk and at most 16 major faults; cold is at least a quarter of the
    /// largest resident memory from the disk; what lies between is warm. Unknown: the kernel did not tell the bytes.
    pub fn of(read_bytes: Option<u64>, major_faults: u64, max_rss_bytes: u64) -> Self {
        match read_bytes {
            None => Self::Unknown,
            Some(read) if read <= 64 << 10 && major_faults <= 16 => Self::Hot,
            Some(read) if read >= max_rss_bytes / 4 => Self::Cold,
            Some(_) => Self::Warm,
        }
    }
}

impl Cpus {
    /// The class of a number of CPUs.
    pub fn of(cpus: usize) -> Self {
        match cpus {
            0 | 1 => Self::One,
            2 => Self::Two,
            3 | 4 => Self::Four,
            5..=8 => Self::Eight,
            9..=16 => Self::Sixteen,
            _ => Self::More,
        }
    }
}

impl Memory {
    /// The class of so many bytes, as the kernel counts them: up to an eighth less than what was bought.
    pub fn of(bytes: u64) -> Self {
        match bytes.saturating_add(bytes / 7) >> 30 {
            0..4 => Self::Below4,
            4..8 => Self::From4,
            8..16 => Self::From8,
            16..32 => Self::From16,
            _ => Self::From32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_same_both_ways() {
        for state in State::ALL {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
        assert!(Remedy::ALL.is_sorted_by_key(|remedy| remedy.as_str()));
    }

    #[test]
    fn classes_begin_where_they_say() {
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 8, 9, 16, 17].map(|cpus| Cpus::of(cpus).as_str()),
            ["1", "1", "2", "3-4", "3-4", "5-8", "5-8", "9-16", "9-16", "17+"]
        );
        assert_eq!(Memory::of(8_200_000_000), Memory::From8);
        assert_eq!(Memory::of(3 << 30), Memory::Below4);
        assert_eq!(Memory::of(u64::MAX), Memory::From32);
        assert_eq!(State::of(None, 0, 1), State::Unknown);
        assert_eq!(State::of(Some(65_536), 16, 1 << 30), State::Hot);
        assert_eq!(State::of(Some(65_536), 17, 1 << 30), State::Warm);
        assert_eq!(State::of(Some(256 << 20), 0, 1 << 30), State::Cold);
    }
}
