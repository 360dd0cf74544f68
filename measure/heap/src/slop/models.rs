//! Allocators as functions: how many bytes a request really takes.
//!
//! Each was compared with `malloc_usable_size` of the real one, size by size; `docs/slop.md` says where a function is
//! not exact.

use serde::{Serialize, Serializer};
use std::path::Path;

/// An allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[cfg_attr(feature = "ts", ts(rename_all = "lowercase"))]
pub enum Model {
    /// glibc: 16 byte steps, less 8 for its header.
    Glibc,
    /// mozjemalloc of 2011: powers of two between 512 bytes and 4 KiB, huge blocks by 1 MiB.
    Moz2011,
    /// mozjemalloc of Firefox 153: 256 byte steps up to 4 KiB, then pages.
    Moz,
    /// jemalloc 5.3: four classes for each doubling.
    Jemalloc5,
    /// mimalloc 2.0: the same up to 128 KiB, then coarser.
    Mimalloc,
    /// tcmalloc of gperftools 2.10.
    Tcmalloc,
}

/// How an allocator treats a request, as old jemalloc names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// Blocks of one class share pages.
    Small,
    /// Pages of its own.
    Large,
    /// A mapping, chunk or segment of its own.
    Huge,
}

impl Category {
    /// `small`
    pub fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
            Self::Huge => "huge",
        }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Classes of tcmalloc up to 32 KiB; above, 8 KiB steps.
const TCMALLOC: [u64; 57] = [
    8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320, 352, 384, 416, 448, 480,
    512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048, 2304, 2560, 2816, 3072, 3328, 4096, 4608,
    5120, 6144, 6656, 8192, 9216, 10240, 12288, 13312, 16384, 20480, 24576, 26624, 32768,
];

impl Model {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Glibc, Self::Moz2011, Self::Moz, Self::Jemalloc5, Self::Mimalloc, Self::Tcmalloc];

    /// The word for it in options and documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glibc => "glibc",
            Self::Moz2011 => "moz2011",
            Self::Moz => "moz",
            Self::Jemalloc5 => "jemalloc5",
            Self::Mimalloc => "mimalloc",
            Self::Tcmalloc => "tcmalloc",
        }
    }

    /// The model of the allocator that a process uses, told by the file that holds it (empty: the program itself).
    /// `None`: it is none of these.
    pub fn of(allocator: &Path, exe: &Path) -> Option<Self> {
        let file = if allocator.as_os_str().is_empty() { exe } else { allocator };
        let name = file.file_name()?.to_str()?;
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
        match () {
            () if begins(&["libc.so", "libc-2."]) => Some(Self::Glibc),
            () if begins(&["libjemalloc"]) => Some(Self::Jemalloc5),
            () if begins(&["libmimalloc"]) => Some(Self::Mimalloc),
            () if begins(&["libtcmalloc"]) => Some(Self::Tcmalloc),
            () if begins(&["firefox", "thunderbird", "libmozglue", "plugin-container"]) => Some(Self::Moz),
            () => None,
        }
    }

    /// Bytes of the block that a request of so many gets. Never less than the request; more than 64 bits become the
    /// largest number.
    pub fn usable(self, request: u64) -> u64 {
        let request = request.max(1);
        match self {
            // The chunk is the request and a word of 8 bytes, in steps of 16, at least 32.
            Self::Glibc => up(request.saturating_add(8), 16).max(32).saturating_sub(8).max(request),
            Self::Moz2011 => match request {
                _ if request <= 2 => 2,
                _ if request <= 4 => 4,
                _ if request <= 8 => 8,
                _ if request <= 512 => up(request, 16),
                _ if request <= 2048 => request.next_power_of_two(),
                _ if request <= 1020 * KIB => up(request, 4 * KIB),
                _ => up(request, MIB),
            },
            Self::Moz => match request {
                _ if request <= 512 => up(request, 16),
                _ if request <= 3840 => up(request, 256),
                // Huge blocks too: what is behind the last page is given back to the system.
                _ => up(request, 4 * KIB),
            },
            Self::Jemalloc5 => spaced(request),
            Self::Mimalloc => match request {
                _ if request <= 128 * KIB => spaced(request),
                _ if request <= 512 * KIB => up(request, 64 * KIB),
                _ if request <= 8 * MIB => up(request, 512 * KIB),
                _ => up(request, MIB),
            },
            Self::Tcmalloc => match TCMALLOC.get(TCMALLOC.partition_point(|class| *class < request)) {
                Some(class) => *class,
                None => up(request, 8 * KIB),
            },
        }
    }

    /// How a request is treated.
    pub fn category(self, request: u64) -> Category {
        let (small, large) = match self {
            // Beyond: mmap, if the threshold was not raised.
            Self::Glibc => (1008, 128 * KIB - 1),
            Self::Moz2011 => (2 * KIB, 1020 * KIB),
            Self::Moz => (3840, 1020 * KIB),
            Self::Jemalloc5 => (14 * KIB, 4 * MIB),
            Self::Mimalloc => (128 * KIB, 16 * MIB),
            Self::Tcmalloc => (256 * KIB, u64::MAX),
        };
        match request {
            _ if request <= small => Category::Small,
            _ if request <= large => Category::Large,
            _ => Category::Huge,
        }
    }

    /// Its classes up to a size, ascending.
    pub fn classes(self, limit: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(self.usable(1)), move |class| Some(self.usable(class.checked_add(1)?)))
            .take_while(move |class| *class <= limit)
    }

    /// `small:     24 ->     32 (     8 )`: a request, what it gets (`usable`, or what the model says), what it wastes.
    pub fn line(self, request: u64, usable: Option<u64>) -> String {
        let usable = usable.unwrap_or_else(|| self.usable(request)).max(request);
        let category = self.category(request).name();
        format!("{category}: {request:6} -> {usable:6} ({:6} )", usable - request)
    }
}

