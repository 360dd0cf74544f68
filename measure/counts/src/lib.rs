//! The concordance of a text: how often each line occurs, by number or by weight.
//!
//! ```
//! use counts::{Concordance, Erase, Weight};
//! let mut lines = Concordance::new(Weight::Integral, Erase::Numbers);
//! lines.read("text", &mut b"small 24\nsmall 40\nlarge 4096".as_slice())?;
//! let mut out = Vec::new();
//! lines.write(&mut out).unwrap();
//! assert!(out.starts_with(b"4160 counts (weighted integral, erased)\n(  1)     4096 (98.5%, 98.5%): large NNN\n"));
//! # Ok::<(), model::Error>(())
//! ```
//!
//! Output and meaning of the weights are those of the program `counts` 1.0.7 by Nicholas Nethercote. Lines are bytes
//! here, sums do not overflow.

mod table;
mod weight;

use model::{Error, Exit, Result};
use std::cmp::Reverse;
use std::io::{self, Read, Write};
use table::Table;
use weight::{fractional, integral};

/// What a line weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// One.
    Unit,
    /// The last integer of the line; one if there is none.
    Integral,
    /// The last number of the line, `mm` or `mm.nn`; one if there is none.
    Fractional,
}

/// Whether lines that differ only in their weight are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erase {
    /// They are not.
    Nothing,
    /// They are: the number that is the weight becomes `NNN`.
    Numbers,
}

/// Lines and what they weigh together. Memory grows with the different lines, not with all.
#[derive(Debug)]
pub struct Concordance {
    sums: Sums,
    erase: Erase,
    erased: Vec<u8>,
}

/// Whole weights are at most 64 bits each; 128 hold their sum whatever comes.
#[derive(Debug)]
enum Sums {
    Unit(Table<i128>),
    Integral(Table<i128>),
    Fractional(Table<f64>),
}

/// How much is read at a time.
const BLOCK: usize = 256 << 10;

impl Concordance {
    /// Without a line.
    pub fn new(weight: Weight, erase: Erase) -> Self {
        let sums = match weight {
            Weight::Unit => Sums::Unit(Table::default()),
            Weight::Integral => Sums::Integral(Table::default()),
            Weight::Fractional => Sums::Fractional(Table::default()),
        };
        Self { sums, erase, erased: Vec::new() }
    }

    /// Adds all lines of a text; the last one need not end. `name` is for the error.
    ///
    /// # Errors
    /// The text cannot be read; a weight of more than 64 bits.
    pub fn read(&mut self, name: &str, text: &mut dyn Read) -> Result<()> {
        let mut block = vec![0; BLOCK];
        // Bytes of the block that belong to a line which is not whole yet.
        let mut held = 0;
        loop {
            if held == block.len() {
                block.resize(2 * held, 0);
            }
            let got = match text.read(&mut block[held..]) {
                Ok(0) => break,
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(cause) => return Err(Error::new(Exit::Data, "cannot read", name).because(cause)),
            };
            let filled = held + got;
            let mut from = 0;
            for end in memchr::memchr_iter(b'\n', &block[held..filled]) {
                self.add(&block[from..held + end])?;
                from = held + end + 1;
            }
            block.copy_within(from..filled, 0);
            held = filled - from;
        }
        if held > 0 {
            self.add(&block[..held])?;
        }
        Ok(())
    }

    /// Adds a line, which has no line feed.
    ///
    /// # Errors
    /// A weight of more than 64 bits.
    pub fn add(&mut self, line: &[u8]) -> Result<()> {
        match &mut self.sums {
            Sums::Unit(table) => table.add(line, 1),
            Sums::Integral(table) => match integral(line) {
                None => table.add(line, 1),
                Some(number) => {
                    let text = &line[number.clone()];
                    let weight: i64 =
                        std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                            Error::new(Exit::Data, "an integral weight exceeds 64 bits", String::from_utf8_lossy(text))
                                .hint("use -f: fractional weights have no limit")
                        })?;
                    table.add(without(self.erase, line, number, &mut self.erased), weight.into());
                }
            },
            Sums::Fractional(table) => match fractional(line) {
                None => table.add(line, 1.0),
                Some(number) => {
                    let text = std::str::from_utf8(&line[number.clone()]).ok();
                    let weight: f64 = text
                        .and_then(|text| text.parse().ok())
                        .ok_or_else(|| Error::bug("digits, a point and digits are no number"))?;
                    // An erased line begins with zero, and -0 with it is 0; a whole one begins with its weight.
                    let weight = if self.erase == Erase::Numbers { weight + 0.0 } else { weight };
                    table.add(without(self.erase, line, number, &mut self.erased), weight);
                }
            },
        }
        Ok(())
    }

    /// Writes the concordance: heaviest line first, whatever its sign; lines of equal weight in the order of their
    /// bytes.
    ///
    /// # Errors
    /// What the writer says.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let label = match (&self.sums, self.erase) {
            (Sums::Unit(_), _) => "",
            (Sums::Integral(_), Erase::Nothing) => " (weighted integral)",
            (Sums::Integral(_), Erase::Numbers) => " (weighted integral, erased)",
            (Sums::Fractional(_), Erase::Nothing) => " (weighted fractional)",
            (Sums::Fractional(_), Erase::Numbers) => " (weighted fractional, erased)",
        };
        match &self.sums {
            Sums::Unit(table) | Sums::Integral(table) => {
                let mut lines = table.lines();
                lines.sort_unstable_by_key(|(line, weight)| (Reverse(weight.abs()), *line));
                let rows = lines.into_iter().map(|(line, weight)| (line, format!("{weight:8}"), weight as f64));
                rows_to(out, &format!("{} counts{label}\n", table.total()), table.total() as f64, rows)
            }
            Sums::Fractional(table) => {
                let mut lines = table.lines();
                lines.sort_unstable_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then_with(|| a.0.cmp(b.0)));
                let rows = lines.into_iter().map(|(line, weight)| (line, format!("{weight:8.1}"), weight));
                rows_to(out, &format!("{:.1} counts{label}\n", table.total()), table.total(), rows)
            }
        }
    }
}

