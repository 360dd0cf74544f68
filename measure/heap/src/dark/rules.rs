//! Rules that say by the stack what a block is for: `docs/memory.md` describes the file, TOML.
//!
//! A rule names a frame (by object and function) and a path. Of the rules that fit a stack, the one whose frame is
//! nearest to the allocation wins; of rules for the same frame the first one. `[[rest]]` rules come after all
//! `[[rule]]`s: they say whose a block is if nobody says what it is. A set of rules goes before the next set as a
//! whole: those of the user before those that are shipped.

use crate::symbols::{Frame, FrameId};
use model::{Error, Exit, Result, shown};
use regex::Regex;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;

/// Rules that come with thaw, by file.
const SHIPPED: &[(&str, &str)] = &[
    ("cpython.toml", include_str!("rules/cpython.toml")),
    ("fontconfig.toml", include_str!("rules/fontconfig.toml")),
    ("gecko.toml", include_str!("rules/gecko.toml")),
    ("glib.toml", include_str!("rules/glib.toml")),
    ("libstdcxx.toml", include_str!("rules/libstdcxx.toml")),
    ("qt.toml", include_str!("rules/qt.toml")),
    ("sqlite.toml", include_str!("rules/sqlite.toml")),
    ("v8.toml", include_str!("rules/v8.toml")),
];
/// Names in a path at most.
const MOST_NAMES: usize = 20;

/// Where memory lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Region {
    /// From the allocator.
    Heap,
    /// Mapped.
    NonHeap,
}

/// A rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The file that it stands in.
    pub file: String,
    /// Where it begins there, from 1.
    pub line: usize,
    /// The path as it is written; `$1` stands for a group of `function`.
    pub path: String,
    /// What the memory is: a sentence.
    pub description: String,
    is_rest: bool,
    module: Option<Regex>,
    function: Option<Regex>,
    except: Option<Regex>,
    callers: Vec<Regex>,
    allocator: Option<Regex>,
    sizes: Option<(u64, u64)>,
    place: Option<Region>,
    within: usize,
}

/// Rules of equal rank.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    rule: Vec<Spanned<Written>>,
    #[serde(default)]
    rest: Vec<Spanned<Written>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    path: Spanned<String>,
    description: Option<String>,
    module: Option<Spanned<String>>,
    function: Option<Spanned<String>>,
    except: Option<Spanned<String>>,
    #[serde(default)]
    callers: Vec<Spanned<String>>,
    allocator: Option<Spanned<String>>,
    size: Option<Spanned<String>>,
    place: Option<Region>,
    within: Option<usize>,
}

/// What is wrong, at which byte of the text.
type Flaw = (usize, String);

impl Rules {
    /// Those that come with thaw.
    ///
    /// # Errors
    /// None that the caller can bring about.
    pub fn shipped() -> Result<Self> {
        let mut all = Self::default();
        for (name, text) in SHIPPED {
            all.rules.extend(Self::parse(text, name)?.rules);
        }
        Ok(all)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or a rule in it cannot be used.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|cause| Error::on(Exit::Usage, "cannot read the rules", path).because(cause))?;
        Self::parse(&text, &shown(path))
    }

    /// Reads a text; `name` is for messages.
    ///
    /// # Errors
    /// A rule cannot be used: which line, and why.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let rules = match toml::from_str::<Document>(text) {
            Ok(document) => compile(document, text, name),
            Err(cause) => Err((cause.span().map_or(text.len(), |span| span.start), cause.message().to_owned())),
        };
        rules.map(|rules| Self { rules }).map_err(|(at, why)| {
            Error::new(Exit::Data, format!("line {} of the rules cannot be used:", line(text, at)), name)
                .because(why)
                .hint("a rule: [[rule]] path = \"explicit/cache\" function = '^cache_'; docs/memory.md has all fields")
        })
    }

    /// The rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Looks which rules fit which frames.
    pub fn fit<'a>(&'a self, frames: &[Frame]) -> Fitted<'a> {
        let mut by_frame = vec![Vec::new(); frames.len()];
        let mut callers = Vec::new();
        let described: Vec<String> = frames.iter().map(Frame::description).collect();
        for (number, rule) in self.rules.iter().enumerate() {
            for (fits, frame) in by_frame.iter_mut().zip(frames) {
                if rule.fits(frame) {
                    fits.push(number);
                }
            }
            let each = |regex: &Regex| described.iter().map(|frame| regex.is_match(frame)).collect();
            callers.push(rule.callers.iter().map(each).collect());
        }
        Fitted { rules: &self.rules, by_frame, callers }
    }
}

