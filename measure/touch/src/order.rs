//! The order in which a linker should lay functions out, from the first calls of one or several workloads. Pure.

use std::collections::BTreeMap;

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

/// An order that serves all workloads: what all call comes first, then what some call, those with the same callers side by side, so
/// that a start touches few pages that it does not need. Within such a group a function's place is the mean of its places in the
/// workloads, each as a share of the workload's length: a long workload does not outvote a short one. Of one workload, it is
/// the order of the first calls.
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

/// The text of an order file. Names stand once each, in their order.
pub fn order_file(names: &[String], linker: Linker) -> String {
    let mut text = String::new();
    let mut line = |line: &str| {
        text.push_str(line);
        text.push('\n');
    };
    match linker {
        Linker::Lld => names.iter().for_each(|name| line(name)),
        Linker::Gold => names.iter().flat_map(|name| sections_of(name)).for_each(|section| line(&section)),
        Linker::Ld => {
            line(
                "/* Functions in the order of their first call, in front of .text: cc -ffunction-sections ... -Wl,-T,THIS */",
            );
            line("SECTIONS");
            line("{");
            line("  .text.ordered :");
            line("  {");
            for name in names {
                line(&format!("    *({})", sections_of(name).map(|section| quoted(&section)).join(" ")));
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

    #[test]
    fn order_files_are_as_the_linkers_read_them() {
        let names = ["main".to_owned(), "_ZN1aEv".to_owned(), "slow.cold".to_owned(), "odd?name".to_owned()];
        assert_eq!(order_file(&names, Linker::Lld), "main\n_ZN1aEv\nslow.cold\nodd?name\n");
        let gold = order_file(&names, Linker::Gold);
        assert!(gold.starts_with(".text.main\n.text.startup.main\n.text.hot.main\n.text._ZN1aEv\n"), "{gold}");
        assert!(gold.contains(".text.unlikely.slow\n"), "{gold}");
        let script = order_file(&names, Linker::Ld);
        assert!(script.contains("    *(.text.main .text.startup.main .text.hot.main)\n"), "{script}");
        assert!(script.contains("\".text.odd?name\"") && script.ends_with("INSERT BEFORE .text;\n"), "{script}");
    }
}