impl Serialize for Model {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl std::str::FromStr for Model {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|model| model.name() == text).ok_or_else(|| format!("one of {}", names()))
    }
}

fn up(size: u64, step: u64) -> u64 {
    size.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

/// 8; 16 byte steps up to 128; then four classes for each doubling.
fn spaced(request: u64) -> u64 {
    match request {
        _ if request <= 8 => 8,
        _ if request <= 128 => up(request, 16),
        _ => up(request, 1 << ((request - 1).ilog2() - 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn classes(model: Model, limit: u64) -> Vec<u64> {
        model.classes(limit).collect()
    }

    /// What `malloc_usable_size` says in the real ones; for mozjemalloc of 2011 what its source says.
    #[test]
    fn requests_of_interest_get_what_the_real_ones_give() {
        use Model::{Glibc, Jemalloc5, Mimalloc, Moz, Moz2011, Tcmalloc};
        let models = [Moz2011, Moz, Jemalloc5, Mimalloc, Tcmalloc, Glibc];
        for (request, usable) in [
            (680, [1024, 768, 768, 768, 704, 680]),
            (1032, [2048, 1280, 1280, 1280, 1152, 1032]),
            (4135, [8192, 8192, 5120, 5120, 4608, 4136]),
            (1048578, [2 << 20, 1052672, 1310720, 1572864, 1056768, 1048584]),
            (1, [2, 16, 8, 8, 8, 24]),
            (25, [32, 32, 32, 32, 32, 40]),
            (1025, [2048, 1280, 1280, 1280, 1152, 1032]),
            (131073, [135168, 135168, 163840, 196608, 139264, 131080]),
        ] {
            assert_eq!(models.map(|model| model.usable(request)), usable, "{request}");
        }
    }

    #[test]
    fn classes_are_those_that_were_measured() {
        assert_eq!(classes(Model::Jemalloc5, 1 << 20).len(), 61);
        assert_eq!(classes(Model::Mimalloc, 1 << 20).len(), 56);
        assert_eq!(classes(Model::Tcmalloc, 1 << 20).len(), 181);
        assert_eq!(classes(Model::Jemalloc5, 512)[..13], [8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256]);
        assert_eq!(classes(Model::Glibc, 100), [24, 40, 56, 72, 88]);
        let large = [131072, 196608, 262144, 327680, 393216, 458752, 524288, 1048576, 1572864, 2097152, 2621440];
        assert!(classes(Model::Mimalloc, 2621440).ends_with(&large));
        let moz = classes(Model::Moz, 1 << 20);
        assert_eq!(moz[31..=44], [512, 768, 1024, 1280, 1536, 1792, 2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840]);
        assert_eq!(moz.len(), 32 + 13 + 256);
        let old = classes(Model::Moz2011, 3 << 20);
        assert_eq!(old[..5], [2, 4, 8, 16, 32]);
        assert_eq!(old[33..39], [496, 512, 1024, 2048, 4096, 8192]);
        assert_eq!(old[old.len() - 4..], [1020 << 10, 1 << 20, 2 << 20, 3 << 20]);
    }

    #[test]
    fn a_line_is_that_of_the_log_of_2011() {
        let lines = [24, 72, 40, 1056, 18, 15, 4095, 56, 104, 136].map(|request| Model::Moz2011.line(request, None));
        assert_eq!(
            lines,
            [
                "small:     24 ->     32 (     8 )",
                "small:     72 ->     80 (     8 )",
                "small:     40 ->     48 (     8 )",
                "small:   1056 ->   2048 (   992 )",
                "small:     18 ->     32 (    14 )",
                "small:     15 ->     16 (     1 )",
                "large:   4095 ->   4096 (     1 )",
                "small:     56 ->     64 (     8 )",
                "small:    104 ->    112 (     8 )",
                "small:    136 ->    144 (     8 )",
            ]
        );
        assert_eq!(Model::Glibc.line(1000, Some(1016)), "small:   1000 ->   1016 (    16 )");
    }

    #[test]
    fn the_allocator_is_known_by_its_file() {
        let of = |allocator: &str, exe: &str| Model::of(Path::new(allocator), Path::new(exe));
        assert_eq!(of("/lib/x86_64-linux-gnu/libc.so.6", "/bin/ls"), Some(Model::Glibc));
        assert_eq!(of("/usr/lib/libjemalloc.so.2", "/bin/ls"), Some(Model::Jemalloc5));
        assert_eq!(of("", "/usr/lib/firefox-esr/firefox-esr"), Some(Model::Moz));
        assert_eq!(of("/usr/lib/chromium/chromium", "/usr/lib/chromium/chromium"), None);
    }

    proptest! {
        #[test]
        fn a_block_holds_its_request_and_classes_hold_themselves(request in any::<u64>(), bits in 0u32..64) {
            let request = request >> bits;
            for model in Model::ALL {
                let usable = model.usable(request);
                prop_assert!(usable >= request);
                prop_assert!(model.usable(request.saturating_add(1)) >= usable);
                prop_assert_eq!(model.usable(usable), usable, "{:?} {}", model, request);
            }
        }
    }
}
