//! Which functions a user means: `*` stands for anything, `?` for one character, all else for itself.

use memchr::memmem::Finder;
use model::typed::matches;
use symbols::plain_name;

/// Patterns of names.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    typed: Vec<String>,
    /// Of each: what a symbol holds that it matches, by itself or by its plain name.
    within: Vec<Option<Finder<'static>>>,
}

/// Words of plain names that do not stand in their symbols.
const MADE: &[&str] = &[
    "allocator",
    "basic_string",
    "char_traits",
    "basic_istream",
    "basic_ostream",
    "basic_iostream",
    "iostream",
    "operator",
    "unsigned",
    "signed",
    "short",
    "double",
    "float",
    "__float128",
    "__int128",
    "bool",
    "wchar_t",
    "char8_t",
    "char16_t",
    "char32_t",
    "decimal128",
    "decltype",
    "nullptr_t",
    "const",
    "volatile",
    "restrict",
    "void",
    "auto",
    "false",
    "true",
    "sizeof",
    "typeinfo",
    "anonymous",
    "namespace",
    "unnamed",
    "lambda",
    "closure",
    "delete",
    "typename",
    "static_cast",
    "long",
    "int8_t",
    "decimal32",
    "decimal64",
    "_Float16",
    "half",
    "virtual",
    "thunk",
    "covariant",
    "return",
    "guard",
    "variable",
    "initialization",
    "function",
    "wrapper",
    "reference",
    "temporary",
    "transaction",
    "clone",
    "default",
    "co_await",
    "throw",
    "noexcept",
    "alignof",
    "dynamic_cast",
    "reinterpret_cast",
    "const_cast",
    "complex",
    "imaginary",
    "vtable",
    "construction",
    "template",
    "parameter",
    "object",
    "unsafe",
    "offset",
    "override",
    "usize",
    "isize",
    "i128",
    "u128",
    "extern",
    "impl",
    "shim",
    "string literal",
    "block",
    "invocation",
];

impl Patterns {
    /// These.
    pub fn of(typed: Vec<String>) -> Self {
        let within = typed.iter().map(|pattern| literal(pattern).map(|it| Finder::new(it).into_owned())).collect();
        Self { typed, within }
    }

    /// As they were typed.
    pub fn typed(&self) -> &[String] {
        &self.typed
    }

    /// The name of a symbol as people type it, and the numbers of the patterns that it or the symbol itself matches;
    /// `None`: no pattern. What a compiler has split off and put elsewhere (`.cold`) is jumped into, not called.
    pub fn matching(&self, symbol: &[u8]) -> Option<(String, Vec<usize>)> {
        let may_match = |within: &Option<Finder<'_>>| within.as_ref().is_none_or(|it| it.find(symbol).is_some());
        if symbol.is_empty() || !self.within.iter().any(may_match) {
            return None;
        }
        let symbol = String::from_utf8_lossy(symbol);
        if symbol.ends_with(".cold") || symbol.contains(".cold.") {
            return None;
        }
        let plain = plain_name(&symbol);
        let name = plain.as_deref().unwrap_or(&symbol);
        let numbered = self.typed.iter().enumerate();
        let meant = |pattern: &str| matches(pattern, &symbol) || matches(pattern, name);
        let numbers: Vec<usize> = numbered.filter(|(_, pattern)| meant(pattern)).map(|(number, _)| number).collect();
        (!numbers.is_empty()).then(|| (name.to_owned(), numbers))
    }
}

/// The longest piece of a pattern that stands in each symbol that it matches: a part of an identifier, which mangled
/// names have as they are, but for those that mangling has short words for. `None`: there is none.
fn literal(pattern: &str) -> Option<&str> {
    literals(pattern).max_by_key(|piece| piece.len())
}

fn literals(pattern: &str) -> impl Iterator<Item = &str> {
    /// Shorter ones are short for nothing, and may be names of types.
    const SHORTEST: usize = 4;
    let is_of_identifier = |byte: char| byte.is_ascii_alphanumeric() || byte == '_';
    let pieces = pattern.split(move |byte| !is_of_identifier(byte));
    let is_made = |piece: &str| MADE.iter().any(|made| made.contains(piece));
    pieces.filter(move |piece| piece.len() >= SHORTEST && !is_made(piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_first_stands_in_each_symbol_that_matches() {
        for (pattern, piece) in [
            ("nsJAR::GetEntry", Some("GetEntry")),
            ("PyObject_*", Some("PyObject_")),
            ("std::basic_string*::append", Some("append")),
            ("*alloc*", None),
            ("gtk_*", Some("gtk_")),
            ("*thunk to X::*", None),
            ("std::*", None),
            ("operator new", None),
            ("*12345*", Some("12345")),
            ("*", None),
        ] {
            assert_eq!(literal(pattern), piece, "{pattern}");
        }
        let patterns = Patterns::of(vec!["std::basic_string*::append".into(), "std::string::clear".into()]);
        for symbol in ["_ZNSs6appendEPKc", "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc"] {
            let plain = plain_name(symbol).unwrap();
            assert_eq!(patterns.matching(symbol.as_bytes()).is_some(), matches("std::basic_string*::append", &plain));
        }
    }

    #[test]
    fn what_is_looked_for_first_stands_in_all_symbols_of_real_files() {
        use crate::function::starts::each_named;
        let own = std::env::current_exe().unwrap();
        let more = std::env::var_os("THAW_SYMBOLS_OF").map(std::path::PathBuf::from);
        let files = [Some(own), Some("/usr/lib/x86_64-linux-gnu/libstdc++.so.6".into()), more];
        let (mut seen, mut missing) = (0, std::collections::BTreeMap::new());
        for bytes in files.into_iter().flatten().filter_map(|path| std::fs::read(path).ok()) {
            each_named(&bytes, |named| {
                let symbol = String::from_utf8_lossy(named.symbol);
                let Some(plain) = plain_name(&symbol) else { return };
                let pieces: Vec<&str> = literals(&plain).collect();
                seen += pieces.len();
                let made = pieces.into_iter().filter(|piece| !symbol.contains(piece));
                missing.extend(made.map(|piece| (piece.to_owned(), symbol.clone().into_owned())));
            });
        }
        assert!(missing.is_empty(), "{missing:#?}");
        assert!(seen > 1000, "{seen}");
    }

    #[test]
    fn symbols_and_names_match_and_cold_parts_do_not() {
        let patterns = Patterns::of(vec!["nsJAR::*".into(), "_ZN5nsJAR8GetEntryEi".into(), "other".into()]);
        assert_eq!(patterns.matching(b"_ZN5nsJAR8GetEntryEi"), Some(("nsJAR::GetEntry".into(), vec![0, 1])));
        assert_eq!(patterns.matching(b"_ZN5nsJAR8GetEntryEi.cold"), None);
        assert_eq!(patterns.matching(b"other"), Some(("other".into(), vec![2])));
        assert_eq!(patterns.matching(b"others"), None);
    }
}