impl Rule {
    fn fits(&self, frame: &Frame) -> bool {
        let function = frame.function.as_deref().unwrap_or_default();
        self.module.as_ref().is_none_or(|regex| regex.is_match(&frame.module))
            && self.function.as_ref().is_none_or(|regex| regex.is_match(function))
            && self.except.as_ref().is_none_or(|regex| !regex.is_match(function))
    }

    /// The path for a stack that fits at this frame.
    pub fn path_at(&self, frame: &Frame) -> String {
        let function = frame.function.as_deref().unwrap_or_default();
        let captures =
            self.function.as_ref().filter(|_| self.path.contains('$')).and_then(|regex| regex.captures(function));
        let Some(captures) = captures else { return self.path.clone() };
        // A slash of a name is no slash of the path.
        let names = self.path.split('/').map(|name| {
            let mut expanded = String::new();
            captures.expand(name, &mut expanded);
            if expanded.is_empty() { "(no name)".to_owned() } else { expanded.replace('/', "\\") }
        });
        names.collect::<Vec<_>>().join("/")
    }
}

/// Rules together with the frames that they fit.
#[derive(Debug)]
pub struct Fitted<'a> {
    rules: &'a [Rule],
    by_frame: Vec<Vec<usize>>,
    /// By rule and caller: which frames are one.
    callers: Vec<Vec<Vec<bool>>>,
}

impl<'a> Fitted<'a> {
    /// The rule for a block of this size, with the frame that it names; `None`: there is none. `allocator` is the path
    /// of the object that holds it.
    pub fn of(&self, stack: &[FrameId], size: u64, place: Region, allocator: &str) -> Option<(&'a Rule, FrameId)> {
        [false, true].into_iter().find_map(|is_rest| {
            stack.iter().enumerate().find_map(|(depth, frame)| {
                let fits = self.by_frame.get(frame.0 as usize)?.iter().find(|number| {
                    let rule = &self.rules[**number];
                    rule.is_rest == is_rest
                        && depth < rule.within
                        && rule.sizes.is_none_or(|(least, most)| (least..=most).contains(&size))
                        && rule.place.is_none_or(|only| only == place)
                        && rule.allocator.as_ref().is_none_or(|regex| regex.is_match(allocator))
                        && self.called_by(**number, &stack[depth + 1..])
                })?;
                Some((&self.rules[*fits], *frame))
            })
        })
    }

    /// Whether the callers of the rule are all there, in this order, others between them.
    fn called_by(&self, rule: usize, outer: &[FrameId]) -> bool {
        let mut outer = outer.iter();
        self.callers[rule]
            .iter()
            .all(|caller| outer.any(|frame| caller.get(frame.0 as usize).copied().unwrap_or(false)))
    }
}

