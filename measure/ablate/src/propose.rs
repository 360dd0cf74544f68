//! Which factors a profile has, by the names that browsers use, and by size.

use crate::factor::{Entry, Factor, Part};

/// As many as the tables of 2010 had.
pub const MOST: usize = 11;

/// What files of known names are for: those of Firefox, then those of Chromium.
const KNOWN: [(&str, &[&str]); 13] = [
    ("cookies", &["cookies.sqlite*", "**Cookies", "**Cookies-journal"]),
    (
        "history",
        &["places.sqlite*", "favicons.sqlite*", "**History", "**History-journal", "**Favicons*", "**Visited Links"],
    ),
    ("form history", &["formhistory.sqlite*", "**Web Data*"]),
    ("session", &["sessionstore.jsonlz4", "sessionstore-backups", "sessionCheckpoints.json", "**Sessions"]),
    ("add-ons", &["extensions", "extensions.json", "addonStartup.json.lz4", "addons.json", "**Extensions"]),
    ("caches", &["cache2", "startupCache", "**Cache", "**Code Cache", "**GPUCache", "**ShaderCache"]),
    ("site storage", &["storage", "webappsstore.sqlite*", "**Local Storage", "**IndexedDB", "**Service Worker"]),
    ("safe browsing", &["safebrowsing", "**Safe Browsing"]),
    ("preferences", &["prefs.js", "user.js", "**Preferences", "Local State"]),
    ("certificates and keys", &["cert9.db", "key4.db", "pkcs11.txt", "logins.json", "**Login Data*"]),
    ("permissions", &["permissions.sqlite*", "content-prefs.sqlite*"]),
    ("crash reports", &["crashes", "minidumps", "Crashpad", "datareporting", "saved-telemetry-pings"]),
    ("search and start page", &["search.json.mozlz4", "activity-stream*", "settings"]),
];

/// The factors of a profile: what is known by its name first, then the largest of what is left, at most [`MOST`]. Those
/// that fit nothing are left out.
pub fn factors(entries: &[Entry]) -> Vec<Factor> {
    let known = KNOWN.iter().filter_map(|(name, patterns)| {
        let parts: Vec<Part> = patterns
            .iter()
            .filter(|pattern| entries.iter().any(|entry| crate::factor::matches(pattern, &entry.path)))
            .map(|pattern| Part::Path((*pattern).to_owned()))
            .collect();
        (!parts.is_empty()).then(|| Factor { name: (*name).to_owned(), parts })
    });
    let mut found: Vec<Factor> = known.collect();
    // The smallest give way where there are too many.
    found.sort_by_key(|factor| std::cmp::Reverse(factor.bytes(entries)));
    found.truncate(MOST);
    let taken: Vec<&str> =
        found.iter().flat_map(|factor| factor.taken(entries)).map(|entry| entry.path.as_str()).collect();
    let is_taken = |path: &str| {
        taken.iter().any(|it| path.strip_prefix(it).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
    };
    let others: Vec<&Entry> = entries.iter().filter(|entry| !is_taken(&entry.path)).collect();
    let mut left = top_level(&others);
    left.sort_by(|one, two| two.cmp(one));
    let room = MOST - found.len();
    let sized = left.into_iter().filter(|(bytes, _)| *bytes > 0).take(room);
    found.extend(sized.map(|(_, path)| Factor { name: path.clone(), parts: vec![Part::Path(path)] }));
    found
}

/// What lies directly in the profile, with the bytes of these entries that are in it.
fn top_level(entries: &[&Entry]) -> Vec<(u64, String)> {
    let mut sums = std::collections::BTreeMap::new();
    for entry in entries {
        let top = entry.path.split('/').next().unwrap_or_default();
        *sums.entry(top.to_owned()).or_insert(0) += entry.size;
    }
    sums.into_iter().map(|(path, bytes)| (bytes, path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(paths: &[(&str, u64)]) -> Vec<Entry> {
        paths.iter().map(|(path, size)| Entry { path: (*path).to_owned(), size: *size }).collect()
    }

    #[test]
    fn files_of_firefox_and_chromium_are_known_by_their_names() {
        let names = |entries: &[Entry]| factors(entries).into_iter().map(|factor| factor.name).collect::<Vec<_>>();
        let firefox = entries(&[
            ("cookies.sqlite", 900),
            ("cookies.sqlite-wal", 1),
            ("places.sqlite", 5000),
            ("sessionstore-backups", 0),
            ("sessionstore-backups/recovery.jsonlz4", 50),
            ("mine.bin", 40),
            ("empty", 0),
        ]);
        assert_eq!(names(&firefox), ["history", "cookies", "session", "mine.bin"]);
        let chromium = entries(&[("Default", 0), ("Default/Cookies", 9), ("Default/History", 20), ("Local State", 1)]);
        assert_eq!(names(&chromium), ["history", "cookies", "preferences"]);
    }

    #[test]
    fn there_are_never_more_than_a_table_holds() {
        let many: Vec<(String, u64)> = (0..40).map(|at| (format!("file{at}"), at)).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|(path, size)| (path.as_str(), *size)).collect();
        let found = factors(&entries(&many));
        assert_eq!((found.len(), found[0].name.as_str()), (MOST, "file39"));
    }
}
