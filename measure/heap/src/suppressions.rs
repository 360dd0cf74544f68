//! Leaks that are known: files of suppressions as LeakSanitizer reads them.
//!
//! ```text
//! # a comment
//! leak:pattern
//! ```
//!
//! A stack is suppressed if the pattern fits a function, a file of source code or an object of any of its frames.
//! `*` stands for any text, `^` at the beginning and `$` at the end for the ends of the name; without them a part of
//! the name is enough (compiler-rt, `sanitizer_suppressions.cpp`, `TemplateMatch`).

use crate::symbols::{Frame, FrameId, Names};
use model::{Error, Exit, Result};
use std::path::Path;

/// Patterns of stacks that are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suppressions {
    patterns: Vec<String>,
}

impl Suppressions {
    /// Reads files, one after the other.
    ///
    /// # Errors
    /// A file cannot be read, or a line is none.
    pub fn read<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<Self> {
        let mut all = Self::default();
        for file in files {
            let text = std::fs::read(file).map_err(|cause| {
                Error::on(Exit::of_unreadable(&cause), "cannot read suppressions", file).because(cause)
            })?;
            let parsed = Self::parse(&String::from_utf8_lossy(&text)).map_err(|(number, line)| {
                Error::on(Exit::Data, "not a file of suppressions", file)
                    .because(format!("line {number}: {line:?}"))
                    .hint("a line for each: leak:FUNCTION, leak:FILE or leak:OBJECT, as LeakSanitizer reads them")
            })?;
            all.patterns.extend(parsed.patterns);
        }
        Ok(all)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The first line that is none, and its number.
    pub fn parse(text: &str) -> std::result::Result<Self, (usize, String)> {
        let mut patterns = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            match line.trim() {
                "" => {}
                line if line.starts_with('#') => {}
                line => match line.split_once(':') {
                    Some(("leak", pattern)) if !pattern.is_empty() => patterns.push(pattern.to_owned()),
                    // Files serve several checkers; what is for another one is none of ours.
                    Some((kind, _)) if is_other(kind) => {}
                    _ => return Err((number, line.to_owned())),
                },
            }
        }
        Ok(Self { patterns })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Whether a stack is suppressed.
    pub(crate) fn fit(&self, names: &Names, stack: &[FrameId]) -> bool {
        stack.iter().any(|frame| self.fits_frame(names.frame(*frame)))
    }

    fn fits_frame(&self, frame: &Frame) -> bool {
        let named = [frame.function.as_deref(), frame.file.as_deref(), Some(frame.module.as_str())];
        self.patterns.iter().any(|pattern| named.iter().flatten().any(|name| fits(pattern, name)))
    }
}

/// Kinds of suppressions of the other sanitizers.
fn is_other(kind: &str) -> bool {
    const KINDS: [&str; 16] = [
        "race",
        "race_top",
        "thread",
        "mutex",
        "signal",
        "deadlock",
        "called_from_lib",
        "interceptor_name",
        "interceptor_via_fun",
        "interceptor_via_lib",
        "odr_violation",
        "alloc_dealloc_mismatch",
        "vptr_check",
        "alignment",
        "undefined",
        "fun",
    ];
    KINDS.contains(&kind)
}

/// Whether a pattern fits a name.
fn fits(pattern: &str, name: &str) -> bool {
    let (begins, pattern) = pattern.strip_prefix('^').map_or((false, pattern), |rest| (true, rest));
    let (ends, pattern) = pattern.strip_suffix('$').map_or((false, pattern), |rest| (true, rest));
    let mut parts: Vec<&str> = pattern.split('*').collect();
    let mut rest = name;
    if begins {
        let Some(after) = rest.strip_prefix(parts.remove(0)) else { return false };
        rest = after;
        if parts.is_empty() {
            return !ends || rest.is_empty();
        }
    }
    let last = if ends { parts.pop() } else { None };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    last.is_none_or(|last| rest.ends_with(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_those_of_the_sanitizers_do() {
        for (pattern, name) in [
            ("alloc", "my_allocator"),
            ("my*or", "my_allocator"),
            ("^my", "my_allocator"),
            ("tor$", "my_allocator"),
            ("^my_allocator$", "my_allocator"),
            ("^my*tor$", "my_allocator"),
            ("*", ""),
            ("a*b*c", "xaxbxcx"),
            ("^*c$", "abc"),
        ] {
            assert!(fits(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("^alloc", "my_allocator"),
            ("alloc$", "my_allocator"),
            ("^my$", "my_allocator"),
            ("my**xor", "my_allocator"),
            ("^ab*bc$", "abc"),
            ("a*b*c", "acb"),
        ] {
            assert!(!fits(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn lines_that_are_none_are_named() {
        let read = Suppressions::parse("# known\n\n leak:libfoo.so\nrace:other\nleak:^bar$\n").unwrap();
        assert_eq!(read.patterns, ["libfoo.so", "^bar$"]);
        assert_eq!(Suppressions::parse("leak:a\nleek:b").unwrap_err(), (2, "leek:b".into()));
        assert_eq!(Suppressions::parse("leak:").unwrap_err().0, 1);
    }
}
