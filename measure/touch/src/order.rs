//! The order in which a linker should lay functions out, from the first calls of one or several workloads. Pure.

use std::collections::{BTreeMap, HashSet};

/// The functions that one workload called, by their offset in the file, in the order of their first call.
pub type Calls = Vec<u64>;

/// A function in the order.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    /// Where it begins in the file now.
    pub offset: u64,
    /// How many of the workloads called it.
    pub workloads: u32,
}

/// An order that serves all workloads: what all call comes first, then what some call, those with the same callers side
/// by side, so that a start touches few pages that it does not need. Within such a group a function's place is the mean
/// of its places in the workloads, each as a share of the workload's length: a long workload does not outvote a short
/// one. Of one workload, it is the order of the first calls.
pub fn balanced(workloads: &[Calls]) -> Vec<Placed> {
    /// By function: which workloads call it, and the sum of its places in them.
    #[derive(Clone)]
    struct Callers {
        by: Vec<bool>,
        places: f64,
    }
    let mut functions: BTreeMap<u64, Callers> = BTreeMap::new();
    for (number, calls) in workloads.iter().enumerate() {
        for (place, offset) in calls.iter().enumerate() {
            let fresh = || Callers { by: vec![false; workloads.len()], places: 0.0 };
            let callers = functions.entry(*offset).or_insert_with(fresh);
            // Twice in one list would be a damaged recording.
            if !std::mem::replace(&mut callers.by[number], true) {
                callers.places += place as f64 / calls.len() as f64;
            }
        }
    }
    let count = |callers: &Callers| callers.by.iter().filter(|called| **called).count() as u32;
    let mut order: Vec<(u64, Callers)> = functions.into_iter().collect();
    order.sort_by(|(at, one), (other_at, other)| {
        let mean = |callers: &Callers| callers.places / f64::from(count(callers));
        (count(other).cmp(&count(one)))
            .then_with(|| other.by.cmp(&one.by))
            .then_with(|| mean(one).total_cmp(&mean(other)))
            .then_with(|| at.cmp(other_at))
    });
    order.into_iter().map(|(offset, callers)| Placed { offset, workloads: count(&callers) }).collect()
}

/// A function as a linker is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its symbol.
    pub name: String,
    /// The source of its object file, where other functions of the program have the name too; `None`: the name is
    /// enough, or nobody knows.
    pub source: Option<String>,
}

/// For which linker an order is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linker {
    /// lld: `--symbol-ordering-file`
    Lld,
    /// gold: `--section-ordering-file`; sections of `-ffunction-sections`.
    Gold,
    /// GNU ld: a script for `-T`, with `INSERT`.
    Ld,
}

impl Linker {
    /// Whether its order file can say from which object file a function is; to the others a name stands for all
    /// functions that have it.
    pub fn knows_object_files(self) -> bool {
        self == Self::Ld
    }
}

/// The text of an order file. Functions stand once each, in their order, as far as the linker can tell them apart.
pub fn order_file(entries: &[Entry], linker: Linker) -> String {
    let mut seen = HashSet::new();
    let names = entries.iter().map(|entry| entry.name.as_str()).filter(move |name| seen.insert(*name));
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    match linker {
        Linker::Lld => names.for_each(&mut line),
        Linker::Gold => names.flat_map(sections_of).for_each(|section| line(&section)),
        Linker::Ld => {
            line(
                "/* Functions in the order of their first call, in front of .text: cc -ffunction-sections ... \
                    -Wl,-T,THIS */",
            );
            line("SECTIONS");
            line("{");
            line("  .text.ordered :");
            line("  {");
            let sections = |name: &str| sections_of(name).map(|section| quoted(&section)).join(" ");
            let mut done = HashSet::new();
            for entry in entries {
                match entry.source.as_deref().and_then(objects_of) {
                    Some(objects) => {
                        let sections = sections(&entry.name);
                        line(&format!("    {}", objects.map(|object| format!("{object}({sections})")).join(" ")));
                    }
                    None if done.insert(entry.name.as_str()) => line(&format!("    *({})", sections(&entry.name))),
                    None => {}
                }
            }
            // An object file may have another name than its source. Whoever has one of these names comes last, called
            // or not: that lies behind all that is needed.
            for name in names.filter(|name| !done.contains(name)) {
                line(&format!("    *({})", sections(name)));
            }
            line("  }");
            line("}");
            line("INSERT BEFORE .text;");
        }
    }
    text
}

/// The sections that a compiler may have put a function into (`-ffunction-sections`).
fn sections_of(name: &str) -> [String; 3] {
    // The cold part of a function is in a section with the name of the function.
    let function = name.strip_suffix(".cold").unwrap_or(name);
    if function.len() < name.len() {
        return [
            format!(".text.unlikely.{function}"),
            format!(".text.cold.{function}"),
            format!(".text.split.{function}"),
        ];
    }
    [format!(".text.{function}"), format!(".text.startup.{function}"), format!(".text.hot.{function}")]
}

