//! Factors: named parts of a program's state or set-up that can be taken away.

use serde::{Deserialize, Serialize};

/// A file or directory of a profile, by its path below it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The path below the profile, names separated by `/`.
    pub path: String,
    /// Bytes; of a directory 0.
    pub size: u64,
}

/// Something that can be taken away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Files and directories of the profile, with all that is in them. `*` and `?` stand for letters of one name, `**`
    /// for letters of several.
    Path(String),
    /// A variable of the environment.
    Env(String),
    /// A word of the command line.
    Arg(String),
    /// A line that is added to Firefox's `user.js` where the factor is taken away: the preference, and its value there.
    Pref(String, String),
}

/// A factor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factor {
    /// What people call it.
    pub name: String,
    /// What is taken away together.
    pub parts: Vec<Part>,
}

impl Factor {
    /// From `NAME=PART,PART`, where a part is a path of the profile, `env:VARIABLE`, `arg:WORD` or `pref:NAME=VALUE`.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!("'{text}': {why}; write NAME=PATH,PATH, or env:VARIABLE, arg:WORD, pref:NAME=VALUE for a path")
        };
        let (name, parts) = text.split_once('=').ok_or_else(|| wrong("a factor needs a name and parts"))?;
        if name.trim().is_empty() || name.contains(['/', ',']) || name.starts_with('-') {
            return Err(wrong("this is no name"));
        }
        let parts = parts.split(',').map(|part| Part::parse(part).ok_or_else(|| wrong("a part is missing")));
        Ok(Self { name: name.trim().to_owned(), parts: parts.collect::<Result<_, _>>()? })
    }

    /// The entries of a profile that it takes away: not those inside a directory that goes as a whole.
    pub fn taken<'a>(&self, entries: &'a [Entry]) -> Vec<&'a Entry> {
        let fits = |entry: &&Entry| {
            self.parts.iter().any(|part| matches!(part, Part::Path(pattern) if matches(pattern, &entry.path)))
        };
        let found: Vec<&Entry> = entries.iter().filter(fits).collect();
        let inside = |entry: &Entry| {
            found.iter().any(|other| entry.path.strip_prefix(&other.path).is_some_and(|rest| rest.starts_with('/')))
        };
        found.iter().copied().filter(|entry| !inside(entry)).collect()
    }

    /// Bytes of the profile that go with it.
    pub fn bytes(&self, entries: &[Entry]) -> u64 {
        let taken = self.taken(entries);
        let goes = |entry: &&Entry| {
            taken.iter().any(|it| {
                entry.path == it.path || entry.path.strip_prefix(&it.path).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        entries.iter().filter(goes).map(|entry| entry.size).sum()
    }

    /// Patterns of it that fit nothing in a profile.
    pub fn idle<'a>(&'a self, entries: &[Entry]) -> Vec<&'a str> {
        let paths = self.parts.iter().filter_map(|part| match part {
            Part::Path(pattern) => Some(pattern.as_str()),
            _ => None,
        });
        paths.filter(|pattern| !entries.iter().any(|entry| matches(pattern, &entry.path))).collect()
    }
}

impl Part {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let part = if let Some(name) = text.strip_prefix("env:") {
            Self::Env(name.to_owned())
        } else if let Some(word) = text.strip_prefix("arg:") {
            Self::Arg(word.to_owned())
        } else if let Some(preference) = text.strip_prefix("pref:") {
            let (name, value) = preference.split_once('=')?;
            Self::Pref(name.to_owned(), value.to_owned())
        } else {
            Self::Path(text.trim_end_matches('/').trim_start_matches("./").to_owned())
        };
        let (Self::Path(word) | Self::Env(word) | Self::Arg(word) | Self::Pref(word, _)) = &part;
        (!word.is_empty()).then_some(part)
    }
}

/// Whether a pattern fits a whole path.
pub fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path): (Vec<char>, Vec<char>) = (pattern.chars().collect(), path.chars().collect());
    // The places in the pattern that can be reached after each letter of the path: never more than the pattern is long.
    let reach = |places: Vec<bool>| {
        let mut places = places;
        for at in 0..pattern.len() {
            if places[at] && pattern[at] == '*' {
                places[at + 1] = true;
            }
        }
        places
    };
    let mut places = vec![false; pattern.len() + 1];
    places[0] = true;
    let mut places = reach(places);
    for letter in path {
        let mut next = vec![false; pattern.len() + 1];
        for at in (0..pattern.len()).filter(|at| places[*at]) {
            match pattern[at] {
                '*' => {
                    let several = pattern.get(at + 1) == Some(&'*') || (at > 0 && pattern[at - 1] == '*');
                    next[at] |= letter != '/' || several;
                }
                '?' => next[at + 1] |= letter != '/',
                plain => next[at + 1] |= plain == letter,
            }
        }
        places = reach(next);
    }
    places[pattern.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn entries(paths: &[(&str, u64)]) -> Vec<Entry> {
        paths.iter().map(|(path, size)| Entry { path: (*path).to_owned(), size: *size }).collect()
    }

    #[test]
    fn patterns_fit_names_and_paths() {
        for (pattern, path, fits) in [
            ("cookies.sqlite", "cookies.sqlite", true),
            ("cookies.sqlite*", "cookies.sqlite-wal", true),
            ("*.sqlite", "storage/a.sqlite", false),
            ("**.sqlite", "storage/a.sqlite", true),
            ("storage/*/b", "storage/a/b", true),
            ("storage/*/b", "storage/a/c/b", false),
            ("a?c", "abc", true),
            ("a?c", "a/c", false),
            ("", "", true),
            ("*", "", true),
            ("abc", "ab", false),
        ] {
            assert_eq!(matches(pattern, path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn a_factor_takes_whole_directories_and_says_what_fits_nothing() {
        let entries = entries(&[("cache", 0), ("cache/a", 10), ("cache/b", 20), ("cached", 5), ("cookies", 7)]);
        let factor = Factor::parse("caches=cache/,nothing*").unwrap();
        assert_eq!(factor.taken(&entries).iter().map(|entry| entry.path.as_str()).collect::<Vec<_>>(), ["cache"]);
        assert_eq!((factor.bytes(&entries), factor.idle(&entries)), (30, vec!["nothing*"]));
        let all = Factor::parse("all=cache,cache/a").unwrap();
        assert_eq!(all.taken(&entries).len(), 1, "what is in the directory goes with it");
    }

    #[test]
    fn parts_are_of_four_kinds() {
        let factor = Factor::parse("x=a/b,env:HOME,arg:--fast,pref:a.b=true").unwrap();
        let parts = [
            Part::Path("a/b".into()),
            Part::Env("HOME".into()),
            Part::Arg("--fast".into()),
            Part::Pref("a.b".into(), "true".into()),
        ];
        assert_eq!(factor.parts, parts);
        for wrong in ["x", "=a", "x=", "x=a,,b", "x=env:", "x=pref:a", "a/b=c", "-x=a"] {
            assert!(Factor::parse(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn stars_around_a_part_of_a_path_fit_it(path in "[a-c/]{1,12}", from in 0usize..12, to in 0usize..12) {
            let (from, to) = (from.min(path.len()), to.min(path.len()));
            let (from, to) = (from.min(to), from.max(to));
            let pattern = format!("**{}**", &path[from..to]);
            prop_assert!(matches(&pattern, &path));
            prop_assert!(matches(&path, &path));
        }
    }
}
