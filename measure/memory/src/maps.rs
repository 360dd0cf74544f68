//! What a process's resident memory lies in, by the kernel's account: `/proc/PID/smaps`, as reports of a tree `pss`.

use crate::file::{Kind, Report, Units};
use os::process::{Region, sized_regions};
use std::collections::BTreeMap;

/// What is said of each report.
const DESCRIPTION: &str = "Resident memory, shared pages divided by those who share them (PSS), by what is mapped.";

/// Reports of a process, from the text of its `smaps`: `pss/anonymous/heap`, `pss/files/libxul.so/code` and so on.
pub fn reports(text: &[u8], process: &str) -> Vec<Report> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (region, bytes) in sized_regions(text, "Pss") {
        let sum = sums.entry(path(&region)).or_default();
        *sum = sum.saturating_add(bytes);
    }
    sums.into_iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(path, bytes)| Report {
            process: process.to_owned(),
            path,
            kind: Kind::Other,
            units: Units::Bytes,
            amount: i64::try_from(bytes).unwrap_or(i64::MAX),
            description: DESCRIPTION.to_owned(),
            presence: None,
        })
        .collect()
}

/// The path of the report that a mapping counts for.
fn path(region: &Region<'_>) -> String {
    let name = String::from_utf8_lossy(region.name);
    let use_of = match region.permissions.as_bytes() {
        [_, _, b'x', ..] => "code",
        [_, b'w', ..] => "data",
        [b'r', ..] => "constants",
        _ => "other",
    };
    match &*name {
        "" if region.permissions.ends_with('s') => "pss/shared/without a name".to_owned(),
        "" => format!("pss/anonymous/{}", if use_of == "code" { "code" } else { "mapped" }),
        "[heap]" => "pss/anonymous/heap".to_owned(),
        "[stack]" => "pss/anonymous/stack".to_owned(),
        name if name.starts_with("[anon:") => {
            let name = name.trim_start_matches("[anon:").trim_end_matches(']');
            format!("pss/anonymous/named/{}", name.replace('/', "\\"))
        }
        name if name.starts_with('[') => format!("pss/kernel/{}", name.trim_matches(['[', ']'])),
        name if name.starts_with("/memfd:") || name.starts_with("/dev/shm/") || name.starts_with("/SYSV") => {
            "pss/shared/memory files".to_owned()
        }
        name if name.starts_with("/dev/") => format!("pss/devices/{}", name.replace('/', "\\")),
        name if region.ino == 0 => format!("pss/shared/{}", name.replace('/', "\\")),
        name => {
            let file = name.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or(name);
            format!("pss/files/{file}/{use_of}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = b"55d0c0000000-55d0c0100000 r-xp 00001000 fe:01 77 /usr/lib/my app/libx.so\n\
        Size:  1024 kB\nPss:  100 kB\nPss_Dirty: 9 kB\n\
        55d0c0100000-55d0c0200000 rw-p 00101000 fe:01 77 /usr/lib/my app/libx.so\nPss: 7 kB\n\
        55d0c0200000-55d0c0300000 r--p 00101000 fe:01 78 /tmp/gone.so (deleted)\nPss: 3 kB\n\
        7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \nPss: 50 kB\n\
        7f0000100000-7f0000200000 rw-p 00000000 00:00 0 [heap]\nPss: 60 kB\n\
        7f0000200000-7f0000300000 rw-p 00000000 00:00 0 [anon:js-gc-heap]\nPss: 30 kB\n\
        7f0000300000-7f0000400000 rw-s 00000000 00:01 9 /memfd:ipc (deleted)\nPss: 20 kB\n\
        7f0000400000-7f0000500000 rw-p 00000000 00:00 0 \nPss: 5 kB\n\
        7fff00000000-7fff00001000 r-xp 00000000 00:00 0 [vdso]\nPss: 0 kB\n";

    #[test]
    fn mappings_are_summed_by_what_they_are() {
        let reports = reports(SMAPS, "app (pid 7)");
        let kib: Vec<(&str, i64)> = reports.iter().map(|it| (it.path.as_str(), it.amount / 1024)).collect();
        assert_eq!(
            kib,
            [
                ("pss/anonymous/heap", 60),
                ("pss/anonymous/mapped", 55),
                ("pss/anonymous/named/js-gc-heap", 30),
                ("pss/files/gone.so/constants", 3),
                ("pss/files/libx.so/code", 100),
                ("pss/files/libx.so/data", 7),
                ("pss/shared/memory files", 20),
            ]
        );
        assert!(reports.iter().all(|it| it.process == "app (pid 7)" && it.kind == Kind::Other));
    }

    #[test]
    fn the_sum_is_what_the_kernel_says_of_the_whole_process() {
        let mut sleeper = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", sleeper.id())).unwrap();
        // Until then it loads its libraries.
        while os::process::stat(sleeper.id()).unwrap().state != 'S' || !read("comm").starts_with(b"sleep") {}
        let mappings = String::from_utf8_lossy(&read("smaps")).matches("Rss:").count() as i64;
        let sum = reports(&read("smaps"), "").iter().map(|it| it.amount).sum::<i64>() >> 10;
        let whole = (crate::watch::rollup(&read("smaps_rollup")).unwrap().pss.0 >> 10) as i64;
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        // Each mapping is rounded down to whole KiB; how many share a page changes with every process of the machine.
        assert!(sum > 0 && (sum - whole).abs() <= mappings + whole / 2, "{sum} {whole} {mappings}");
    }

    #[test]
    fn what_is_no_smaps_is_nothing() {
        for text in [&b""[..], b"Pss: 4 kB\n", b"zz-yy r-xp 0 0 0 x\nPss: 4 kB\n", b"1-2\nPss: 9\n", b"\xff\n"] {
            assert!(reports(text, "").is_empty(), "{text:?}");
        }
    }
}