/// What the object file of a source may be called, as patterns of a linker script: `a.o`, `a.c.o` (CMake),
/// `program-a.o` (automake), anywhere. A name without a wildcard would be one more file to link. `None`: letters that
/// would mean something there.
fn objects_of(source: &str) -> Option<[String; 6]> {
    let file = source.rsplit('/').next()?;
    let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
    let plain = file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte));
    let first = stem.chars().next().filter(|first| plain && (first.is_ascii_alphanumeric() || *first == '_'))?;
    let wild = |name: &str| format!("[{first}]{}.o", &name[1..]);
    let [short, long] = [wild(stem), wild(file)];
    let put = |front: &str, name: &str| format!("{front}{name}");
    Some([short.clone(), put("*/", &short), put("*-", &short), long.clone(), put("*/", &long), put("*-", &long)])
}

/// A section's name in a linker script, where some letters would mean something.
fn quoted(section: &str) -> String {
    let plain = section.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._$".contains(&byte));
    if plain { section.to_owned() } else { format!("\"{section}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(workloads: &[&[u64]]) -> Vec<(u64, u32)> {
        let workloads: Vec<Calls> = workloads.iter().map(|calls| calls.to_vec()).collect();
        balanced(&workloads).into_iter().map(|placed| (placed.offset, placed.workloads)).collect()
    }

    #[test]
    fn of_one_workload_it_is_the_order_of_first_calls() {
        assert_eq!(order(&[&[30, 10, 20]]), [(30, 1), (10, 1), (20, 1)]);
        assert_eq!(order(&[]), []);
    }

    #[test]
    fn what_all_call_comes_first_and_others_lie_beside_their_like() {
        let (all, first, second) = ([1, 2], [11, 12], [21, 22]);
        let one = [all[0], first[0], all[1], first[1]];
        let other = [second[0], all[0], second[1], all[1]];
        assert_eq!(order(&[&one, &other]), [(1, 2), (2, 2), (11, 1), (12, 1), (21, 1), (22, 1)]);
    }

    #[test]
    fn a_long_workload_does_not_outvote_a_short_one() {
        let long: Vec<u64> = (100..200).chain([1, 2]).collect();
        let short = [2, 1];
        // In both, 1 and 2 are neighbours at the end; the short one has them half a list apart.
        assert_eq!(order(&[&long, &short])[..2], [(2, 2), (1, 2)]);
    }

    fn entries(named: &[(&str, Option<&str>)]) -> Vec<Entry> {
        let entry = |(name, source): &(&str, Option<&str>)| Entry {
            name: (*name).to_owned(),
            source: source.map(str::to_owned),
        };
        named.iter().map(entry).collect()
    }

    #[test]
    fn a_name_of_several_functions_is_told_by_object_file_where_the_linker_can() {
        let called =
            entries(&[("same", Some("src/b.c")), ("main", None), ("same", Some("odd*.c")), ("same", Some("a.c"))]);
        assert_eq!(order_file(&called, Linker::Lld), "same\nmain\n", "once");
        let script = order_file(&called[..2], Linker::Ld);
        let of_same = ".text.same .text.startup.same .text.hot.same";
        let lines: Vec<&str> = script.lines().filter(|line| line.contains(".text.")).skip(1).collect();
        assert_eq!(lines.len(), 3, "{script}");
        assert!(lines[0].starts_with(&format!("    [b].o({of_same}) */[b].o({of_same}) *-[b].o(")), "{script}");
        assert!(lines[0].contains(&format!(" [b].c.o({of_same}) ")) && lines[1].contains("*(.text.main "), "{script}");
        assert_eq!(lines[2], format!("    *({of_same})"), "others last");
        // One whose object file cannot be named is all of them, in its place.
        let script = order_file(&called, Linker::Ld);
        assert_eq!(script.matches("    *(.text.same ").count(), 1, "{script}");
        assert!(objects_of("!a.c").is_none() && objects_of("").is_none() && objects_of("\u{e9}.c").is_none());
    }

    #[test]
    fn order_files_are_as_the_linkers_read_them() {
        let names = entries(&[("main", None), ("_ZN1aEv", None), ("slow.cold", None), ("odd?name", None)]);
        assert_eq!(order_file(&names, Linker::Lld), "main\n_ZN1aEv\nslow.cold\nodd?name\n");
        let gold = order_file(&names, Linker::Gold);
        assert!(gold.starts_with(".text.main\n.text.startup.main\n.text.hot.main\n.text._ZN1aEv\n"), "{gold}");
        assert!(gold.contains(".text.unlikely.slow\n"), "{gold}");
        let script = order_file(&names, Linker::Ld);
        assert!(script.contains("    *(.text.main .text.startup.main .text.hot.main)\n"), "{script}");
        assert!(script.contains("\".text.odd?name\"") && script.ends_with("INSERT BEFORE .text;\n"), "{script}");
    }
}
