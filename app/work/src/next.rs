//! What to type next after a recording was made or read: one or two commands that fit what was found. Pure.

use crate::report::Next;
use crate::shell::command_line;
use bench::report::Cell;
use model::CacheState;

/// From here on the disk's share of a start is worth a remedy.
const WORTH_MENDING: f64 = 0.05;
/// Fewer runs than this leave intervals wide.
const FEW_RUNS: u32 = 5;

/// At most two, the more useful first.
pub fn after(file: &str, cells: &[Cell]) -> Vec<Next> {
    let of_cells = steps(cells, file);
    let page = next(format!("thaw view {}", shown(file)), "shows the same as a page, with every run and file");
    of_cells.into_iter().chain([page]).collect()
}

fn steps(cells: &[Cell], file: &str) -> Option<Next> {
    let slowest = cells.iter().filter(|cell| cell.state != CacheState::Hot).max_by(|a, b| by_median(a, b));
    let hot = |of: &Cell| cells.iter().find(|cell| cell.state == CacheState::Hot && cell.variant == of.variant);
    let file = shown(file);
    match slowest {
        None if cells.is_empty() => None,
        None => Some(next(
            "thaw record --state cold,hot -- PROGRAM".to_owned(),
            "these starts were hot: says what reading from the disk adds",
        )),
        Some(cell) if cell.runs < FEW_RUNS => {
            Some(next("thaw record --runs 10 -- PROGRAM".to_owned(), "more runs give narrower intervals"))
        }
        Some(cell) => match hot(cell).map(|hot| 1.0 - hot.median_s.value / cell.median_s.value) {
            Some(share) if share < WORTH_MENDING => Some(next(
                format!("thaw touch -o {file} -- PROGRAM"),
                "the disk hardly counts here: says which functions a start calls",
            )),
            _ => Some(next(format!("thaw optimize {file} -o DIR"), "tries what may make it faster, and measures it")),
        },
    }
}

fn by_median(a: &Cell, b: &Cell) -> std::cmp::Ordering {
    a.median_s.value.total_cmp(&b.median_s.value)
}

fn next(command: String, why: &str) -> Next {
    Next { command, why: why.to_owned() }
}

fn shown(file: &str) -> String {
    command_line(&[file.into()])
}
