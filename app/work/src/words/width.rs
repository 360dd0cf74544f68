//! How many columns a text takes, and making it fit.

use unicode_width::UnicodeWidthChar;

/// Columns that a text takes; escape codes take none.
pub fn columns(text: &str) -> usize {
    let mut columns = 0;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == '\x1b' {
            for escape in letters.by_ref() {
                if escape == 'm' {
                    break;
                }
            }
        } else {
            columns += letter_columns(letter);
        }
    }
    columns
}

/// Wide letters of East Asian scripts count as two, accents that are put on the letter before as none.
fn letter_columns(letter: char) -> usize {
    // Control characters are made visible before they are printed.
    letter.width().unwrap_or(1)
}

/// The text, shortened in its middle to this many columns; names end in what tells them apart.
pub fn shorten(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let keep = room.saturating_sub(1);
    let tail_room = keep * 2 / 3;
    let head = take_columns(text.chars(), keep - tail_room);
    let tail: String = take_columns(text.chars().rev(), tail_room).chars().rev().collect();
    format!("{head}…{tail}")
}

/// The text, cut at its end to this many columns.
pub fn cut(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    format!("{}…", take_columns(text.chars(), room.saturating_sub(1)))
}

fn take_columns(letters: impl Iterator<Item = char>, room: usize) -> String {
    let mut used = 0;
    letters
        .take_while(|letter| {
            used += letter_columns(*letter);
            used <= room
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_take_the_columns_that_terminals_give_them() {
        assert_eq!(["e\u{301}", "名", "\u{20d0}", "𝄞", "🦀", "\t"].map(columns), [1, 2, 0, 1, 2, 1]);
    }

    #[test]
    fn names_are_shortened_in_the_middle() {
        assert_eq!(shorten("/usr/lib/firefox-esr/libxul.so", 16), "/usr/…/libxul.so");
        assert_eq!(shorten("short", 16), "short");
        assert_eq!(cut("a long sentence", 7), "a long…");
        assert!(columns(&shorten("名前名前名前名前", 9)) <= 9);
    }

    #[test]
    fn escape_codes_take_no_room() {
        assert_eq!(columns("\x1b[1mbold\x1b[0m"), 4);
    }
}