/// The line as it is counted.
fn without<'a>(erase: Erase, line: &'a [u8], number: std::ops::Range<usize>, erased: &'a mut Vec<u8>) -> &'a [u8] {
    if erase == Erase::Nothing {
        return line;
    }
    erased.clear();
    erased.extend_from_slice(&line[..number.start]);
    erased.extend_from_slice(b"NNN");
    erased.extend_from_slice(&line[number.end..]);
    erased
}

fn rows_to<'a>(
    out: &mut dyn Write,
    head: &str,
    total: f64,
    rows: impl Iterator<Item = (&'a [u8], String, f64)>,
) -> io::Result<()> {
    out.write_all(head.as_bytes())?;
    let mut together = 0.0;
    for (index, (line, weight, value)) in rows.enumerate() {
        let share = value * 100.0 / total;
        together += share;
        write!(out, "({:3}) {weight} ({share:4.1}%,{together:5.1}%): ", index + 1)?;
        out.write_all(line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(weight: Weight, erase: Erase, text: &str) -> String {
        let mut lines = Concordance::new(weight, erase);
        lines.read("text", &mut text.as_bytes()).unwrap();
        let mut out = Vec::new();
        lines.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    const LETTERS: &str = "a 1\nb 2\nc 3\nd 4\nd 4\nc 3\nc 3\nd 4\nb 2\nd 4\n";

    #[test]
    fn the_examples_of_the_original() {
        assert_eq!(
            counted(Weight::Unit, Erase::Nothing, LETTERS),
            "10 counts\n\
             (  1)        4 (40.0%, 40.0%): d 4\n\
             (  2)        3 (30.0%, 70.0%): c 3\n\
             (  3)        2 (20.0%, 90.0%): b 2\n\
             (  4)        1 (10.0%,100.0%): a 1\n"
        );
        assert_eq!(
            counted(Weight::Integral, Erase::Nothing, LETTERS),
            "30 counts (weighted integral)\n\
             (  1)       16 (53.3%, 53.3%): d 4\n\
             (  2)        9 (30.0%, 83.3%): c 3\n\
             (  3)        4 (13.3%, 96.7%): b 2\n\
             (  4)        1 ( 3.3%,100.0%): a 1\n"
        );
        assert_eq!(
            counted(Weight::Integral, Erase::Numbers, "a 1\nb 2\na 3\nb 4\na 5"),
            "15 counts (weighted integral, erased)\n\
             (  1)        9 (60.0%, 60.0%): a NNN\n\
             (  2)        6 (40.0%,100.0%): b NNN\n"
        );
    }

    #[test]
    fn nothing_is_counted_too() {
        assert_eq!(counted(Weight::Unit, Erase::Nothing, ""), "0 counts\n");
        assert_eq!(counted(Weight::Fractional, Erase::Nothing, ""), "0.0 counts (weighted fractional)\n");
        assert_eq!(counted(Weight::Unit, Erase::Nothing, "\n\n"), "2 counts\n(  1)        2 (100.0%,100.0%): \n");
    }

    #[test]
    fn heavy_negative_lines_stand_at_the_top() {
        let out = counted(Weight::Fractional, Erase::Numbers, "a 1.5\nb-2.25 x\n");
        assert_eq!(
            out,
            "-0.8 counts (weighted fractional, erased)\n\
             (  1)     -2.2 (300.0%,300.0%): bNNN x\n\
             (  2)      1.5 (-200.0%,100.0%): a NNN\n"
        );
    }

    #[test]
    fn a_line_may_be_longer_than_a_block() {
        let long = "x".repeat(3 * BLOCK);
        let out = counted(Weight::Unit, Erase::Nothing, &format!("{long}\n{long}\ny"));
        assert!(out.starts_with("3 counts\n(  1)        2 (66.7%, 66.7%): xxx"), "{}", &out[..60]);
    }

    #[test]
    fn a_weight_has_64_bits() {
        let mut lines = Concordance::new(Weight::Integral, Erase::Nothing);
        assert!(lines.add(b"x 9223372036854775807").is_ok());
        assert!(lines.add(b"x 9223372036854775808").unwrap_err().to_string().contains("64 bits"));
    }
}