fn line(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

fn compile(document: Document, text: &str, name: &str) -> std::result::Result<Vec<Rule>, Flaw> {
    let all = document.rule.into_iter().map(|rule| (rule, false));
    all.chain(document.rest.into_iter().map(|rule| (rule, true)))
        .map(|(written, is_rest)| {
            let start = written.span().start;
            one(written.into_inner(), start, is_rest).map(|rule| Rule {
                file: name.to_owned(),
                line: line(text, start),
                ..rule
            })
        })
        .collect()
}

fn one(written: Written, start: usize, is_rest: bool) -> std::result::Result<Rule, Flaw> {
    let path_at = written.path.span().start;
    let path = written.path.into_inner();
    let flaw = |why: &str| Err((path_at, why.to_owned()));
    if !path.starts_with("explicit/") || path.split('/').any(str::is_empty) || path.split('/').count() > MOST_NAMES {
        return flaw("the path is not explicit/ and names with slashes between them");
    }
    if path == "explicit/heap-unclassified" {
        return flaw("heap-unclassified is what no rule fits");
    }
    if written.module.is_none() && written.function.is_none() {
        return Err((start, "the rule names no frame: it needs module or function".into()));
    }
    if path.contains('$') && written.function.is_none() {
        return flaw("$ stands for a group of function, which is not there");
    }
    let described = |path: &str| format!("Memory that the rules put under {path}.");
    let description = written.description.unwrap_or_else(|| described(&path));
    if !description.ends_with('.') {
        return Err((start, "the description is no sentence: it does not end with a full stop".into()));
    }
    Ok(Rule {
        file: String::new(),
        line: 0,
        path,
        description,
        is_rest,
        module: written.module.map(regex).transpose()?,
        function: written.function.map(regex).transpose()?,
        except: written.except.map(regex).transpose()?,
        callers: written.callers.into_iter().map(regex).collect::<std::result::Result<_, _>>()?,
        allocator: written.allocator.map(regex).transpose()?,
        sizes: written.size.map(sizes).transpose()?,
        place: written.place,
        within: written.within.unwrap_or(usize::MAX),
    })
}

fn regex(text: Spanned<String>) -> std::result::Result<Regex, Flaw> {
    Regex::new(text.as_ref()).map_err(|cause| (text.span().start, cause.to_string()))
}

/// `24`, `16..512`, `4096..`: bytes, both ends included.
fn sizes(text: Spanned<String>) -> std::result::Result<(u64, u64), Flaw> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let range = match text.as_ref().split_once("..") {
        None => number(text.as_ref()).map(|size| (size, size)),
        Some((least, "")) => number(least).map(|least| (least, u64::MAX)),
        Some((least, most)) => number(least).zip(number(most)),
    };
    range.filter(|(least, most)| least <= most).ok_or_else(|| {
        (text.span().start, format!("'{}' is no size: bytes as in 24, 16..512 or 4096..", text.as_ref()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(function: &str, module: &str) -> Frame {
        let function = (!function.is_empty()).then(|| function.to_owned());
        Frame { function, module: module.into(), file: None, line: None, inlined: false, address: 0 }
    }

    const ALLOCATOR: &str = "/lib/libc.so.6";

    /// The path for a stack that is given innermost first.
    fn path(rules: &str, stack: &[(&str, &str)], size: u64, place: Region) -> Option<String> {
        let rules = Rules::parse(rules, "test").unwrap();
        let frames: Vec<Frame> = stack.iter().map(|(function, module)| frame(function, module)).collect();
        let ids: Vec<FrameId> = (0..frames.len() as u32).map(FrameId).collect();
        let found = rules.fit(&frames).of(&ids, size, place, ALLOCATOR);
        found.map(|(rule, frame)| rule.path_at(&frames[frame.0 as usize]))
    }

    const STACK: &[(&str, &str)] =
        &[("wrap", "/lib/libz.so"), ("grow", "/lib/liba.so.1"), ("Parser::node", "/bin/prog"), ("main", "/bin/prog")];

    #[test]
    fn the_nearest_frame_wins_and_the_rest_comes_last() {
        let outer = "[[rule]]\npath = 'explicit/outer'\nfunction = '^main$'\n";
        let inner = "[[rule]]\npath = 'explicit/inner'\nfunction = '^grow$'\nmodule = 'liba'\n";
        let rest = "[[rest]]\npath = 'explicit/rest'\nmodule = 'libz'\n";
        let of = |text: &str| path(text, STACK, 100, Region::Heap);
        assert_eq!(of(&format!("{outer}{inner}")).as_deref(), Some("explicit/inner"));
        assert_eq!(of(&format!("{rest}{outer}")).as_deref(), Some("explicit/outer"));
        assert_eq!(of(rest).as_deref(), Some("explicit/rest"));
        assert_eq!(of("[[rule]]\npath = 'explicit/x'\nfunction = '^grow$'\nmodule = 'libz'\n"), None);
        assert_eq!(of(&format!("{inner}{}", inner.replace("inner", "second"))).as_deref(), Some("explicit/inner"));
    }

    #[test]
    fn conditions_must_all_fit() {
        let rule = |more: &str| format!("[[rule]]\npath = 'explicit/x'\nfunction = '^grow$'\n{more}\n");
        for (more, fits) in [
            ("except = '^gr'", false),
            ("except = '^x'", true),
            ("size = '100'", true),
            ("size = '101..'", false),
            ("size = '1..100'", true),
            ("callers = ['^Parser', '^main \\(prog\\)$']", true),
            ("callers = ['^main', '^Parser']", false),
            ("within = 2", true),
            ("within = 1", false),
            ("place = 'heap'", true),
            ("place = 'non-heap'", false),
            ("allocator = 'libc\\.so'", true),
            ("allocator = 'jemalloc'", false),
        ] {
            assert_eq!(path(&rule(more), STACK, 100, Region::Heap).is_some(), fits, "{more}");
        }
        let named = "[[rule]]\npath = 'explicit/prog/$1'\nfunction = '^(.*)::node$'\n";
        assert_eq!(path(named, STACK, 1, Region::NonHeap).as_deref(), Some("explicit/prog/Parser"));
        let slash = path(named, &[("a/b::node", "/x")], 1, Region::Heap);
        assert_eq!(slash.as_deref(), Some("explicit/prog/a\\b"));
        assert_eq!(path(named, &[("::node", "/x")], 1, Region::Heap).as_deref(), Some("explicit/prog/(no name)"));
    }

    #[test]
    fn a_bad_rule_is_named_by_its_line() {
        for (text, at, says) in [
            ("[[rule]]\npath = 'explicit/x'\nfunction = '('\n", 3, "unclosed group"),
            ("\n\n[[rule]]\npath = 'explicit/x'\n", 3, "names no frame"),
            ("[[rule]]\nfunction = 'x'\npath = 'x'\n", 3, "explicit/"),
            ("[[rule]]\nfunction = 'x'\npath = 'explicit//x'\n", 3, "explicit/"),
            ("[[rule]]\nfunction = 'x'\npath = 'explicit/heap-unclassified'\n", 3, "what no rule fits"),
            ("[[rule]]\npath = 'explicit/$1'\nmodule = 'x'\n", 2, "group of function"),
            ("[[rule]]\npath = 'explicit/x'\nmodule = 'x'\nsize = '9..1'\n", 4, "no size"),
            ("[[rule]]\npath = 'explicit/x'\nmodule = 'x'\ncolour = 1\n", 4, "colour"),
            ("[[rule]]\npath = 'explicit/x'\nmodule = 'x'\nplace = 'roof'\n", 4, "roof"),
            ("[[rule]]\npath = 'explicit/x'\nmodule = 'x'\ndescription = 'no'\n", 1, "sentence"),
            ("[[rule]\n", 1, ""),
        ] {
            let error = Rules::parse(text, "my.toml").unwrap_err();
            assert_eq!(error.exit, Exit::Data);
            let said = error.to_string();
            assert!(said.contains(&format!("line {at} ")) && said.contains(says) && said.contains("my.toml"), "{said}");
        }
        assert_eq!(Rules::parse("", "x").unwrap().iter().count(), 0);
    }

    #[test]
    fn shipped_rules_are_rules() {
        let rules = Rules::shipped().unwrap();
        assert!(rules.iter().count() > SHIPPED.len());
        assert!(rules.iter().all(|rule| rule.line > 0 && rule.description.ends_with('.')));
    }

    proptest! {
        #[test]
        fn any_text_is_an_error_or_rules(text in "(\\[\\[(rule|rest)\\]\\]|\n|path = \
        |'explicit/[a-z$1/]{0,9}'|function = |size = |'[ -~]{0,9}'| ){0,12}") {
            if let Ok(rules) = Rules::parse(&text, "x") {
                let frames = [frame("a", "b"), frame("", "")];
                let _ = rules.fit(&frames).of(&[FrameId(0), FrameId(1)], 1, Region::Heap, ALLOCATOR);
            }
        }
    }
}
