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

/// A name in `room` columns (but at least [`LEAST`]): what is in the innermost brackets of templates and parameters
/// goes first, then the outermost namespaces.
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
    let name = if without.is_empty() { name } else { &without };
    let shorter = inner(name).into_iter().find(|shorter| width::columns(shorter) <= room);
    shorter.unwrap_or_else(|| width::shorten(name, room))
}

/// A name without its first namespace, its first two, and so on: `…::grow(…)`, `<…::Vec<…>>::grow`.
fn inner(name: &str) -> Vec<String> {
    let (mut shorter, mut at, mut depth) = (Vec::new(), 0, 0usize);
    let mut first = if name.starts_with('<') { "<" } else { "" };
    for part in parts(name) {
        let (Part::Text(text) | Part::Open(text) | Part::Close(text)) = part;
        match part {
            Part::Open(_) => depth += 1,
            // The end of the type that the name begins with.
            Part::Close(_) if depth == 0 => first = "",
            Part::Close(_) => depth -= 1,
            Part::Text(_) if depth > 0 => {}
            Part::Text(_) => {
                let ends = text.match_indices("::").map(|(sign, _)| at + sign);
                shorter.extend(ends.filter(|end| *end > 0).map(|end| format!("{first}…{}", &name[end..])));
            }
        }
        at += text.len();
    }
    shorter
}

/// What a name is made of.
enum Part<'a> {
    Text(&'a str),
    Open(&'a str),
    Close(&'a str),
}

/// Splits a name at its brackets; those of operators and of `(anonymous namespace)` are none, nor those that a Rust
/// name may begin with: what is in them is whose function it is.
fn parts(name: &str) -> impl Iterator<Item = Part<'_>> {
    const SIGNS: &[char] = &['<', '>', '=', '-', '(', ')'];
    let mut rest = name;
    std::iter::from_fn(move || {
        if rest.len() == name.len() && rest.starts_with('<') {
            let (first, after) = rest.split_at(1);
            rest = after;
            return Some(Part::Text(first));
        }
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
                    .chain(rest.match_indices("operator").map(|(at, _)| at).find(|at| *at > 0))
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
        assert_eq!(shorter("a::very::long::name::without::any::brackets", 30), "…::without::any::brackets");
        assert_eq!(shorter("a_function_of_c_whose_name_is_long", 30).chars().count(), 30);
    }

    #[test]
    fn whose_function_it_is_stays_longer_than_where_that_lies() {
        for (name, expected) in [
            ("<alloc::raw_vec::RawVecInner<A>>::finish_grow::<T>", "<…::RawVecInner<…>>::finish_grow::<…>"),
            ("<jemallocator::Jemalloc as core::alloc::GlobalAlloc>::alloc", "<…::alloc::GlobalAlloc>::alloc"),
            ("<alloc::vec::a_type_whose_name_is_long_and_longer>::grow", "…::grow"),
            ("std::__cxx11::basic_string<char, int>::_M_construct(char)", "…::basic_string<…>::_M_construct(…)"),
            ("größe::über<ärger, öl>::éa(ünfug, öd, und, so, weiter)", "größe::über<…>::éa(…)"),
            ("void std::_Construct<char, std::string>(std::string, int)", "void std::_Construct<…>(…)"),
        ] {
            assert_eq!(shorter(name, 40), expected);
        }
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
