//! Which functions a user means: `*` stands for anything, `?` for one character, all else for itself.

use symbols::plain_name;

/// Patterns of names.
#[derive(Clone, Debug, Default)]
pub struct Patterns(Vec<String>);

impl Patterns {
    /// These.
    pub fn of(patterns: Vec<String>) -> Self {
        Self(patterns)
    }

    /// As they were typed.
    pub fn typed(&self) -> &[String] {
        &self.0
    }

    /// The name of a symbol as people type it, and the numbers of the patterns that it or the symbol itself matches;
    /// `None`: no pattern. What a compiler has split off and put elsewhere (`.cold`) is jumped into, not called.
    pub fn matching(&self, symbol: &str) -> Option<(String, Vec<usize>)> {
        if symbol.is_empty() || symbol.ends_with(".cold") || symbol.contains(".cold.") {
            return None;
        }
        let plain = plain_name(symbol);
        let name = plain.as_deref().unwrap_or(symbol);
        let numbered = self.0.iter().enumerate();
        let meant = |pattern: &str| matches(pattern, symbol) || matches(pattern, name);
        let numbers: Vec<usize> = numbered.filter(|(_, pattern)| meant(pattern)).map(|(number, _)| number).collect();
        (!numbers.is_empty()).then(|| (name.to_owned(), numbers))
    }
}

/// Whether all of a text is what a pattern says.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut at, mut from) = (0, 0);
    // The last star, and where what it stands for ends.
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, from));
                at += 1;
            }
            Some(one) if *one == '?' || *one == text[from] => (at, from) = (at + 1, from + 1),
            _ => match star {
                Some((place, end)) => {
                    star = Some((place, end + 1));
                    (at, from) = (place + 1, end + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text, is) in [
            ("malloc", "malloc", true),
            ("malloc", "malloc_usable_size", false),
            ("malloc*", "malloc_usable_size", true),
            ("*alloc", "malloc", true),
            ("nsJAR::*", "nsJAR::GetEntry", true),
            ("*::Get*y", "nsJAR::GetEntry", true),
            ("m?lloc", "malloc", true),
            ("?", "", false),
            ("*", "", true),
            ("a*b*c", "aXbXbXc", true),
            ("a*b*c", "aXbXbX", false),
            ("operator[]", "operator[]", true),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
    }

    #[test]
    fn symbols_and_names_match_and_cold_parts_do_not() {
        let patterns = Patterns::of(vec!["nsJAR::*".into(), "_ZN5nsJAR8GetEntryEi".into(), "other".into()]);
        assert_eq!(patterns.matching("_ZN5nsJAR8GetEntryEi"), Some(("nsJAR::GetEntry".into(), vec![0, 1])));
        assert_eq!(patterns.matching("_ZN5nsJAR8GetEntryEi.cold"), None);
        assert_eq!(patterns.matching("other"), Some(("other".into(), vec![2])));
        assert_eq!(patterns.matching("others"), None);
    }
}
