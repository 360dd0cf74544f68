//! Names of functions in a line: those of templates can be longer than any screen.

use crate::text::{harmless, width};
use heap::symbols::Frame;

/// Least columns for a name, however deep in a tree.
const LEAST: usize = 24;

/// A frame in `room` columns: its function and where that is, or object and address.
pub fn frame(frame: &Frame, room: usize) -> String {
    let Some(function) = &frame.function else { return harmless(&frame.label()) };
    let inlined = if frame.inlined { " (inlined)" } else { "" };
    let place = harmless(&frame.place());
    let whole = harmless(&format!("{function}{inlined}  {place}"));
    if width::columns(&whole) <= room {
        return whole;
    }
    let place = width::shorten(&place, (room * 2 / 5).max(LEAST));
    let left = room.saturating_sub(width::columns(&place) + inlined.len() + 2);
    format!("{}{inlined}  {place}", shorter(&harmless(function), left))
}

/// `function (object)`, the name made shorter where the two need more than `room` columns.
pub fn with_object(function: &str, object: &str, room: usize) -> String {
    let object = harmless(object);
    let left = room.saturating_sub(width::columns(&object) + 3);
    format!("{} ({object})", shorter(&harmless(function), left))
}

/// A name in `room` columns (but at least [`LEAST`]): what is in the innermost brackets of templates and parameters goes first.
pub fn shorter(name: &str, room: usize) -> String {
    let room = room.max(LEAST);
    if width::columns(name) <= room {
        return name.to_owned();
    }
    let mut without = String::new();
    for depth in (1..=deepest(name)).rev() {
        without = collapsed(name, depth);
        if width::columns(&without) <= room {
            return without;
        }
    }
    width::shorten(if without.is_empty() { name } else { &without }, room)
}

/// What a name is made of.
enum Part<'a> {
    Text(&'a str),
    Open(&'a str),
    Close(&'a str),
}

/// Splits a name at its brackets; those of operators and of `(anonymous namespace)` are none.
fn parts(name: &str) -> impl Iterator<Item = Part<'_>> {
    const SIGNS: &[char] = &['<', '>', '=', '-', '(', ')'];
    let mut rest = name;
    std::iter::from_fn(move || {
        let atom = ["(anonymous namespace)", "operator()", "->"].into_iter().find(|atom| rest.starts_with(atom));
        let operator = rest.strip_prefix("operator").map(|signs| {
            let signs = signs.len() - signs.trim_start_matches(['<', '>', '=', '-']).len();
            "operator".len() + signs
        });
        let len = match (atom, operator) {
            (Some(atom), _) => atom.len(),
            (None, Some(len)) => len,
            (None, None) => match rest.chars().next()? {
                sign if SIGNS.contains(&sign) => 1,
                _ => rest
                    .find(SIGNS)
                    .into_iter()
                    .chain(rest[1..].find("operator").map(|at| at + 1))
                    .min()
                    .unwrap_or(rest.len()),
            },
        };
        let (part, after) = rest.split_at_checked(len)?;
        rest = after;
        Some(match part {
            "<" | "(" => Part::Open(part),
            ">" | ")" => Part::Close(part),
            _ => Part::Text(part),
        })
    })
}

fn deepest(name: &str) -> usize {
    let (mut depth, mut deepest) = (0usize, 0);
    for part in parts(name) {
        match part {
            Part::Open(_) => depth += 1,
            Part::Close(_) => depth = depth.saturating_sub(1),
            Part::Text(_) => deepest = deepest.max(depth),
        }
    }
    deepest
}

/// The name, with an ellipsis for what is in brackets of this depth and deeper.
fn collapsed(name: &str, limit: usize) -> String {
    let (mut out, mut depth, mut told) = (String::new(), 0usize, false);
    for part in parts(name) {
        match part {
            Part::Open(sign) => {
                depth += 1;
                if depth <= limit {
                    out.push_str(sign);
                    told = false;
                }
            }
            Part::Close(sign) => {
                if depth <= limit {
                    out.push_str(sign);
                }
                depth = depth.saturating_sub(1);
            }
            Part::Text(text) if depth < limit => out.push_str(text),
            Part::Text(_) if !told => {
                out.push('…');
                told = true;
            }
            Part::Text(_) => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_innermost_brackets_goes_first() {
        let name =
            "std::vector<std::pair<int, std::less<int> >, std::allocator<int> >::push_back(std::pair<int, int>&&)";
        assert_eq!(shorter(name, 200), name);
        let shorter_by_one = "std::vector<std::pair<…>, std::allocator<…> >::push_back(std::pair<…>&&)";
        assert_eq!(shorter(name, 90), shorter_by_one);
        assert_eq!(shorter(name, 40), "std::vector<…>::push_back(…)");
        assert_eq!(shorter("a::very::long::name::without::any::brackets", 30).chars().count(), 30);
    }

    #[test]
    fn operators_and_namespaces_without_a_name_are_no_brackets() {
        for (name, expected) in [
            (
                "(anonymous namespace)::Simplifier::operator()(llvm::Value*, unsigned int)",
                "(anonymous namespace)::Simplifier::operator()(…)",
            ),
            ("std::operator<< <char>(std::basic_ostream<char>&, char const*)", "std::operator<< <…>(…)"),
            ("T<one, two>::operator->(three four five six seven)", "T<…>::operator->(…)"),
            ("unbalanced>>><<<((( name that goes on and on and on", "unbalanced>>><…"),
        ] {
            let short = shorter(name, 48);
            assert!(width::columns(&short) <= 48, "{short}");
            if !name.starts_with("unbalanced") {
                assert_eq!(collapsed(name, 1), expected);
            }
        }
    }
}
